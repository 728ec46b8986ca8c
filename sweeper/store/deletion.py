"""Deleting a sweep with its own trials and all that belongs to them.

Evaluations go before their trials, and the starts of the sweep at the end: until then the same deletion can be asked
for again. So a deletion that is killed leaves trials that are there as a whole or pending, and is carried on.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sweeper.events import Status
from sweeper.store.annotations import Annotation, remove_annotations
from sweeper.store.schema import named_trial
from sweeper.store.store import Store
from sweeper.store.sweep_records import SweepRecord, read_records, remove_starts, unknown_sweep


class Deletion(NamedTuple):
    """What a deletion takes."""

    sweep: str
    trials: dict[str, Status]  # status of the committed trials that go, by id
    shared: int  # number of trials of the sweep that stay, because another sweep planned them
    planned: frozenset[str]  # all trials that no other sweep planned, committed or not


def of_sweep(store: Store, sweep: str) -> Deletion:
    """A sweep and its own trials, which no start of another sweep planned."""
    records = read_records(store.files, strict=True)
    if sweep not in (names := {record.name for record in records}):
        raise unknown_sweep(sweep, names)
    planned = _planned(record for record in records if record.name == sweep)
    own = frozenset(planned - _planned(record for record in records if record.name != sweep))
    seals = store.seals(planned)
    trials: dict[str, Status] = {key: seals[key].status for key in seals if key in own}
    return Deletion(sweep, trials, len(seals) - len(trials), own)


def planned_trials(store: Store) -> set[str]:
    """Ids of the trials that the latest start of any sweep planned."""
    return _planned({record.name: record for record in read_records(store.files, strict=True)}.values())


def delete(store: Store, deletion: Deletion) -> None:
    """Delete a sweep and its trials. After an error the same deletion carries on."""
    for folder in ("evaluations", "trials"):
        _delete_trials(store, folder, deletion.planned)
    remove_annotations(store.files, lambda each: _goes(each, deletion))
    remove_starts(store.files, deletion.sweep)


def _goes(annotation: Annotation, deletion: Deletion) -> bool:
    if annotation.sweep is not None:
        return annotation.sweep == deletion.sweep
    return annotation.trial_id in deletion.planned


def _delete_trials(store: Store, folder: str, trial_ids: Collection[str]) -> None:
    for name in store.listing(folder):
        if named_trial(name) in trial_ids:
            store.delete(name)


def _planned(records: Iterable[SweepRecord]) -> set[str]:
    # All records must be readable: else trials would look as if no sweep planned them.
    return {trial_id for record in records for trial_id in record.trial_ids}
