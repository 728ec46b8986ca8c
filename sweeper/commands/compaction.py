"""`python -m sweeper compact`: write the snapshot of a store, from which many trials are read fast.

Exit codes: 0; 2 for a store that cannot be read or written.
"""

from sweeper.command_line import CommandLine, Results, errors_told
from sweeper.messages import counted

app = CommandLine()


@app.command()
def compact(results: Results = "results") -> None:
    """Replace the snapshot by one of all trials, which are read fast then; the store may be in use meanwhile."""
    from sweeper.store.store import Store

    with errors_told():
        copied = Store.existing(results).compact()
    print(f"{counted(copied, 'trial')} copied into the snapshot")
