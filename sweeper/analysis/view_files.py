"""One view of a store as one file for other tools, with the names and units of SQL.

Other tools can read the folders of a store themselves. A file that is made here has the further columns of the view,
and appears under its name as a whole.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sweeper.analysis.replaced_file import replaced
from sweeper.analysis.views import evaluations, trials
from sweeper.store.store import OUTCOMES, Store

ViewName = Literal["trials", "evaluations", "curves", "outcomes"]

FORMATS = (".parquet", ".csv")

TOGETHER = 16
"""Trials whose outcomes are in memory at a time; those of a colouring trial take eight million bytes."""


def write_view(store: Store, view: ViewName, path: Path) -> int:
    """Write a view of a store as one file, which replaces a file of the same name.

    Args:
        store: The store.
        view: `trials` or `evaluations` with their further columns, `curves` or `outcomes`.
        path: A file that ends in one of `FORMATS`. Lists are JSON text in a CSV file.

    Returns:
        How many rows the file has.

    Raises:
        StoreError: the store cannot be read.
        OSError: the file cannot be written.
    """
    with replaced(path) as new:
        schema, tables = _tables(store, view)
        return _write(schema, tables, new, path.suffix)


def _write(schema: pa.Schema, tables: Iterable[pa.Table], path: Path, suffix: str) -> int:
    convert = _texts if suffix == ".csv" else _typed
    schema = convert(schema.empty_table()).schema
    rows = 0
    writer = pyarrow.csv.CSVWriter(path, schema) if suffix == ".csv" else pq.ParquetWriter(path, schema)
    with writer:
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


def _texts(table: pa.Table) -> pa.Table:
    """The table with lists as JSON text, since CSV has none."""
    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = [None if value is None else json.dumps(value) for value in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return _typed(table)
