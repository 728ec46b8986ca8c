"""Notes and tags on sweeps and trials, beside the trials, whose files never change.

    annotations/<digits>.json

A note is a file, and so is a tag, with the sweep or the trial that it is on. Its name is the digest of its content. The
file is never changed, and deleted when it is taken away.
"""

import collections
import datetime
import hashlib
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict
from pydantic_core import from_json

from sweeper.messages import one_line, printable
from sweeper.store.files import DurableFiles, StoreError, in_threads
from sweeper.store.schema import SCHEMA_VERSION, check_version

logger = logging.getLogger(__name__)

FOLDER = "annotations"

TAG = r"\w[\w.:/+-]{0,99}"  # what a tag may be: a word without blanks, commas and quotes


class Annotation(BaseModel):
    """A note or a tag, made at a moment (ISO 8601, UTC), on a sweep or on a trial."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    sweep: str | None = None
    trial_id: str | None = None
    note: str = ""
    tag: str = ""
    made: str

    def is_on(self, sweep: str | None, trial_id: str | None) -> bool:
        return (self.sweep, self.trial_id) == (sweep, trial_id)


class Annotations(NamedTuple):
    """What a sweep or a trial has: tags in alphabetical order, and notes, the oldest first."""

    tags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


NO_ANNOTATIONS = Annotations()


class AllAnnotations(NamedTuple):
    """The notes and tags of a store: of sweeps by name, and of trials by id."""

    sweeps: Mapping[str, Annotations]
    trials: Mapping[str, Annotations]


def read_annotations(files: DurableFiles) -> AllAnnotations:
    """What every sweep and every trial of a store has."""
    sweeps, trials = collections.defaultdict(list), collections.defaultdict(list)
    for annotation in _by_file(files).values():
        if annotation.sweep is not None:
            sweeps[annotation.sweep].append(annotation)
        if annotation.trial_id is not None:
            trials[annotation.trial_id].append(annotation)
    return AllAnnotations(*({name: _united(each) for name, each in of.items()} for of in (sweeps, trials)))


def _united(annotations: Sequence[Annotation]) -> Annotations:
    tags = {annotation.tag for annotation in annotations if annotation.tag}
    notes = {(annotation.made, annotation.note) for annotation in annotations if annotation.note}
    return Annotations(tuple(sorted(tags)), tuple(text for _, text in sorted(notes)))


def annotate(
    files: DurableFiles,
    sweep: str | None = None,
    trial_id: str | None = None,
    note: str = "",
    tags: Collection[str] = (),
) -> None:
    """Put a note or tags on a sweep or on a trial; a `StoreError` if they are none."""
    for tag in tags:
        if not re.fullmatch(TAG, tag):
            raise StoreError(f"{tag!r} cannot be a tag: a word of at most 100 characters without blanks and commas")
    if not note.strip() and not tags:
        raise StoreError("the note is empty")
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    text = note.encode(errors="backslashreplace").decode()
    for words, word in [(text, "")] if note else [("", tag) for tag in tags]:
        annotation = Annotation(sweep=sweep, trial_id=trial_id, note=words, tag=word, made=made)
        data = annotation.model_dump_json(indent=1).encode()
        files.write(f"{FOLDER}/{hashlib.sha256(data).hexdigest()[:20]}.json", data)


def remove_annotations(files: DurableFiles, chosen: Callable[[Annotation], bool]) -> int:
    """Delete the files of the chosen notes and tags; returns how many."""
    gone = [name for name, annotation in _by_file(files).items() if chosen(annotation)]
    for name in gone:
        files.delete(name)
    return len(gone)


def copy_annotations(source: DurableFiles, target: DurableFiles, chosen: Callable[[Annotation], bool]) -> None:
    """Copy the files of the chosen notes and tags."""
    for name, annotation in _by_file(source).items():
        if chosen(annotation) and (data := source.read(name)) is not None:
            target.write(name, data)


def _by_file(files: DurableFiles) -> dict[str, Annotation]:
    """The notes and tags of a store by file; a broken file is left out with a warning."""

    def read(name: str) -> Annotation | None:
        try:
            if (data := files.read(name)) is None:
                return None
            check_version(from_json(data)["schema_version"], name)
            return Annotation.model_validate_json(data)
        except (ValueError, LookupError, TypeError) as error:
            logger.warning("%r is left out, it holds no note and no tag: %s", name, printable(one_line(str(error))))
            return None

    names = list(files.listing(FOLDER))
    found = zip(names, in_threads(read, names), strict=True)
    return {name: annotation for name, annotation in found if annotation is not None}
