"""The views that SQL knows.

`trials` has one row a trial: the columns of the store, and as further columns every entry of the trial's specification,
every metric that has no column of its own, and the lists `tags` and `notes`. It shows the current versions of tasks,
models and numerics; `all_trials` shows all versions. `evaluations` has the columns of `trials` and one row for every
evaluation of a stored network. `sweeps` has one row for every trial that the latest start of a sweep planned, whether
it is committed or not. `curves` and `outcomes` are those of the store.
"""

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from sweeper.analysis.recorded_spaces import asked_of, recorded_space
from sweeper.analysis.results import column, current, evaluations_of, named
from sweeper.store.annotations import NO_ANNOTATIONS, read_annotations
from sweeper.store.store import CURVES, OUTCOMES, TRIALS, Store, SweepRecord
from sweeper.trial.entry_names import column_name, decoded

TEXTS = pa.list_(pa.string())


def trials(store: Store) -> pa.Table:
    return annotated(store, named(current(store.trials())))


def annotated(store: Store, rows: pa.Table) -> pa.Table:
    """Named rows of trials with two further columns, the lists of the tags and notes of each trial."""
    of_trials = read_annotations(store.files).trials
    every = [of_trials.get(trial_id, NO_ANNOTATIONS) for trial_id in rows["trial_id"].to_pylist()]
    lists = {"tags": [each.tags for each in every], "notes": [each.notes for each in every]}
    for name, values in lists.items():
        rows = rows.append_column(name, pa.array(values, TEXTS))
    return rows


class View(NamedTuple):
    """A table that SQL may name: what makes it from a store, and its columns for queries that do not use it."""

    rows: Callable[[Store], pa.Table]
    schema: pa.Schema


SWEEPS = pa.schema([
    ("sweep", pa.string()), ("trial_id", pa.string()), ("search", pa.int64()), ("winner", pa.bool_()),
    ("sweep_tags", TEXTS), ("sweep_notes", TEXTS),
])  # fmt: skip
"""Columns of `sweeps`."""


def sweeps(store: Store) -> pa.Table:
    """The view `sweeps`; a trial that several sweeps plan has a row for each of them.

    In a successive halving `search` is the number of the search that the trial belongs to, from 0, and `winner` says
    whether the trial has passed the last rung; otherwise they are null. Tags and notes are those of the sweep.
    Every variable of a space is a further column, such as `variables_x`.
    """
    annotations = read_annotations(store.files).sweeps
    rows, variables = [], []
    for name, record in store.latest_starts().items():
        (number_of, won), of_sweep = _searches(record, store), annotations.get(name, NO_ANNOTATIONS)
        for trial_id in record.trial_ids:
            search = number_of.get(trial_id)
            winner = None if search is None else trial_id in won
            rows.append((name, trial_id, search, winner, of_sweep.tags, of_sweep.notes))
            variables.append(record.variables.get(trial_id, {}))
    table = pa.Table.from_pylist([dict(zip(SWEEPS.names, row, strict=True)) for row in rows], SWEEPS)
    for path in dict.fromkeys(path for own in variables for path in own):
        table = table.append_column(column_name(path), column([decoded(own.get(path)) for own in variables]))
    return table


def _searches(record: SweepRecord, store: Store) -> tuple[dict[str, int], frozenset[str]]:
    """The number of the search of every trial of a successive halving, and the winners."""
    space = recorded_space(record, store) if asked_of(record).halves else None  # to expand a large space takes seconds
    if space is None:
        return {}, frozenset()
    from sweeper.packs.halving import searches_of, winners_of  # imports JAX

    searches = searches_of(space)
    numbers = {trial_id: number for number, starts in enumerate(searches) for trial_id in starts}
    return numbers, winners_of(space, searches, store)


VIEWS = {
    "trials": View(trials, TRIALS),
    "all_trials": View(lambda store: annotated(store, named(store.trials())), TRIALS),
    "sweeps": View(sweeps, SWEEPS),
    "evaluations": View(lambda store: annotated(store, named(evaluations_of(store, current(store.trials())))), TRIALS),
    "curves": View(Store.curves, CURVES),
    "outcomes": View(Store.outcomes, OUTCOMES),
}
