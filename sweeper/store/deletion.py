"""Deleting trials with all that belongs to them, and the records of sweeps.

Notes and tags of a trial go before its row, as afterwards nobody knows that they should go. The row goes before all
other files, so that a deletion that is killed leaves trials that are there as a whole or pending. Files that such a
deletion has left without their row are invisible, and the next deletion removes them. Trials leave a compacted file by
giving all others files of their own again.

The records of a sweep go last, the latest start after all others: until then the same deletion can be asked for again.
"""

import time
from collections.abc import Collection, Iterable
from typing import NamedTuple, get_args

from sweeper.store.annotations import Subject, remove_annotations
from sweeper.store.committed_rows import read_entries
from sweeper.store.compacted_files import dissolve_holders
from sweeper.store.file_names import is_compacted, is_evaluation_name, is_file_name, title
from sweeper.store.files import LEFTOVER_SECONDS, DurableFiles, FileState, StoreError
from sweeper.store.schema import Detail, Status
from sweeper.store.store import Store
from sweeper.store.sweep_records import (
    SweepRecord,
    check_name,
    latest_starts,
    remove_records,
    unknown_sweep,
    unreadable_records,
)


class Doomed(NamedTuple):
    """What a deletion takes.

    Attributes:
        sweep: The sweep whose records go; None if records stay.
        trials: Status of the committed trials that go, by id.
        shared: Number of trials of the sweep that stay, because another sweep planned them.
        planned: Ids of all trials that may have left files: those of `trials`, and those without a row.
        size: Bytes of the files of the trials in files of their own; compacted rows and curves do not count.
    """

    sweep: str | None
    trials: dict[str, Status]
    shared: int
    planned: frozenset[str]
    size: int


def of_sweep(store: Store, sweep: str, statuses: Collection[Status] = ()) -> Doomed:
    """A sweep's own trials, which no start of another sweep planned, with the sweep's records.

    Args:
        store: The store.
        sweep: The name.
        statuses: Only trials of these statuses; then the records stay. Empty for all.

    Raises:
        StoreError: there is no such sweep, or the store cannot be read.
    """
    records = _records(store)
    check_name(sweep)
    if not store.listing(f"sweeps/{sweep}"):  # a deletion that was killed may have left plans without a start
        raise unknown_sweep(sweep, (record.name for record in records))
    planned = _planned(record for record in records if record.name == sweep)
    others = _planned(record for record in records if record.name != sweep)
    chosen = _chosen(store, planned, statuses)
    own: dict[str, Status] = {key: status for key, status in chosen.items() if key not in others}
    left = frozenset(own) if statuses else frozenset(planned - others)
    return Doomed(None if statuses else sweep, own, len(chosen) - len(own), left, _size(store.files, left))


def of_status(store: Store, statuses: Collection[Status]) -> Doomed:
    """All trials of these statuses."""
    trials = _chosen(store, None, statuses)
    return Doomed(None, trials, 0, frozenset(trials), _size(store.files, trials))


def of_no_sweep(store: Store) -> Doomed:
    """The trials that the latest start of no sweep planned."""
    planned = _planned(latest_starts(_records(store)).values())
    trials: dict[str, Status] = {key: status for key, status in store.committed().items() if key not in planned}
    return Doomed(None, trials, 0, frozenset(trials), _size(store.files, trials))


def delete(store: Store, doomed: Doomed) -> int:
    """Delete trials and records; returns how many files without a row earlier deletions and crashes had left.

    Raises:
        StoreError: the store cannot be written, or another process is compacting it. The same deletion carries on.
    """
    files = store.files
    _take_out(files, doomed.trials)
    remove_annotations(files, Subject(trial_ids=doomed.planned))
    names = {kind: files.listing(kind) for kind in ("trials", *get_args(Detail), "evaluations")}
    for path in names["trials"]:
        if not is_compacted(path) and title(path) in doomed.trials:
            files.delete(path)
    rows = {entry.seal.trial_id for entry in store.entries()}
    for kind in (*get_args(Detail), "evaluations"):
        for path in names[kind]:
            if _owner(path) in doomed.planned - rows:
                files.delete(path)
    left = _orphans(files, rows)
    for path in left:
        files.delete(path)
    if doomed.sweep is not None:
        remove_annotations(files, Subject(doomed.sweep))
        remove_records(files, doomed.sweep)
    return len(left)


def _records(store: Store) -> list[SweepRecord]:
    """All starts of all sweeps.

    Raises:
        StoreError: a start cannot be read. Its trials would look as if no sweep planned them.
    """
    unreadable = unreadable_records(store.files)
    if unreadable:
        raise StoreError(
            f"{unreadable[0]!r} cannot be read, so that nobody knows which trials it planned: mend or remove it first"
        )
    return store.sweeps()


def _chosen(store: Store, planned: Collection[str] | None, statuses: Collection[Status]) -> dict[str, Status]:
    """The committed trials among those planned (None: all trials) that have one of the statuses (empty: any)."""
    return {
        key: status
        for key, status in store.committed().items()
        if (planned is None or key in planned) and (not statuses or status in statuses)
    }


def _planned(records: Iterable[SweepRecord]) -> set[str]:
    return {trial_id for record in records for trial_id in record.trial_ids}


def _take_out(files: DurableFiles, trial_ids: Collection[str]) -> None:
    """Leaves no row of the trials in compacted files."""
    reading = read_entries(files)
    doomed = [entry for entry in (*reading.entries, *reading.doubles) if entry.seal.trial_id in trial_ids]
    # Nothing goes while another process compacts, so notes and tags wait as well until the store is held.
    subject = Subject(trial_ids=frozenset(trial_ids))
    dissolve_holders(files, doomed, trial_ids, lambda: remove_annotations(files, subject))


def _owner(path: str) -> str | None:
    """The trial that a file belongs to; None for a file of many trials, and for a file that is not of a store."""
    kind, _, name = path.partition("/")
    if kind == "evaluations":
        return title(name).partition("-")[0] if is_evaluation_name(name) else None
    row = name.removesuffix(".safetensors") + ".parquet" if kind == "networks" else name
    return title(row) if is_file_name(row) and not is_compacted(row) else None


def _orphans(files: DurableFiles, rows: Collection[str]) -> list[str]:
    """Files of trials without a row that are too old to wait for a row."""
    long_ago = (time.time() - LEFTOVER_SECONDS) * 1e9

    def abandoned(path: str, state: FileState) -> bool:
        owner = _owner(path)
        return owner is not None and owner not in rows and state.modified < long_ago

    listed = [files.listing(kind) for kind in (*get_args(Detail), "evaluations")]
    return [path for names in listed for path, state in names.items() if abandoned(path, state)]


def _size(files: DurableFiles, trial_ids: Collection[str]) -> int:
    listed = [files.listing(kind) for kind in ("trials", *get_args(Detail), "evaluations")]
    return sum(state.size for names in listed for path, state in names.items() if _owner(path) in trial_ids)
