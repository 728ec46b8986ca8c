"""`python -m sweeper.report`: draw a store, and put it beside what was published (`sweeper.analysis.report`).

Exit codes: 0 when at least one panel was drawn, 1 when there was nothing to draw, 2 for input that cannot be read.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def report(
    results: Annotated[
        str, typer.Option(help="Results store: a folder or a URL such as s3://bucket/folder.")
    ] = "results",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the report; by default `report` inside the store.")
    ] = None,
    space: Annotated[
        list[Path] | None, typer.Option(metavar="SPACE.yaml", help="Draw this space's panels; repeatable.")
    ] = None,
    sweep: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Draw this recorded sweep only; repeatable.")
    ] = None,
    palette: Annotated[Literal["paper", "colorblind"], typer.Option(help="Colours of the figures.")] = "paper",
    compare: Annotated[
        bool, typer.Option("--compare", help="Write and print every published number beside the measured one.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="PAGE.html", dir_okay=False, help="Write the report as one page as well.")
    ] = None,
) -> None:
    """Draw the panels of sweeps, say what they advise, and compare with published numbers."""
    from sweeper.analysis.report import write_report

    raise typer.Exit(write_report(results, out, space or [], sweep or [], palette, compare, html))


if __name__ == "__main__":
    app()
