"""`python -m sweeper rename OLD NEW`: give a sweep another name in its store.

Trials do not know sweeps, so only the records of starts change. A renaming that was killed is carried on by the same
command.

Exit codes: 0; 2 for names that make no sense, a sweep that runs, or a store that cannot be read or written.
"""

from typing import Annotated

import typer

from sweeper.command_line import CommandLine, Results, errors_told
from sweeper.messages import typed

app = CommandLine()


@app.command()
def rename(
    old: Annotated[str, typer.Argument(help="Its name, as `status` shows it.")],
    new: Annotated[str, typer.Argument(help="The name that it is to have.")],
    results: Results = "results",
) -> None:
    """Give a sweep another name in its store."""
    from sweeper.analysis.sweeps import drivers
    from sweeper.store.renaming import rename_sweep
    from sweeper.store.store import Store, StoreError
    from sweeper.store.sweep_records import latest_starts

    with errors_told():
        store = Store.existing(results)
        latest_starts(store.sweeps(), [old])
        if old == new:
            raise StoreError(f"the sweep is called {old!r} already")
        for driver in drivers(store):
            if driver.lives and driver.sweep == old:
                raise StoreError(f"{old} runs: stop it first ({typed('stop', old)})")
        rename_sweep(store.files, old, new)
    print(f"{old} is called {new} now; write `name: {new}` in its search space, or the next start makes {old} anew")
