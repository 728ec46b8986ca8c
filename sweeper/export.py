"""`python -m sweeper.export FILE`: one view of a store as one parquet or CSV file, in which every trial stands once.

Exit codes: 0; 2 for a store that cannot be read or a file that cannot be written, with one message.
"""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from sweeper.messages import counted

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="What to write; the name ends in .parquet or .csv.")],
    view: Annotated[
        Literal["trials", "evaluations", "curves", "outcomes"], typer.Option(help="What to export.")
    ] = "trials",
    results: Annotated[
        str, typer.Option(help="Results store: a folder or a URL such as s3://bucket/folder.")
    ] = "results",
) -> None:
    """Write one view of the store as one file for other tools."""
    from sweeper.analysis.view_files import FORMATS, write_view
    from sweeper.store.store import Store, StoreError

    try:
        if file.suffix not in FORMATS:
            raise StoreError(f"{str(file)!r} must end in {' or '.join(FORMATS)}")
        rows = write_view(Store.existing(results), view, file)
    except (StoreError, OSError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    print(f"{counted(rows, 'row')} of {view} written to {file}")


if __name__ == "__main__":
    app()
