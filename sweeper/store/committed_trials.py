"""The committed trials of a store: rows and curves of all of them, or of some.

Each trial is one file, and its tail holds the row and the curves. A reading of the whole store lists the files, takes
from snapshots what they hold of exactly these files, and decodes the tails of the others; if those are many, it leaves
a new snapshot for the next reader. Nothing else is moved or deleted here: damaged files are reported.
"""

import itertools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from sweeper.store import snapshots
from sweeper.store.file_names import named_trial
from sweeper.store.files import DurableFiles, FileState, StoreError, in_threads
from sweeper.store.schema import TRIAL_FILE
from sweeper.store.seal import Damage, DamagedError, Tail, TrialSeal, tail_of, text_of, unsealed
from sweeper.store.trial_file import decoded

logger = logging.getLogger(__name__)

FEW = 16
"""Largest number of trials whose files are tried in every partition, which is then cheaper than listing the store."""

SOME = 300  # largest number of trials whose files are read although snapshots may hold them
ENOUGH = 500  # number of files without a snapshot from which a reading of the whole store leaves one
JOINED = 1000  # files whose rows are joined at a time; a table of a single row takes tens of kilobytes


class Reading(NamedTuple):
    """Rows of committed trials, sorted by trial id if that was asked for, and damaged files."""

    rows: pa.Table
    damage: list[Damage]


def read(files: DurableFiles, columns: Sequence[str], trial_ids: Iterable[str] | None = None) -> Reading:
    """Some of `snapshots.COLUMNS` of the committed trials, or of those listed."""
    wanted = None if trial_ids is None else set(trial_ids)
    if wanted is not None and len(wanted) <= FEW:
        partitions = [inner for outer in files.folders("trials") for inner in files.folders(outer)]
        names = [f"{folder}/{key}.parquet" for key in wanted for folder in partitions]
        return _sorted(_decoded_files(files, [name for name in names if named_trial(name)], columns))
    listed = _trials(files.listing("trials"), wanted)
    if wanted is not None and len(listed) <= SOME:
        return _sorted(_decoded_files(files, list(listed), columns))
    covered, tables = snapshots.covered(files, listed, columns)
    left = [name for name in listed if name not in covered]
    keep = wanted is None and len(left) >= ENOUGH
    reading = _decoded_files(files, left, snapshots.COLUMNS.names if keep else columns)
    if keep and reading.rows.num_rows:
        try:
            snapshots.add(files, listed, reading.rows)
        except StoreError as error:
            logger.info("a snapshot could not be written: %s", error)
    return _sorted(reading._replace(rows=pa.concat_tables([*tables, reading.rows.select(columns)])))


def compact(files: DurableFiles) -> Reading:
    """Write a snapshot of the trials that have none; these trials."""
    listed = _trials(files.listing("trials"), None)
    covered, _ = snapshots.covered(files, listed, ["trial_id"])
    reading = _decoded_files(files, [name for name in listed if name not in covered], snapshots.COLUMNS.names)
    if reading.rows.num_rows:
        snapshots.add(files, listed, reading.rows)
    return reading


def _sorted(reading: Reading) -> Reading:
    ids = reading.rows["trial_id"].to_pylist() if "trial_id" in reading.rows.column_names else []
    if ids == sorted(ids):  # as one snapshot has them
        return reading
    return reading._replace(rows=reading.rows.combine_chunks().sort_by("trial_id"))


def _trials(listed: Mapping[str, FileState], wanted: Collection[str] | None) -> dict[str, FileState]:
    """The listed files of trials; others are warned of."""
    names = {}
    for name, state in listed.items():
        trial = named_trial(name)
        if trial is None:
            logger.warning("%r is not a file of this store: ignored", name)
        elif wanted is None or trial[2] in wanted:
            names[name] = state
    return names


def _decoded_files(files: DurableFiles, names: Sequence[str], columns: Sequence[str]) -> Reading:
    """The rows in the files of trials; files that are gone are left out."""
    tables, damage = [snapshots.COLUMNS.empty_table().select(columns)], []
    waiting = iter(names)
    stored = [name for name in columns if name in _STORED]
    while group := list(itertools.islice(waiting, JOINED)):
        # Threads wait for files; they would only get into each other's way while they decode.
        tails = in_threads(lambda name: _tail(files, name), group)
        found = [row_in(name, tail, stored) for name, tail in zip(group, tails, strict=True)]
        damage += [each for each in found if isinstance(each, Damage)]
        rows = [each for each in found if isinstance(each, Row)]
        tables += [_joined(rows, columns)] if rows else []
    return Reading(pa.concat_tables(tables), damage)


class Row(NamedTuple):
    """What was read from the file of a trial: columns of `schema.TRIAL_FILE` in one row, and the digest of its tail."""

    seal: TrialSeal
    values: pa.Table
    size: int
    digest: str


def _tail(files: DurableFiles, name: str) -> Tail | Damage | None:
    """The tail of a file, unproven; None if the file is gone."""
    try:
        return tail_of(files, name)
    except DamagedError as error:
        return Damage(name, str(error))


def row_in(name: str, tail: Tail | Damage | None, columns: Sequence[str]) -> Row | Damage | None:
    """The row in the tail of a file, with some columns of `schema.TRIAL_FILE`."""
    if not isinstance(tail, Tail):
        return tail
    try:
        seal = unsealed(tail, TrialSeal, name)
        return Row(seal, decoded(tail.padded(), seal, columns), tail.size, tail.digest or "")
    except DamagedError as error:
        return Damage(name, str(error))


def seals(files: DurableFiles, names: Sequence[str]) -> dict[str, TrialSeal]:
    """The seals of the trials in these files, by trial id; those that are gone or damaged are left out."""
    tails = in_threads(lambda name: _tail(files, name), names)
    rows = (row_in(name, tail, ()) for name, tail in zip(names, tails, strict=True))
    return {row.seal.trial_id: row.seal for row in rows if isinstance(row, Row)}


def _joined(rows: Sequence[Row], columns: Sequence[str]) -> pa.Table:
    values = pa.concat_tables([row.values for row in rows]).combine_chunks()
    further = {
        "file": lambda row: row.seal.name, "size": lambda row: row.size, "digest": lambda row: row.digest,
        "seal": lambda row: text_of(row.seal), "task": lambda row: row.seal.task,
        "baseline": lambda row: row.seal.baseline, "version": lambda row: "",
    }  # fmt: skip
    arrays = [
        values[name]
        if name in _STORED
        else pa.array([further[name](row) for row in rows], snapshots.COLUMNS.field(name).type)
        for name in columns
    ]
    return pa.table(arrays, list(columns))


_STORED = frozenset(TRIAL_FILE.names)
