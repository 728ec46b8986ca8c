"""Notes and tags on sweeps and trials, in one file beside the trials, whose files never change.

    annotations.json

The file is a list of annotations, each a note or some tags on a sweep or on trials. Every change reads the list and
replaces it, unless another process has replaced it meanwhile, and then starts again: two changes at once are one after
the other.
"""

import collections
import datetime
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from sweeper.store.files import DurableFiles, StoreError
from sweeper.store.schema import SCHEMA_VERSION, TRIAL_ID, check_version
from sweeper.store.sweep_records import start_files

logger = logging.getLogger(__name__)

FILE = "annotations.json"

LARGEST_FILE = 64 * 2**20
"""Bytes of the largest file that is read; the ids of a million trials take 25 million."""

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
    try:
        every = _annotations(files.read(FILE))
    except ValueError as error:
        logger.warning("%r is left out: %s", FILE, error)
        every = ()
    sweeps: dict[str, list[Annotation]] = collections.defaultdict(list)
    trials: dict[str, list[Annotation]] = collections.defaultdict(list)
    for annotation in every:
        if annotation.sweep is not None:
            sweeps[annotation.sweep].append(annotation)
        for trial_id in annotation.trial_ids:
            trials[trial_id].append(annotation)
    return AllAnnotations(*({name: _united(each) for name, each in of.items()} for of in (sweeps, trials)))


def _united(annotations: Sequence[Annotation]) -> Annotations:
    tags = {tag for annotation in annotations for tag in annotation.tags}
    notes = {(annotation.made, annotation.note) for annotation in annotations if annotation.note}
    return Annotations(tuple(sorted(tags)), tuple(sorted(notes)))


# Changes; each raises StoreError if the store cannot be read or written, or its annotations make no sense


def annotate(files: DurableFiles, subject: Subject, note: str = "", tags: Collection[str] = ()) -> None:
    """Put a note or tags on a sweep or on trials; also refused if the sweep is renamed or deleted meanwhile."""
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    ids = tuple(sorted(subject.trial_ids))
    new = Annotation(sweep=subject.sweep, trial_ids=ids, note=note, tags=tuple(tags), made=made)
    _change(files, lambda every: [*every, new])
    if subject.sweep is None or start_files(files, subject.sweep):
        return
    # A renaming has taken the annotation along, or has looked before it came.
    if new in _annotations(files.read(FILE)):
        _change(files, lambda every: [each for each in every if each != new])
        raise StoreError(f"{subject.sweep} was renamed or deleted meanwhile")


def remove_tags(files: DurableFiles, subject: Subject, tags: Collection[str]) -> None:
    _change_of(
        files, subject, lambda each: each.model_copy(update={"tags": tuple(t for t in each.tags if t not in tags)})
    )


def remove_notes(files: DurableFiles, subject: Subject, notes: Collection[str]) -> None:
    _change_of(files, subject, lambda each: None if each.note in notes else each)


def remove_annotations(files: DurableFiles, subject: Subject) -> None:
    _change_of(files, subject, lambda each: None)


def rename_annotations(files: DurableFiles, old: str, new: str) -> None:
    _change(
        files, lambda every: [each.model_copy(update={"sweep": new}) if each.sweep == old else each for each in every]
    )


def copy_annotations(
    source: DurableFiles, target: DurableFiles, sweeps: Collection[str], trial_ids: Collection[str]
) -> None:
    """Copy the notes and tags of these sweeps and trials; those of the target stay."""
    copied = []
    for annotation in _annotations(source.read(FILE)):
        kept = tuple(trial_id for trial_id in annotation.trial_ids if trial_id in trial_ids)
        if kept or annotation.sweep in sweeps:
            copied.append(annotation.model_copy(update={"trial_ids": kept}))
    _change(target, lambda every: [*every, *copied])


def _change_of(files: DurableFiles, subject: Subject, change: Callable[[Annotation], Annotation | None]) -> None:
    _change(files, lambda every: [part for each in every for part in _parted(each, subject, change)])


def _parted(
    annotation: Annotation, subject: Subject, change: Callable[[Annotation], Annotation | None]
) -> Iterable[Annotation]:
    """The annotation with a change for the sweep or the trials of the subject, and without it for all others."""
    if subject.sweep is not None:
        parts = [change(annotation) if annotation.sweep == subject.sweep else annotation]
    else:
        chosen, others = [], []
        for trial_id in annotation.trial_ids:
            (chosen if trial_id in subject.trial_ids else others).append(trial_id)
        if not chosen:
            return [annotation]
        parts = [
            annotation.model_copy(update={"trial_ids": tuple(others)}) if others else None,
            change(annotation.model_copy(update={"trial_ids": tuple(chosen)})),
        ]
    return [part for part in parts if part is not None and (part.note or part.tags)]


def _change(files: DurableFiles, change: Callable[[Sequence[Annotation]], Sequence[Annotation]]) -> None:
    def changed(present: bytes | None) -> bytes | None:
        try:
            every = _annotations(present)
        except ValueError as error:
            raise StoreError(f"{FILE!r} cannot be changed: {error}; mend or remove it first") from error
        # Equal annotations come from a copy that was made before.
        new = tuple(dict.fromkeys(change(every)))
        return None if new == every else json.dumps(_File(annotations=new).model_dump(), indent=1).encode()

    files.update(FILE, changed)


def _annotations(data: bytes | None) -> tuple[Annotation, ...]:
    """The annotations in a file; none without a file. A file that holds something else is a `ValueError`."""
    if data is None:
        return ()
    if len(data) > LARGEST_FILE:
        raise ValueError(f"it has {len(data):,} bytes, too many")
    values = from_json(data)
    if not isinstance(values, dict):
        raise ValueError("it holds no notes and tags")
    check_version(values.get("schema_version"), FILE)
    try:
        return _File.model_validate(values).annotations
    except ValidationError as error:
        raise ValueError("it holds no notes and tags") from error
