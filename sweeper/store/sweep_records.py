"""Starts of sweeps: numbered records that are never overwritten, and the lists of the trials that they planned.

sweeps/<name>/<number>-<random>.json     one start
sweeps/<name>/plans/<hash>.txt           trial ids, one a line; starts of an unchanged sweep share a list
"""

import contextlib
import hashlib
import json
import logging
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from sweeper.messages import did_you_mean, nearest_name, printable
from sweeper.store.annotations import rename_annotations
from sweeper.store.files import DurableFiles, FileState, StoreError
from sweeper.store.schema import SCHEMA_VERSION
from sweeper.store.seal import check_version
from sweeper.trial.provenance import Provenance, without_folders

logger = logging.getLogger(__name__)

LARGEST_RECORD = 64 * 2**20
"""Bytes of the largest file that is read as a record or as a list of trials; a million trials take 21 million."""

_SWEEP = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
_START = re.compile(r"sweeps/([A-Za-z0-9_][\w.-]*)/(\d{6,})-[0-9a-f]{8}\.json", re.ASCII)


class SweepRecord(BaseModel):
    """One start of a sweep.

    Attributes:
        name: Name of the sweep: letters, digits, `_`, `-` and `.`.
        text: The search space as it was read.
        overrides: Entries replaced on the command line.
        trial_ids: Ids of all trials that the start planned, done or not.
        provenance: Commit, command and time of the start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    text: str
    overrides: tuple[str, ...]
    trial_ids: tuple[str, ...]
    provenance: Provenance


def check_name(name: str) -> None:
    """Refuse a name that cannot be the name of a folder below `sweeps/`.

    Raises:
        StoreError: the name has other characters than letters, digits, `_`, `-` and `.`, or begins with one of these.
    """
    if not _SWEEP.fullmatch(name):
        raise StoreError(f"{name!r} cannot name a sweep: letters, digits, '_', '-' and '.' only")


def unknown_sweep(name: str, known: Iterable[str]) -> StoreError:
    """The error about a name that no sweep of the store has, with the nearest name and all names."""
    names = sorted(set(known))
    hint = did_you_mean(nearest_name(name, names))
    return StoreError(f"the store has no sweep '{name}'{hint} (known: {', '.join(names) or 'none'})")


def latest_starts(records: Iterable[SweepRecord], needed: Iterable[str] = ()) -> dict[str, SweepRecord]:
    """The latest start of every sweep, by name.

    Args:
        records: All starts, in order.
        needed: Names of sweeps that the caller needs.

    Raises:
        StoreError: there is no sweep of a needed name.
    """
    latest = {record.name: record for record in records}
    for name in needed:
        if name not in latest:
            raise unknown_sweep(name, latest)
    return latest


class _Written(BaseModel):
    """A record as its file holds it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: int
    name: str
    text: str
    overrides: tuple[str, ...]
    provenance: Provenance
    plan: Annotated[str, Field(pattern="^[0-9a-f]{20}$")]


def write_record(files: DurableFiles, record: SweepRecord) -> None:
    """Add one start to the history of the sweep that the record names.

    Raises:
        StoreError: the name cannot be the name of a folder, or the store cannot be written.
    """
    check_name(record.name)
    folder = f"sweeps/{record.name}"
    plan = "\n".join(record.trial_ids).encode()
    plan_hash = _hash(plan)
    files.write(f"{folder}/plans/{plan_hash}.txt", plan)
    entry = {"schema_version": SCHEMA_VERSION, **record.model_dump(exclude={"trial_ids"}), "plan": plan_hash}
    # Numbers order the starts, since clocks jump; the random part keeps two drivers that start at once apart.
    starts = map(_START.fullmatch, files.listing(folder))
    number = max((int(start[2]) for start in starts if start), default=0) + 1
    data = json.dumps(entry, indent=1).encode()
    files.write(f"{folder}/{number:06d}-{secrets.token_hex(4)}.json", data)


def read_records(files: DurableFiles) -> list[SweepRecord]:
    """Every start of every sweep, by name and then in order; a record that cannot be read is left out with a warning.

    Raises:
        StoreError: the store cannot be read, or a newer version of this program wrote it.
    """
    records = []
    listed = files.listing("sweeps")
    for name in sorted(listed):
        if start := _START.fullmatch(name):
            try:
                records.append(_record(files, name, start[1], listed))
            except ValueError as error:
                logger.warning("%r is not the record of a sweep: %s", name, _one_line(error))
    return records


def copy_records(source: DurableFiles, target: DurableFiles, names: Iterable[str], hide_folders: bool = False) -> None:
    """Copy the starts of sweeps that the target lacks; starts that the target alone has stay.

    With `hide_folders` the commands of the copied starts lose the folders of absolute paths.

    Raises:
        StoreError: the target has a sweep of the same name with another history, whose latest start planned other
            trials. Nothing was copied then.
    """
    copies: list[tuple[str, bytes]] = []
    for name in names:
        ours, theirs = (_starts(files, name) for files in (source, target))
        if theirs and not (theirs.keys() <= ours.keys() or ours.keys() <= theirs.keys()):
            latest = [starts[max(starts)].trial_ids for starts in (ours, theirs)]
            if set(latest[0]) != set(latest[1]):
                raise StoreError(
                    f"both stores have a sweep {name!r}, and their latest starts planned other trials "
                    f"({len(latest[0]):,} here, {len(latest[1]):,} there): rename one of the two"
                )
            continue
        for start in sorted(ours.keys() - theirs.keys()):
            plan = "\n".join(ours[start].trial_ids).encode()
            copies.append((f"sweeps/{name}/plans/{_hash(plan)}.txt", plan))
            data = source.read(start) or b""
            copies.append((start, _hidden(data) if hide_folders else data))
    for path, data in copies:
        target.write(path, data)


def _hidden(data: bytes) -> bytes:
    """A record whose command has no folders."""
    values = from_json(data)
    values["provenance"]["command"] = without_folders(values["provenance"]["command"])
    return json.dumps(values, indent=1).encode()


def unreadable_records(files: DurableFiles) -> list[str]:
    """Files of starts that cannot be read."""
    listed = files.listing("sweeps")
    names = {start[1] for start in map(_START.fullmatch, listed) if start}
    readable = {path for name in names for path in _starts(files, name)}
    return sorted(path for path in listed if _START.fullmatch(path) and path not in readable)


def remove_records(files: DurableFiles, name: str) -> None:
    """Delete all starts of a sweep: the latest after all others, and each plan after the starts that name it.

    Raises:
        StoreError: the store cannot be written.
    """
    in_order = sorted(files.listing(f"sweeps/{name}"))
    for path in sorted(in_order, key=lambda path: _START.fullmatch(path) is None):
        files.delete(path)


def rename_records(files: DurableFiles, old: str, new: str) -> None:
    """Give a sweep another name: its starts, notes and tags are written under the new name, then deleted under the old.

    Raises:
        StoreError: the new name cannot be the name of a folder or is another sweep's, a start cannot be read and would
            be lost, or the store cannot be written. A renaming that was killed is carried on by the same call.
    """
    check_name(new)
    unreadable = [path for path in unreadable_records(files) if path.startswith(f"sweeps/{old}/")]
    if unreadable:
        raise StoreError(f"{unreadable[0]!r} cannot be read, and would be lost: mend or remove it first")
    ours, theirs = _starts(files, old), _starts(files, new)

    def renamed(path: str) -> str:
        return f"sweeps/{new}/{path.rpartition('/')[2]}"

    moved = {renamed(path): record.model_copy(update={"name": new}) for path, record in ours.items()}
    # Names of starts hold random digits: starts of both names are those of a renaming that was killed.
    if theirs and not (moved.items() <= theirs.items() or theirs.items() <= moved.items()):
        raise StoreError(f"there is a sweep {new!r} already")
    for path, record in ours.items():
        plan = "\n".join(record.trial_ids).encode()
        files.write(f"sweeps/{new}/plans/{_hash(plan)}.txt", plan)
        values = from_json(files.read(path) or b"{}") | {"name": new}
        files.write(renamed(path), json.dumps(values, indent=1).encode())
    rename_annotations(files, old, new)
    remove_records(files, old)


def _starts(files: DurableFiles, name: str) -> dict[str, SweepRecord]:
    """The starts of a sweep by the name of their file."""
    listed = files.listing(f"sweeps/{name}")
    starts = {}
    for path in sorted(listed):
        if start := _START.fullmatch(path):
            with contextlib.suppress(ValueError):  # `read_records` has warned of a record that cannot be read
                starts[path] = _record(files, path, start[1], listed)
    return starts


def _record(files: DurableFiles, name: str, sweep: str, listed: Mapping[str, FileState]) -> SweepRecord:
    """The record in a file.

    Raises:
        ValueError: the file is no record, or its list of trials is not whole.
        StoreError: a newer version of this program wrote it.
    """
    text = _read(files, name, listed)
    entry = from_json(text)
    if not isinstance(entry, dict):
        raise ValueError("it holds no record")
    check_version(entry.get("schema_version"), name)
    written = _Written.model_validate_json(text)
    plan = _read(files, f"sweeps/{sweep}/plans/{written.plan}.txt", listed)
    if _hash(plan) != written.plan:
        raise ValueError("its list of planned trials is missing or damaged")
    if written.name != sweep:
        raise ValueError("it is the record of another sweep")
    fields = written.model_dump(exclude={"schema_version", "plan"})
    return SweepRecord.model_validate(fields | {"trial_ids": tuple(plan.decode().split())})


def _read(files: DurableFiles, name: str, listed: Mapping[str, FileState]) -> bytes:
    """A file; empty if it is not there."""
    size = listed[name].size if name in listed else 0
    if size > LARGEST_RECORD:
        raise ValueError(f"{name!r} has {size:,} bytes, too many for a record")
    return files.read(name) or b""


def _one_line(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        text = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:3])
    else:
        text = str(error)
    return printable(text)


def _hash(plan: bytes) -> str:
    return hashlib.sha256(plan).hexdigest()[:20]
