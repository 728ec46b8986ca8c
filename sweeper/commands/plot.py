"""`python -m sweeper plot X Y`: a picture of any two columns of a store (`sweeper.analysis.plotting`).

    sweeper plot model_width loss --split optimizer               means over training seeds, and their range
    sweeper plot loss accuracy --where "task = 'recall'"          a point a trial
    sweeper plot step train_loss --split model_width --out c.pdf  training curves
    sweeper plot evaluation.seeds loss --rows evaluations         evaluations of stored networks

Exit codes: 0; 2 for columns that are not there, and a store that cannot be read.
"""

import base64
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from sweeper.command_line import CommandLine, Results, errors_told, with_home
from sweeper.messages import printable_lines

app = CommandLine()

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
    from sweeper.analysis.plotting import PlotError, plotted
    from sweeper.store.store import Store

    with errors_told():
        figure, remarks = plotted(Store.existing(results), x, y, split, where, rows)
        if out.suffix.lstrip(".") not in figure.canvas.get_supported_filetypes():
            raise PlotError(f"{out}: a picture ends in .png, .pdf or .svg")
        figure.savefig(out)
        if out.suffix == ".png" and sys.stdout.isatty() and os.environ.get("TERM_PROGRAM") in INLINE:
            print(f"\033]1337;File=inline=1:{base64.b64encode(out.read_bytes()).decode()}\a")
        for line in (*remarks, f"figure: {out}"):
            print(printable_lines(line))
