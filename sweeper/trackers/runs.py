"""A trial as a run of an experiment tracker, and the export of a store's sweeps to a tracker."""

import datetime
import importlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import from_json

from sweeper.analysis.ranking import goal_of
from sweeper.analysis.recorded_spaces import asked_of
from sweeper.analysis.results import current, named_frame
from sweeper.messages import UserError, one_line, redacted
from sweeper.progress import doing
from sweeper.store.store import Status, Store, SweepRecord
from sweeper.trial.columns import METRICS, TIMINGS
from sweeper.trial.entry_names import NAMELESS, decoded, entries, named_values, varying
from sweeper.trial.kinds import Goal

CHUNK = 200  # trials whose curves are read at once
LONGEST_LABEL = 100  # characters

ORIGIN = ("commit", "fingerprint", "device", "command", "error_kind", "error_message")
"""Columns of `trials` that a run keeps as text."""


class ExportError(UserError, ValueError):
    """An export that cannot be made; the message is a sentence for the user."""


@dataclass(frozen=True)
class Run:
    """A trial as trackers know it."""

    trial_id: str
    label: str  # what is trained, and what varies in the sweep
    status: Status
    # Entries of the specification, and variables of the space, by dotted path; an infinite value is the text "inf"
    entries: Mapping[str, Any]
    final: Mapping[str, float]  # finite metrics and costs by the name of their column, but for the last training loss
    origin: Mapping[str, str]  # the columns `ORIGIN`
    started: datetime.datetime
    finished: datetime.datetime
    steps: int  # training steps done
    # Finite points by name, each a step and a value; empty until they are read
    curves: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of this row of the trial: a trial that is run again has another."""
        return f"{self.trial_id[:8]}-{self.finished:%Y%m%dT%H%M%S}"


@dataclass(frozen=True)
class Sweep:
    """A sweep with the runs of its committed trials."""

    name: str
    runs: tuple[Run, ...]  # by trial id, in this order, without curves
    varying: tuple[str, ...]  # dotted paths of the entries in which the runs differ
    goal: Goal  # what makes a trial of the sweep good


class Target(NamedTuple):
    """Where the runs of a sweep are written. `target` of a module `to_<tracker>` makes it of a destination."""

    present: Collection[str]  # names of the whole runs that are there
    add: Callable[[Run], None]


def export(store: Store, to: str, destination: str, sweep: str | None = None) -> tuple[int, int, int]:
    """Add the runs that a tracker lacks, of one sweep or of all.

    Returns the numbers of runs written, of runs that were there already, and of sweeps with a committed trial. An
    `ExportError` if the tracker is not installed, or refuses the destination or a run.
    """
    latest = store.latest_starts([] if sweep is None else [sweep])
    sweeps = [made for name in sorted(latest) if (made := sweep_of(store, latest[name])) is not None]
    added = 0
    try:
        tracker = importlib.import_module(f"sweeper.trackers.to_{to}")
        for made in sweeps:
            target: Target = tracker.target(destination, made)
            new = [run for run in made.runs if run.name not in target.present]
            with doing(f"exporting runs of {made.name}", len(new)) as activity:
                for run in with_curves(store, new):
                    target.add(activity.after(run))
                    added += 1
    except UserError:
        raise
    except ModuleNotFoundError as error:
        raise ExportError(f"{error.name} is not installed: pip install '.[{to}]' in the checkout") from None
    except Exception as error:  # whatever a library raises for a server, a disk or a name that it does not take
        raise ExportError(f"{to}: {redacted(one_line(str(error)))}") from error
    return added, sum(len(made.runs) for made in sweeps) - added, len(sweeps)


def sweep_of(store: Store, record: SweepRecord) -> Sweep | None:
    """The committed trials that a start planned, without rows of other versions; None if there are none."""
    rows = current(store.trials(record.trial_ids))
    if not rows.num_rows:
        return None
    specifications = []
    for trial_id, spec in zip(rows["trial_id"].to_pylist(), rows["spec"].to_pylist(), strict=True):
        variables = {path: decoded(value) for path, value in record.variables.get(trial_id, {}).items()}
        whole = {**entries(spec), **variables}
        specifications.append({path: "inf" if value == math.inf else value for path, value in whole.items()})
    paths = varying(specifications)
    runs = tuple(_run(*parts, paths) for parts in zip(rows.to_pylist(), specifications, strict=True))
    goal = goal_of(asked_of(record).goal, named_frame(rows.to_pandas()))
    return Sweep(record.name, runs, tuple(paths), goal)


def _run(row: Mapping[str, Any], named: Mapping[str, Any], paths: Sequence[str]) -> Run:
    labelled = dict.fromkeys(path for path in (*NAMELESS, *paths) if path in named)
    measured = {name: row[name] for name in (*METRICS, *TIMINGS)} | from_json(row["extra_metrics"])
    del measured["train_loss"]  # which has a curve
    return Run(
        trial_id=row["trial_id"],
        status=row["status"],
        label=" ".join(named_values(labelled, lambda path: str(named[path])))[:LONGEST_LABEL],
        entries=named,
        final={name: float(value) for name, value in measured.items() if value is not None and math.isfinite(value)},
        origin={name: str(row[name]) for name in ORIGIN if row[name] is not None},
        started=row["started"],
        finished=row["finished"],
        steps=row["steps_done"] or 0,
    )


def with_curves(store: Store, runs: Sequence[Run]) -> Iterator[Run]:
    """The runs with their training curves, some hundred at a time."""
    for start in range(0, len(runs), CHUNK):
        chunk = runs[start : start + CHUNK]
        points = store.curves([run.trial_id for run in chunk]).to_pandas().sort_values("step")
        curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
        for (trial_id, metric), curve in points[np.isfinite(points["value"])].groupby(["trial_id", "metric"]):
            curves.setdefault(trial_id, {})[metric] = list(
                zip(curve["step"].tolist(), curve["value"].tolist(), strict=True)
            )
        for run in chunk:
            yield replace(run, curves=curves.get(run.trial_id, {}))
