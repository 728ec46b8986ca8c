"""Optuna: a sweep is a study in a journal file that `optuna-dashboard` opens, a trial is a trial.

Parameters are the entries in which the trials of the sweep differ, the value is what the settings of the sweep are
ranked by, and the training loss is the intermediate value. A trial that failed or has no such value is FAIL, one that
was stopped early PRUNED.

A journal only grows, and Optuna compares trials only if their parameters have one distribution each. So a trial that
was run again is added beside its earlier failure, and where new trials widen a range or a choice, the study is written
anew under its name.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from sweeper.trackers.runs import ExportError, Run, Sweep, Tracker

TRIAL, ROW = "trial_id", "row"

WIDE = 100
"""A range of positive numbers with this ratio of its ends is drawn on a logarithmic axis."""


class OptunaTracker(Tracker):
    """Studies in a journal file."""

    def __init__(self, storage: JournalStorage):
        """Nothing is written yet.

        Args:
            storage: Over the journal.
        """
        self._storage = storage
        self._study: optuna.Study | None = None
        self._distributions: dict[str, BaseDistribution] = {}
        self._metric = ""

    def present(self, sweep: Sweep) -> Mapping[str, str]:
        self._metric = sweep.goal.metric
        values = {path: [run.entries.get(path) for run in sweep.runs] for path in sweep.varying}
        self._distributions = {path: _distribution(of_path) for path, of_path in values.items()}
        direction = "maximize" if sweep.goal.mode == "max" else "minimize"
        names = optuna.get_all_study_names(self._storage)
        if sweep.name in names:
            study = optuna.load_study(study_name=sweep.name, storage=self._storage)
            trials = study.get_trials(deepcopy=False)
            fits = all(trial.distributions == self._distributions for trial in trials)
            if fits and study.direction.name.lower() == direction and study.metric_names == [self._metric]:
                self._study = study
                return {trial.user_attrs[TRIAL]: trial.user_attrs[ROW] for trial in trials if ROW in trial.user_attrs}
            optuna.delete_study(study_name=sweep.name, storage=self._storage)
        self._study = optuna.create_study(study_name=sweep.name, storage=self._storage, direction=direction)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # names of metrics are an experiment of Optuna
            self._study.set_metric_names([self._metric])
        return {}

    def add(self, run: Run) -> None:
        assert self._study is not None
        self._study.add_trial(self._trial(run))

    def _trial(self, run: Run) -> FrozenTrial:
        value = run.metrics.get(self._metric)
        if run.status == "failed" or value is None:
            state, value = TrialState.FAIL, None
        else:
            state = TrialState.PRUNED if run.status == "stopped" else TrialState.COMPLETE
        return FrozenTrial(
            number=-1,  # Optuna counts
            trial_id=-1,
            state=state,
            value=value,
            datetime_start=run.started.astimezone().replace(tzinfo=None),  # Optuna has local times
            datetime_complete=run.finished.astimezone().replace(tzinfo=None),
            params={path: _plain(run.entries.get(path)) for path in self._distributions},
            distributions=self._distributions,
            user_attrs={TRIAL: run.trial_id, ROW: run.row, **run.metrics, **run.costs, **run.origin},
            system_attrs={},
            intermediate_values=dict(run.curves.get("train_loss", ())),
        )


def _distribution(values: list[Any]) -> BaseDistribution:
    """The narrowest distribution that holds all values of a parameter."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < len(values):
        return CategoricalDistribution(sorted({_plain(value) for value in values}, key=str))
    low, high = min(numbers), max(numbers)
    wide = low > 0 and high / low >= WIDE
    if all(isinstance(number, int) for number in numbers):
        return IntDistribution(int(low), int(high), log=wide)
    return FloatDistribution(float(low), float(high), log=wide)


def _plain(value: Any) -> bool | int | float | str | None:
    """A value that a choice of Optuna can hold."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def tracker(destination: str) -> OptunaTracker:
    """The journal in a file."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = Path(destination)
    if path.is_dir() or not path.parent.is_dir():
        raise ExportError(f"{destination!r} must be a file in a folder that exists, such as journal.log")
    return OptunaTracker(JournalStorage(JournalFileBackend(str(path))))
