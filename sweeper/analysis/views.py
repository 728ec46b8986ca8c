"""The views `trials`, `all_trials` and `evaluations` that SQL and exports know: named rows with their notes and tags.

Each row has the lists `tags` and `notes` of its trial, empty without any. A task with an entry or a metric of that name
keeps it; the lists are then called `trial_tags` and `trial_notes`.

Other tools can read the folders of a store themselves. A view as a file has the further columns, and appears under its
name as a whole.
"""

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sweeper.analysis.json_values import csv_table
from sweeper.analysis.results import current, evaluation_rows, named
from sweeper.store.annotations import NO_ANNOTATIONS, read_annotations
from sweeper.store.store import OUTCOMES, Store

TEXTS = pa.list_(pa.string())

ViewName = Literal["trials", "evaluations", "curves", "outcomes"]

FORMATS = (".parquet", ".csv")

TOGETHER = 16
"""Trials whose outcomes are in memory at a time; those of a colouring trial take eight million bytes."""


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


def write_view(store: Store, view: ViewName, path: Path) -> int:
    """Write a view of a store as one file, which replaces a file of the same name, and return its number of rows.

    The file ends in one of `FORMATS`. Lists are JSON text in a CSV file.
    """
    rows, csv = 0, path.suffix == ".csv"

    def convert(table: pa.Table) -> pa.Table:
        return _typed(csv_table(table) if csv else table)

    with replaced(path) as new:
        schema, tables = _tables(store, view)
        schema = convert(schema.empty_table()).schema
        with pyarrow.csv.CSVWriter(new, schema) if csv else pq.ParquetWriter(new, schema) as writer:
            for table in tables:
                writer.write_table(convert(table))
                rows += table.num_rows
    return rows


def _tables(store: Store, view: ViewName) -> tuple[pa.Schema, Iterable[pa.Table]]:
    if view == "outcomes":
        seals = [seal for seal in store.seals().values() if seal.outcomes]
        names = dict.fromkeys(name for seal in seals for name in seal.outcomes)
        schema = pa.schema([*OUTCOMES, *(pa.field(name, pa.float32()) for name in names)])
        parts = [seals[start : start + TOGETHER] for start in range(0, len(seals), TOGETHER)]
        read = (store.outcomes([seal.trial_id for seal in part]) for part in parts)
        return schema, (pa.concat_tables([schema.empty_table(), each], promote_options="default") for each in read)
    table = {"trials": trials, "evaluations": evaluations, "curves": Store.curves}[view](store)
    return table.schema, [table]


def _typed(table: pa.Table) -> pa.Table:
    """The table with columns of nulls as text, since some tools refuse a column without a type."""
    for place, field in enumerate(table.schema):
        if pa.types.is_null(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(pa.string()))
    return table


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A new file beside `path`, which takes the place of `path` at its end: readers get the old or the new.

    After an exception the file at `path` is what it was before.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
