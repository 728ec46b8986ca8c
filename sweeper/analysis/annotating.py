"""Notes and tags of sweeps and trials: the choice of what they are for, their changes, and their table."""

import collections
import re
from collections.abc import Callable

import pandas as pd

from sweeper.analysis import sql
from sweeper.analysis.ready_questions import trial_with_prefix
from sweeper.analysis.status import moment
from sweeper.messages import UserError, counted, instead
from sweeper.store import annotations as stored
from sweeper.store.annotations import NO_ANNOTATIONS, AllAnnotations, Annotations, Subject, read_annotations
from sweeper.store.store import Store
from sweeper.store.sweep_records import latest_starts, unknown_sweep
from sweeper.tables import table

Chosen = tuple[Subject, str]  # what notes and tags are for: a sweep or trials, and what they are called in messages

Change = Callable[[Store, Chosen, list[str]], str]
"""Changes the notes or tags of what was chosen, and returns a line that says so; a `UserError` if it cannot be."""


def chosen(store: Store, what: str, where: str | None) -> Chosen:
    """The sweep of this name, the trials of it that a condition chooses, or the trial whose id begins with the name.

    What chooses nothing is a `UserError`, a condition that is no SQL a `QueryError`.
    """
    names = {record.name for record in store.sweeps()}
    if what in names:
        if where is None:
            return Subject(what), what
        of_sweep = f"SELECT DISTINCT trial_id FROM trials JOIN sweeps USING (trial_id) WHERE sweep = '{what}'"
        trial_ids = sql.table(f"{of_sweep} AND ({where}\n)", store)["trial_id"].to_pylist()
        if not trial_ids:
            raise UserError(f"no committed trial of {what} has {where}")
        return Subject(trial_ids=frozenset(trial_ids)), f"{counted(len(trial_ids), 'trial')} of {what}"
    if not re.fullmatch("[0-9a-f]{1,20}", what):
        raise unknown_sweep(what, names)
    if where is not None:
        raise UserError("--where chooses among the trials of a sweep, and this is a trial")
    trial_id = trial_with_prefix(store, what)
    return Subject(trial_ids=frozenset([trial_id])), f"trial {trial_id}"


def add_note(store: Store, choice: Chosen, words: list[str]) -> str:
    """Write the only word as a note."""
    (subject, name), (text,) = choice, words
    if not text.strip():
        raise UserError("the note is empty")
    if not text.isascii() and text != text.encode(errors="replace").decode():
        raise UserError("the note is no text in UTF-8")
    if len(text) > stored.LONGEST_NOTE:
        raise UserError(f"the note has {len(text):,} characters, at most {stored.LONGEST_NOTE:,} are kept")
    stored.annotate(store.files, subject, note=text)
    return f"{name}: noted"


def remove_note(store: Store, choice: Chosen, words: list[str]) -> str:
    """Take away the note that begins with the only word."""
    (subject, name), (text,) = choice, words
    own = {note for each in _own(store, subject) for note in each.texts}
    matching = sorted(note for note in own if note.startswith(text))
    if len(matching) != 1 and text not in matching:
        beginning = f"begins with {text!r}"
        if not matching:
            raise UserError(f"no note of {name} {beginning}")
        raise UserError(f"more than one note {beginning}: {'; '.join(map(repr, matching))}")
    note = matching[0]  # the text itself if it is a note
    stored.remove_notes(store.files, subject, [note])
    return f"{name}: the note {note!r} is gone"


def add_tags(store: Store, choice: Chosen, words: list[str]) -> str:
    subject, name = choice
    for word in words:
        if not re.fullmatch(stored.TAG, word):
            raise UserError(f"{word!r} cannot be a tag: a word of at most 100 characters without blanks and commas")
    had = [set(each.tags) for each in _own(store, subject)]
    new = [word for word in dict.fromkeys(words) if not had or any(word not in tags for tags in had)]
    if new:
        stored.annotate(store.files, subject, tags=new)
    return f"{name}: tagged {', '.join(dict.fromkeys(words))}"


def remove_tags(store: Store, choice: Chosen, words: list[str]) -> str:
    subject, name = choice
    own = {tag for each in _own(store, subject) for tag in each.tags}
    for word in words:
        if word not in own:
            raise UserError(f"{name}: no tag {word!r}{instead(word, sorted(own))}")
    stored.remove_tags(store.files, subject, words)
    return f"{name}: without {', '.join(words)}"


def _own(store: Store, subject: Subject) -> list[Annotations]:
    every = read_annotations(store.files)
    if subject.sweep is not None:
        return [every.sweeps.get(subject.sweep, NO_ANNOTATIONS)]
    return [every.trials.get(trial_id, NO_ANNOTATIONS) for trial_id in subject.trial_ids]


def present(store: Store, choice: Chosen | None) -> AllAnnotations:
    """The notes and tags of what was chosen, with those of the trials of a sweep; of all without a choice."""
    every = read_annotations(store.files)
    if choice is None:
        return every
    (sweep, trial_ids), _ = choice
    if sweep is not None:
        trial_ids = latest_starts(store.sweeps())[sweep].trial_ids
    of_sweep = {name: annotations for name, annotations in every.sweeps.items() if name == sweep}
    return AllAnnotations(of_sweep, {key: every.trials[key] for key in trial_ids if key in every.trials})


def listed(every: AllAnnotations) -> pd.DataFrame:
    """Notes and tags, a row for every note; trials that have the same stand in one row."""
    alike: dict[Annotations, list[str]] = collections.defaultdict(list)
    for trial_id, annotations in sorted(every.trials.items()):
        alike[annotations].append(trial_id)
    named = sorted(every.sweeps.items())
    named += [
        (ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1:,} more", annotations)
        for annotations, ids in alike.items()
    ]
    frame = table(
        (
            {
                "sweep or trial": name,
                "tags": ", ".join(annotations.tags),
                "note": text,
                "written": made and moment(made),
            }
            for name, annotations in named
            for made, text in annotations.notes or [(None, None)]
        ),
        formats={"written": "moment"},
    )
    frame.loc[frame.duplicated("sweep or trial"), ["sweep or trial", "tags"]] = None  # once is enough
    return frame
