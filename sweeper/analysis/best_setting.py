"""The best setting of a search in words, and the command that trains it again with other training seeds.

The best of many is also the luckiest of many, so its mean is worth little until the setting has been trained again.
"""

import json
import math
import operator
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from sweeper.analysis.halving_winners import winner_lines
from sweeper.analysis.ranking import Goal, Ranking, goal_of, ranked_settings, ranking
from sweeper.analysis.results import metric_column, named_frame
from sweeper.analysis.settings_table import Setting, settings, settings_table, with_deviation
from sweeper.analysis.table import Table, value_text
from sweeper.messages import counted, redacted
from sweeper.space.holes import Hole, holes_in
from sweeper.space.search import Search
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import Node
from sweeper.trial.entry_names import varying_names
from sweeper.trial.trial_spec import with_unwritten

LEAST_SEEDS = 5  # training seeds of the repetition, unless the search had more


def ending(
    trials: pd.DataFrame, space: SweepSpec, elsewhere: Collection[str], results: str, address: str | None
) -> tuple[Table, list[str]]:
    """The table at the end of a sweep, and lines about its best setting, or about the winners of its searches.

    The trials are at least one row of the store, `elsewhere` are those of `halving_winners.finished_elsewhere`; store
    and cluster are as they were typed.
    """
    frame = named_frame(trials)
    if space.search.DRAWS:
        ranked = ranking(frame, goal_of(space.search, frame))
        if ranked.ranked:
            lines = best_setting(ranked, space, results, address) + pareto_front(ranked, space.search)
            return ranked_settings(space.name, ranked), lines
    own = frame[~frame["trial_id"].isin(elsewhere)]
    return settings_table(settings(own)), winner_lines(frame, space, elsewhere)


def best_setting(ranked: Ranking, space: SweepSpec, results: str, address: str | None) -> list[str]:
    """Lines about the best setting: its mean, its rank among how many, its values, and how to train it again.

    At least one setting must be ranked; store and cluster are as they were typed.
    """
    best = ranked.ranked[0]
    names = varying_names([each.setting.entries for each in ranked.ranked])
    over = f"mean of {counted(ranked.seeds, 'seed')}" if ranked.seeds > 1 else "1 seed"
    among = f"rank 1 of {counted(len(ranked.ranked), 'setting')}"
    if ranked.ties:
        among += f", equal to {counted(ranked.ties, 'other')}"
    if ranked.others:
        among += f"; {ranked.others:,} more without a rank"
    value = with_deviation(best.mean.mean, best.mean.deviation)
    written = [
        f"  {name}: {value_text(best.setting.entries[path])}"
        for path, name in names.items()
        if path in best.setting.entries
    ]
    return [
        f"best setting by {ranked.goal.text()} ({over}): {value} ({among})",
        *written,
        "the best of many is also the luckiest of many; this trains it again with other seeds:",
        f"  {repetition(ranked, space, results, address)}",
    ]


def pareto_front(ranked: Ranking, search: Search) -> list[str]:
    """A line with the ranks of the settings that no other beats in all metrics of the search; empty for one metric."""
    if len(search.metric) == 1:
        return []
    goals = [Goal(*goal) for goal in zip(search.metric, search.mode, strict=True)]
    merits = [_merits(each.setting, goals) for each in ranked.ranked]
    front = [
        each.rank
        for each, own in zip(ranked.ranked, merits, strict=True)
        if not any(other != own and all(map(operator.ge, other, own)) for other in merits)
    ]
    names = " and ".join(goal.text() for goal in goals)
    return [f"not beaten in {names} together: ranks {', '.join(map(str, front))}"]


def _merits(setting: Setting, goals: Sequence[Goal]) -> list[float]:
    """The mean of each metric, the larger the better."""
    means = [setting.mean(metric_column(goal.metric, setting.rows.columns) or "") for goal in goals]
    return [
        -math.inf if mean is None else mean.mean if goal.mode == "max" else -mean.mean
        for mean, goal in zip(means, goals, strict=True)
    ]


def repetition(ranked: Ranking, space: SweepSpec, results: str, address: str | None) -> str:
    """The command that trains the best setting with other training seeds, as the sweep `<name>-best`."""
    best = ranked.ranked[0].setting
    trained = [int(seed) for seed in best.rows["seed"]]
    first = max(trained) + 1
    seeds = range(first, first + max(len(trained), LEAST_SEEDS))
    fixed = {"name": f"{space.name}-best", "search": "{method: grid}"}
    fixed |= filling(space, with_unwritten(json.loads(best.rows["spec"].iloc[0])), seeds)
    kept = [override for override in space.overrides if not _replaced(override.partition("=")[0], fixed)]
    words = ["python", "-m", "sweeper.run", str(space.path), "--results", redacted(results)]
    words += [] if address is None else ["--address", address]
    for override in [*kept, *(f"{path}={value}" for path, value in fixed.items())]:
        words += ["--set", override]
    return shlex.join(words)


def _replaced(path: str, fixed: Mapping[str, str]) -> bool:
    """Whether a later override replaces an entry, or an entry above it."""
    return any(path == other or path.startswith((f"{other}.", f"{other}[")) for other in fixed)


def filling(space: SweepSpec, trial: Mapping[str, Any], seeds: Sequence[int]) -> dict[str, str]:
    """The overrides that make a grid of one setting with these training seeds from a space: values as YAML, by path.

    `trial` is the canonical trial of the setting, with `trial_spec.with_unwritten`.
    """
    choice = {"choice": list(seeds)}
    if any(node.path.startswith("variants") for variant in space.variants for node in _nodes(variant)):
        parts = {key for variant in space.variants for key in variant.value}
        only = {key: value for key, value in trial.items() if key in parts} | {"seed": choice}
        return {"variants": json.dumps([only])}
    (whole,) = space.variants
    return dict(_holes_filled(whole, trial, "trial")) | {"trial.seed": json.dumps(choice)}


def _holes_filled(node: Node, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The values in place of the holes of a tree. An entry that the trial leaves out, as it equals another, is null."""
    if isinstance(node.value, Hole):
        yield path, json.dumps(value)
    elif isinstance(node.value, dict):
        for key, entry in node.value.items():
            yield from _holes_filled(entry, None if value is None else value.get(key), f"{path}.{key}")
    elif any(True for _ in holes_in(node)):
        yield path, json.dumps(value)


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    match node.value:
        case dict() as entries:
            below: Sequence[Node] = list(entries.values())
        case list() as below:
            pass
        case Hole(options=below):
            pass
        case _:
            return
    for entry in below:
        yield from _nodes(entry)
