"""Sweeps: every start is a file, with its space and the trials that it planned.

    sweeps/<name>/<number>-<digits>.json

So two starts at once are two files. A file is one object of JSON that begins with the digest of all that follows. A
damaged file is left out with a warning, or refused by those who need all starts; it never says something else.
"""

import hashlib
import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import from_json

from sweeper.messages import instead, one_line, printable
from sweeper.store.files import DurableFiles, StoreError, in_threads
from sweeper.store.schema import SCHEMA_VERSION, check_version
from sweeper.trial.provenance import Provenance, without_folders

logger = logging.getLogger(__name__)

_START = re.compile(r"sweeps/([A-Za-z0-9_][\w.-]*)/(\d{6,})-[0-9a-f]{8}\.json", re.ASCII)


class SweepRecord(BaseModel):
    """One start of a sweep."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str  # name of the sweep: letters, digits, `_`, `-` and `.`
    text: str  # the search space as it was read
    overrides: tuple[str, ...]  # entries replaced on the command line
    trial_ids: tuple[str, ...]  # ids of all trials that the start planned, done or not
    # Values of the space's variables by their paths, of each trial by id; empty of a space without any
    variables: Mapping[str, Mapping[str, Any]] = {}
    provenance: Provenance  # commit, command and time of the start


def unknown_sweep(name: str, known: Iterable[str]) -> StoreError:
    """The error about a name that no sweep of the store has, with the nearest name and all names."""
    return StoreError(f"the store has no sweep '{name}'{instead(name, sorted(known))}")


# Read


def read_records(files: DurableFiles, strict: bool = False) -> list[SweepRecord]:
    """Every start of every sweep, by name and then in order.

    A file that cannot be read is left out with a warning, or is a `StoreError` for those who need all (`strict`).
    """
    paths = [path for path in files.listing("sweeps") if _START.fullmatch(path)]
    return sorted(_starts(files, sorted(paths), strict), key=lambda record: record.name)


def latest_starts(files: DurableFiles, names: Collection[str] = ()) -> dict[str, SweepRecord]:
    """The latest start of each of these sweeps, which must be there, or of every sweep, by name.

    Earlier starts are not read, unless a later one cannot be read.
    """
    paths: dict[str, list[str]] = {}
    for path in sorted(files.listing("sweeps")):
        if (match := _START.fullmatch(path)) is not None:
            paths.setdefault(match[1], []).append(path)

    def latest(name: str) -> SweepRecord | None:
        starts = (start for path in reversed(paths[name]) for start in _starts(files, [path], strict=False))
        return next(starts, None)

    wanted = [name for name in names or paths if name in paths]
    found = zip(wanted, in_threads(latest, wanted), strict=True)
    latest_of = {name: start for name, start in found if start is not None}
    for name in names:
        if name not in latest_of:
            raise unknown_sweep(name, latest_of if name in paths else paths)
    return latest_of


def history(files: DurableFiles, sweep: str) -> list[SweepRecord]:
    """The starts of a sweep in order; a file that cannot be read is a `StoreError`."""
    return _starts(files, start_files(files, sweep), strict=True)


def start_files(files: DurableFiles, sweep: str) -> list[str]:
    """The files with the starts of a sweep, in order."""
    return sorted(path for path in files.listing(f"sweeps/{sweep}") if _START.fullmatch(path))


def _starts(files: DurableFiles, paths: Sequence[str], strict: bool) -> list[SweepRecord]:
    def read(path: str) -> SweepRecord | None:
        try:
            data = files.read(path)
            return None if data is None else _start_in(path, data)
        except (ValueError, LookupError, TypeError) as error:
            if strict:
                unknown = "so that nobody knows which trials it planned"
                raise StoreError(f"{path!r} cannot be read, {unknown}: mend or remove it first") from error
            logger.warning("%r is not the file of a sweep: %s", path, printable(one_line(str(error))))
            return None

    return [record for record in in_threads(read, paths) if record is not None]


def _start_in(path: str, data: bytes) -> SweepRecord:
    """The start in a file; what a file holds else raises an error."""
    values = from_json(data)
    check_version(values.pop("schema_version"), path)
    if data != _with_digest(b"{" + data[len(_with_digest(b"")) :]):
        raise ValueError("it was altered: its digest does not fit")
    del values["digest"]
    return SweepRecord.model_validate_json(json.dumps(values | {"name": path.split("/")[1]}))


# Write


def write_record(files: DurableFiles, record: SweepRecord) -> None:
    """Add one start to the history of the sweep that the record names.

    The latest start, recorded again with more trials, as an adaptive search does, stays one start.
    """
    command = without_folders(record.provenance.command)
    record = record.model_copy(update={"provenance": record.provenance.model_copy(update={"command": command})})
    paths = start_files(files, record.name)
    number = int(paths[-1].split("/")[2].split("-")[0]) if paths else 1
    if paths and paths[-1] != _file(number, record):
        number += 1
    while not _write_start(files, number, record):
        number += 1


def _write_start(files: DurableFiles, number: int, record: SweepRecord) -> bool:
    """Write the start of this number, unless another one has its file; an earlier state of it is replaced."""
    path = _file(number, record)

    def is_another(present: bytes | None) -> bool:
        if present is None:
            return False
        try:
            known = _start_in(path, present)
        except (ValueError, LookupError, TypeError):
            return True
        return known.trial_ids != record.trial_ids[: len(known.trial_ids)] or any(
            record.variables.get(key) != own for key, own in known.variables.items()
        )

    values = {"schema_version": SCHEMA_VERSION, **record.model_dump(exclude={"name"})}
    return files.write(path, _with_digest(json.dumps(values).encode()), keep=is_another)


def _file(number: int, record: SweepRecord) -> str:
    """The file of a start, whose digits are those of all but its trials, so that it is found again with more."""
    own = record.model_dump_json(exclude={"name", "trial_ids", "variables"})
    return f"sweeps/{record.name}/{number:06}-{hashlib.sha256(own.encode()).hexdigest()[:8]}.json"


def _with_digest(text: bytes) -> bytes:
    """An object of JSON with its own digest as its first value."""
    digest = hashlib.blake2b(text, digest_size=16).hexdigest()
    return f'{{"digest": "{digest}", '.encode() + text[1:]


def remove_starts(files: DurableFiles, sweep: str) -> None:
    """Delete the starts of a sweep."""
    for path in files.listing(f"sweeps/{sweep}"):
        files.delete(path)


def copy_records(source: DurableFiles, target: DurableFiles, names: Iterable[str]) -> None:
    """Copy the starts of sweeps; if the target has other starts of one of them, nothing is copied (`StoreError`).

    Starts that the target has from an earlier copy are no others.
    """
    lacking = []
    for name in names:
        ours, theirs = history(source, name), history(target, name)
        if theirs != ours[: len(theirs)]:
            raise StoreError(f"the target has a sweep {name!r} of its own: give one of the two another name")
        lacking += ours[len(theirs) :]
    for record in lacking:
        write_record(target, record)
