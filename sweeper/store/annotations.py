"""Notes and tags on sweeps and trials, as small files beside the rows, which never change.

annotations/<digest>.json     a note or a few tags, and the sweep or the trials that have them

A file is called by the digest of its content, so a damaged file shows, and no two writers meet in one file. What a
sweep or a trial has is the union of all files: their order does not matter. To take a tag away from some trials is to
write the file without these trials, and then to delete the old file.
"""

import collections
import datetime
import hashlib
import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from sweeper.store.file_names import TRIAL_ID
from sweeper.store.files import DurableFiles
from sweeper.store.schema import SCHEMA_VERSION
from sweeper.store.seal import check_version

logger = logging.getLogger(__name__)

LARGEST_FILE = 64 * 2**20
"""Bytes of the largest file that is read; the ids of a million trials take 25 million."""

LONGEST_NOTE = 10_000
"""Characters of a note."""

TAG = re.compile(r"\w[\w.:/+-]{0,99}")
"""What a tag may be: a word without blanks, commas and quotes."""

_FILE = re.compile(r"annotations/([0-9a-f]{20})\.json")


class Annotation(BaseModel):
    """A note or some tags, on a sweep or on trials.

    Attributes:
        sweep: The sweep; None for trials.
        trial_ids: The trials; empty for a sweep.
        note: The note; empty for tags.
        tags: The tags; empty for a note.
        made: When, as ISO 8601 in UTC.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sweep: str | None = None
    trial_ids: tuple[Annotated[str, Field(pattern=f"^{TRIAL_ID}$")], ...] = ()
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] = ""
    tags: tuple[Annotated[str, Field(pattern=f"^{TAG.pattern}$")], ...] = ()
    made: Annotated[str, Field(max_length=100)]


class Subject(NamedTuple):
    """What is annotated: a sweep, or trials.

    Attributes:
        sweep: Name of the sweep; None for trials.
        trial_ids: Ids of the trials; empty for a sweep.
    """

    sweep: str | None = None
    trial_ids: frozenset[str] = frozenset()

    def has(self, annotation: Annotation) -> bool:
        """Whether the annotation is on this sweep, or on any of these trials."""
        if self.sweep is not None:
            return annotation.sweep == self.sweep
        return not self.trial_ids.isdisjoint(annotation.trial_ids)


class Annotations(NamedTuple):
    """What a sweep or a trial has.

    Attributes:
        tags: In alphabetical order.
        notes: Moment and text of each note, the oldest first.
    """

    tags: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()

    @property
    def texts(self) -> list[str]:
        """The notes without their moments."""
        return [text for _, text in self.notes]


NO_ANNOTATIONS = Annotations()


class AllAnnotations(NamedTuple):
    """The notes and tags of a store.

    Attributes:
        sweeps: Of sweeps, by name.
        trials: Of trials, by id.
    """

    sweeps: Mapping[str, Annotations]
    trials: Mapping[str, Annotations]


# --------------------------------------------------------------------------------------------------------------------
# Write and read
# --------------------------------------------------------------------------------------------------------------------


def annotate(files: DurableFiles, subject: Subject, note: str = "", tags: Collection[str] = ()) -> None:
    """Put a note or tags on a sweep or on trials.

    Raises:
        StoreError: the store cannot be written.
    """
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    _write(
        files,
        Annotation(
            sweep=subject.sweep, trial_ids=tuple(sorted(subject.trial_ids)), note=note, tags=tuple(tags), made=made
        ),
    )


def read_annotations(files: DurableFiles) -> AllAnnotations:
    """What every sweep and every trial of a store has; files that make no sense are left out with a warning.

    Raises:
        StoreError: the store cannot be read, or a newer version of this program wrote it.
    """
    of_sweeps: dict[str, _Gathered] = collections.defaultdict(_Gathered)
    of_trials: dict[str, _Gathered] = collections.defaultdict(_Gathered)
    for annotation in _read(files).values():
        if annotation.sweep is not None:
            of_sweeps[annotation.sweep].add(annotation)
        for trial_id in annotation.trial_ids:
            of_trials[trial_id].add(annotation)
    return AllAnnotations(
        {name: gathered.annotations() for name, gathered in of_sweeps.items()},
        {trial_id: gathered.annotations() for trial_id, gathered in of_trials.items()},
    )


class _Gathered:
    """The annotations of one sweep or trial so far."""

    def __init__(self) -> None:
        self._tags: set[str] = set()
        self._notes: set[tuple[str, str]] = set()

    def add(self, annotation: Annotation) -> None:
        self._tags.update(annotation.tags)
        if annotation.note:
            self._notes.add((annotation.made, annotation.note))

    def annotations(self) -> Annotations:
        return Annotations(tuple(sorted(self._tags)), tuple(sorted(self._notes)))


# --------------------------------------------------------------------------------------------------------------------
# Take away, rename, copy
# --------------------------------------------------------------------------------------------------------------------


def remove_tags(files: DurableFiles, subject: Subject, tags: Collection[str]) -> None:
    """Take tags away from a sweep or from trials.

    Raises:
        StoreError: the store cannot be read or written. The same call carries on.
    """
    for name, annotation in _read(files).items():
        kept = tuple(tag for tag in annotation.tags if tag not in tags)
        if subject.has(annotation) and len(kept) < len(annotation.tags):
            update = {"tags": kept}
            if annotation.sweep is None:
                update["trial_ids"] = tuple(key for key in annotation.trial_ids if key in subject.trial_ids)
            _replace(files, name, [_of_others(annotation, subject), annotation.model_copy(update=update)])


def remove_notes(files: DurableFiles, subject: Subject, notes: Collection[str]) -> None:
    """Take notes away from a sweep or from trials; raises as `remove_tags` does."""
    for name, annotation in _read(files).items():
        if subject.has(annotation) and annotation.note in notes:
            _replace(files, name, [_of_others(annotation, subject)])


def remove_annotations(files: DurableFiles, subject: Subject) -> None:
    """Take all notes and tags away from a sweep or from trials; raises as `remove_tags` does."""
    for name, annotation in _read(files).items():
        if subject.has(annotation):
            _replace(files, name, [_of_others(annotation, subject)])


def rename_annotations(files: DurableFiles, old: str, new: str) -> None:
    """Give the notes and tags of a sweep to the sweep of another name; raises as `remove_tags` does."""
    for name, annotation in _read(files).items():
        if annotation.sweep == old:
            _replace(files, name, [annotation.model_copy(update={"sweep": new})])


def copy_annotations(
    source: DurableFiles, target: DurableFiles, sweeps: Collection[str], trial_ids: Collection[str]
) -> None:
    """Copy the notes and tags of these sweeps and trials; those of the target stay.

    Raises:
        StoreError: a store cannot be read or written. The same call carries on.
    """
    for annotation in _read(source).values():
        kept = tuple(trial_id for trial_id in annotation.trial_ids if trial_id in trial_ids)
        if kept or annotation.sweep in sweeps:
            _write(target, annotation.model_copy(update={"trial_ids": kept}))


def _of_others(annotation: Annotation, subject: Subject) -> Annotation | None:
    """The annotation of the trials that are not of the subject; None if there are none."""
    kept = tuple(trial_id for trial_id in annotation.trial_ids if trial_id not in subject.trial_ids)
    return annotation.model_copy(update={"trial_ids": kept}) if kept else None


def _replace(files: DurableFiles, name: str, annotations: Iterable[Annotation | None]) -> None:
    """Publishes annotations in place of a file, those that say anything. Killed in between, the old file stays."""
    for annotation in annotations:
        if annotation is not None and (annotation.note or annotation.tags):
            _write(files, annotation)
    files.delete(name)


# --------------------------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------------------------


def _write(files: DurableFiles, annotation: Annotation) -> None:
    data = json.dumps({"schema_version": SCHEMA_VERSION} | annotation.model_dump(), indent=1).encode()
    files.write(f"annotations/{_digest(data)}.json", data)


def _read(files: DurableFiles) -> dict[str, Annotation]:
    """All annotations by the name of their file."""
    annotations = {}
    for name, state in sorted(files.listing("annotations").items()):
        match = _FILE.fullmatch(name)
        data = files.read(name) if match and state.size <= LARGEST_FILE else None
        if match and data is not None:
            try:
                annotations[name] = _annotation(name, data, match[1])
            except ValidationError:
                logger.warning("%r is left out: it is no note and no tag", name)
            except ValueError as error:
                logger.warning("%r is left out: %s", name, error)
    return annotations


def _annotation(name: str, data: bytes, digest: str) -> Annotation:
    """The annotation in a file.

    Raises:
        ValueError: the file is damaged or holds no annotation.
        StoreError: a newer version of this program wrote it.
    """
    if _digest(data) != digest:
        raise ValueError("it is damaged")
    values = from_json(data)
    if not isinstance(values, dict):
        raise ValueError("it is no note and no tag")
    check_version(values.pop("schema_version", None), name)
    return Annotation.model_validate(values)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:20]
