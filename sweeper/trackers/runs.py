"""A trial as a run of an experiment tracker, and the export of a store's sweeps to a tracker."""

import abc
import datetime
import importlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sweeper.analysis.ranking import goal_of
from sweeper.analysis.recorded_spaces import asked_of
from sweeper.analysis.results import current, extra_metrics, named_frame
from sweeper.messages import UserError, counted
from sweeper.progress import doing
from sweeper.store.store import Status, Store, SweepRecord
from sweeper.store.sweep_records import latest_starts
from sweeper.trial.columns import METRICS, TIMINGS
from sweeper.trial.entry_names import NAMELESS, decoded, entries, named_values, varying
from sweeper.trial.kinds import Goal

CHUNK = 200  # trials whose curves are read at once
LONGEST_LABEL = 100  # characters
MOST_IN_A_ROW = 3  # runs that a tracker may refuse one after the other before it counts as gone

ORIGIN = ("commit", "fingerprint", "device", "command", "error_kind", "error_message")
"""Columns of `trials` that a run keeps as text."""


class ExportError(UserError, ValueError):
    """An export that cannot be made; the message is a sentence for the user."""


@dataclass(frozen=True)
class Run:
    """A trial as trackers know it."""

    trial_id: str
    row: str  # which row of the trial this is: its status, and when it was made
    label: str  # what is trained, and what varies in the sweep
    status: Status
    # Entries of the specification, and variables of the space, by dotted path; an infinite value is the text "inf"
    entries: Mapping[str, Any]
    metrics: Mapping[str, float]  # finite ones by the name of their column in SQL, without those that are also curves
    costs: Mapping[str, float]  # seconds, steps a second and bytes, by the name of their column
    origin: Mapping[str, str]  # the columns `ORIGIN`
    started: datetime.datetime
    finished: datetime.datetime
    steps: int  # training steps done
    # Finite points by name, each a step and a value; empty until they are read
    curves: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)

    @property
    def final(self) -> dict[str, float]:
        """Metrics and costs, all of them numbers that are known at the end."""
        return {**self.metrics, **self.costs}


@dataclass(frozen=True)
class Sweep:
    """A sweep with the runs of its committed trials."""

    name: str
    runs: tuple[Run, ...]  # by trial id, in this order, without curves
    varying: tuple[str, ...]  # dotted paths of the entries in which the runs differ
    goal: Goal  # what makes a trial of the sweep good


class Tracker(abc.ABC):
    @abc.abstractmethod
    def present(self, sweep: Sweep) -> Mapping[str, str]:
        """`Run.row` of the complete runs that the tracker has of a sweep, by trial id; `add` is then for this sweep."""

    @abc.abstractmethod
    def add(self, run: Run) -> None:
        """Write a run of the sweep that `present` was last asked about, in place of an earlier run of the trial."""


def export(store: Store, tracker: Tracker, sweep: str | None = None) -> tuple[int, int, int]:
    """Add the runs that a tracker lacks, of one sweep or of all.

    A run that the tracker refuses costs that run, and is told by an `ExportError` at the end; after three in a row no
    further one is tried. Returns the numbers of runs written, of runs that the tracker had already, and of sweeps with
    a committed trial.
    """
    chosen = [] if sweep is None else [sweep]
    latest = latest_starts(store.sweeps(), chosen)
    added = kept = sweeps = 0
    refused: list[ExportError] = []
    for name in chosen or sorted(latest):
        if (committed := sweep_of(store, latest[name])) is None:
            continue
        sweeps += 1
        present = tracker.present(committed)
        new = [run for run in committed.runs if present.get(run.trial_id) != run.row]
        in_a_row = 0
        with doing(f"exporting runs of {name}", len(new)) as activity:
            for run in with_curves(store, new):
                try:
                    tracker.add(activity.after(run))
                    in_a_row = 0
                except ExportError as error:
                    refused.append(error)
                    in_a_row += 1
                    if in_a_row == MOST_IN_A_ROW:
                        raise
        added, kept = added + len(new), kept + len(committed.runs) - len(new)
    if refused:
        raise ExportError(f"{len(refused):,} of {counted(added, 'run')} could not be added; the first: {refused[0]}")
    return added, kept, sweeps


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


def _run(row: Mapping[str, Any], named: Mapping[str, Any], paths: Iterable[str]) -> Run:
    metrics = {name: row[name] for name in METRICS if name != "train_loss"} | extra_metrics(row["extra_metrics"])
    varied = [path for path in paths if path in named and path not in NAMELESS]
    label = [
        *(str(named[path]) for path in NAMELESS if path in named),
        *named_values(varied, lambda path: str(named[path])),
    ]
    return Run(
        trial_id=row["trial_id"],
        row=f"{row['status']} {row['finished'].isoformat()}",
        status=row["status"],
        label=" ".join(label)[:LONGEST_LABEL],
        entries=named,
        metrics=_finite(metrics),
        costs=_finite({name: row[name] for name in TIMINGS}),
        origin={name: str(row[name]) for name in ORIGIN if row[name] is not None},
        started=row["started"],
        finished=row["finished"],
        steps=row["steps_done"] or 0,
    )


def _finite(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}


def with_curves(store: Store, runs: Sequence[Run]) -> Iterator[Run]:
    """The runs with their training curves, some hundred at a time."""
    for start in range(0, len(runs), CHUNK):
        chunk = runs[start : start + CHUNK]
        frame = store.curves([run.trial_id for run in chunk]).to_pandas().sort_values(["trial_id", "metric", "step"])
        curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
        points = zip(frame["trial_id"], frame["metric"], frame["step"], frame["value"], strict=True)
        for trial_id, metric, step, value in points:
            if math.isfinite(value):
                curves.setdefault(trial_id, {}).setdefault(metric, []).append((int(step), float(value)))
        for run in chunk:
            yield replace(run, curves=curves.get(run.trial_id, {}))


def tracker(name: str, destination: str) -> Tracker:
    """The tracker of a module `to_<name>`, which says whether the destination is a folder, a file or a URL.

    An `ExportError` if its packages are not installed, or the destination makes no sense.
    """
    try:
        return importlib.import_module(f"sweeper.trackers.to_{name}").tracker(destination)
    except ModuleNotFoundError as error:
        raise ExportError(f"{error.name} is not installed: pip install '.[{name}]' in the checkout") from None
