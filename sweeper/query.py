"""`python -m sweeper.query "SQL"`: ask the store in SQL (`sweeper.analysis.sql`).

Exit codes: 0; 2 for a query or a store that makes no sense, with one message.
"""

import sys
from typing import Annotated, Literal

import typer

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
    from sweeper.analysis.answer_formats import PRINTERS, SHOWN
    from sweeper.analysis.sql import QueryError, table
    from sweeper.messages import printable_lines
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
