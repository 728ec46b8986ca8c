"""The end of a search: its best setting, and the command that trains it again.

The best of many is also the luckiest of many, so its mean is worth little until the setting has been trained again.
"""

import functools
import json
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from sweeper.analysis.halving_winners import elsewhere_line
from sweeper.analysis.ranking import Ranking, goal_of, merit, ranked_settings, ranking
from sweeper.analysis.results import named_frame
from sweeper.analysis.settings_table import settings, settings_table, with_deviation
from sweeper.messages import counted, redacted, typed
from sweeper.space.holes import Hole, holes_in
from sweeper.space.search_methods import Search, open_holes
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import Node
from sweeper.tables import value_text
from sweeper.trial.entry_names import column_name, varying
from sweeper.trial.kinds import Goal
from sweeper.trial.record import canonical
from sweeper.trial.trial import with_unwritten

LEAST_SEEDS = 5  # training seeds of a repetition, unless the search had more


def ending(
    trials: pd.DataFrame, space: SweepSpec, elsewhere: Collection[str], results: str, address: str | None
) -> tuple[pd.DataFrame, list[str]]:
    """The table at the end of a sweep, and lines about its best setting, or about trials that are left out.

    The trials are at least one row of the store, maybe with variables (`results.with_variables`); `elsewhere` are those
    of `halving_winners.finished_elsewhere`; store and cluster are as they were typed.
    """
    frame = named_frame(trials)
    if space.search.DRAWS:
        ranked = ranking(frame, goal_of(space.search.goal, frame))
        if ranked.settings:
            lines = _best_setting(ranked, space, results, address) + _pareto_front(ranked, space.search)
            return ranked_settings(space.name, ranked, space.metrics), lines
    own = frame[~frame["trial_id"].isin(elsewhere)]
    lines = [elsewhere_line(elsewhere)] if elsewhere else []
    return settings_table(settings(own), asked=space.metrics), lines


def _best_setting(ranked: Ranking, space: SweepSpec, results: str, address: str | None) -> list[str]:
    """Lines about the best setting: its mean, its rank among how many, its values, and how to train it again."""
    best = ranked.settings[0]
    records = [each.entries for each in ranked.settings]
    drawn = tuple(f"{path.removeprefix('trial.')}." for path in open_holes(space.tree))
    paths = dict.fromkeys([*varying(records), *(path for path in records[0] if f"{path}.".startswith(drawn))])
    over = f"mean of {counted(len(best.rows), 'seed')}" if len(best.rows) > 1 else "1 seed"
    among = f"rank 1 of {counted(len(ranked.settings), 'setting')}"
    if ranked.ties:
        among += f", equal to {counted(ranked.ties, 'other')}"
    among = "; ".join(filter(None, (among, ranked.unranked)))
    value = with_deviation(ranked.best_mean.mean, ranked.best_mean.deviation)
    written = [f"  {column_name(path)}: {value_text(records[0][path])}" for path in paths if path in records[0]]
    return [
        f"best setting by {ranked.goal.text()} ({over}): {value} ({among})",
        *written,
        "the best of many is also the luckiest of many; this trains it again with other seeds:",
        f"  {_repetition(ranked, space, results, address)}",
    ]


def _pareto_front(ranked: Ranking, search: Search) -> list[str]:
    """A line with the ranks of the settings that no other beats in all metrics of the search; empty for one metric."""
    if len(search.metric) == 1:
        return []
    goals = [Goal(*goal) for goal in zip(search.metric, search.mode, strict=True)]
    merits = [[merit(each, goal) for goal in goals] for each in ranked.settings]
    front = [
        each.rank
        for each, own in zip(ranked.settings, merits, strict=True)
        if not any(other != own and all(map(operator.ge, other, own)) for other in merits)
    ]
    names = " and ".join(goal.text() for goal in goals)
    return [f"not beaten in {names} together: ranks {', '.join(map(str, front))}"]


def _repetition(ranked: Ranking, space: SweepSpec, results: str, address: str | None) -> str:
    """The command that trains the best setting with other training seeds, as the sweep `<name>-best`."""
    best = ranked.settings[0]
    first = int(best.rows["seed"].max()) + 1
    seeds = range(first, first + max(len(best.rows), LEAST_SEEDS))
    fixed = {"name": f"{space.name}-best", "search": "{method: grid}"}
    if variables := _nested({path: value for path, value in best.entries.items() if path.startswith("variables.")}):
        fixed["variables"] = json.dumps(canonical(variables["variables"]))
    fixed |= _filling(space, with_unwritten(json.loads(best.rows["spec"].iloc[0])), seeds)
    whole = ["trial"] if "variants" in fixed else []  # which then hold all of the trial
    replaced = tuple(f"{path}{end}" for path in [*fixed, *whole] for end in ("=", ".", "["))
    overrides = [override for override in space.overrides if not override.startswith(replaced)]
    overrides += [f"{path}={value}" for path, value in fixed.items()]
    words = [str(space.path), "--results", redacted(results), *([] if address is None else ["--address", address])]
    return typed("run", *words, *(word for override in overrides for word in ("--set", override)))


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted path as mappings of mappings."""
    nested: dict[str, Any] = {}
    for path, value in values.items():
        *above, key = path.split(".")
        functools.reduce(lambda mapping, part: mapping.setdefault(part, {}), above, nested)[key] = value
    return nested


def _filling(space: SweepSpec, trial: Mapping[str, Any], seeds: Sequence[int]) -> dict[str, str]:
    """The overrides that make a grid of one setting with these training seeds from a space: values as YAML, by path.

    `trial` is the canonical trial of the setting, with `trial_spec.with_unwritten`.
    """
    choice = {"choice": list(seeds)}
    if _under_variants(space.tree):
        variants = space.tree.value.options if isinstance(space.tree.value, Hole) else [space.tree]
        parts = {key for variant in variants for key in variant.value["trial"].value}
        only = {key: value for key, value in trial.items() if key in parts} | {"seed": choice}
        return {"variants": json.dumps([only])}
    return dict(_holes_filled(space.tree.value["trial"], trial, "trial")) | {"trial.seed": json.dumps(choice)}


def _holes_filled(node: Node, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The values in place of the holes of a tree. An entry that the trial leaves out, as it equals another, is null."""
    if isinstance(node.value, Hole):
        yield path, json.dumps(value)
    elif isinstance(node.value, dict):
        for key, entry in node.value.items():
            yield from _holes_filled(entry, None if value is None else value.get(key), f"{path}.{key}")
    elif any(True for _ in holes_in(node)):
        yield path, json.dumps(value)


def _under_variants(node: Node) -> bool:
    """Whether a part of a tree stands under `variants:` in its document."""
    below = node.value.options if isinstance(node.value, Hole) else node.children
    return node.path.startswith("variants") or any(map(_under_variants, below))
