"""Optuna: a sweep is a study in a journal file that `optuna-dashboard` opens, a trial is a trial.

Parameters are the entries in which the trials of the sweep differ; a trial has no parameter for an entry that its
specification lacks. The value is what the settings of the sweep are ranked by, and the training loss is the
intermediate value. A trial that failed or has no such value is FAIL, one that was stopped early PRUNED.

A journal may end within a line, where a disk was full or a writer was killed. Optuna passes over such a line until the
next is joined to it, and then reads nothing any more. So it is cut off before anything is added.

A journal only grows, and Optuna compares trials only if their parameters have one distribution each. So a trial that
was run again is added beside its earlier failure, and where new trials widen a range or a choice, the study is written
anew under its name.
"""

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, TrialState

from sweeper.store.store import Store
from sweeper.trackers.runs import ExportError, Run, Sweep, Tracker, export

TRIAL, ROW = "trial_id", "row"

WIDE = 100  # a range of positive numbers with this ratio of its ends is drawn on a logarithmic axis
_BEGINNING = b'{"op_code":'  # of every journal


class _Journal(JournalFileBackend):
    """A journal that is added to only after its last whole line."""

    def __init__(self, path: str):
        super().__init__(path)
        self._path, self._own_lock = path, JournalFileSymlinkLock(path)

    def append_logs(self, logs: Sequence[dict[str, Any]]) -> None:
        with open(self._path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            if file.read() not in (b"", b"\n"):
                self.cut_off()
        super().append_logs(list(logs))

    def cut_off(self) -> None:
        """Cut off what follows the last whole line; nobody writes meanwhile, as writers hold the lock."""
        self._own_lock.acquire()
        try:
            with open(self._path, "r+b") as file:
                data = file.read()
                end = data.rfind(b"\n") + 1
                begin = data.rfind(b"\n", 0, max(end - 1, 0)) + 1
                try:
                    json.loads(data[begin:end])
                except ValueError:
                    end = begin
                file.truncate(end)
        finally:
            self._own_lock.release()


class OptunaTracker(Tracker):
    def __init__(self, storage: BaseStorage):
        self._storage = storage
        self._study: optuna.Study | None = None
        self._distributions: dict[str, BaseDistribution] = {}
        self._params: dict[str, dict[str, Any]] = {}
        self._metric = ""

    def present(self, sweep: Sweep) -> Mapping[str, str]:
        self._metric = sweep.goal.metric
        self._params = {run.trial_id: {} for run in sweep.runs}
        self._distributions = {}
        for path in sweep.varying:
            having = [run for run in sweep.runs if path in run.entries]
            values = _plain([run.entries[path] for run in having])
            self._distributions[path] = _distribution(values)
            for run, value in zip(having, values, strict=True):
                self._params[run.trial_id][path] = value
        direction = "maximize" if sweep.goal.mode == "max" else "minimize"
        names = optuna.get_all_study_names(self._storage)
        if sweep.name in names:
            study = optuna.load_study(study_name=sweep.name, storage=self._storage)
            trials = study.get_trials(deepcopy=False)
            fits = all(
                # A trial that the sweep plans no more keeps the parameters that it has.
                trial.distributions == self._of(self._params.get(trial.user_attrs.get(TRIAL, ""), trial.distributions))
                for trial in trials
            )
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
        value = run.metrics.get(self._metric) if run.status != "failed" else None
        state = TrialState.PRUNED if run.status == "stopped" else TrialState.COMPLETE
        state = TrialState.FAIL if value is None else state
        trial = FrozenTrial(
            number=-1,  # Optuna counts
            trial_id=-1,
            state=state,
            value=value,
            datetime_start=run.started.astimezone().replace(tzinfo=None),  # Optuna has local times
            datetime_complete=run.finished.astimezone().replace(tzinfo=None),
            params=self._params[run.trial_id],
            distributions=self._of(self._params[run.trial_id]),
            user_attrs={TRIAL: run.trial_id, ROW: run.row, **run.final, **run.origin},
            system_attrs={},
            intermediate_values=dict(run.curves.get("train_loss", ())),
        )
        self._study.add_trial(trial)

    def _of(self, paths: Iterable[str]) -> dict[str, BaseDistribution]:
        return {path: self._distributions[path] for path in paths if path in self._distributions}


def _distribution(values: list[Any]) -> BaseDistribution:
    """The narrowest distribution that holds all values of a parameter."""
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return CategoricalDistribution(sorted(set(values), key=repr))
    low, high = min(values), max(values)
    wide = low > 0 and high / low >= WIDE
    if all(isinstance(value, int) for value in values):
        return IntDistribution(int(low), int(high), log=wide)
    return FloatDistribution(float(low), float(high), log=wide)


def _plain(values: list[Any]) -> list[Any]:
    """The values of a parameter as a choice of Optuna can hold them, different ones different.

    To Optuna `True` is 1, and a list is its text. Where both occur, all values are JSON.
    """
    kinds = {type(value) if value is None or isinstance(value, _SCALAR) else "list" for value in values}
    if (bool in kinds and kinds & {int, float}) or ("list" in kinds and str in kinds):
        return [json.dumps(value, default=str) for value in values]
    return [value if value is None or isinstance(value, _SCALAR) else str(value) for value in values]


_SCALAR = bool | int | float | str


def tracker(destination: str) -> OptunaTracker:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = Path(destination)
    if path.is_dir() or not path.parent.is_dir():
        raise ExportError(f"{destination!r} must be a file in a folder that exists, such as journal.log")
    journal = _Journal(str(path))
    with path.open("rb") as file:
        if not _BEGINNING.startswith(file.read(len(_BEGINNING))):
            raise ExportError(f"{destination!r} is no journal of Optuna: name another file")
    journal.cut_off()
    try:
        return OptunaTracker(JournalStorage(journal))
    except (ValueError, KeyError) as error:
        raise ExportError(f"{destination!r} is damaged, Optuna cannot read it ({error}): name another file") from None


def study(store: Store, sweep: str) -> optuna.Study:
    """A study in memory with the committed trials of a sweep; an `ExportError` if there are none."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = InMemoryStorage()
    *_, sweeps = export(store, OptunaTracker(storage), sweep)
    if not sweeps:
        raise ExportError(f"no trial of {sweep} is committed")
    return optuna.load_study(study_name=sweep, storage=storage)
