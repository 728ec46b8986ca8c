"""The committed trials of a store, and the evaluations of their networks: rows and curves of all of them, or of some.

Each trial is one file, of which the wanted columns are read. A reading of the whole store lists the files, takes from
the snapshot what it holds of exactly these files, and reads the others; if those are many, it replaces the snapshot for
the next reader. Damaged files are set aside.

A snapshot is believed after a few of its trials, drawn anew for each reading, were held against their files. One that
says something else is deleted. A reading misses a snapshot that is wrong about a share p of its trials with the
probability (1 - p)^`Reading.held`. So one that is wrong about many is found at once, and one that is wrong about a few
by `verify`, which holds all against their files.
"""

import contextlib
import dataclasses
import itertools
import logging
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import pyarrow as pa

from sweeper.store import snapshots
from sweeper.store.files import DurableFiles, FileState, StoreError, in_threads
from sweeper.store.schema import EVALUATION_FILE, SNAPSHOT_FILE, TRIAL_FILE, named_trial, trial_file_name
from sweeper.store.seal import DamagedError, TrialSeal, row_of, set_aside, text_of, unsealed

logger = logging.getLogger(__name__)

JOINED = 1000  # files whose rows are joined at a time; a table of a single row takes tens of kilobytes


@dataclasses.dataclass(frozen=True)
class Reading:
    """For how many trials a store is read in which way."""

    few: int = 16
    """Largest number of trials whose files are tried in every partition, which is then cheaper than listing the store.
    """
    some: int = 300
    """Largest number of trials whose files are read although the snapshot may hold them."""
    enough: int = 500
    """Number of files that the snapshot lacks from which a reading of the whole store replaces it."""
    held: int = 8
    """Number of trials of the snapshot that each reading holds against their files."""


def read(
    files: DurableFiles, columns: Sequence[str], trial_ids: Iterable[str] | None = None, reading: Reading = Reading()
) -> pa.Table:
    """Some of `snapshots.COLUMNS` of the committed trials, or of those listed; sorted by `trial_id` if that is one."""
    wanted = None if trial_ids is None else set(trial_ids)
    if wanted is not None and len(wanted) <= reading.few:
        partitions = [inner for outer in files.folders("trials") for inner in files.folders(outer)]
        names = [f"{folder}/{key}.parquet" for key in wanted for folder in partitions]
        return _sorted(rows_in(files, [name for name in names if named_trial(name)], columns))
    listed = of_trials(files, "trials", wanted)
    if wanted is not None and len(listed) <= reading.some:
        return _sorted(rows_in(files, list(listed), columns))
    held, names = _held(files, listed, columns, reading)
    left = [name for name in listed if name not in names]
    if wanted is not None or len(left) < reading.enough:
        return _sorted(pa.concat_tables([held, rows_in(files, left, columns)]))
    rows, _ = _whole(files, listed, reading)
    try:
        snapshots.write(files, listed, rows)
    except StoreError as error:
        logger.info("the snapshot could not be replaced: %s", error)
    return rows.select(columns)


def read_files(files: DurableFiles, columns: Sequence[str], trial_ids: Collection[str] | None = None) -> pa.Table:
    """As `read`, from the files alone."""
    return _sorted(rows_in(files, list(of_trials(files, "trials", trial_ids)), columns))


def compact(files: DurableFiles, reading: Reading = Reading()) -> int:
    """Replace the snapshot by one of all trials; returns how many of them it lacked."""
    listed = of_trials(files, "trials")
    rows, lacked = _whole(files, listed, reading)
    if lacked:
        snapshots.write(files, listed, rows)
    return lacked


def verify(files: DurableFiles) -> list[str]:
    """Read all columns of all trials; the ids of those that are damaged, and now set aside.

    A snapshot that says something else of a trial than the trial's file is deleted, with a warning.
    """
    listed = of_trials(files, "trials")
    sound = in_threads(lambda name: row_in(files, name, TRIAL_FILE.names) is not None, list(listed))
    held, _ = snapshots.held(files, listed, snapshots.ROWS.names)
    for start in range(0, held.num_rows, JOINED):
        if _agreeing(files, listed, held.slice(start, JOINED)) is None:
            break
    return sorted(key for name, whole in zip(listed, sound, strict=True) if not whole and (key := named_trial(name)))


def _held(
    files: DurableFiles, listed: Mapping[str, FileState], columns: Sequence[str], reading: Reading
) -> tuple[pa.Table, set[str]]:
    """As `snapshots.held`, of a snapshot of which some rows were held against the files; nothing if one is wrong."""
    held, names = snapshots.held(files, listed, list(dict.fromkeys([*_PROVEN, *columns])))
    if not names:
        return held.select(columns), names
    chosen = random.sample(range(held.num_rows), min(reading.held, held.num_rows))
    drawn = held.take(pa.array(chosen, pa.int64()))
    agreeing = _agreeing(files, listed, drawn)
    if agreeing is None:
        return snapshots.empty(columns), set()
    if gone := {*_names(drawn)} - agreeing:
        held = held.filter(pa.array([name not in gone for name in _names(held)]))
    return held.select(columns), names - gone


_PROVEN = ("trial_id", "task", "baseline", "status", "seal")
"""Columns that are held against the files in every case."""


def _agreeing(files: DurableFiles, listed: Mapping[str, FileState], held: pa.Table) -> set[str] | None:
    """The files that say what these rows of the snapshot say; without those that are gone, or damaged and set aside.

    None if a file says something else; the snapshot is deleted then.
    """
    copied = dict(zip(_names(held), held.to_pylist(), strict=True))
    rows = rows_in(files, list(copied), held.column_names)
    found = dict(zip(_names(rows), rows.to_pylist(), strict=True))
    for name, row in found.items():
        if repr(row) == repr(copied[name]):  # NaN is not itself
            continue
        if files.listing(name.rpartition("/")[0]).get(name) != listed[name]:
            continue  # another result was committed meanwhile
        logger.warning("%r is not used: it is not what the file of %s says", SNAPSHOT_FILE, row["trial_id"])
        with contextlib.suppress(StoreError):  # the next reader finds it wrong as well
            files.delete(SNAPSHOT_FILE)
        return None
    return set(found)


def _names(rows: pa.Table) -> list[str]:
    """The files of rows."""
    return list(map(trial_file_name, *(rows[name].to_pylist() for name in ("task", "baseline", "trial_id"))))


def _whole(files: DurableFiles, listed: Mapping[str, FileState], reading: Reading) -> tuple[pa.Table, int]:
    """The rows of all listed files with all columns of a snapshot, and how many of them the snapshot lacks."""
    held, names = _held(files, listed, snapshots.ROWS.names, reading)
    rows = rows_in(files, [name for name in listed if name not in names], snapshots.ROWS.names)
    return _sorted(pa.concat_tables([held, rows])), rows.num_rows


def _sorted(rows: pa.Table) -> pa.Table:
    ids = rows["trial_id"].to_pylist() if "trial_id" in rows.column_names else []
    return rows if ids == sorted(ids) else rows.combine_chunks().sort_by("trial_id")  # one snapshot has them sorted


def of_trials(
    files: DurableFiles, folder: Literal["trials", "evaluations"], wanted: Collection[str] | None = None
) -> dict[str, FileState]:
    """The files of trials, or of evaluations, or of those of the listed trials; others are warned of."""
    names = {}
    for name, state in files.listing(folder).items():
        trial_id = named_trial(name)
        if trial_id is None:
            logger.warning("%r is not a file of this store: ignored", name)
        elif wanted is None or trial_id in wanted:
            names[name] = state
    return names


def evaluations(files: DurableFiles, seals: Mapping[str, TrialSeal]) -> list[tuple[TrialSeal, pa.Table]]:
    """Seals and rows of the evaluations of the networks that trials have, by the seals of the trials, in the order of
    their names.
    """
    names = sorted(of_trials(files, "evaluations", seals))
    found = in_threads(lambda name: row_in(files, name, EVALUATION_FILE.names), names)
    return [each for each in found if each is not None and each[0].network == seals[each[0].trial_id].network]


def row_in(files: DurableFiles, name: str, columns: Iterable[str]) -> tuple[TrialSeal, pa.Table] | None:
    """The seal and some columns of a file of a trial or an evaluation; None if it is gone, or damaged and set aside."""

    def parse(file: pa.NativeFile) -> tuple[TrialSeal, pa.Table]:
        seal = unsealed(file, TrialSeal, name)
        row = row_of(file, seal.schema, columns)
        for column in ("trial_id", "status"):
            if column in row.column_names and row[column][0].as_py() != getattr(seal, column):
                raise DamagedError(f"contradicts its seal in the column {column!r}")
        return seal, row

    try:
        return files.parsed(name, parse)
    except DamagedError as error:
        set_aside(files, name, error)
        return None


def rows_in(files: DurableFiles, names: Sequence[str], columns: Sequence[str], joined: int = JOINED) -> pa.Table:
    """Some columns of `snapshots.ROWS` of the trials in these files; files that are gone are left out."""
    tables = [snapshots.empty(columns)]
    stored = [name for name in columns if name in TRIAL_FILE.names]
    waiting = iter(names)
    while group := list(itertools.islice(waiting, joined)):
        if rows := [row for row in in_threads(lambda name: row_in(files, name, stored), group) if row is not None]:
            tables.append(_joined(rows, columns))
    return pa.concat_tables(tables)


def _joined(rows: Sequence[tuple[TrialSeal, pa.Table]], columns: Sequence[str]) -> pa.Table:
    values = pa.concat_tables([row for _, row in rows]).combine_chunks()
    seals = [seal for seal, _ in rows]
    further = {"seal": map(text_of, seals), "task": (s.task for s in seals), "baseline": (s.baseline for s in seals)}
    arrays = [pa.array(further[name], pa.string()) if name in further else values[name] for name in columns]
    return pa.table(arrays, list(columns))
