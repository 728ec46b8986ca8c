"""Commands that ask a store: `status`, `query`, `report` and `plot`.

    status                          the sweeps, how far each is, and what runs now
    query "select model_width, avg(loss) from trials where status = 'finished' group by model_width"
    query best [SWEEP]              the settings of a sweep, best first
    query show TRIAL                all about one trial; the beginning of its id suffices
    query curves TRIAL              its training curves
    report --html PAGE.html         figures, comparison with published values, and all of it as one page
    report --diff A B               two sweeps or two stores compared (`sweeper.analysis.difference`)
    plot model_width loss --split optimizer                 means over training seeds, and their range
    plot loss accuracy --where "task = 'sine'"              a point a trial
    plot step train_loss --split model_width --out c.pdf    training curves
    plot evaluation.seeds loss --rows evaluations           evaluations of stored networks

With `--watch` a status looks again and again, and a report writes its page again and again, until Ctrl-C.

A sweep is as far as the trials that its latest start planned. Two sweeps that plan the same trial share its row.

Exit codes: 0; 1 for a report that had nothing to draw; 2 for a question or a store that makes no sense, with one
message; 130 after Ctrl-C.
"""

import base64
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from sweeper.command_line import CommandLine, Results, errors_told, opened, with_home
from sweeper.interruption import last_words
from sweeper.messages import printable, printable_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from sweeper.store.store import Status, Store


app = CommandLine()


# Status

WATCH_SECONDS = 2.0  # between two looks at the drivers with `--watch`
WATCH_SHARE = 0.1  # share of the time that `--watch` spends at most on reading rows


@app.command()
def status(
    results: Results = "results",
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
) -> None:
    """Show the sweeps in a store, how far each is, and what runs now."""
    from sweeper.analysis.table import console

    screen = console()
    with opened(results) as store:
        if watch:
            follow(store, screen)
        for part in [*_running(store), *_sweeps(store)]:
            screen.print(part)


def follow(store: "Store", screen: "Console", pause: Callable[[float], None] = time.sleep) -> NoReturn:
    """Look again and again, with a pause between two looks, until Ctrl-C."""
    from rich.console import Group
    from rich.live import Live

    with Live(console=screen, auto_refresh=False) as live:
        sweeps: list[RenderableType] = []
        due = 0.0
        while True:
            begun = time.monotonic()
            if begun >= due:
                sweeps = _sweeps(store)
                due = time.monotonic() + max(WATCH_SECONDS, (time.monotonic() - begun) / WATCH_SHARE)
            live.update(Group(*_running(store), *sweeps), refresh=True)
            pause(WATCH_SECONDS)


def _sweeps(store: "Store") -> "list[RenderableType]":
    """How far the sweeps are, and why trials failed."""
    from rich.text import Text

    from sweeper.analysis.status import overview, remarks, starts_by_name
    from sweeper.analysis.table import terminal
    from sweeper.store.annotations import read_annotations

    rows = store.columns(["trial_id", "status", "arithmetic", "extra_metrics"]).to_pylist()
    committed: dict[str, Status] = {row["trial_id"]: row["status"] for row in rows}
    starts = starts_by_name(store.sweeps())
    if not starts and not committed:
        return [Text("the store is empty")]
    annotations = read_annotations(store.files).sweeps
    parts = [terminal(overview(starts, committed, annotations), rule=False)] if starts else []
    return [*parts, *(Text(printable(line)) for line in remarks(store, starts, rows))]


def _running(store: "Store") -> "list[RenderableType]":
    """What runs and when it will be done, a line for each sweep; what has died; the packs that run."""
    from rich.text import Text

    from sweeper.analysis.status import drivers, packs_table, sentence
    from sweeper.analysis.table import terminal

    known = drivers(store)
    parts: list[RenderableType] = [Text(printable(sentence(driver))) for driver in known] or [Text("nothing runs")]
    packs = packs_table(known)
    if len(packs):
        parts.append(terminal(packs, rule=False))
    return parts


# Query

READY = {"best": "best [SWEEP]", "show": "show TRIAL", "curves": "curves TRIAL"}
"""The ready questions, and how each is asked."""


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


# Report


@app.command()
def report(
    results: Results = "results",
    out: Annotated[
        Path | None,
        typer.Option(callback=with_home, help="Folder of the report; by default `figures` inside the store."),
    ] = None,
    space: Annotated[
        list[Path] | None, typer.Option(metavar="SPACE.yaml", help="Draw this space's panels; repeatable.")
    ] = None,
    sweep: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Draw this recorded sweep only; repeatable.")
    ] = None,
    planned: Annotated[
        bool,
        typer.Option("--planned", help="Of spaces draw only what they plan, and say which command runs the rest."),
    ] = False,
    palette: Annotated[Literal["paper", "colorblind"], typer.Option(help="Colours of the figures.")] = "paper",
    compare: Annotated[
        bool, typer.Option("--compare", help="Write and print every published number beside the measured one.")
    ] = False,
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Compare two sweeps of the store, or two stores, and draw nothing."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="PAGE.html", dir_okay=False, callback=with_home, help="Write the report as one page as well."
        ),
    ] = None,
    watch: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", min=1, help="Write the page again so often, until Ctrl-C; browsers follow."),
    ] = None,
) -> None:
    """Draw the panels of sweeps, say what they advise, and compare with published numbers."""
    from sweeper.analysis.report import ReportOptions, follow, print_difference, write_report

    options = ReportOptions(results, out, tuple(space or ()), tuple(sweep or ()), palette, compare, html, planned)
    with errors_told():
        if diff is not None:
            print_difference(results, *diff)
        elif watch is None:
            written = write_report(options)
            if written is not None and not written.paths:
                raise typer.Exit(1)
        elif html is None:
            raise typer.BadParameter("--watch keeps a page fresh: name it with --html")
        else:
            follow(options, watch)
            raise typer.Exit(130)


# Plot

INLINE = ("iTerm.app", "WezTerm")
"""Terminals that show a picture which is printed: https://iterm2.com/documentation-images.html."""


@app.command()
def plot(
    x: Annotated[str, typer.Argument(metavar="X", help="A column of the view trials, or `step` for training curves.")],
    y: Annotated[str, typer.Argument(metavar="Y", help="A column; of training curves the name of one.")],
    split: Annotated[str | None, typer.Option(metavar="COLUMN", help="A series for each value of this column.")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help='Only these trials, in SQL: "width = 3 and loss > 0.5".')
    ] = None,
    rows: Annotated[Literal["trials", "evaluations"], typer.Option(help="What is drawn.")] = "trials",
    out: Annotated[
        Path, typer.Option(metavar="FILE", callback=with_home, help="The picture; its ending is its format.")
    ] = Path("plot.png"),
    results: Results = "results",
) -> None:
    """Draw any two columns of the store against each other."""
    from sweeper.analysis.figures import style
    from sweeper.analysis.plotting import PlotError, plotted

    with opened(results) as store:
        figure, remarks = plotted(store, x, y, split, where, rows)
        if out.suffix.lstrip(".") not in figure.canvas.get_supported_filetypes():
            raise PlotError(f"{out}: a picture ends in .png, .pdf or .svg")
        with style.settings():
            figure.savefig(out)
        if out.suffix == ".png" and sys.stdout.isatty() and os.environ.get("TERM_PROGRAM") in INLINE:
            print(f"\033]1337;File=inline=1:{base64.b64encode(out.read_bytes()).decode()}\a")
        for line in (*remarks, f"figure: {out}"):
            print(printable_lines(line))
