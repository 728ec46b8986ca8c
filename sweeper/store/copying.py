"""Copies of trials and sweeps in another store, which keeps what it has; and sweeps under another name.

A trial is one file, which is proven whole and written as a worker would commit it. So a copy that is killed leaves
whole trials and nothing else, and the same copy carries on. A trial that the target has is left alone, unless the copy
is of a better status (`store.stands`). A file that stays the same is copied byte by byte; a file that changes (fewer
outcomes, a command without folders) is sealed anew. The same copy of the same trials into an empty store writes the
same bytes.

A renaming copies the starts, notes and tags of a sweep to the new name, and then deletes them under the old one. If it
was killed, the same call carries on: the old name has all starts, or the latest ones. A start that comes meanwhile
stays under the name that it has.

Records of sweeps are copied before the trials, so that no trial is without a sweep meanwhile. All that a copy may
refuse is read before the first write, and from files, whatever a snapshot says.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping
from typing import NamedTuple

import pyarrow as pa

from sweeper.messages import instead
from sweeper.store.annotations import add_annotations, annotations_of, check_annotations, rename_annotations
from sweeper.store.files import DurableFiles, in_threads
from sweeper.store.seal import DamagedError, TrialSeal, row_of, set_aside, unsealed
from sweeper.store.store import Store, StoreError, stands
from sweeper.store.sweep_records import (
    check_name,
    copy_records,
    history,
    latest_starts,
    remove_starts,
    start_files,
    write_start,
)
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
    names = list(sweeps or latest)
    wanted = {trial_id for name in sweeps for trial_id in latest[name].trial_ids} if sweeps else None
    seals = source.seals_in_files(wanted)
    _check_names(seals, outcomes)
    there = target.seals_in_files(seals)
    evaluations = _lacking_evaluations(source, target, seals)
    annotations, damaged_notes = annotations_of(source.files, names)
    copy_records(source.files, target.files, names, hide_folders)
    missing = [seal for key, seal in seals.items() if _is_better(seal, there.get(key))]
    copied = functools.partial(_copied, source, target, outcomes, hide_folders)
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
            raise StoreError(f"no trial has outcomes called {name!r}{instead(name, sorted(known))}")


def _is_better(seal: TrialSeal, there: TrialSeal | None) -> bool:
    """Whether a trial is copied over the one that the target has; a failure is no better than any."""
    return there is None or not (seal.status == "failed" or stands(there, seal))


def _copied(source: Store, target: Store, outcomes: Kept, hide_folders: bool, seal: TrialSeal) -> TrialSeal | None:
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


# Renaming


def rename_sweep(files: DurableFiles, old: str, new: str) -> None:
    """Give a sweep another name; refused if the name is taken, maybe meanwhile, or if the sweep cannot be read."""
    check_name(new)
    taken = StoreError(f"there is a sweep {new!r} already")
    paths = start_files(files, old)
    ours = [record.model_copy(update={"name": new}) for record in history(files, old)]
    if not ours:
        raise StoreError(f"the store has no sweep {old!r}")
    check_annotations(files)  # afterwards nothing is refused but a name that was taken meanwhile
    theirs = history(files, new)
    if theirs[-len(ours) :] != ours:
        if theirs != ours[: len(theirs)]:
            raise taken
        missing = enumerate(ours[len(theirs) :], len(theirs) + 1)
        written = [write_start(files, number, record) for number, record in missing]
        if history(files, new) != ours:
            remove_starts(files, new, written)
            raise taken
    rename_annotations(files, old, new)
    remove_starts(files, old, paths)
    rename_annotations(files, old, new)
