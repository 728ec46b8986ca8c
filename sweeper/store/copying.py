"""Copies of sweeps and their trials in another store, which keeps what it has.

A trial is one file, which is proven whole and written as a worker would commit it. So a copy that is killed leaves
whole trials and nothing else, and the same copy carries on. A trial that the target has is left alone, unless the copy
is of a better status (`store.stands`). A file that stays the same is copied byte by byte; a file that loses outcomes is
sealed anew. The same copy of the same trials into an empty store writes the same bytes.

Records of sweeps are copied before the trials, so that no trial is without a sweep meanwhile. All that a copy may
refuse is read before the first write.
"""

import dataclasses
import fnmatch
import functools
from collections.abc import Collection, Iterable
from typing import NamedTuple

import pyarrow as pa

from sweeper.messages import instead
from sweeper.store.annotations import copy_annotations
from sweeper.store.files import in_threads
from sweeper.store.seal import DamagedError, TrialSeal, row_of, set_aside, unsealed
from sweeper.store.store import Store, StoreError, stands
from sweeper.store.sweep_records import copy_records
from sweeper.store.trial_file import outcome_values, sealed_row


class Copied(NamedTuple):
    """How many trials the target has now that it had not before, how many it had, how many evaluations were copied, and
    the ids of trials that are damaged and were not copied."""

    trials: int
    present: int
    evaluations: int
    damaged: list[str]


def copy(source: Store, target: Store, sweeps: Collection[str] = (), outcomes: Collection[str] | None = None) -> Copied:
    """Copy sweeps with their trials, networks, evaluations, notes and tags; without names all that the source has.

    The trials of a sweep are those that its latest start planned. `outcomes` are names or patterns, such as `path_*`,
    of the outcomes that the copies keep, by default all. After an error, trials that were copied before stay.
    """
    if source.url == target.url:
        raise StoreError("a store cannot be copied onto itself")
    latest = source.latest_starts(sweeps)
    wanted = {trial_id for name in sweeps for trial_id in latest[name].trial_ids} if sweeps else None
    seals = source.seals(wanted)
    _check_names(seals.values(), outcomes or ())
    copy_records(source.files, target.files, sweeps or latest)
    there = target.seals(seals)
    missing = [seal for key, seal in seals.items() if _is_better(seal, there.get(key))]
    copied = functools.partial(_copied, source, target, outcomes)
    done = {seal.trial_id: seal for seal in in_threads(copied, missing, "copying trials") if seal is not None}
    there |= done
    present = set(target.listing("evaluations"))
    evaluations = [
        seal
        for seal, _ in source.evaluations(seals)
        if seal.name not in present and (of := there.get(seal.trial_id)) and of.network == seal.network
    ]
    evaluated = sum(seal is not None for seal in in_threads(copied, evaluations, "copying evaluations"))
    names = {*(sweeps or latest)}
    copy_annotations(source.files, target.files, lambda each: each.sweep in names or each.trial_id in there)
    damaged = sorted({seal.trial_id for seal in missing} - done.keys())
    return Copied(len(done), len(seals) - len(missing), evaluated, damaged)


def _check_names(seals: Iterable[TrialSeal], outcomes: Collection[str]) -> None:
    known = {name for seal in seals for name in seal.outcomes}
    for name in outcomes:
        if not fnmatch.filter(known, name):
            raise StoreError(f"no trial has outcomes called {name!r}{instead(name, sorted(known))}")


def _is_better(seal: TrialSeal, there: TrialSeal | None) -> bool:
    """Whether a trial is copied over the one that the target has; a failure is no better than any."""
    return there is None or not (seal.status == "failed" or stands(there, seal))


def _copied(source: Store, target: Store, outcomes: Collection[str] | None, seal: TrialSeal) -> TrialSeal | None:
    """Copy a trial or an evaluation; the seal of the copy, or None if it is damaged or gone."""
    data = source.files.read(seal.name)
    try:
        if data is None:
            return None
        seal, parquet = unsealed(pa.BufferReader(data), TrialSeal, seal.name)
        row = row_of(parquet, seal.schema, seal.schema.names)
    except DamagedError as error:
        set_aside(source.files, seal.name, error)
        return None
    values = outcome_values(row) if seal.outcomes else {}
    patterns = ["*"] if outcomes is None else outcomes
    kept = {name: values[name] for name in values if any(fnmatch.fnmatchcase(name, each) for each in patterns)}
    if len(kept) < len(values):
        seal = dataclasses.replace(seal, outcomes=tuple(kept))
        (whole,) = row.drop_columns(["curves", "outcomes", "network"]).to_pylist()
        data = sealed_row(seal, whole, row["curves"].combine_chunks(), kept, row["network"][0].as_py())
    target.publish(seal, data)
    return seal
