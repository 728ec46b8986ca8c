"""The settings of a sweep, best first.

A setting is ranked by the mean of one metric over its training seeds. A setting with fewer finished training seeds than
others is not ranked: a mean without the failed training seeds would reward a setting for its failures, and one lucky
training seed would beat the mean of several.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from sweeper.analysis.recorded_spaces import Asked, asked_of, recorded_space
from sweeper.analysis.results import current, goals_of, named_frame, with_variables
from sweeper.analysis.settings_table import Mean, Setting, settings, settings_table, with_note
from sweeper.messages import counted
from sweeper.store.store import Store, SweepRecord
from sweeper.trial.kinds import Goal
from sweeper.trial.metrics import equal_but_rounding

SHOWN_SETTINGS = 20  # largest number of settings that are shown to people
LEAST_SEEDS = 5  # training seeds with which the best setting is trained again, unless the search had more


class Ranking(NamedTuple):
    """The settings of a sweep with the most finished training seeds."""

    goal: Goal
    settings: tuple[Setting, ...]  # best first, with ranks; equal means share a rank
    others: int  # settings that could not be ranked, those stopped early not among them
    stopped: int  # settings without a rank that were stopped early
    next_seed: int  # the first training seed after those of all trials, also of starts that a halving has stopped

    @property
    def unranked(self) -> str:
        """Why settings have no rank, in a few words for each reason."""
        parts = [f"{counted(self.stopped, 'setting')} stopped early"] if self.stopped else []
        why = f"too few finished seeds with a finite {self.goal.metric}"
        parts += [f"{counted(self.others, 'setting')} without a rank: {why}"] if self.others else []
        return "; ".join(parts)

    @property
    def best_mean(self) -> Mean:
        """The metric of the best setting, of which there must be one."""
        mean = self.settings[0].mean(self.goal.metric)
        assert mean is not None  # as it has a rank
        return mean

    @property
    def ties(self) -> int:
        """How many settings are as good as the first."""
        return sum(each.rank == 1 for each in self.settings[1:])


def ranking(trials: pd.DataFrame, goal: Goal) -> Ranking:
    every = settings(trials)
    count = len({setting.key for setting in every})
    whole = [each for each in every if _is_whole(each, goal.metric)]
    seeds = max((len(setting.rows) for setting in whole), default=0)
    competing = [setting for setting in whole if len(setting.rows) == seeds]
    decisive = goals_of(trials) if competing else ()
    competing.sort(key=lambda setting: [-merit(setting, each) for each in (goal, *decisive)])
    ranked: list[Setting] = []
    for place, setting in enumerate(competing, start=1):
        equal = ranked and equal_but_rounding(merit(ranked[-1], goal), merit(setting, goal))
        ranked.append(replace(setting, rank=ranked[-1].rank if equal else place))
    has_rank = {each.key for each in ranked}
    stopped = {each.key for each in every if each.status == "stopped"} - has_rank
    return Ranking(goal, tuple(ranked), count - len(ranked) - len(stopped), len(stopped), int(trials["seed"].max()) + 1)


def _is_whole(setting: Setting, metric: str) -> bool:
    """Whether the setting may have a rank: it is finished, with a finite value for each of its training seeds."""
    finite = metric in setting.rows and setting.rows[metric].astype(float).map(math.isfinite).all()
    return setting.status == "finished" and bool(finite)


def merit(setting: Setting, goal: Goal) -> float:
    """The mean of a metric, the larger the better."""
    mean = setting.mean(goal.metric)
    return -math.inf if mean is None else mean.mean if goal.mode == "max" else -mean.mean


def best_first(listed: Iterable[Setting], goal: Goal) -> list[Setting]:
    """Settings of any status in the order of their metric; those that are not finished come last."""
    return sorted(listed, key=lambda setting: (setting.status != "finished", -merit(setting, goal)))


def ranked_settings(sweep: str, ranked: Ranking, asked: Asked, most: int | None = SHOWN_SETTINGS) -> pd.DataFrame:
    """At least one ranked setting of a sweep as a table, best first, with what its space `asked` for."""
    table = settings_table(ranked.settings, ranked.goal.metric, asked, most)
    ranked_by = f"{sweep}: {counted(len(ranked.settings), 'setting')} by {ranked.goal.text()}"
    table.attrs["title"] = f"{ranked_by} · {table.attrs['title']}"
    return with_note(table, ranked.unranked)


def repetition(name: str, ranked: Ranking, resources: Mapping[str, Any]) -> str:
    """A space that trains the best setting of a sweep with other training seeds, as the sweep `<name>-best`.

    The row has the whole specification, whose JSON is YAML.
    """
    best = ranked.settings[0]
    seeds = list(range(ranked.next_seed, ranked.next_seed + max(len(best.rows), LEAST_SEEDS)))
    trial = json.loads(best.rows["spec"].iloc[0]) | {"seed": {"choice": seeds}}
    entries = (f"  {entry}: {json.dumps(value)}" for entry, value in trial.items())
    head = (f"name: {json.dumps(f'{name}-best')}", f"resources: {json.dumps(dict(resources))}", "trial:")
    return "\n".join([*head, *entries])


def trials_of(store: Store, record: SweepRecord) -> pd.DataFrame:
    """The trials of a sweep that are committed and of the current versions, with named columns and its variables.

    Trials of a halving that did not win and that another sweep has finished are left out.
    """
    trials = with_variables(named_frame(current(store.trials(record.trial_ids)).to_pandas()), record.variables)
    if not asked_of(record).halves:
        return trials
    from sweeper.analysis.halving_winners import finished_elsewhere  # imports JAX

    return trials[~trials["trial_id"].isin(finished_elsewhere(trials, recorded_space(record, store), store))]


def goal_of(asked: Goal | None, trials: pd.DataFrame) -> Goal:
    """The goal by which the settings of a sweep are ranked, that of the kind of trial if the space asks for none.

    There must be a trial, with named columns.
    """
    return asked or goals_of(trials)[0]
