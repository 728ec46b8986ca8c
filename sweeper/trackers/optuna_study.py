"""A sweep as a study of Optuna, for its plots, its importances and its dashboard.

A setting of the sweep is one trial of the study. Its parameters are the entries that the space varies, with the ranges
and choices of the space; it has no parameter for an entry that its specification lacks. Its value is the mean over
training seeds of what the sweep is ranked by, and the mean training loss is the intermediate value.

Optuna and the ranking agree on what counts: COMPLETE is a setting with as many finished training seeds as any other,
PRUNED one that was stopped early. A setting that has fewer, as a training seed failed or has no such value, is FAIL: a
mean over the others would reward it for its failures.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from sweeper.analysis.recorded_spaces import asked_of
from sweeper.space.scales import Scale, Varied
from sweeper.store.store import Store
from sweeper.trackers.runs import ExportError, Run, sweep_of, with_curves
from sweeper.trial.start_from import differs_by_seed

WIDE = 100  # a range of positive numbers with this ratio of its ends is drawn on a logarithmic axis


def study(store: Store, name: str, storage: str | BaseStorage | None = None) -> optuna.Study:
    """A study with the settings of a sweep whose trials are committed, in a storage of Optuna (None: in memory).

    A study of this name in the storage is replaced. An `ExportError` if no trial is committed.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    record = store.latest_starts([name])[name]
    sweep = sweep_of(store, record)
    if sweep is None:
        raise ExportError(f"no trial of {name} is committed")
    settings: dict[frozenset[tuple[str, Any]], list[Run]] = {}
    for run in with_curves(store, sweep.runs):
        settings.setdefault(frozenset(_setting(run).items()), []).append(run)
    params: list[dict[str, Any]] = [{} for _ in settings]
    distributions: dict[str, BaseDistribution] = {}
    varied = asked_of(record).varied
    shared = {path for runs in settings.values() for path in _setting(runs[0])}
    for path in (path for path in sweep.varying if path in shared and (path in varied or not varied)):
        having = [place for place, (run, *_) in enumerate(settings.values()) if path in run.entries]
        observed = [run.entries[path] for run, *_ in settings.values() if path in run.entries]
        listed = ["inf" if value == math.inf else value for value in varied[path].values] if varied else []
        values = _plain([*listed, *observed])
        distributions[path] = _distribution(values, varied[path] if varied else _seen(values))
        for place, value in zip(having, values[len(listed) :], strict=True):
            params[place][path] = value
    if storage is not None and name in optuna.get_all_study_names(storage):
        optuna.delete_study(study_name=name, storage=storage)
    metric, mode = sweep.goal
    made = optuna.create_study(study_name=name, storage=storage, direction="maximize" if mode == "max" else "minimize")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of metrics are an experiment of Optuna
        made.set_metric_names([metric])
    whole = max(sum(_counts(run, metric) for run in runs) for runs in settings.values())
    for runs, own in zip(settings.values(), params, strict=True):
        if len(runs) < whole and all(_counts(run, metric) for run in runs):
            continue  # its other training seeds are on their way
        made.add_trial(_trial(runs, metric, whole, own, {path: distributions[path] for path in own}))
    return made


def _setting(run: Run) -> dict[str, Any]:
    """The entries that a run shares with its other training seeds."""
    return {path: value for path, value in run.entries.items() if not differs_by_seed(path, run.entries)}


def _counts(run: Run, metric: str) -> bool:
    return run.status == "finished" and metric in run.final


def _trial(
    runs: Sequence[Run], metric: str, whole: int, params: dict[str, Any], distributions: dict[str, BaseDistribution]
) -> FrozenTrial:
    """The trial of a setting, of which `whole` runs must be finished."""
    finished = [run for run in runs if _counts(run, metric)]
    stopped = [run for run in runs if run.status == "stopped" and metric in run.final]
    state = TrialState.COMPLETE if len(finished) == whole > 0 else TrialState.PRUNED if stopped else TrialState.FAIL
    counted = {TrialState.COMPLETE: finished, TrialState.PRUNED: stopped}.get(state, [])
    means = {name: fmean(own) for name, own in _by_name([run.final for run in counted or runs]).items()}
    losses = _by_name([dict(run.curves.get("train_loss", ())) for run in counted or runs])
    return FrozenTrial(
        number=-1,  # Optuna counts
        trial_id=-1,
        state=state,
        value=means[metric] if counted else None,
        datetime_start=min(run.started for run in runs).astimezone().replace(tzinfo=None),  # Optuna has local times
        datetime_complete=max(run.finished for run in runs).astimezone().replace(tzinfo=None),
        params=params,
        distributions=distributions,
        user_attrs={"trial_ids": ", ".join(run.trial_id for run in runs), **means, **runs[0].origin},
        system_attrs={},
        intermediate_values={step: fmean(own) for step, own in losses.items()},
    )


def _by_name(records: Sequence[Mapping[Any, float]]) -> dict[Any, list[float]]:
    """The values of each name that all records have."""
    return {name: [own[name] for own in records] for name in records[0] if all(name in own for own in records)}


def _seen(values: list[Any]) -> Varied:
    """What values say of a parameter, where the space cannot be read."""
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return Varied(None)
    low, high = min(values), max(values)
    whole = all(isinstance(value, int) for value in values)
    return Varied(Scale(low, high, log=low > 0 and high / low >= WIDE, whole=whole))


def _distribution(values: list[Any], varied: Varied) -> BaseDistribution:
    """The distribution of a parameter: what the space says, and wide enough for all values."""
    scale = varied.scale
    if scale is None or any(isinstance(value, bool | str | None) for value in values):
        return CategoricalDistribution(tuple(dict.fromkeys(values)))
    low, high = min(scale.low, *values), max(scale.high, *values)
    if scale.whole:
        return IntDistribution(int(low), int(high), log=scale.log, step=int(scale.step or 1))
    return FloatDistribution(float(low), float(high), log=scale.log, step=scale.step)


def _plain(values: list[Any]) -> list[Any]:
    """The values of a parameter as a choice of Optuna can hold them; a list is its text."""
    return [value if isinstance(value, bool | int | float | str | None) else str(value) for value in values]
