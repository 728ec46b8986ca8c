"""`python -m sweeper.report`: draw a store, and compare it with published values (`sweeper.analysis.report`).

With `--html PAGE.html --watch 30` the page is written again every 30 seconds, until Ctrl-C.

With `--diff A B` the command compares two sweeps or two stores instead (`sweeper.analysis.difference`).

Exit codes: 0 when at least one figure was drawn or the comparison was made, 1 when there was nothing to draw,
2 for input that cannot be read, 130 after Ctrl-C in `--watch`.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sweeper.command_line import CommandLine, Results, errors_told, with_home

app = CommandLine()


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
            if not write_report(options).drawn:
                raise typer.Exit(1)
        elif html is None:
            raise typer.BadParameter("--watch keeps a page fresh: name it with --html")
        else:
            follow(options, watch)
            raise typer.Exit(130)
