"""Sweeps: a file each, with all starts of the sweep and the trials that each of them planned.

    sweeps/<name>.json

A start is added at the end: the file is read and replaced, unless another process has replaced it meanwhile, and then
read again. Starts of an unchanged sweep share a list of trials, which is named by its digest.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from sweeper.messages import did_you_mean, nearest_name, printable
from sweeper.store.annotations import rename_annotations
from sweeper.store.files import DurableFiles, StoreError
from sweeper.store.schema import SCHEMA_VERSION, SWEEP_FILE, check_version, sweep_file
from sweeper.store.seal import set_aside
from sweeper.trial.provenance import Provenance, without_folders

logger = logging.getLogger(__name__)

LARGEST_FILE = 256 * 2**20
"""Bytes of the largest file that is read; a list of a million trials takes 24 million."""


class SweepRecord(BaseModel):
    """One start of a sweep."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str  # name of the sweep: letters, digits, `_`, `-` and `.`
    text: str  # the search space as it was read
    overrides: tuple[str, ...]  # entries replaced on the command line
    trial_ids: tuple[str, ...]  # ids of all trials that the start planned, done or not
    provenance: Provenance  # commit, command and time of the start


def check_name(name: str) -> None:
    """Refuse a name that cannot be the name of a file below `sweeps/`, with a `StoreError`."""
    if not SWEEP_FILE.fullmatch(sweep_file(name)):
        raise StoreError(f"{name!r} cannot name a sweep: letters, digits, '_', '-' and '.' only")


def unknown_sweep(name: str, known: Iterable[str]) -> StoreError:
    """The error about a name that no sweep of the store has, with the nearest name and all names."""
    names = sorted(set(known))
    hint = did_you_mean(nearest_name(name, names))
    return StoreError(f"the store has no sweep '{name}'{hint} (known: {', '.join(names) or 'none'})")


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

    text: str
    overrides: tuple[str, ...]
    provenance: Provenance
    plan: str


class _File(BaseModel):
    """The file of a sweep: its starts in order, the lists of trials by digest, and the name that it is about to get."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: int = SCHEMA_VERSION
    renamed: str = ""
    starts: tuple[_Start, ...] = ()
    plans: dict[str, tuple[str, ...]] = {}

    def with_starts(self, others: Sequence[_Start], plans: dict[str, tuple[str, ...]]) -> "_File":
        starts = (*self.starts, *others)
        every = self.plans | plans
        return _File(starts=starts, plans={start.plan: every[start.plan] for start in starts})

    def with_start(self, start: _Start, trial_ids: tuple[str, ...]) -> "_File":
        *earlier, last = self.starts or (start,)
        known = self.plans.get(last.plan, ())
        grown = start == last.model_copy(update={"plan": start.plan}) and trial_ids[: len(known)] == known
        sweep = self.model_copy(update={"starts": tuple(earlier)}) if grown else self
        return sweep.with_starts([start], {start.plan: trial_ids})

    def encoded(self) -> bytes:
        return json.dumps(self.model_dump(), indent=1).encode()


def write_record(files: DurableFiles, record: SweepRecord) -> None:
    """Add one start to the history of the sweep that the record names; a file that cannot be read is set aside.

    The latest start, recorded again with more trials, as an adaptive search does, stays one start. A sweep that is
    being renamed takes none.
    """
    check_name(record.name)
    name, digest = sweep_file(record.name), _digest(record.trial_ids)
    start = _Start(text=record.text, overrides=record.overrides, provenance=record.provenance, plan=digest)

    def added(present: bytes | None) -> bytes:
        try:
            sweep = _sweep(present, name)
        except ValueError as error:
            set_aside(files, name, _one_line(error))
            sweep = _File()
        _check_stays(record.name, sweep)
        return sweep.with_start(start, record.trial_ids).encoded()

    files.update(name, added)


def read_records(files: DurableFiles, strict: bool = False) -> list[SweepRecord]:
    """Every start of every sweep, by name and then in order.

    A file that cannot be read is left out with a warning, or is a `StoreError` for those who need all (`strict`).
    """
    records = []
    for path, state in files.listing("sweeps").items():
        if (found := SWEEP_FILE.fullmatch(path)) is None:
            continue
        try:
            if state.size > LARGEST_FILE:
                raise ValueError(f"it has {state.size:,} bytes, too many")
            sweep = _sweep(files.read(path), path)
        except ValueError as error:
            if strict:
                unknown = "so that nobody knows which trials it planned"
                raise StoreError(f"{path!r} cannot be read, {unknown}: mend or remove it first") from error
            logger.warning("%r is not the file of a sweep: %s", path, _one_line(error))
            continue
        for start in sweep.starts:
            fields = {key: getattr(start, key) for key in ("text", "overrides", "provenance")}
            records.append(SweepRecord(name=found[1], trial_ids=sweep.plans[start.plan], **fields))
    return sorted(records, key=lambda record: record.name)


def copy_records(source: DurableFiles, target: DurableFiles, names: Iterable[str], hide_folders: bool = False) -> None:
    """Copy the starts of sweeps that the target lacks; starts that the target alone has stay.

    With `hide_folders` the commands of the copied starts lose the folders of absolute paths. If the target has a sweep
    of the same name with another history, whose latest start planned other trials, nothing is copied (`StoreError`).
    """

    def united(name: str, present: bytes | None) -> bytes | None:
        ours, theirs = (_readable(data, sweep_file(name)) for data in (source.read(sweep_file(name)), present))
        _check_stays(name, theirs)
        count = min(len(ours.starts), len(theirs.starts))
        if list(map(_hidden, ours.starts[:count])) != list(map(_hidden, theirs.starts[:count])):
            latest = [set(each.plans[each.starts[-1].plan]) for each in (ours, theirs)]
            if latest[0] != latest[1]:
                raise StoreError(
                    f"both stores have a sweep {name!r}, and their latest starts planned other trials "
                    f"({len(latest[0]):,} here, {len(latest[1]):,} there): rename one of the two"
                )
            return None
        missing = ours.starts[count:]
        return theirs.with_starts(list(map(_hidden, missing)) if hide_folders else missing, ours.plans).encoded()

    names = list(names)
    for name in names:
        united(name, target.read(sweep_file(name)))
    for name in names:
        target.update(sweep_file(name), lambda present, name=name: united(name, present))


def _check_stays(name: str, sweep: _File) -> None:
    """Refuses to add a start to a sweep that is about to have another name."""
    if sweep.renamed:
        raise StoreError(
            f"{name} is being renamed, or was killed at it: python -m sweeper rename {name} {sweep.renamed}"
        )


def _hidden(start: _Start) -> _Start:
    command = without_folders(start.provenance.command)
    return start.model_copy(update={"provenance": start.provenance.model_copy(update={"command": command})})


def rename_records(files: DurableFiles, old: str, new: str) -> None:
    """Give a sweep another name, with its notes and tags.

    From the first step on, the old name takes no start any more. A renaming that was killed is carried on by the same
    call. A name that is taken, maybe meanwhile, or a sweep that cannot be read and would be lost, is refused.
    """
    check_name(new)
    taken = StoreError(f"there is a sweep {new!r} already")

    def has(sweep: _File) -> bool:
        there = _readable(files.read(sweep_file(new)), sweep_file(new))
        return there.starts[: len(sweep.starts)] == sweep.starts

    def marked(present: bytes | None) -> bytes:
        sweep = _readable(present, sweep_file(old))
        if not sweep.starts:
            raise StoreError(f"the store has no sweep {old!r}")
        if _readable(files.read(sweep_file(new)), sweep_file(new)).starts and not (sweep.renamed == new and has(sweep)):
            raise taken
        return sweep.model_copy(update={"renamed": new}).encoded()

    files.update(sweep_file(old), marked)
    sweep = _readable(files.read(sweep_file(old)), sweep_file(old)).model_copy(update={"renamed": ""})
    written = files.write(sweep_file(new), sweep.encoded(), keep=lambda there: there is not None)
    if not written and not has(sweep):
        files.update(sweep_file(old), lambda present: present and sweep.encoded())  # which takes starts again
        raise taken
    rename_annotations(files, old, new)
    files.delete(sweep_file(old))
    rename_annotations(files, old, new)


def _sweep(data: bytes | None, file: str) -> _File:
    """The sweep in a file; one without starts if there is none. A file that holds no whole sweep is a `ValueError`."""
    if data is None:
        return _File()
    values = from_json(data)
    if not isinstance(values, dict):
        raise ValueError("it holds no sweep")
    check_version(values.get("schema_version"), file)
    sweep = _File.model_validate_json(data)
    if any(start.plan not in sweep.plans for start in sweep.starts):
        raise ValueError("a list of planned trials is missing")
    if any(_digest(trial_ids) != digest for digest, trial_ids in sweep.plans.items()):
        raise ValueError("a list of planned trials is damaged")
    return sweep


def _readable(data: bytes | None, file: str) -> _File:
    """The sweep in a file that is about to be changed; one that cannot be read is refused, as it would be lost."""
    try:
        return _sweep(data, file)
    except ValueError as error:
        raise StoreError(f"{file!r} cannot be read, and would be lost: mend or remove it first") from error


def _one_line(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        text = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:3])
    else:
        text = str(error)
    return printable(text)


def _digest(trial_ids: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(trial_ids).encode()).hexdigest()[:20]
