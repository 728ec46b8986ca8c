"""`python -m sweeper.query "SQL"`: ask the store in SQL (`sweeper.analysis.sql`).

Exit codes: 0; 2 for a query or a store that makes no sense, with one message; 130 after Ctrl-C.
"""

import os
import sys
from typing import Annotated, Literal

import typer

from sweeper.messages import printable_lines

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT over trials, all_trials, curves and outcomes.")],
    results: Annotated[
        str, typer.Option(help="Results store: a folder or a URL such as s3://bucket/folder.")
    ] = "results",
    form: Annotated[
        Literal["table", "csv", "json", "parquet"], typer.Option("--format", help="How to print the answer.")
    ] = "table",
) -> None:
    """Ask the store in SQL."""
    try:
        _print_answer(sql, results, form)
        sys.stdout.flush()
    except KeyboardInterrupt:
        # At once: a function of the database that does not look up until its end would be waited for.
        os.write(2, b"interrupted\n")
        os._exit(130)


def _print_answer(sql: str, results: str, form: str) -> None:
    from sweeper.analysis.answer_formats import PRINTERS, SHOWN
    from sweeper.analysis.sql import QueryError, table
    from sweeper.store.store import StoreError

    try:
        if form == "parquet" and sys.stdout.isatty():
            raise QueryError("parquet is not for a terminal: redirect the output, or choose another --format")
        answer = table(sql, results, rows=SHOWN + 1 if form == "table" else None)
    except (QueryError, StoreError) as error:
        print(printable_lines(str(error)), file=sys.stderr)
        raise typer.Exit(2) from None
    PRINTERS[form](answer)


if __name__ == "__main__":
    app()
