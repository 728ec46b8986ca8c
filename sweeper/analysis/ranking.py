"""The settings of a sweep, best first.

A setting is ranked by the mean of one metric over its training seeds. A setting with fewer finished training seeds than
others is not ranked: a mean without the failed training seeds would reward a setting for its failures, and one lucky
training seed would beat the mean of several.
"""

import math
from typing import Literal, NamedTuple

import pandas as pd

from sweeper.analysis.halving_winners import finished_elsewhere
from sweeper.analysis.results import current, metric_column, named_frame, task_of
from sweeper.analysis.settings_table import Mean, Setting, settings, settings_table
from sweeper.analysis.table import VALUE, Column, Table
from sweeper.messages import counted
from sweeper.space import search_space
from sweeper.space.problems import SearchSpaceError
from sweeper.space.search import Search
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Store, SweepRecord
from sweeper.trial.contracts import Abilities
from sweeper.trial.metrics import LOSS, SUCCESS

SHOWN_SETTINGS = 20  # largest number of settings that are shown to people

TIE_BREAKERS = (SUCCESS._replace(statistic="worst5"), SUCCESS, LOSS)
"""Settings of equal metric are ordered by these metrics in turn, the better first."""


class Goal(NamedTuple):
    """The goal by which settings are ranked: a large or a small mean of a metric over the training seeds."""

    metric: str
    mode: Literal["min", "max"]

    def text(self) -> str:
        """Such as "highest success_p5"."""
        return f"{'highest' if self.mode == 'max' else 'lowest'} {self.metric}"


class Ranked(NamedTuple):
    """Finished trials of a setting, with the mean of the goal's metric and its rank; equal means share a rank."""

    setting: Setting
    mean: Mean
    rank: int


class Ranking(NamedTuple):
    """The settings of a sweep with the most finished training seeds, best first."""

    goal: Goal
    ranked: tuple[Ranked, ...]
    others: int  # settings that could not be ranked
    seeds: int  # training seeds of every ranked setting

    @property
    def ties(self) -> int:
        return sum(each.rank == 1 for each in self.ranked) - 1


def ranking(trials: pd.DataFrame, goal: Goal) -> Ranking:
    column = metric_column(goal.metric, trials.columns)
    every = settings(trials)
    count = len({tuple(setting.entries.items()) for setting in every})
    finished = [setting for setting in every if setting.status == "finished"]
    valued = [(setting, mean) for setting in finished if column and (mean := _complete(setting, column)) is not None]
    seeds = max((len(setting.rows) for setting, _ in valued), default=0)
    competing = [(setting, mean) for setting, mean in valued if len(setting.rows) == seeds]
    sign = -1 if goal.mode == "max" else 1
    competing.sort(key=lambda pair: (sign * pair[1].mean, *_tie(pair[0])))
    ranked: list[Ranked] = []
    for place, (setting, mean) in enumerate(competing, start=1):
        equal = ranked and ranked[-1].mean.mean == mean.mean
        ranked.append(Ranked(setting, mean, ranked[-1].rank if equal else place))
    return Ranking(goal, tuple(ranked), count - len(ranked), seeds)


def _complete(setting: Setting, column: str) -> Mean | None:
    """The mean of the metric; None if a training seed has no finite value."""
    values = setting.rows[column].astype(float)
    return setting.mean(column) if values.map(math.isfinite).all() else None


def _tie(setting: Setting) -> list[float]:
    means = [(metric.mode, setting.mean(metric.name)) for metric in TIE_BREAKERS]
    return [math.inf if mean is None else -mean.mean if mode == "max" else mean.mean for mode, mean in means]


def ranked_settings(sweep: str, ranked: Ranking, most: int = SHOWN_SETTINGS) -> Table:
    """At least one ranked setting of a sweep as a table, best first."""
    listed = [each.setting for each in ranked.ranked]
    ranks = (Column("rank", VALUE), [each.rank for each in ranked.ranked])
    table = settings_table(listed, [ranks], first=ranked.goal.metric, most=most)
    others = f"{counted(ranked.others, 'setting')} without a rank: too few finished seeds" if ranked.others else ""
    title = f"{sweep}: {counted(len(listed), 'setting')} by {ranked.goal.text()} · {table.title}"
    return table._replace(title=title, note="; ".join(filter(None, (table.note, others))))


def recorded_space(record: SweepRecord) -> SweepSpec | None:
    """The search space of a start; None if this checkout cannot read it."""
    try:
        space = search_space.of_text(f"{record.name}.yaml", record.text, record.overrides)
        if space.search.halving is not None:
            space.expand()  # whoever reads such a space asks for its searches
    except SearchSpaceError:
        return None
    return space


def trials_of(store: Store, record: SweepRecord) -> pd.DataFrame:
    """The trials of a sweep that are committed and of the current versions, with named columns.

    Trials of a halving that did not win and that another sweep has finished are left out.
    """
    trials = named_frame(current(store.trials(record.trial_ids)).to_pandas())
    return trials[~trials["trial_id"].isin(finished_elsewhere(trials, recorded_space(record), store))]


def goal_of(search: Search | None, trials: pd.DataFrame) -> Goal:
    """The goal by which the settings of a sweep are ranked.

    The goal is `search.metric`, if the search is adaptive or the space writes a metric. Otherwise it is what the
    task's main metric is on bad inputs: of success the mean over the worst 5 % of the inputs, which unlike a percentile
    does not jump, of another metric its bad tail. There must be a trial, with named columns.
    """
    if search is not None and search.ranks_by_metric:
        return Goal(search.metric[0], search.mode[0])
    task = task_of(trials["spec"].iloc[0])
    abilities = Abilities() if task is None else task.abilities()
    metric, steady = abilities.tail_metric, SUCCESS._replace(statistic="worst5")
    # Rows of programs before `success_worst5` have the percentile only.
    if metric == SUCCESS.tail and trials[steady.name].notna().any():
        metric = steady
    return Goal(metric.name, metric.mode)
