"""`python -m sweeper copy SWEEP… --to TARGET`: copy sweeps into another store.

What the target has stays as it is. A copy that was killed is carried on by the same command.

Exit codes: 0; 1 if something damaged was left out; 2 for a store that cannot be read or written.
"""

import sys
from typing import Annotated

import typer

from sweeper.command_line import CommandLine, Results, errors_told
from sweeper.messages import counted

app = CommandLine()


@app.command()
def copy(
    to: Annotated[str, typer.Option(help="Where to: another store, which may exist.")],
    sweeps: Annotated[
        list[str] | None, typer.Argument(metavar="SWEEP", help="Sweeps; without any, all that the store has.")
    ] = None,
    results: Results = "results",
    outcomes: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Keep only these columns of the outcomes, such as loss,correct; or none; or drawn, what panels draw.",
        ),
    ] = None,
    hide_folders: Annotated[
        bool, typer.Option("--hide-folders", help="Keep only the last part of absolute paths in recorded commands.")
    ] = False,
) -> None:
    """Copy sweeps with all that belongs to their trials into another store, which keeps what it has."""
    from sweeper.store.copying import Kept
    from sweeper.store.copying import copy as copied
    from sweeper.store.store import Store

    names = [] if outcomes == "none" else [name.strip() for name in (outcomes or "").split(",")]
    kept: Kept = None if outcomes is None else names
    with errors_told():
        source, target = Store.existing(results), Store.open(to)
        if outcomes == "drawn":
            from sweeper.analysis.report_sources import drawn_outcomes

            kept = drawn_outcomes(source, sweeps or ())
        done = copied(source, target, sweeps or (), kept, hide_folders)
    evaluations = f", {counted(done.evaluations, 'evaluation')}" if done.evaluations else ""
    present = f"; {done.present:,} were there" if done.present else ""
    print(f"{counted(done.trials, 'trial')}{evaluations} copied to {to}{present}")
    if done.damaged:
        print(f"{counted(len(done.damaged), 'damaged file')} left out", file=sys.stderr)
        raise typer.Exit(1)
