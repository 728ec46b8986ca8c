"""One view of a store as one file for other tools, in which every trial stands once.

Tools that read the folders of a store themselves see the files of that moment: rows that are being compacted appear
twice, and so may curves whose row was refused. A file that is made here holds exactly the rows that `Store` counts, and
appears under its name as a whole.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sweeper.analysis.replaced_file import replaced
from sweeper.analysis.views import evaluations, trials
from sweeper.store.schema import DetailTable
from sweeper.store.store import Store

ViewName = Literal["trials", "evaluations", DetailTable]

FORMATS = (".parquet", ".csv")

_ATTEMPTS = 5  # attempts to scan a store that is being compacted; each compaction can spoil one attempt


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
        pyarrow.ArrowException: files of the store vanished in every attempt to read it.
    """
    with replaced(path) as new:
        for _ in range(_ATTEMPTS - 1):
            # A file of curves or outcomes is damaged, or was compacted since the store was listed.
            with contextlib.suppress(pa.ArrowException, FileNotFoundError):
                return _write(store, view, new, path.suffix)
            if view == "curves" or view == "outcomes":
                store.verify(view)
        return _write(store, view, new, path.suffix)


def _write(store: Store, view: ViewName, path: Path, suffix: str) -> int:
    schema, batches = _batches(store, view)
    convert = _texts if suffix == ".csv" else _typed
    schema = convert(schema.empty_table()).schema
    rows = 0
    writer = pyarrow.csv.CSVWriter(path, schema) if suffix == ".csv" else pq.ParquetWriter(path, schema)
    with writer:
        for batch in batches:
            writer.write_table(convert(pa.Table.from_batches([batch])))
            rows += batch.num_rows
    return rows


def _batches(store: Store, view: ViewName) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if view == "trials" or view == "evaluations":
        table = trials(store) if view == "trials" else evaluations(store)
        return table.schema, iter(table.to_batches())
    dataset = store.dataset(view)
    return dataset.schema, iter(dataset.to_batches())


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
