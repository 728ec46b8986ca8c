"""Commands that ask a store: `status`, `query`, `report` and `plot`.

    status                          the sweeps, how far each is, and what runs now
    query "select model_width, avg(loss) from trials where status = 'finished' group by model_width"
    query best [SWEEP]              the settings of a sweep, best first; with --yaml a space that trains the best again
    query show TRIAL                all about one trial; the beginning of its id suffices
    query curves TRIAL              its training curves
    report --html PAGE.html         figures, comparison with published values, and all of it as one page
    plot model_width loss --split optimizer                 means over training seeds, and their range
    plot learning_rate loss --logx --logy --points          a point a trial, on logarithmic axes
    plot loss accuracy --where "task = 'sine'"              a point a trial
    plot step train_loss --split model_width --out c.pdf    training curves
    plot evaluation.seeds loss --rows evaluations           evaluations of stored networks

With `--watch` a status looks again and again, and a report writes its page again and again, until Ctrl-C.

A sweep is as far as the trials that its latest start planned. Two sweeps that plan the same trial share its row.

Exit codes: 0; 1 for a report that had nothing to draw; 2 for a question or a store that makes no sense, with one
message; 130 after Ctrl-C.
"""

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from sweeper.command_line import CommandLine, Results, errors_told, opened, with_home
from sweeper.messages import UserError, printable, printable_lines, writing

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

    from sweeper.analysis.status import ODD, overview, remarks, starts_by_name
    from sweeper.analysis.table import terminal
    from sweeper.store.annotations import read_annotations

    rows = store.columns(["status", *ODD]).to_pylist()
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

    from sweeper.analysis.status import packs_table, sentence
    from sweeper.analysis.table import terminal
    from sweeper.listeners.heartbeats import drivers

    known = drivers(store.files)
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
            help="SQL over trials, all_trials, sweeps, evaluations, curves and outcomes, in quotes; or best [SWEEP], "
            "show TRIAL, curves TRIAL.",
        ),
    ],
    results: Results = "results",
    form: Annotated[
        Literal["table", "csv", "json", "parquet"], typer.Option("--format", help="How to print the answer.")
    ] = "table",
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Of `best`: the search space that trains the best setting again.")
    ] = False,
) -> None:
    """Ask the store in SQL, or for the best settings of a sweep, a trial, or its curves."""
    with errors_told():
        if form == "parquet" and sys.stdout.isatty():
            raise UserError("parquet is not for a terminal: redirect the output, or choose another --format")
        name, *names = question
        if yaml and name != "best":
            raise UserError(f"--yaml belongs to {READY['best']}")
        if name not in READY:
            if names:
                raise UserError("put the SELECT in quotes, or ask " + ", ".join(READY.values()))
            _print_sql(name, results, form)
        elif len(names) > 1 or (name != "best" and not names):
            raise UserError(f"ask {READY[name]}")
        else:
            _print_ready(name, names, results, form, yaml)


def _print_sql(question: str, results: str, form: str) -> None:
    from sweeper.analysis import sql
    from sweeper.analysis.ready_questions import other_versions
    from sweeper.analysis.table import SHOWN, console, first_rows, terminal

    if form != "table":
        sql.print_answer(question, results, form)
        return
    shown = first_rows(sql.table(question, results, rows=SHOWN + 1))
    if len(shown) and re.search(r"(select|,|\.)\s*\*", question, re.IGNORECASE):
        shown = shown.dropna(axis="columns", how="all")  # most of what a `*` brings belongs to trials of other kinds
    if not len(shown) and re.search(r"\btrials\b", question, re.IGNORECASE):
        shown.attrs["note"] = other_versions(results)
    screen = console()
    if 12 * len(shown.columns) > screen.width:  # no room to fold cells: the terminal wraps the lines
        screen.width = 100_000
    screen.print(terminal(shown, rule=False))


def _print_ready(name: str, names: list[str], results: str, form: str, yaml: bool) -> None:
    from sweeper.analysis import ready_questions, sql
    from sweeper.analysis.table import console, terminal
    from sweeper.store.store import Store

    store = Store.existing(results)
    if yaml:
        print(ready_questions.best_as_space(store, *names))
        return
    people, programs = ready_questions.QUESTIONS[name](store, *names)
    if form == "table":
        for number, table in enumerate(people):
            console().print(*[""] * bool(number), terminal(table, rule=False), sep="\n")
    else:
        sql.print_table(programs(), form)


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
    palette: Annotated[Literal["paper", "colorblind"], typer.Option(help="Colours of the figures.")] = "paper",
    pdf: Annotated[bool, typer.Option("--pdf", help="Write every figure as PDF as well.")] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Write and print every published number beside the measured one.")
    ] = False,
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
    """Draw the panels of sweeps, and compare with published numbers."""
    from sweeper.analysis.report import ReportOptions, follow, write_report

    options = ReportOptions(results, out, tuple(space or ()), tuple(sweep or ()), palette, pdf, compare, html)
    with errors_told():
        if watch is None:
            if not write_report(options).paths:
                raise typer.Exit(1)
        elif html is None:
            raise typer.BadParameter("--watch keeps a page fresh: name it with --html")
        else:
            follow(options, watch)
            raise typer.Exit(130)


# Plot


@app.command()
def plot(
    x: Annotated[str, typer.Argument(metavar="X", help="A column of the view trials, or `step` for training curves.")],
    y: Annotated[str, typer.Argument(metavar="Y", help="A column; of training curves the name of one.")],
    split: Annotated[str | None, typer.Option(metavar="COLUMN", help="A series for each value of this column.")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help='Only these trials, in SQL: "width = 3 and loss > 0.5".')
    ] = None,
    rows: Annotated[Literal["trials", "evaluations"], typer.Option(help="What is drawn.")] = "trials",
    logx: Annotated[bool, typer.Option("--logx", help="A logarithmic axis of X.")] = False,
    logy: Annotated[bool, typer.Option("--logy", help="A logarithmic axis of Y.")] = False,
    points: Annotated[bool, typer.Option("--points", help="A point a trial, and no lines of means.")] = False,
    out: Annotated[
        Path, typer.Option(metavar="FILE", callback=with_home, help="The picture; its ending is its format.")
    ] = Path("plot.png"),
    results: Results = "results",
) -> None:
    """Draw any two columns of the store against each other."""
    from sweeper.analysis.figures import style
    from sweeper.analysis.plotting import plotted

    with opened(results) as store:
        figure, remarks = plotted(store, x, y, split, where, rows, logx=logx, logy=logy, points=points)
        if out.suffix.lstrip(".") not in figure.canvas.get_supported_filetypes():
            raise UserError(f"{out}: a picture ends in .png, .pdf or .svg")
        with style.settings(), writing(out):
            figure.savefig(out)
        for line in (*remarks, f"figure: {out}"):
            print(printable_lines(line))
