"""Deleting trials with all that belongs to them, and the records of sweeps.

Notes and tags of a trial go before its file, as afterwards nobody knows that they should go; its evaluations go last.
So a deletion that is killed leaves trials that are there as a whole or pending. Evaluations that such a deletion has
left are invisible, and the next deletion removes them.

A trial that was chosen by its status, or because no sweep plans it, stays if a start has run it again meanwhile.

The starts of a sweep go at the end: until then the same deletion can be asked for again.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sweeper.events import Status
from sweeper.store.annotations import Subject, remove_annotations
from sweeper.store.committed_trials import rows_in
from sweeper.store.files import DurableFiles
from sweeper.store.schema import named_trial
from sweeper.store.store import Store
from sweeper.store.sweep_records import (
    SweepRecord,
    latest_starts,
    read_records,
    remove_starts,
    start_files,
    unknown_sweep,
)


class Deletion(NamedTuple):
    """What a deletion takes."""

    sweep: str | None  # the sweep whose records go; None if records stay
    trials: dict[str, Status]  # status of the committed trials that go, by id
    shared: int  # number of trials of the sweep that stay, because another sweep planned them
    planned: frozenset[str]  # all trials that may have left files: those of `trials`, and those that are not committed
    size: int  # bytes of the files of the trials


def of_sweep(store: Store, sweep: str, status: Status | None = None) -> Deletion:
    """A sweep's own trials, which no start of another sweep planned, with the sweep's records.

    With a status only the trials that have it, and the records stay.
    """
    records = read_records(store.files, strict=True)
    if sweep not in (names := {record.name for record in records}):
        raise unknown_sweep(sweep, names)
    planned = _planned(record for record in records if record.name == sweep)
    others = _planned(record for record in records if record.name != sweep)
    chosen = _chosen(store, planned, status)
    own: dict[str, Status] = {key: found for key, found in chosen.items() if key not in others}
    left = frozenset(planned - others if status is None else own)
    return Deletion(sweep if status is None else None, own, len(chosen) - len(own), left, _size(store, left))


def of_status(store: Store, status: Status | None) -> Deletion:
    trials = _chosen(store, None, status)
    return Deletion(None, trials, 0, frozenset(trials), _size(store, trials))


def of_no_sweep(store: Store) -> Deletion:
    """The trials that the latest start of no sweep planned."""
    planned = planned_trials(store)
    trials: dict[str, Status] = {
        key: status for key, status in _chosen(store, None, None).items() if key not in planned
    }
    return Deletion(None, trials, 0, frozenset(trials), _size(store, trials))


def planned_trials(store: Store) -> set[str]:
    """Ids of the trials that the latest start of any sweep planned."""
    return _planned(latest_starts(read_records(store.files, strict=True)).values())


def delete(store: Store, deletion: Deletion) -> int:
    """Delete trials and records; returns how many evaluations without a trial earlier deletions had left.

    After an error the same deletion carries on.
    """
    files = store.files
    remove_annotations(files, Subject(trial_ids=deletion.planned))
    for name in files.listing("trials"):
        trial_id = named_trial(name)
        if trial_id is not None and trial_id in deletion.trials:
            status = None if deletion.sweep else deletion.trials[trial_id]
            files.delete(name, keep=lambda name=name, status=status: _is_another(files, name, status))
    # Listed before the trials are: an evaluation comes after its trial.
    evaluations, left = files.listing("evaluations"), 0
    there = set(map(named_trial, files.listing("trials")))
    for name in evaluations:
        trial_id = named_trial(name)
        if trial_id is not None and trial_id not in there:
            files.delete(name)
            left += trial_id not in deletion.planned
    if deletion.sweep is not None:
        remove_annotations(files, Subject(deletion.sweep))
        remove_starts(files, deletion.sweep, start_files(files, deletion.sweep))
    return left


def _is_another(files: DurableFiles, name: str, status: Status | None) -> bool:
    """Whether the trial in a file is not seen to have the status: a start has run it again, or it is out of sight."""
    return status is not None and rows_in(files, [name], ["status"])["status"].to_pylist() != [status]


def _chosen(store: Store, planned: Collection[str] | None, status: Status | None) -> dict[str, Status]:
    """The committed trials among those planned (None: all trials) that have the status (None: any)."""
    seals = store.seals_in_files(planned)
    return {key: seal.status for key, seal in seals.items() if status in (None, seal.status)}


def _planned(records: Iterable[SweepRecord]) -> set[str]:
    # All records must be readable: else trials would look as if no sweep planned them.
    return {trial_id for record in records for trial_id in record.trial_ids}


def _size(store: Store, trial_ids: Collection[str]) -> int:
    """Bytes of the files of trials and of their evaluations."""
    listings = map(store.files.listing, ("trials", "evaluations"))
    states = [each for listing in listings for each in listing.items()]
    return sum(state.size for name, state in states if named_trial(name) in trial_ids)
