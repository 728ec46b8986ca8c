"""The snapshot: a copy of the rows and curves of all trials in one file, so that a large store is read fast.

    snapshots/trials.parquet

The snapshot says of each trial which file it has copied: name, size and version (`FileState`). A reader takes a row
from it only if the file in the store is that file, and if the row does not contradict itself. So a snapshot that is
damaged, stale or deleted costs time and nothing else: it needs no lock, no order of operations, and no repair. It is
replaced as a whole; of two writers the last wins. What copies, deletes or verifies trials reads their files.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.messages import one_line, printable
from sweeper.store.files import DurableFiles, FileState, StoreError
from sweeper.store.schema import CURVES_COLUMN, PARTITION, SNAPSHOT_FILE, TRIALS, trial_file_name
from sweeper.store.seal import DamagedError, SnapshotSeal, sealed, unsealed
from sweeper.store.trial_file import POINT_ENCODING

logger = logging.getLogger(__name__)

ROWS = pa.schema([("seal", pa.string()), *TRIALS, CURVES_COLUMN])
"""Columns of a trial in a snapshot: its seal, its row and its curves."""

COLUMNS = pa.schema([("file", pa.string()), ("size", pa.int64()), ("version", pa.string()), *ROWS])
"""Columns of a snapshot: the file that was copied, and the trial."""

_GROUP = 10_000  # rows of a row group

_BATCH = 1000  # rows that are decoded before the size of all is looked at

EXPANSION, LEAST_BOUND = 1000, 2**26
"""A snapshot may take so many times the bytes of its file when it is decoded, and so many bytes in any case."""

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

    wanted = list(dict.fromkeys([*COLUMNS.names[:4], *PARTITION.names, "trial_id", "status", *columns]))

    def read(file: pa.NativeFile) -> pa.Table:
        unsealed(file, SnapshotSeal, SNAPSHOT_FILE)
        parquet = pq.ParquetFile(file, pre_buffer=True, page_checksum_verification=True)
        batches, bound = [], LEAST_BOUND + EXPANSION * file.size()
        groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
        size = sum(group.total_byte_size for group in groups)
        for batch in parquet.iter_batches(_BATCH, columns=wanted) if size <= bound else ():
            size += batch.nbytes  # a value of a dictionary is written once and decoded many times
            if size > bound:
                break
            batches.append(batch)
        if size > bound:
            raise DamagedError(f"expands to more than {bound:,} bytes")
        return pa.Table.from_batches(batches) if batches else COLUMNS.empty_table()

    try:
        if (rows := files.parsed(SNAPSHOT_FILE, read)) is None:
            return empty(columns), set()
        for name in {*columns} - {*rows.column_names}:  # the snapshot of an older program lacks it
            rows = rows.append_column(name, pa.nulls(rows.num_rows, COLUMNS.field(name).type))
        states = zip(*(rows[name].to_pylist() for name in ("file", "size", "version")), strict=True)
        same = [
            (state := listed.get(name)) is not None and state.size == size and state.version == version != ""
            for name, size, version in states
        ]
        rows = rows.filter(pa.array(same, pa.bool_()))
        sound = rows.filter(pa.array(_agree(rows), pa.bool_()))
        if left := rows.num_rows - sound.num_rows:
            logger.warning("%r contradicts itself about %d files, which are read", SNAPSHOT_FILE, left)
        names = set(sound["file"].to_pylist())
        if len(names) != sound.num_rows:
            raise DamagedError("has two rows of one file")
        return sound.select(columns), names
    except (DamagedError, StoreError, pa.ArrowException, OSError, LookupError) as error:
        logger.warning("%r is not used (%s)", SNAPSHOT_FILE, printable(one_line(str(error))))
        return empty(columns), set()


def empty(columns: Sequence[str]) -> pa.Table:
    """Some columns of `ROWS` of no trial; without an array, for which pyarrow would import pandas."""
    return pa.Table.from_batches([], pa.schema([ROWS.field(name) for name in columns]))


def _agree(rows: pa.Table) -> list[bool]:
    """For each trial whether the name of the file, the seal and the row are about the same trial and the same end."""
    said = zip(
        *(rows[name].to_pylist() for name in ("file", "seal", "trial_id", *PARTITION.names, "status")), strict=True
    )
    return [
        file == trial_file_name(task, baseline, trial_id)
        and (sealed_as := _SEALED_AS.match(seal or "")) is not None
        and sealed_as.groups() == (trial_id, task, baseline, status)
        for file, seal, trial_id, task, baseline, status in said
    ]


_SEALED_AS = re.compile(
    r'\{"kind":"trial","schema_version":\d+,'
    + ",".join(f'"{name}":"([^"]*)"' for name in ("trial_id", *PARTITION.names, "status"))
)
"""How the text of a seal begins: see `seal.text_of`."""


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
