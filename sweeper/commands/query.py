"""`python -m sweeper.query QUESTION`: ask the store in SQL, or one of the ready questions.

    query "select model_width, avg(loss) from trials where status = 'finished' group by model_width"
    query best [SWEEP]      the settings of a sweep, best first
    query show TRIAL        all about one trial; the beginning of its id suffices
    query curves TRIAL      its training curves

SQL is read by `sweeper.analysis.sql`, ready questions by `sweeper.analysis.ready_questions`.

Exit codes: 0; 2 for a question or a store that makes no sense, with one message; 130 after Ctrl-C.
"""

import functools
import os
import sys
from typing import Annotated, Literal

import typer

from sweeper.command_line import CommandLine, Results, errors_told
from sweeper.interruption import last_words

READY = {"best": "best [SWEEP]", "show": "show TRIAL", "curves": "curves TRIAL"}
"""The ready questions, and how each is asked."""

app = CommandLine()


@app.command()
def query(
    question: Annotated[
        list[str],
        typer.Argument(
            metavar="QUESTION",
            help="One SELECT over trials, all_trials, sweeps, evaluations, curves and outcomes, in quotes; or "
            "best [SWEEP], show TRIAL, curves TRIAL.",
        ),
    ],
    results: Results = "results",
    form: Annotated[
        Literal["table", "csv", "json", "parquet"], typer.Option("--format", help="How to print the answer.")
    ] = "table",
    raw: Annotated[
        bool, typer.Option("--raw", help="CSV without the apostrophe before texts that spreadsheets take for formulas.")
    ] = False,
) -> None:
    """Ask the store in SQL, or for the best settings of a sweep, a trial, or its curves."""
    try:
        with errors_told():
            _print_answer(question, results, form, raw)
        sys.stdout.flush()
    except KeyboardInterrupt:
        # At once: the process would otherwise wait for database functions that ignore interruptions until their end.
        last_words("interrupted")
        os._exit(130)


def _print_answer(question: list[str], results: str, form: str, raw: bool) -> None:
    from sweeper.analysis.answer_formats import PRINTERS, SHOWN, print_csv, print_table
    from sweeper.analysis.sql import QueryError, converted, table
    from sweeper.analysis.table import console, terminal
    from sweeper.store.store import Store

    if form == "parquet" and sys.stdout.isatty():
        raise QueryError("parquet is not for a terminal: redirect the output, or choose another --format")
    printed = functools.partial(print_csv, raw=raw) if form == "csv" else PRINTERS.get(form)
    name, *names = question
    if name not in READY:
        if names:
            raise QueryError("put the SELECT in quotes, or ask " + ", ".join(READY.values()))
        with converted():
            if printed is None:
                print_table(table(name, results, rows=SHOWN + 1), name)
            else:
                printed(table(name, results))
        return
    if len(names) > 1 or (name != "best" and not names):
        raise QueryError(f"ask {READY[name]}")
    from sweeper.analysis import ready_questions

    store, screen = Store.existing(results), console()
    if name == "best":
        people, programs = ready_questions.best(store, names[0] if names else None, screen.width)
    else:
        people, programs = (ready_questions.show if name == "show" else ready_questions.curves)(store, names[0])
    if printed is None:
        screen.print(terminal(people, rule=False))
    else:
        printed(programs)
