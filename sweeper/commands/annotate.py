"""`python -m sweeper note WHAT TEXT` and `python -m sweeper tag WHAT TAG…`: notes and tags on sweeps and trials.

    sweeper note coloring "the first run had the wrong rate"      on a sweep
    sweeper tag coloring keep published
    sweeper tag coloring --where "width = 3 and loss > 1" stuck   on the trials of a sweep that a condition chooses
    sweeper note 3f2a "look at the curves"                        on a trial
    sweeper note coloring                                         shows the notes and tags of a sweep and its trials
    sweeper note                                                  shows all
    sweeper tag coloring --remove keep                            takes a tag away; a note is named by its beginning

Exit codes: 0; 2 for names, tags or conditions that make no sense, and a store that cannot be read or written.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from sweeper.command_line import CommandLine, Results, errors_told
from sweeper.messages import UserError, printable

if TYPE_CHECKING:
    from sweeper.analysis.annotating import Change

app = CommandLine()

What = Annotated[
    str | None,
    typer.Argument(metavar="WHAT", help="A sweep, or the beginning of a trial's id; without it all are shown."),
]
Where = Annotated[
    str | None,
    typer.Option(metavar="CONDITION", help='Only these trials of the sweep, in SQL: "width = 3 and loss > 0.5".'),
]


@app.command()
def note(
    what: What = None,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The note; without it notes are shown.")] = None,
    where: Where = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take away the note that begins with TEXT.")] = False,
    results: Results = "results",
) -> None:
    """Write a note on a sweep or on trials; without a text show notes and tags."""
    from sweeper.analysis.annotating import add_note, remove_note

    _answer(results, what, where, [] if text is None else [text], remove_note if remove else add_note, remove)


@app.command()
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
    from sweeper.analysis.annotating import add_tags, remove_tags

    _answer(results, what, where, tags or [], remove_tags if remove else add_tags, remove)


def _answer(
    results: str, what: str | None, where: str | None, words: list[str], change: "Change", remove: bool
) -> None:
    """Change something if there are words, and otherwise show what is there."""
    from sweeper.analysis.annotating import chosen, listed, present
    from sweeper.analysis.table import console, terminal
    from sweeper.store.store import Store

    with errors_told():
        store = Store.existing(results)
        choice = None if what is None else chosen(store, what, where)
        if choice is None and where is not None:
            raise UserError("--where chooses among the trials of a sweep: name the sweep")
        if choice is not None and words:
            print(printable(change(store, choice, words)))
            return
        if remove:
            raise UserError("--remove takes away what is named: the tags, or the beginning of the note")
        annotations = present(store, choice)
        if annotations.sweeps or annotations.trials:
            console().print(terminal(listed(annotations), rule=False))
        else:
            print("no notes and no tags")
