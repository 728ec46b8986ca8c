"""Snapshots: copies of the rows and curves of many trials in one file, so that a large store is read fast.

    snapshots/<digits>.parquet

A snapshot says of each trial which file it has copied: name, size, version (time of modification, or ETag) and digest.
A reader takes a row from a snapshot only if the file in the store is that file. So a snapshot that is damaged, stale,
half there or deleted costs time and nothing else: it needs no lock, no order of operations, and no repair.

Where times of modification were lost (git, cp), the digest at the end of the file decides. It also decides where a time
says too little: a file that was written within `TICK` of the newest file of a listing could have been replaced since,
in the same tick of a clock, so the snapshot has no version of it.

A new snapshot takes in those that are not much larger than itself, so that a store has few, and rows are copied rarely.
"""

import contextlib
import hashlib
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.store.files import DurableFiles, FileState, StoreError, in_threads
from sweeper.store.schema import CURVES_COLUMN, TRIALS, trial_file_name
from sweeper.store.seal import DamagedError, SnapshotSeal, sealed, tail_of, unsealed
from sweeper.store.trial_file import POINT_ENCODING, check_metrics, check_specs

logger = logging.getLogger(__name__)

COLUMNS = pa.schema([
    ("file", pa.string()), ("size", pa.int64()), ("version", pa.string()), ("digest", pa.string()),
    ("seal", pa.string()), *TRIALS, CURVES_COLUMN,
])  # fmt: skip
"""Columns of a snapshot: the file that was copied, its seal, and its row and curves."""

TICK = 2 * 10**9  # nanoseconds: no clock of a file system or an object store is coarser
ROWS = 10_000  # rows of a row group

DECODED_LIMIT = 16 * 2**30
"""Bytes that the columns of a snapshot may take when they are decoded; a million trials take about five billion."""


def covered(
    files: DurableFiles, listed: Mapping[str, FileState], columns: Sequence[str], largest: int = DECODED_LIMIT
) -> tuple[set[str], list[pa.Table]]:
    """The listed files of trials that snapshots hold, and their rows; unreadable snapshots are passed over loudly, as
    are those that would take more than `largest` bytes.
    """
    names: set[str] = set()
    tables: list[pa.Table] = []
    for name in _names(files):
        try:
            snapshot = _Snapshot(files, name, largest)
            current = snapshot.current(listed, names)
            rows = snapshot.rows(columns, current)
        except FileNotFoundError:
            continue  # a newer snapshot has taken its place
        except (StoreError, *_UNREADABLE) as error:
            logger.warning("%r is not used (%s)", name, " ".join(str(error).split()))
            continue
        names.update(current)
        tables.append(rows)
    return names, tables


def add(files: DurableFiles, listed: Mapping[str, FileState], rows: pa.Table) -> None:
    """Write a snapshot of rows that no snapshot has, with the columns `COLUMNS`.

    `listed` has the files of all trials as they were before the rows were read.
    """
    newest = max(state.modified for state in listed.values())
    states = [listed[name] for name in rows["file"].to_pylist()]
    versions = [state.version if state.etag or state.modified < newest - TICK else "" for state in states]
    tables = [rows.set_column(COLUMNS.get_field_index("version"), "version", pa.array(versions, pa.string()))]
    replaced = _joined(files, listed, tables)
    table = pa.concat_tables(tables).combine_chunks().sort_by("trial_id")
    data = sealed(table, SnapshotSeal(), _OPTIONS, None, ROWS)
    name = f"snapshots/{hashlib.blake2b(data, digest_size=10).hexdigest()}.parquet"
    files.write(name, data)
    for each in replaced:
        if each != name:
            files.delete(each)


def _joined(files: DurableFiles, listed: Mapping[str, FileState], tables: list[pa.Table]) -> list[str]:
    """Adds the rows of snapshots that are not much larger than `tables` to these; returns which can be deleted."""
    count, taken = tables[0].num_rows, set(tables[0]["file"].to_pylist())
    replaced, readable = [], []
    for name in _names(files):
        try:
            snapshot = _Snapshot(files, name)
            readable.append((snapshot, snapshot.current(listed, taken)))
        except StoreError:
            continue
        except _UNREADABLE:
            replaced.append(name)
        else:
            taken.update(readable[-1][1])
    for snapshot, current in sorted(readable, key=lambda each: len(each[1])):
        if len(current) <= 2 * count or 2 * len(current) < snapshot.count:
            replaced.append(snapshot.name)
            with contextlib.suppress(*_UNREADABLE):
                tables.append(snapshot.rows(COLUMNS.names, current))
                count += len(current)
    return replaced


_NAME = re.compile(r"snapshots/[0-9a-f]{20}\.parquet")
_UNREADABLE = (DamagedError, pa.ArrowException, OSError)
_UNIQUE = {"file", "digest", "seal", "trial_id", "spec", "extra_metrics"}
_OPTIONS: dict[str, Any] = {
    "write_statistics": False,
    "use_dictionary": ["curves.key_value.key", *(name for name in COLUMNS.names if name not in _UNIQUE)],
    "column_encoding": POINT_ENCODING,
    "compression": "zstd",
}


def _names(files: DurableFiles) -> list[str]:
    return [name for name in files.listing("snapshots") if _NAME.fullmatch(name)]


class _Snapshot:
    """An open snapshot, whose footer is proven."""

    def __init__(self, files: DurableFiles, name: str, largest: int = DECODED_LIMIT) -> None:
        """Open it; a snapshot that is gone is a `FileNotFoundError`, a damaged one any error in `_UNREADABLE`."""
        self.name, self._files = name, files
        tail, source = tail_of(files, name), files.opened(name)
        if tail is None or source is None:
            raise FileNotFoundError(name)
        unsealed(tail, SnapshotSeal, name)
        self._file = pq.ParquetFile(source, pre_buffer=True, page_checksum_verification=True)
        metadata = self._file.metadata
        size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
        self.count = metadata.num_rows
        if size + 8 * self.count * metadata.num_columns > largest or not self._file.schema_arrow.equals(COLUMNS):
            raise DamagedError("does not have the columns of a snapshot")

    def current(self, listed: Mapping[str, FileState], taken: Collection[str]) -> dict[str, int]:
        """Positions of the rows of listed files as they are now, by file, without those that were taken already."""
        index = self._file.read(["file", "size", "version", "digest"])
        index.validate(full=True)
        names, sizes, versions, digests = (column.to_pylist() for column in index.columns)
        current, doubtful = {}, []
        for place, name in enumerate(names):
            state = listed.get(name)
            if state is not None and state.size == sizes[place] and name not in taken:
                if state.version == versions[place]:
                    current[name] = place
                else:
                    doubtful.append(place)
        same = in_threads(lambda place: self._digest(names[place]) == digests[place], doubtful)
        return current | {names[place]: place for place, equal in zip(doubtful, same, strict=True) if equal}

    def _digest(self, name: str) -> str | None:
        tail = tail_of(self._files, name)
        return None if tail is None else tail.digest

    def rows(self, columns: Sequence[str], positions: Mapping[str, int]) -> pa.Table:
        """The rows at these positions; a `DamagedError` if they contradict themselves."""
        table = self._file.read(list(dict.fromkeys([*columns, "file", "trial_id", "task", "baseline"])))
        table.validate(full=True)  # texts are UTF-8
        if len(positions) < table.num_rows:
            table = table.take(pa.array(sorted(positions.values()), pa.int64()))
        names, ids, tasks, baselines = (table[name].to_pylist() for name in ("file", "trial_id", "task", "baseline"))
        if names != list(map(trial_file_name, tasks, baselines, ids)):
            raise DamagedError("has rows of other trials than their files")
        if "spec" in columns:
            check_specs(table["spec"].to_pylist(), zip(tasks, baselines, strict=True))
        if "extra_metrics" in columns:
            check_metrics(table["extra_metrics"].to_pylist())
        return table.select(columns)
