"""The settings of a sweep, best first; and the end of a search: its best setting, and the command that trains it again.

A setting is ranked by the mean of one metric over its training seeds. A setting with fewer finished training seeds than
others is not ranked: a mean without the failed training seeds would reward a setting for its failures, and one lucky
training seed would beat the mean of several.

The best of many is also the luckiest of many, so its mean is worth little until the setting has been trained again.
"""

import functools
import json
import math
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from sweeper.analysis.halving_winners import finished_elsewhere, winner_lines
from sweeper.analysis.results import current, goals_of, named_frame, with_variables
from sweeper.analysis.settings_table import Mean, Setting, settings, settings_table, with_deviation, with_note
from sweeper.messages import counted, redacted, typed
from sweeper.packs import start_from
from sweeper.space import search_space
from sweeper.space.holes import Hole, holes_in
from sweeper.space.problems import SearchSpaceError
from sweeper.space.search_methods import Search, open_holes
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import Node
from sweeper.store.store import Store, SweepRecord
from sweeper.tables import value_text
from sweeper.training.kind import Goal
from sweeper.trial.entry_names import column_name, varying
from sweeper.trial.metrics import equal_but_rounding
from sweeper.trial.record import canonical
from sweeper.trial.trial import with_unwritten

SHOWN_SETTINGS = 20  # largest number of settings that are shown to people
LEAST_SEEDS = 5  # training seeds of a repetition, unless the search had more


class Ranking(NamedTuple):
    """The settings of a sweep with the most finished training seeds."""

    goal: Goal
    settings: tuple[Setting, ...]  # best first, with ranks; equal means share a rank
    others: int  # settings that could not be ranked, those stopped early not among them
    stopped: int  # settings without a rank that were stopped early

    @property
    def unranked(self) -> str:
        """Why settings have no rank, in a few words for each reason."""
        parts = [f"{counted(self.stopped, 'setting')} stopped early"] if self.stopped else []
        parts += [f"{counted(self.others, 'setting')} without a rank: too few finished seeds"] if self.others else []
        return "; ".join(parts)

    @property
    def best_mean(self) -> Mean:
        """The metric of the best setting, of which there must be one."""
        mean = self.settings[0].mean(self.goal.metric)
        assert mean is not None  # as it has a rank
        return mean

    @property
    def ties(self) -> int:
        return sum(each.rank == 1 for each in self.settings) - 1


def ranking(trials: pd.DataFrame, goal: Goal) -> Ranking:
    every = settings(trials)
    count = len({setting.key for setting in every})
    whole = [each for each in every if _is_whole(each, goal.metric)]
    seeds = max((len(setting.rows) for setting in whole), default=0)
    competing = [setting for setting in whole if len(setting.rows) == seeds]
    decisive = goals_of(trials) if competing else ()
    competing.sort(key=lambda setting: [-_merit(setting, each) for each in (goal, *decisive)])
    ranked: list[Setting] = []
    for place, setting in enumerate(competing, start=1):
        equal = ranked and equal_but_rounding(_merit(ranked[-1], goal), _merit(setting, goal))
        ranked.append(replace(setting, rank=ranked[-1].rank if equal else place))
    has_rank = {each.key for each in ranked}
    stopped = {each.key for each in every if each.status == "stopped"} - has_rank
    return Ranking(goal, tuple(ranked), count - len(ranked) - len(stopped), len(stopped))


def _is_whole(setting: Setting, metric: str) -> bool:
    """Whether the setting may have a rank: it is finished, with a finite value for each of its training seeds."""
    finite = metric in setting.rows and setting.rows[metric].astype(float).map(math.isfinite).all()
    return setting.status == "finished" and bool(finite)


def _merit(setting: Setting, goal: Goal) -> float:
    """The mean of a metric, the larger the better."""
    mean = setting.mean(goal.metric)
    return -math.inf if mean is None else mean.mean if goal.mode == "max" else -mean.mean


def best_first(listed: Iterable[Setting], goal: Goal) -> list[Setting]:
    """Settings of any status in the order of their metric; those that are not finished come last."""
    return sorted(listed, key=lambda setting: (setting.status != "finished", -_merit(setting, goal)))


def ranked_settings(sweep: str, ranked: Ranking, space: SweepSpec | None, most: int = SHOWN_SETTINGS) -> pd.DataFrame:
    """At least one ranked setting of a sweep as a table, best first, with the metrics that its space asks for."""
    table = settings_table(ranked.settings, ranked.goal.metric, () if space is None else space.metrics, most)
    ranked_by = f"{sweep}: {counted(len(ranked.settings), 'setting')} by {ranked.goal.text()}"
    table.attrs["title"] = f"{ranked_by} · {table.attrs['title']}"
    return with_note(table, ranked.unranked)


def recorded_space(record: SweepRecord, store: Store) -> SweepSpec | None:
    """The search space of a start; None if this checkout cannot read it."""
    try:
        space = start_from.of_store(search_space.of_text(f"{record.name}.yaml", record.text, record.overrides), store)
        if space.search.halving is not None:
            space.expand()  # as all callers ask such a space for its searches
    except SearchSpaceError:
        return None
    return space


def trials_of(store: Store, record: SweepRecord) -> pd.DataFrame:
    """The trials of a sweep that are committed and of the current versions, with named columns and its variables.

    Trials of a halving that did not win and that another sweep has finished are left out.
    """
    trials = with_variables(named_frame(current(store.trials(record.trial_ids)).to_pandas()), record.variables)
    return trials[~trials["trial_id"].isin(finished_elsewhere(trials, recorded_space(record, store), store))]


def goal_of(search: Search | None, trials: pd.DataFrame) -> Goal:
    """The goal by which the settings of a sweep are ranked; there must be a trial, with named columns.

    The goal is `search.metric`, if the search is adaptive or the space writes a metric, else that of the kind of trial.
    """
    return Goal(*search.goal) if search is not None and search.goal else goals_of(trials)[0]


def ending(
    trials: pd.DataFrame, space: SweepSpec, elsewhere: Collection[str], results: str, address: str | None
) -> tuple[pd.DataFrame, list[str]]:
    """The table at the end of a sweep, and lines about its best setting, or about the winners of its searches.

    The trials are at least one row of the store, maybe with variables (`results.with_variables`); `elsewhere` are those
    of `halving_winners.finished_elsewhere`; store and cluster are as they were typed.
    """
    frame = named_frame(trials)
    if space.search.DRAWS:
        ranked = ranking(frame, goal_of(space.search, frame))
        if ranked.settings:
            lines = _best_setting(ranked, space, results, address) + _pareto_front(ranked, space.search)
            return ranked_settings(space.name, ranked, space), lines
    own = frame[~frame["trial_id"].isin(elsewhere)]
    return settings_table(settings(own), asked=space.metrics), winner_lines(frame, space, elsewhere)


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
    merits = [[_merit(each, goal) for goal in goals] for each in ranked.settings]
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
