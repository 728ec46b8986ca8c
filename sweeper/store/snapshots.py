"""The snapshot: a copy of the rows and curves of all trials in one file, so that a large store is read fast.

    snapshots/trials.parquet

The snapshot says of each trial which file it has copied: name, size and version (`FileState`). A reader takes a row
from it only if the file in the store is that file. So a snapshot that is damaged, stale or deleted costs time and
nothing else: it needs no lock, no order of operations, and no repair. It is replaced as a whole; of two writers the
last wins.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sweeper.messages import one_line, printable
from sweeper.store.files import DurableFiles, FileState, StoreError
from sweeper.store.schema import CURVES_COLUMN, SNAPSHOT_FILE, TRIALS, trial_file_name
from sweeper.store.seal import DamagedError, SnapshotSeal, sealed, unsealed
from sweeper.store.trial_file import POINT_ENCODING

logger = logging.getLogger(__name__)

ROWS = pa.schema([("seal", pa.string()), *TRIALS, CURVES_COLUMN])
"""Columns of a trial in a snapshot: its seal, its row and its curves."""

COLUMNS = pa.schema([("file", pa.string()), ("size", pa.int64()), ("version", pa.string()), *ROWS])
"""Columns of a snapshot: the file that was copied, and the trial."""

_GROUP = 10_000  # rows of a row group

_PIECE = 16 * 2**20
"""Bytes of a snapshot that a bucket is asked for at a time: a request takes as long as some megabytes of an answer."""

_UNIQUE = {"file", "version", "seal", "trial_id", "spec", "extra_metrics"}
_OPTIONS: dict[str, Any] = {
    "write_statistics": False,
    "use_dictionary": ["curves.key_value.key", *(name for name in COLUMNS.names if name not in _UNIQUE)],
    "column_encoding": POINT_ENCODING,
    "compression": "zstd",
}


def held(files: DurableFiles, listed: Mapping[str, FileState], columns: Sequence[str]) -> tuple[pa.Table, set[str]]:
    """Some columns of `ROWS` of the trials whose files the snapshot holds as they are listed, and the names of these
    files. A snapshot that cannot be read is passed over loudly.
    """

    def read(file: pa.NativeFile) -> pa.Table:
        _, parquet = unsealed(file, SnapshotSeal, SNAPSHOT_FILE)
        if not parquet.schema_arrow.equals(COLUMNS):
            raise DamagedError("has the columns of another program, or is damaged")
        return parquet.read(list(dict.fromkeys(["file", "size", "version", *columns])))

    try:
        rows = files.parsed(SNAPSHOT_FILE, read, _PIECE)
    except (DamagedError, StoreError, pa.ArrowException, OSError, ValueError) as error:
        logger.warning("%r is not used (%s)", SNAPSHOT_FILE, printable(one_line(str(error))))
        rows = None
    if rows is None:
        return empty(columns), set()
    states = zip(*(rows[name].to_pylist() for name in ("file", "size", "version")), strict=True)
    same = [
        (state := listed.get(name)) is not None and state.size == size and state.version == version != ""
        for name, size, version in states
    ]
    rows = rows.filter(pa.array(same, pa.bool_()))
    return rows.select(columns), set(rows["file"].to_pylist())


def empty(columns: Sequence[str]) -> pa.Table:
    """Some columns of `ROWS` of no trial; without an array, for which pyarrow would import pandas."""
    return pa.Table.from_batches([], pa.schema([ROWS.field(name) for name in columns]))


def write(files: DurableFiles, listed: Mapping[str, FileState], rows: pa.Table) -> None:
    """Replace the snapshot by these rows, which have the columns `ROWS`.

    `listed` has the files of the trials as they were before the rows were read.
    """
    names = list(map(trial_file_name, *(rows[name].to_pylist() for name in ("task", "baseline", "trial_id"))))
    states = [listed[name] for name in names]
    copied = [names, [state.size for state in states], [state.version for state in states]]
    columns = [pa.array(values, field.type) for values, field in zip(copied, COLUMNS, strict=False)]
    table = pa.table([*columns, *rows.columns], COLUMNS).combine_chunks()
    files.write(SNAPSHOT_FILE, sealed(table, SnapshotSeal(), _OPTIONS, _GROUP))
