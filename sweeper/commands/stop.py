"""`python -m sweeper stop SWEEP`: ask the drivers of a sweep to leave checkpoints and end, as Ctrl-C does.

The request goes through the store, so any machine will do that can write there. The command ends when the drivers have.

Exit codes: 0 when no driver of the sweep runs any more; 1 if a driver does not answer; 2 for a sweep that is not there,
or a store that cannot be read or written; 130 for Ctrl-C, which ends the wait alone.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweeper.command_line import CommandLine, Results, errors_told
from sweeper.messages import printable

if TYPE_CHECKING:
    from sweeper.store.store import Store

app = CommandLine()


@app.command()
def stop(
    sweep: Annotated[str, typer.Argument(help="Its name, as `status` shows it, or the file of its search space.")],
    results: Results = "results",
) -> None:
    """Ask the drivers of a sweep to leave checkpoints and end; returns when they have."""
    from sweeper.store.store import Store

    try:
        with errors_told():
            store = Store.existing(results)
            if sweep.endswith((".yaml", ".yml")):
                from sweeper.space import search_space

                sweep = search_space.read(Path(sweep)).name
            code = stop_drivers(store, sweep)
    except KeyboardInterrupt:
        print("the request stays; only the wait for an answer has ended", file=sys.stderr)
        raise typer.Exit(130) from None
    raise typer.Exit(code)


def stop_drivers(store: "Store", sweep: str, **waits: float) -> int:
    """Ask the drivers of a sweep to stop and say what became of each; the exit code. `waits` are those of `answers`."""
    from sweeper.listeners.heartbeats import SILENT, answers
    from sweeper.store.sweep_records import latest_starts

    ends = set()
    for process, end in answers(store.files, sweep, **waits):
        where = printable(f"{process.host} (process {process.pid})")
        print(f"{sweep}: the driver on {where} {end}", file=sys.stderr if end == SILENT else sys.stdout)
        ends.add(end)
    if not ends:
        latest_starts(store.sweeps(), [sweep])  # refuses a sweep that is not there
        print(f"no driver of {sweep} runs")
    return 1 if SILENT in ends else 0
