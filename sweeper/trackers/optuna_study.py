"""A sweep as a study of Optuna, for its plots, its importances and its dashboard.

Parameters are the entries in which the trials of the sweep differ; a trial has no parameter for an entry that its
specification lacks. The value is what the settings of the sweep are ranked by, and the training loss is the
intermediate value. A trial that failed or has no such value is FAIL, one that was stopped early PRUNED.

Optuna compares trials only if their parameters have one distribution each, so a study is always made anew.
"""

import json
import warnings
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from sweeper.store.store import Store
from sweeper.trackers.runs import ExportError, Run, sweep_of, with_curves

WIDE = 100  # a range of positive numbers with this ratio of its ends is drawn on a logarithmic axis


def study(store: Store, name: str, storage: str | BaseStorage | None = None) -> optuna.Study:
    """A study with the committed trials of a sweep, in a storage of Optuna (None: in memory).

    A study of this name in the storage is replaced. An `ExportError` if no trial is committed.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sweep = sweep_of(store, store.latest_starts([name])[name])
    if sweep is None:
        raise ExportError(f"no trial of {name} is committed")
    params: dict[str, dict[str, Any]] = {run.trial_id: {} for run in sweep.runs}
    distributions: dict[str, BaseDistribution] = {}
    for path in sweep.varying:
        having = [run for run in sweep.runs if path in run.entries]
        values = _plain([run.entries[path] for run in having])
        distributions[path] = _distribution(values)
        for run, value in zip(having, values, strict=True):
            params[run.trial_id][path] = value
    if storage is not None and name in optuna.get_all_study_names(storage):
        optuna.delete_study(study_name=name, storage=storage)
    direction = "maximize" if sweep.goal.mode == "max" else "minimize"
    made = optuna.create_study(study_name=name, storage=storage, direction=direction)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of metrics are an experiment of Optuna
        made.set_metric_names([sweep.goal.metric])
    for run in with_curves(store, sweep.runs):
        own = params[run.trial_id]
        made.add_trial(_trial(run, sweep.goal.metric, own, {path: distributions[path] for path in own}))
    return made


def _trial(run: Run, metric: str, params: dict[str, Any], distributions: dict[str, BaseDistribution]) -> FrozenTrial:
    value = run.final.get(metric) if run.status != "failed" else None
    state = TrialState.PRUNED if run.status == "stopped" else TrialState.COMPLETE
    return FrozenTrial(
        number=-1,  # Optuna counts
        trial_id=-1,
        state=TrialState.FAIL if value is None else state,
        value=value,
        datetime_start=run.started.astimezone().replace(tzinfo=None),  # Optuna has local times
        datetime_complete=run.finished.astimezone().replace(tzinfo=None),
        params=params,
        distributions=distributions,
        user_attrs={"trial_id": run.trial_id, **run.final, **run.origin},
        system_attrs={},
        intermediate_values=dict(run.curves.get("train_loss", ())),
    )


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
