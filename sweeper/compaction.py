"""`python -m sweeper.compaction`: turn many small files of a store into few, while it is in use.

Exit codes: 0; 2 for a store that cannot be read or written, or that another process is compacting.
"""

from sweeper.command_line import CommandLine, Results, exit_on
from sweeper.messages import counted

app = CommandLine()


@app.command()
def compaction(results: Results = "results") -> None:
    """Turn many small files of a store into few; it may be in use meanwhile."""
    from sweeper.store.compaction import compact
    from sweeper.store.store import Store, StoreError

    with exit_on(StoreError):
        done = compact(Store.existing(results))
    print(f"{counted(done.trials, 'trial')} moved into {counted(done.files, 'compacted file')}", end="")
    print(f"; {counted(done.leftovers, 'leftover')} removed" if done.leftovers else "")


if __name__ == "__main__":
    app()
