"""The views `trials`, `all_trials` and `evaluations` that SQL and exports know: named rows with their notes and tags.

Each row has the lists `tags` and `notes` of its trial, empty without any. A task with an entry or a metric of that name
keeps it; the lists are then called `trial_tags` and `trial_notes`.
"""

import pyarrow as pa

from sweeper.analysis.evaluations import evaluation_rows
from sweeper.analysis.results import current, named
from sweeper.store.annotations import NO_ANNOTATIONS, read_annotations
from sweeper.store.store import Store

TEXTS = pa.list_(pa.string())


def trials(store: Store) -> pa.Table:
    """The view `trials`: the store's columns, the entries of the specifications, the other metrics, notes and tags.

    Its rows are those of the `current` versions.
    """
    return annotated(store, named(current(store.trials())))


def all_trials(store: Store) -> pa.Table:
    """The view `all_trials`: as `trials`, with the rows of all versions."""
    return annotated(store, named(store.trials()))


def evaluations(store: Store) -> pa.Table:
    """The view `evaluations`: as `trials`, one row for every trial and protocol by which its network was evaluated."""
    return annotated(store, named(evaluation_rows(store, current(store.trials()))))


def annotated(store: Store, rows: pa.Table) -> pa.Table:
    """Named rows of trials with two further columns, the lists of the tags and notes of each trial."""
    of_trials = read_annotations(store.files).trials
    every = [of_trials.get(trial_id, NO_ANNOTATIONS) for trial_id in rows["trial_id"].to_pylist()]
    taken = {name.lower() for name in rows.column_names}
    lists = {"tags": [each.tags for each in every], "notes": [each.texts for each in every]}
    for name, values in lists.items():
        rows = rows.append_column(f"trial_{name}" if name in taken else name, pa.array(values, TEXTS))
    return rows
