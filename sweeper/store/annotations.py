"""Notes and tags on sweeps and trials, beside the trials, whose files never change.

    annotations/<digits>.json

A note is a file, and so is a tag, with the sweep or the trials that have it. Its name is the digest of what was first
written. Afterwards trials are only taken out of it, and an empty file is deleted; so two changes at once are one after
the other. Earlier stores have one file with all annotations, `annotations.json`, in the same form.
"""

import collections
import datetime
import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from sweeper.store.files import DurableFiles, StoreError, TooLargeError, in_threads
from sweeper.store.schema import SCHEMA_VERSION, TRIAL_ID, check_version
from sweeper.store.sweep_records import start_files

logger = logging.getLogger(__name__)

FOLDER = "annotations"
EARLIER = "annotations.json"

LONGEST_NOTE = 10_000  # characters of a note
TAG = r"\w[\w.:/+-]{0,99}"  # what a tag may be: a word without blanks, commas and quotes


class Annotation(BaseModel):
    """A note or some tags, made at a moment (ISO 8601, UTC), on a sweep or on trials."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sweep: str | None = None
    trial_ids: tuple[Annotated[str, Field(pattern=f"^{TRIAL_ID}$")], ...] = ()
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] = ""
    tags: tuple[Annotated[str, Field(pattern=f"^{TAG}$")], ...] = ()
    made: Annotated[str, Field(max_length=100)]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    annotations: tuple[Annotation, ...]


class Subject(NamedTuple):
    """What is annotated: a sweep, or the trials with these ids."""

    sweep: str | None = None
    trial_ids: frozenset[str] = frozenset()


class Annotations(NamedTuple):
    """What a sweep or a trial has: tags in alphabetical order, and moment and text of each note, the oldest first."""

    tags: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.notes]


NO_ANNOTATIONS = Annotations()


class AllAnnotations(NamedTuple):
    """The notes and tags of a store: of sweeps by name, and of trials by id."""

    sweeps: Mapping[str, Annotations]
    trials: Mapping[str, Annotations]


def read_annotations(files: DurableFiles) -> AllAnnotations:
    """What every sweep and every trial of a store has; a file that makes no sense is left out with a warning."""
    every, _ = _sound(files)
    sweeps: dict[str, list[Annotation]] = collections.defaultdict(list)
    trials: dict[str, list[Annotation]] = collections.defaultdict(list)
    for annotation in every:
        if annotation.sweep is not None:
            sweeps[annotation.sweep].append(annotation)
        for trial_id in annotation.trial_ids:
            trials[trial_id].append(annotation)
    return AllAnnotations(*({name: _united(each) for name, each in of.items()} for of in (sweeps, trials)))


def _sound(files: DurableFiles) -> tuple[list[Annotation], list[str]]:
    """All annotations, and the files that make no sense and are left out with a warning."""
    damaged = list[str]()

    def read(name: str) -> tuple[Annotation, ...]:
        try:
            return _annotations(files.read(name), name)
        except ValueError as error:
            logger.warning("%r is left out: %s", name, error)
            damaged.append(name)
            return ()

    every = [annotation for each in in_threads(read, _names(files)) for annotation in each]
    return every, damaged


def _united(annotations: Sequence[Annotation]) -> Annotations:
    tags = {tag for annotation in annotations for tag in annotation.tags}
    notes = {(annotation.made, annotation.note) for annotation in annotations if annotation.note}
    return Annotations(tuple(sorted(tags)), tuple(sorted(notes)))


# Changes; each raises StoreError if the store cannot be read or written, or its annotations make no sense


def annotate(files: DurableFiles, subject: Subject, note: str = "", tags: Collection[str] = ()) -> None:
    """Put a note or tags on a sweep or on trials; also refused if the sweep is renamed or deleted meanwhile."""
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    ids = tuple(sorted(subject.trial_ids))
    written = _write(files, Annotation(sweep=subject.sweep, trial_ids=ids, note=note, tags=tuple(tags), made=made))
    if subject.sweep is None or start_files(files, subject.sweep):
        return
    # A renaming has taken the annotation along, or has looked before it came.
    if left := [name for name in written if files.read(name) is not None]:
        for name in left:
            files.delete(name)
        raise StoreError(f"{subject.sweep} was renamed or deleted meanwhile")


def remove_tags(files: DurableFiles, subject: Subject, tags: Collection[str]) -> None:
    _take(files, subject, lambda each: not set(tags).isdisjoint(each.tags))


def remove_notes(files: DurableFiles, subject: Subject, notes: Collection[str]) -> None:
    _take(files, subject, lambda each: each.note in notes)


def remove_annotations(files: DurableFiles, subject: Subject) -> None:
    _take(files, subject, lambda each: True)


def rename_annotations(files: DurableFiles, old: str, new: str) -> None:
    moved = [single for each in _every(files) if each.sweep == old for single in _singles(each)]
    for annotation in moved:
        _write(files, annotation.model_copy(update={"sweep": new}))
    _take(files, Subject(old), lambda each: each in moved)  # others have come meanwhile


def annotations_of(files: DurableFiles, sweeps: Collection[str]) -> tuple[list[Annotation], list[str]]:
    """The notes and tags of these sweeps and of all trials, and the files that make no sense and are left out."""
    every, damaged = _sound(files)
    return [each for each in every if each.sweep is None or each.sweep in sweeps], damaged


def add_annotations(files: DurableFiles, annotations: Iterable[Annotation], trial_ids: Collection[str]) -> None:
    """Write notes and tags that another store has, those on trials for these trials; the ones that are here stay."""
    for annotation in annotations:
        kept = tuple(trial_id for trial_id in annotation.trial_ids if trial_id in trial_ids)
        if kept or annotation.sweep is not None:
            _write(files, annotation.model_copy(update={"trial_ids": kept}))


def check_annotations(files: DurableFiles) -> None:
    """Refuse now what a change would refuse; for changes that come after others."""
    _every(files)


def _write(files: DurableFiles, annotation: Annotation) -> list[str]:
    """Write a file for the note, and one for each tag; their names."""
    names = []
    for single in _singles(annotation):
        digits = hashlib.sha256(single.model_dump_json().encode()).hexdigest()[:20]
        names.append(f"{FOLDER}/{digits}.json")
        files.write(names[-1], _encoded([single]))
    return names


def _singles(annotation: Annotation) -> list[Annotation]:
    """The note and the tags one by one."""
    tags = [annotation.model_copy(update={"note": "", "tags": (tag,)}) for tag in annotation.tags]
    return [annotation.model_copy(update={"tags": ()}), *tags] if annotation.note else tags


def _take(files: DurableFiles, subject: Subject, chosen: Callable[[Annotation], bool]) -> None:
    """Take the chosen notes and tags from a sweep or from trials; others that have them keep them."""

    def take(name: str) -> None:
        def rest(present: bytes | None) -> bytes | None:
            every = [single for each in _strict(present, name) for single in _singles(each)]
            left = [_without(each, subject) if chosen(each) else each for each in every]
            return None if left == every else _encoded([each for each in left if each is not None])

        files.update(name, rest)
        if files.read(name) == _encoded([]):
            files.delete(name)

    in_threads(take, _names(files))


def _without(annotation: Annotation, subject: Subject) -> Annotation | None:
    """The annotation without the sweep or the trials; None if nothing else has it."""
    if subject.sweep is not None:
        return None if annotation.sweep == subject.sweep else annotation
    left = tuple(trial_id for trial_id in annotation.trial_ids if trial_id not in subject.trial_ids)
    if left == annotation.trial_ids:
        return annotation
    return annotation.model_copy(update={"trial_ids": left}) if left else None


def _names(files: DurableFiles) -> list[str]:
    there = list(files.listing(FOLDER))
    try:
        return there if files.read(EARLIER) is None else [EARLIER, *there]
    except TooLargeError:  # who reads it says so
        return [EARLIER, *there]


def _every(files: DurableFiles) -> list[Annotation]:
    return [each for name in _names(files) for each in _strict(files.read(name), name)]


def _strict(data: bytes | None, name: str) -> tuple[Annotation, ...]:
    try:
        return _annotations(data, name)
    except ValueError as error:
        raise StoreError(f"{name!r} cannot be changed: {error}; mend or remove it first") from error


def _encoded(annotations: Sequence[Annotation]) -> bytes:
    return json.dumps(_File(annotations=tuple(annotations)).model_dump(), indent=1).encode()


def _annotations(data: bytes | None, name: str) -> tuple[Annotation, ...]:
    """The annotations in a file; none without a file. A file that holds something else is a `ValueError`."""
    if data is None:
        return ()
    values = from_json(data)
    if not isinstance(values, dict):
        raise ValueError("it holds no notes and tags")
    check_version(values.get("schema_version"), name)
    try:
        return _File.model_validate(values).annotations
    except ValidationError as error:
        raise ValueError("it holds no notes and tags") from error
