"""The committed trials of a store, and the evaluations of their networks: rows and curves of all of them, or of some.

Each trial is one file, of which the wanted columns are read. A reading lists the files, takes from the snapshot what it
holds of exactly these files, and reads the others. If a reading of the whole store had to read many, it replaces the
snapshot for the next reader. Damaged files are set aside.
"""

import itertools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import pyarrow as pa

from sweeper.store import snapshots
from sweeper.store.files import DurableFiles, FileState, StoreError, in_threads
from sweeper.store.schema import EVALUATION_FILE, TRIAL_FILE, named_trial
from sweeper.store.seal import DamagedError, TrialSeal, row_of, set_aside, text_of, unsealed

logger = logging.getLogger(__name__)

JOINED = 1000  # files whose rows are joined at a time; a table of a single row takes tens of kilobytes

ENOUGH = 500
"""Number of files that the snapshot lacks from which a reading of the whole store replaces it."""


def read(files: DurableFiles, columns: Sequence[str], trial_ids: Iterable[str] | None = None) -> pa.Table:
    """Some of `snapshots.ROWS` of the committed trials, or of those listed; sorted by `trial_id` if that is one."""
    wanted = None if trial_ids is None else set(trial_ids)
    listed = of_trials(files, "trials", wanted)
    held, names = snapshots.held(files, listed, columns)
    left = [name for name in listed if name not in names]
    if wanted is not None or len(left) < ENOUGH:
        return _sorted(pa.concat_tables([held, rows_in(files, left, columns)]))
    rows, _ = _whole(files, listed)
    try:
        snapshots.write(files, listed, rows)
    except StoreError as error:
        logger.info("the snapshot could not be replaced: %s", error)
    return rows.select(columns)


def compact(files: DurableFiles) -> int:
    """Replace the snapshot by one of all trials; returns how many of them it lacked."""
    listed = of_trials(files, "trials")
    rows, lacked = _whole(files, listed)
    if lacked:
        snapshots.write(files, listed, rows)
    return lacked


def verify(files: DurableFiles) -> list[str]:
    """Read all columns of all trials; the ids of those that are damaged, and now set aside."""
    names = list(of_trials(files, "trials"))
    sound = in_threads(lambda name: row_in(files, name, TRIAL_FILE.names) is not None, names)
    return sorted(key for name, whole in zip(names, sound, strict=True) if not whole and (key := named_trial(name)))


def _whole(files: DurableFiles, listed: Mapping[str, FileState]) -> tuple[pa.Table, int]:
    """The rows of all listed files with all columns of a snapshot, and how many of them the snapshot lacks."""
    held, names = snapshots.held(files, listed, snapshots.ROWS.names)
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
        seal, parquet = unsealed(file, TrialSeal, name)
        return seal, row_of(parquet, seal.schema, columns)

    try:
        return files.parsed(name, parse)
    except DamagedError:
        data = files.read(name)  # whole: it may have been replaced while parts of it were read
    try:
        return None if data is None else parse(pa.BufferReader(data))
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
