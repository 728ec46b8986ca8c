"""The committed trials of a store: rows and curves of all of them, or of some.

Each trial is one file, and its tail holds the row and the curves. A reading of the whole store lists the files, takes
from snapshots what they hold of exactly these files, and decodes the tails of the others; if those are many, it leaves
a new snapshot for the next reader. Damaged files are set aside.
"""

import dataclasses
import itertools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa

from sweeper.store import snapshots
from sweeper.store.files import DurableFiles, FileState, StoreError, in_threads
from sweeper.store.schema import TRIAL_FILE, named_trial
from sweeper.store.seal import DamagedError, Tail, TrialSeal, set_aside, tail_of, text_of, unsealed
from sweeper.store.trial_file import decoded

logger = logging.getLogger(__name__)

JOINED = 1000  # files whose rows are joined at a time; a table of a single row takes tens of kilobytes


@dataclasses.dataclass(frozen=True)
class Reading:
    """For how many trials a store is read in which way."""

    few: int = 16
    """Largest number of trials whose files are tried in every partition, which is then cheaper than listing the store.
    """
    some: int = 300
    """Largest number of trials whose files are read although snapshots may hold them."""
    enough: int = 500
    """Number of files without a snapshot from which a reading of the whole store leaves one."""


def read(
    files: DurableFiles, columns: Sequence[str], trial_ids: Iterable[str] | None = None, reading: Reading = Reading()
) -> pa.Table:
    """Some of `snapshots.COLUMNS` of the committed trials, or of those listed; sorted by `trial_id` if that is one."""
    wanted = None if trial_ids is None else set(trial_ids)
    if wanted is not None and len(wanted) <= reading.few:
        partitions = [inner for outer in files.folders("trials") for inner in files.folders(outer)]
        names = [f"{folder}/{key}.parquet" for key in wanted for folder in partitions]
        return _sorted(rows_in(files, [name for name in names if named_trial(name)], columns))
    listed = _trials(files.listing("trials"), wanted)
    if wanted is not None and len(listed) <= reading.some:
        return _sorted(rows_in(files, list(listed), columns))
    covered, tables = snapshots.covered(files, listed, columns)
    left = [name for name in listed if name not in covered]
    keep = wanted is None and len(left) >= reading.enough
    rows = rows_in(files, left, snapshots.COLUMNS.names if keep else columns)
    if keep and rows.num_rows:
        try:
            snapshots.add(files, listed, rows)
        except StoreError as error:
            logger.info("a snapshot could not be written: %s", error)
    return _sorted(pa.concat_tables([*tables, rows.select(columns)]))


def compact(files: DurableFiles) -> int:
    """Write a snapshot of the trials that have none; returns how many these are."""
    listed = _trials(files.listing("trials"), None)
    covered, _ = snapshots.covered(files, listed, ["trial_id"])
    rows = rows_in(files, [name for name in listed if name not in covered], snapshots.COLUMNS.names)
    if rows.num_rows:
        snapshots.add(files, listed, rows)
    return rows.num_rows


def _sorted(rows: pa.Table) -> pa.Table:
    ids = rows["trial_id"].to_pylist() if "trial_id" in rows.column_names else []
    return rows if ids == sorted(ids) else rows.combine_chunks().sort_by("trial_id")  # one snapshot has them sorted


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


def rows_in(files: DurableFiles, names: Sequence[str], columns: Sequence[str], joined: int = JOINED) -> pa.Table:
    """Some of `snapshots.COLUMNS` of the trials in these files; files that are gone are left out."""
    tables = [snapshots.COLUMNS.empty_table().select(columns)]
    stored = [name for name in columns if name in TRIAL_FILE.names]
    waiting = iter(names)
    while group := list(itertools.islice(waiting, joined)):
        rows = []
        # Threads wait for files; they would only get into each other's way while they decode.
        for name, tail in zip(group, in_threads(lambda name: tail_of(files, name), group), strict=True):
            if tail is not None:
                try:
                    seal = unsealed(tail, TrialSeal, name)
                    rows.append((seal, tail, decoded(tail.padded(), seal, stored)))
                except DamagedError as error:
                    set_aside(files, name, error)
        if rows:
            tables.append(_joined(rows, columns))
    return pa.concat_tables(tables)


def _joined(rows: Sequence[tuple[TrialSeal, Tail, pa.Table]], columns: Sequence[str]) -> pa.Table:
    values = pa.concat_tables([table for _, _, table in rows]).combine_chunks()
    further = {
        "file": lambda seal, tail: seal.name, "size": lambda seal, tail: tail.size,
        "digest": lambda seal, tail: tail.digest, "seal": lambda seal, tail: text_of(seal),
        "task": lambda seal, tail: seal.task, "baseline": lambda seal, tail: seal.baseline,
        "version": lambda seal, tail: "",
    }  # fmt: skip
    arrays = [
        pa.array([further[name](seal, tail) for seal, tail, _ in rows], snapshots.COLUMNS.field(name).type)
        if name in further
        else values[name]
        for name in columns
    ]
    return pa.table(arrays, list(columns))
