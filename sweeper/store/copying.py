"""Copying trials and sweeps from one store into another, which keeps what it has.

A trial is one file, which is proven whole and written as a worker would commit it. So a copy that is killed leaves
whole trials and nothing else, and the same copy carries on. A trial that the target has is left alone, unless the copy
is of a better status (`store.stands`). A file that stays the same is copied byte by byte; a file that changes (fewer
outcomes, a command without folders) is sealed anew. The same copy of the same trials into an empty store writes the
same bytes.

Records of sweeps are copied before the trials, so that no trial is without a sweep meanwhile. All that a copy may
refuse is read before the first write, and from files, whatever a snapshot says.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import NamedTuple

import pyarrow as pa

from sweeper.messages import did_you_mean, nearest_name
from sweeper.store.annotations import add_annotations, annotations_of
from sweeper.store.files import in_threads
from sweeper.store.seal import DamagedError, TrialSeal, row_of, set_aside, unsealed
from sweeper.store.store import Store, StoreError, stands
from sweeper.store.sweep_records import copy_records, latest_starts
from sweeper.store.trial_file import outcome_values, sealed_evaluation, sealed_row
from sweeper.trial.provenance import without_folders


class Copied(NamedTuple):
    """How many trials the target has now that it had not before, how many it had, how many evaluations were copied, and
    what is damaged and was not copied: ids of trials, and files with notes and tags."""

    trials: int
    present: int
    evaluations: int
    damaged: list[str]


Kept = Collection[str] | Mapping[str, Collection[str]] | None
"""Outcomes that a copy keeps: the same of all trials, or by trial id, where a trial that is not listed keeps none. None
keeps all, an empty collection keeps none."""


def copy(
    source: Store, target: Store, sweeps: Collection[str] = (), outcomes: Kept = None, hide_folders: bool = False
) -> Copied:
    """Copy sweeps with their trials, networks, evaluations, notes and tags; without names all that the source has.

    The trials of a sweep are those that its latest start planned. With `hide_folders` commands, in rows and in records
    of starts, lose the folders of absolute paths. After an error, trials that were copied before stay.
    """
    if source.url == target.url:
        raise StoreError("a store cannot be copied onto itself")
    latest = latest_starts(source.sweeps(), sweeps)
    wanted = {trial_id for name in sweeps for trial_id in latest[name].trial_ids} if sweeps else None
    seals = source.seals_in_files(wanted)
    _check_names(seals, outcomes)
    there = target.seals_in_files(seals)
    evaluations = _lacking_evaluations(source, target, seals)
    annotations, damaged_notes = annotations_of(source.files, sweeps or list(latest))
    copy_records(source.files, target.files, sweeps or list(latest), hide_folders)
    # A failure is no better than what is there.
    missing = [
        seal
        for key, seal in seals.items()
        if key not in there or not (seal.status == "failed" or stands(there[key], seal))
    ]

    def copied(seal: TrialSeal) -> TrialSeal | None:
        return _copied(source, target, seal, outcomes, hide_folders)

    done = {seal.trial_id: seal for seal in in_threads(copied, missing, "copying trials") if seal is not None}
    damaged = sorted({seal.trial_id for seal in missing} - done.keys())
    there |= done
    of_networks = [seal for seal in evaluations if (of := there.get(seal.trial_id)) and of.network == seal.network]
    evaluated = sum(seal is not None for seal in in_threads(copied, of_networks, "copying evaluations"))
    add_annotations(target.files, annotations, seals.keys() & there.keys())
    return Copied(len(done), len(seals) - len(missing), evaluated, [*damaged, *damaged_notes])


def _check_names(seals: Mapping[str, TrialSeal], outcomes: Kept) -> None:
    if isinstance(outcomes, Mapping):
        return
    known = {name for seal in seals.values() for name in seal.outcomes}
    for name in outcomes or ():
        if name not in known:
            raise StoreError(
                f"no trial has outcomes called {name!r}{did_you_mean(nearest_name(name, known))}; "
                f"known are: {', '.join(sorted(known)) or 'none'}"
            )


def _copied(source: Store, target: Store, seal: TrialSeal, outcomes: Kept, hide_folders: bool) -> TrialSeal | None:
    """Copy a trial or an evaluation; the seal of the copy, or None if it is damaged or gone."""
    data = source.files.read(seal.name)
    try:
        if data is None:
            return None
        seal = unsealed(pa.BufferReader(data), TrialSeal, seal.name)
        row = row_of(pa.BufferReader(data), seal.schema, seal.schema.names)
    except DamagedError as error:
        set_aside(source.files, seal.name, error)
        return None
    wanted = outcomes.get(seal.trial_id, ()) if isinstance(outcomes, Mapping) else outcomes
    kept = tuple(name for name in seal.outcomes if wanted is None or name in wanted)
    shown = _without_folders(row) if hide_folders else row
    if seal.protocol is not None:
        data = data if shown is row else sealed_evaluation(seal, shown)
    elif kept != seal.outcomes or shown is not row:
        values = {name: column for name, column in outcome_values(row).items() if name in kept}
        seal = dataclasses.replace(seal, outcomes=kept)
        (whole,) = shown.drop_columns(["curves", "outcomes", "network"]).to_pylist()
        curves = row["curves"].combine_chunks()
        data = sealed_row(seal, whole, curves, values, row["network"][0].as_py())
    target.publish(seal, data)
    return seal


def _without_folders(row: pa.Table) -> pa.Table:
    """The row with a command without folders; the same object if the command has none."""
    index = row.column_names.index("command")
    commands = row["command"].to_pylist()
    hidden = [command and without_folders(command) for command in commands]
    return row if hidden == commands else row.set_column(index, row.field(index), pa.array(hidden, pa.string()))


def _lacking_evaluations(source: Store, target: Store, seals: Mapping[str, TrialSeal]) -> list[TrialSeal]:
    """The evaluations of the source's networks that the target lacks."""
    present = {seal.name for seal, _ in target.evaluations(seals)}
    return [seal for seal, _ in source.evaluations(seals) if seal.name not in present]
