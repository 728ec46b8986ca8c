"""The views that SQL and exports know, and a view as one file.

`trials` has one row a trial: the columns of the store, and as further columns every entry of the trial's specification,
every metric that has no column of its own, and the lists `tags` and `notes`. It shows the current versions of tasks,
models and numerics; `all_trials` shows all versions. `evaluations` has the columns of `trials` and one row for every
evaluation of a stored network. `sweeps` has one row for every trial that the latest start of a sweep planned, whether
it is committed or not. `curves` and `outcomes` are those of the store.

In CSV and JSON there is no NaN and no infinity: they are null, and the words that specifications use. A map is an
object.
"""

import contextlib
import datetime
import decimal
import json
import math
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sweeper.analysis.recorded_spaces import has_halving, recorded_space
from sweeper.analysis.results import column, current, evaluations_of, named
from sweeper.messages import cell
from sweeper.progress import doing
from sweeper.store.annotations import NO_ANNOTATIONS, read_annotations
from sweeper.store.store import CURVES, OUTCOMES, TRIALS, Store, SweepRecord
from sweeper.store.sweep_records import latest_starts
from sweeper.trial.entry_names import column_name, decoded

TEXTS = pa.list_(pa.string())

ViewName = Literal["trials", "evaluations", "curves", "outcomes"]

FORMATS = (".parquet", ".csv")

TOGETHER = 16  # trials whose outcomes are in memory at a time; those of one may take eight million bytes


def trials(store: Store) -> pa.Table:
    return annotated(store, named(current(store.trials())))


def annotated(store: Store, rows: pa.Table) -> pa.Table:
    """Named rows of trials with two further columns, the lists of the tags and notes of each trial."""
    of_trials = read_annotations(store.files).trials
    every = [of_trials.get(trial_id, NO_ANNOTATIONS) for trial_id in rows["trial_id"].to_pylist()]
    lists = {"tags": [each.tags for each in every], "notes": [each.texts for each in every]}
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
    for name, record in latest_starts(store.sweeps()).items():
        (number_of, won), of_sweep = _searches(record, store), annotations.get(name, NO_ANNOTATIONS)
        for trial_id in record.trial_ids:
            search = number_of.get(trial_id)
            winner = None if search is None else trial_id in won
            rows.append((name, trial_id, search, winner, of_sweep.tags, of_sweep.texts))
            variables.append(record.variables.get(trial_id, {}))
    table = pa.Table.from_pylist([dict(zip(SWEEPS.names, row, strict=True)) for row in rows], SWEEPS)
    for path in dict.fromkeys(path for own in variables for path in own):
        table = table.append_column(column_name(path), column([decoded(own.get(path)) for own in variables]))
    return table


def _searches(record: SweepRecord, store: Store) -> tuple[dict[str, int], frozenset[str]]:
    """The number of the search of every trial of a successive halving, and the winners."""
    space = recorded_space(record, store) if has_halving(record) else None  # to expand a large space takes seconds
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


def write_view(store: Store, view: ViewName, path: Path, raw: bool = False) -> int:
    """Write a view of a store as one file, which replaces a file of the same name, and return its number of rows.

    The file ends in one of `FORMATS`. Lists are JSON text in a CSV file; for `raw` see `csv_table`.
    """
    rows, csv = 0, path.suffix == ".csv"

    def convert(table: pa.Table) -> pa.Table:
        table = csv_table(table, raw) if csv else table
        # Some tools refuse a column of nulls, which has no type.
        typed = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in table.schema]
        return table.cast(pa.schema(typed, table.schema.metadata))

    with replaced(path) as new, doing(f"writing {path.name}"):
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
    table = VIEWS[view].rows(store)
    return table.schema, [table]


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


def json_value(value: Any, kind: pa.DataType) -> Any:
    """The value of a column of a type as JSON can hold it, at every depth."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {_key(json_value(key, kind.key_type)): json_value(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {part.name: json_value(value[part.name], part.type) for part in kind}
    if isinstance(value, list):
        return [json_value(item, kind.value_type) for item in value]
    if isinstance(value, pa.MonthDayNano):  # as ISO 8601 writes a duration
        return f"P{value.months}M{value.days}DT{value.nanoseconds / 1e9}S"
    if isinstance(value, bytes):
        return value.decode("ascii", errors="backslashreplace")
    if isinstance(value, float | decimal.Decimal):
        number = float(value)
        return number if math.isfinite(number) else None if math.isnan(number) else str(number)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value if isinstance(value, str | bool | int | float) else str(value)


def _key(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def json_texts(column: pa.ChunkedArray) -> list[str | None]:
    """The values of a column as texts: JSON of lists, structs and maps."""
    values = [json_value(value, column.type) for value in column.to_pylist()]
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


def csv_table(table: pa.Table, raw: bool = False) -> pa.Table:
    """The table with texts where CSV has no form; no cell is a formula (`messages.cell`) unless all is to be raw."""
    of_none = (pa.types.is_nested, pa.types.is_interval, pa.types.is_binary, pa.types.is_large_binary)
    for place, field in enumerate(table.schema):
        if any(is_of(field.type) for is_of in of_none):
            table = table.set_column(place, field.name, pa.array(json_texts(table.column(place)), pa.string()))
    if raw:
        return table
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            texts = [text if text is None else cell(text) for text in table.column(place).to_pylist()]
            table = table.set_column(place, field, pa.array(texts, field.type))
    return table.rename_columns(list(map(cell, table.column_names)))
