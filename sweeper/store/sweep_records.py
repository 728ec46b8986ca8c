"""Sweeps: every start is a file, and so is every plan, the list of trials that a start planned.

    sweeps/<name>/<number>-<digits>.json    a start
    sweeps/<name>/<digest>.txt              a plan, named by the digest of its text: a line for each trial, which
                                            has its id, and the values of the space's variables as JSON

So two starts at once are two files, and starts of an unchanged sweep share a plan. A plan is written before the start
that names it. Earlier stores have one file for a sweep, `sweeps/<name>.json`, with all starts and plans; that file is
read, and never written.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from sweeper.messages import instead, printable
from sweeper.store.files import DurableFiles, StoreError, in_threads
from sweeper.store.schema import SCHEMA_VERSION, check_version
from sweeper.trial.provenance import Provenance, without_folders

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
_START = re.compile(rf"sweeps/({_NAME.pattern})/(\d{{6,}})-[0-9a-f]{{8}}\.json", re.ASCII)
_EARLIER = re.compile(rf"sweeps/({_NAME.pattern})\.json", re.ASCII)


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


def check_name(name: str) -> None:
    """Refuse a name that cannot be the name of a folder below `sweeps/`, with a `StoreError`."""
    if not _NAME.fullmatch(name):
        raise StoreError(f"{name!r} cannot name a sweep: letters, digits, '_', '-' and '.' only")


def unknown_sweep(name: str, known: Iterable[str]) -> StoreError:
    """The error about a name that no sweep of the store has, with the nearest name and all names."""
    return StoreError(f"the store has no sweep '{name}'{instead(name, sorted(known))}")


def latest_starts(records: Iterable[SweepRecord], needed: Iterable[str] = ()) -> dict[str, SweepRecord]:
    """The latest of the starts, which are in order, of every sweep by name; a needed name must be among them."""
    latest = {record.name: record for record in records}
    for name in needed:
        if name not in latest:
            raise unknown_sweep(name, latest)
    return latest


class _Start(BaseModel):
    """One start as a file holds it, with the digest that names its plan."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: int = SCHEMA_VERSION
    text: str
    overrides: tuple[str, ...]
    provenance: Provenance
    plan: str


class _Earlier(BaseModel):
    """The one file of a sweep in an earlier store: its starts in order, and the lists of trials by digest."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: int
    renamed: str = ""
    starts: tuple[_Start, ...] = ()
    plans: dict[str, tuple[str, ...]] = {}


# Read


def read_records(files: DurableFiles, strict: bool = False) -> list[SweepRecord]:
    """Every start of every sweep, by name and then in order.

    A file that cannot be read is left out with a warning, or is a `StoreError` for those who need all (`strict`).
    """
    paths = [path for path in files.listing("sweeps") if _EARLIER.fullmatch(path) or _START.fullmatch(path)]
    return sorted(_starts(files, sorted(paths), strict), key=lambda record: record.name)


def history(files: DurableFiles, sweep: str) -> list[SweepRecord]:
    """The starts of a sweep in order; a file that cannot be read is a `StoreError`."""
    return _starts(files, start_files(files, sweep), strict=True)


def start_files(files: DurableFiles, sweep: str) -> list[str]:
    """The files with the starts of a sweep, in order."""
    earlier = f"sweeps/{sweep}.json"
    there = [path for path in files.listing(f"sweeps/{sweep}") if _START.fullmatch(path)]
    return there if files.read(earlier) is None else [earlier, *there]


def _starts(files: DurableFiles, paths: Sequence[str], strict: bool) -> list[SweepRecord]:
    def read(path: str) -> list[SweepRecord]:
        try:
            return _starts_in(files, path)
        except ValueError as error:
            if strict:
                unknown = "so that nobody knows which trials it planned"
                raise StoreError(f"{path!r} cannot be read, {unknown}: mend or remove it first") from error
            logger.warning("%r is not the file of a sweep: %s", path, _one_line(error))
            return []

    return [record for starts in in_threads(read, paths) for record in starts]


def _starts_in(files: DurableFiles, path: str) -> list[SweepRecord]:
    """The starts in a file, none if it is gone. A file that holds no whole start is a `ValueError`."""
    if (data := files.read(path)) is None:
        return []
    values = from_json(data)
    if not isinstance(values, dict):
        raise ValueError("it holds no sweep")
    check_version(values.get("schema_version"), path)
    if (match := _EARLIER.fullmatch(path)) is not None:
        earlier = _Earlier.model_validate_json(data)
        if any(start.plan != _digest(earlier.plans.get(start.plan, ())) for start in earlier.starts):
            raise ValueError("a list of planned trials is missing or damaged")
        return [_record(match[1], start, earlier.plans.get(start.plan, ())) for start in earlier.starts]
    start, name = _Start.model_validate_json(data), path.split("/")[1]
    plan = (files.read(_plan_file(name, start.plan)) or b"").decode().splitlines()
    if _digest(plan) != start.plan:
        if files.read(path) != data:  # it has grown meanwhile
            return _starts_in(files, path)
        raise ValueError("the list of planned trials is missing or damaged")
    return [_record(name, start, plan)]


def _record(name: str, start: _Start, plan: Sequence[str]) -> SweepRecord:
    fields = {key: getattr(start, key) for key in ("text", "overrides", "provenance")}
    lines = [line.partition(" ") for line in plan]
    variables = {key: from_json(values) for key, _, values in lines if values}
    return SweepRecord(name=name, trial_ids=tuple(key for key, _, _ in lines), variables=variables, **fields)


def _plan(record: SweepRecord) -> list[str]:
    """The lines of the plan of a start."""
    values = {key: f" {json.dumps(own, sort_keys=True)}" for key, own in record.variables.items()}
    return [f"{key}{values.get(key, '')}" for key in record.trial_ids]


# Write


def write_record(files: DurableFiles, record: SweepRecord) -> None:
    """Add one start to the history of the sweep that the record names.

    The latest start, recorded again with more trials, as an adaptive search does, stays one start.
    """
    check_name(record.name)
    paths = [path for path in start_files(files, record.name) if _START.fullmatch(path)]
    try:
        latest = _starts_in(files, paths[-1]) if paths else []
    except ValueError:
        latest = []
    known = _plan(latest[0]) if latest else []
    if latest and _own(latest[0]) == _own(record) and known == _plan(record)[: len(known)]:
        _write_start(files, paths[-1], record)
        if len(known) < len(record.trial_ids):
            _remove_plan(files, record.name, _digest(known))
    else:
        write_start(files, 1 + int(paths[-1].split("/")[2].split("-")[0]) if paths else 1, record)


def write_start(files: DurableFiles, number: int, record: SweepRecord) -> str:
    """Write a start, which is the one of this number, counted from 1; its file."""
    path = f"sweeps/{record.name}/{number:06}-{hashlib.sha256(_own(record).encode()).hexdigest()[:8]}.json"
    _write_start(files, path, record)
    return path


def _own(record: SweepRecord) -> str:
    """A start without its name and its plan, as text."""
    return record.model_dump_json(exclude={"name", "trial_ids", "variables"})


def _write_start(files: DurableFiles, path: str, record: SweepRecord) -> None:
    lines = _plan(record)
    plan, text = _digest(lines), "\n".join(lines).encode()
    start = _Start(text=record.text, overrides=record.overrides, provenance=record.provenance, plan=plan)

    def keep_plan() -> None:
        if files.read(_plan_file(record.name, plan)) != text:
            files.write(_plan_file(record.name, plan), text)

    keep_plan()
    files.write(path, start.model_dump_json(indent=1).encode())
    keep_plan()  # another process may have removed it before a start named it


def remove_starts(files: DurableFiles, sweep: str, paths: Iterable[str]) -> None:
    """Delete starts of a sweep, which are in order, and then the plans if the sweep has no other start."""
    for path in paths:
        files.delete(path)
    for path in files.listing(f"sweeps/{sweep}"):
        if not _START.fullmatch(path):
            files.delete(path, keep=lambda: bool(start_files(files, sweep)))


def _remove_plan(files: DurableFiles, sweep: str, plan: str) -> None:
    """Delete a plan that no start names any more."""

    def named() -> bool:
        return any(plan.encode() in (files.read(path) or b"") for path in start_files(files, sweep))

    files.delete(_plan_file(sweep, plan), keep=named)


def copy_records(source: DurableFiles, target: DurableFiles, names: Iterable[str], hide_folders: bool = False) -> None:
    """Copy the starts of sweeps that the target lacks; starts that the target alone has stay.

    With `hide_folders` the commands of the copied starts lose the folders of absolute paths. If the target has a sweep
    of the same name with another history, whose latest start planned other trials, nothing is copied (`StoreError`).
    """
    lacking = [_lacking(history(source, name), history(target, name)) for name in names]
    for count, records in lacking:
        for number, record in enumerate(records, count + 1):
            write_start(target, number, _hidden(record) if hide_folders else record)


def _lacking(ours: list[SweepRecord], theirs: list[SweepRecord]) -> tuple[int, list[SweepRecord]]:
    """How many starts another store has of a sweep, and which of ours it lacks."""
    count = min(len(ours), len(theirs))
    if list(map(_hidden, ours[:count])) == list(map(_hidden, theirs[:count])):
        return len(theirs), ours[count:]
    latest = [set(each[-1].trial_ids) for each in (ours, theirs)]
    if latest[0] != latest[1]:
        raise StoreError(
            f"both stores have a sweep {ours[0].name!r}, and their latest starts planned other trials "
            f"({len(latest[0]):,} here, {len(latest[1]):,} there): rename one of the two"
        )
    return len(theirs), []


def _hidden(record: SweepRecord) -> SweepRecord:
    command = without_folders(record.provenance.command)
    return record.model_copy(update={"provenance": record.provenance.model_copy(update={"command": command})})


def _plan_file(sweep: str, plan: str) -> str:
    return f"sweeps/{sweep}/{plan}.txt"


def _one_line(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        text = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:3])
    else:
        text = str(error)
    return printable(text)


def _digest(plan: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(plan).encode()).hexdigest()[:20]
