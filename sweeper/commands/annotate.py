"""`python -m sweeper note WHAT TEXT` and `python -m sweeper tag WHAT TAG…`: notes and tags on sweeps and trials.

    sweeper note coloring "the first run had the wrong rate"      on a sweep
    sweeper tag coloring keep published
    sweeper tag coloring --where "q = 3 and success < 0.5" stuck  on the trials of a sweep that a condition chooses
    sweeper note 3f2a "look at the curves"                        on a trial
    sweeper note coloring                                         shows the notes and tags of a sweep and its trials
    sweeper note                                                  shows all
    sweeper tag coloring --remove keep                            takes a tag away; a note is named by its beginning

Exit codes: 0; 2 for names, tags or conditions that make no sense, and a store that cannot be read or written.
"""

import collections
import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sweeper.command_line import Results, exit_on
from sweeper.messages import counted, did_you_mean, nearest_name, printable

if TYPE_CHECKING:
    from sweeper.analysis.table import Table
    from sweeper.store.annotations import AllAnnotations, Annotations, Subject
    from sweeper.store.store import Store

note_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
tag_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

What = Annotated[
    str | None,
    typer.Argument(metavar="WHAT", help="A sweep, or the beginning of a trial's id; without it all are shown."),
]
Where = Annotated[
    str | None,
    typer.Option(metavar="CONDITION", help='Only these trials of the sweep, in SQL: "q = 3 and success < 0.5".'),
]


@note_app.command()
def note(
    what: What = None,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The note; without it notes are shown.")] = None,
    where: Where = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take away the note that begins with TEXT.")] = False,
    results: Results = "results",
) -> None:
    """Write a note on a sweep or on trials; without a text show notes and tags."""
    _answer(results, what, where, [] if text is None else [text], _remove_note if remove else _add_note)


@tag_app.command()
def tag(
    what: What = None,
    tags: Annotated[
        list[str] | None, typer.Argument(metavar="TAG…", help="Words without blanks; without any, tags are shown.")
    ] = None,
    where: Where = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the tags away.")] = False,
    results: Results = "results",
) -> None:
    """Tag a sweep or trials; without a tag show notes and tags."""
    _answer(results, what, where, tags or [], _remove_tags if remove else _add_tags)


class _Chosen(NamedTuple):
    """What a command line names.

    Attributes:
        subject: The sweep or the trials.
        name: What the subject is called in messages.
    """

    subject: "Subject"
    name: str


class _Refused(ValueError):
    """A command that is refused before anything is written; the message is for the user."""


Change = Callable[["Store", _Chosen, list[str]], str]
"""Changes the notes or tags of what was chosen, and returns a line that says so."""


def _answer(results: str, what: str | None, where: str | None, words: list[str], change: Change) -> None:
    """Change something if there are words, and otherwise show what is there."""
    from sweeper.analysis.sql import QueryError
    from sweeper.store.store import Store, StoreError

    with exit_on(_Refused, QueryError, StoreError):
        store = Store.existing(results)
        chosen = None if what is None else _chosen(store, what, where)
        if chosen is None and where is not None:
            raise _Refused("--where chooses among the trials of a sweep: name the sweep")
        if chosen is not None and words:
            print(printable(change(store, chosen, words)))
        elif change in (_remove_note, _remove_tags):
            raise _Refused("--remove takes away what is named: the tags, or the beginning of the note")
        else:
            _show(store, chosen)


def _chosen(store: "Store", what: str, where: str | None) -> _Chosen:
    """The sweep of this name, the trials of it that a condition chooses, or the trial whose id begins so.

    Raises:
        _Refused: the condition chooses nothing.
        StoreError: there is no such sweep.
        QueryError: the condition is no SQL, or no trial or more than one begins so.
    """
    from sweeper.analysis.ready_questions import trial_with_prefix
    from sweeper.analysis.sql import table
    from sweeper.store.annotations import Subject
    from sweeper.store.sweep_records import unknown_sweep

    names = {record.name for record in store.sweeps()}
    if what in names and where is None:
        return _Chosen(Subject(what), what)
    if what in names:
        of_sweep = f"SELECT DISTINCT trial_id FROM trials JOIN sweeps USING (trial_id) WHERE sweep = '{what}'"
        trial_ids = table(f"{of_sweep} AND (\n{where}\n)", store)["trial_id"].to_pylist()
        if not trial_ids:
            raise _Refused(f"no committed trial of {what} has {where}")
        return _Chosen(Subject(trial_ids=frozenset(trial_ids)), f"{counted(len(trial_ids), 'trial')} of {what}")
    if not re.fullmatch("[0-9a-f]{1,20}", what):
        raise unknown_sweep(what, names)
    if where is not None:
        raise _Refused("--where chooses among the trials of a sweep, and this is a trial")
    trial_id = trial_with_prefix(store, what)
    return _Chosen(Subject(trial_ids=frozenset([trial_id])), f"trial {trial_id}")


# --------------------------------------------------------------------------------------------------------------------
# Changes
# --------------------------------------------------------------------------------------------------------------------


def _add_note(store: "Store", chosen: _Chosen, words: list[str]) -> str:
    from sweeper.store.annotations import LONGEST_NOTE, annotate

    (text,) = words
    if not text.strip():
        raise _Refused("the note is empty")
    if len(text) > LONGEST_NOTE:
        raise _Refused(f"the note has {len(text):,} characters, at most {LONGEST_NOTE:,} are kept")
    annotate(store.files, chosen.subject, note=text)
    return f"{chosen.name}: noted"


def _remove_note(store: "Store", chosen: _Chosen, words: list[str]) -> str:
    from sweeper.store.annotations import remove_notes

    (text,) = words
    present = {note for each in _own(store, chosen.subject) for note in each.texts}
    matching = sorted(note for note in present if note.startswith(text))
    if len(matching) != 1 and text not in matching:
        beginning = f"begins with {text!r}"
        if not matching:
            raise _Refused(f"no note of {chosen.name} {beginning}")
        raise _Refused(f"more than one note {beginning}: {'; '.join(map(repr, matching))}")
    note = matching[0]  # the text itself if it is a note
    remove_notes(store.files, chosen.subject, [note])
    return f"{chosen.name}: the note {note!r} is gone"


def _add_tags(store: "Store", chosen: _Chosen, words: list[str]) -> str:
    from sweeper.store.annotations import TAG, annotate

    for word in words:
        if not TAG.fullmatch(word):
            raise _Refused(f"{word!r} cannot be a tag: a word of at most 100 characters without blanks and commas")
    had = [set(each.tags) for each in _own(store, chosen.subject)]
    new = [word for word in dict.fromkeys(words) if not had or any(word not in tags for tags in had)]
    if new:
        annotate(store.files, chosen.subject, tags=new)
    return f"{chosen.name}: tagged {', '.join(dict.fromkeys(words))}"


def _remove_tags(store: "Store", chosen: _Chosen, words: list[str]) -> str:
    from sweeper.store.annotations import remove_tags

    present = {tag for each in _own(store, chosen.subject) for tag in each.tags}
    for word in words:
        if word not in present:
            known = f"tags are: {', '.join(sorted(present)) or 'none'}"
            raise _Refused(f"{chosen.name}: no tag {word!r}{did_you_mean(nearest_name(word, present))}; {known}")
    remove_tags(store.files, chosen.subject, words)
    return f"{chosen.name}: without {', '.join(words)}"


def _own(store: "Store", subject: "Subject") -> "list[Annotations]":
    """The notes and tags of the sweep, or of each of the trials."""
    from sweeper.store.annotations import NO_ANNOTATIONS, read_annotations

    every = read_annotations(store.files)
    if subject.sweep is not None:
        return [every.sweeps.get(subject.sweep, NO_ANNOTATIONS)]
    return [every.trials.get(trial_id, NO_ANNOTATIONS) for trial_id in subject.trial_ids]


# --------------------------------------------------------------------------------------------------------------------
# What is there
# --------------------------------------------------------------------------------------------------------------------


def _show(store: "Store", chosen: _Chosen | None) -> None:
    """Print the notes and tags of what was chosen, with those of the trials of a sweep; of all without a choice."""
    from sweeper.analysis.answer_formats import console
    from sweeper.analysis.table import terminal
    from sweeper.store.annotations import AllAnnotations, read_annotations
    from sweeper.store.sweep_records import latest_starts

    every = read_annotations(store.files)
    if chosen is not None:
        sweep, trial_ids = chosen.subject
        if sweep is not None:
            trial_ids = latest_starts(store.sweeps())[sweep].trial_ids
        every = AllAnnotations(_only(every.sweeps, [sweep or ""]), _only(every.trials, trial_ids))
    if not every.sweeps and not every.trials:
        print("no notes and no tags")
        return
    console().print(terminal(listed(every), rule=False))


def _only(annotations: "Mapping[str, Annotations]", names: Collection[str]) -> "dict[str, Annotations]":
    return {name: annotations[name] for name in names if name in annotations}


def listed(every: "AllAnnotations") -> "Table":
    """Notes and tags, a row for every note; trials that have the same stand in one row."""
    from sweeper.analysis.sweeps import moment
    from sweeper.analysis.table import MOMENT, Column, Table

    alike: dict[Annotations, list[str]] = collections.defaultdict(list)
    for trial_id, annotations in sorted(every.trials.items()):
        alike[annotations].append(trial_id)
    named = sorted(every.sweeps.items())
    named += [
        (ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1:,} more", annotations)
        for annotations, ids in alike.items()
    ]
    rows = []
    for name, annotations in named:
        for place, (made, text) in enumerate(annotations.notes or [(None, None)]):
            first = place == 0
            rows.append(
                (
                    name if first else None,
                    ", ".join(annotations.tags) if first else None,
                    text,
                    made and moment(made),
                )
            )
    heads = (Column("sweep or trial"), Column("tags"), Column("note"), Column("written", MOMENT))
    return Table("", heads, tuple(rows))
