"""`python -m sweeper.compaction`: turn many small files of a store into few, while it is in use.

Exit codes: 0; 2 for a store that cannot be read or written, or that another process is compacting.
"""

import sys
from typing import Annotated

import typer

from sweeper.messages import counted, printable_lines

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def compaction(
    results: Annotated[
        str, typer.Option(help="Results store: a folder or a URL such as s3://bucket/folder.")
    ] = "results",
) -> None:
    """Turn many small files of a store into few; it may be in use meanwhile."""
    from sweeper.store.compaction import compact
    from sweeper.store.store import Store, StoreError

    try:
        done = compact(Store.existing(results))
    except StoreError as error:
        print(printable_lines(str(error)), file=sys.stderr)
        raise typer.Exit(2) from None
    print(f"{counted(done.trials, 'trial')} moved into {counted(done.files, 'compacted file')}", end="")
    print(f"; {counted(done.leftovers, 'leftover')} removed" if done.leftovers else "")


if __name__ == "__main__":
    app()
