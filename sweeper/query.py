"""`python -m sweeper.query "SQL"`: ask the store in SQL.

Three views stand ready. `trials` has one row a trial: the columns of the store, and as further columns every entry of
the trial's specification and every metric that has no column of its own. `curves` and `outcomes` are scanned where they
lie, so that a query reads the files and columns it asks for and no others.

SQL may come from anywhere: it can read the three views and nothing else. The database lives in memory, DuckDB's access
to files, network, extensions and Python objects is switched off, its configuration is locked, and only a single SELECT
is run. (DuckDB may spill an intermediate result to a temporary folder of its own, which is removed afterwards.)

Exit codes: 0; 2 for a query or a store that makes no sense, with one message.
"""

import csv
import datetime
import decimal
import json
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeper.analysis.results import trials
from sweeper.store.store import CURVES, OUTCOMES, TRIALS, Store, StoreError

Format = Literal["table", "csv", "json", "parquet"]

View = Literal["trials", "curves", "outcomes"]


class QueryError(ValueError):
    """A query that cannot be answered; the message is written for its author."""


def frame(sql: str, results: str | Path | Store = "results") -> pd.DataFrame:
    """The answer to a query as a pandas frame.

    Args:
        sql: One SELECT over the views `trials`, `curves` and `outcomes`.
        results: A store, or its folder or URL.

    Raises:
        QueryError: the query is not one SELECT, or asks for what is not there.
        StoreError: there is no store, or it cannot be read.
    """
    return table(sql, results).to_pandas()


def table(sql: str, results: str | Path | Store = "results", rows: int | None = None) -> pa.Table:
    """The answer to a query as an Arrow table, cut after `rows` rows if that is given; raises as `frame` does."""
    store = results if isinstance(results, Store) else Store.existing(results)
    with tempfile.TemporaryDirectory(prefix="sweeper-query-") as scratch:
        try:
            return _answer(sql, store, scratch, rows)
        except duckdb.Error as error:
            unreadable = _UNREADABLE.search(str(error))
            if unreadable is None:
                raise QueryError(str(error)) from error
        # A file is damaged, or was replaced since the store was listed. The other trials are still there to be asked.
        store.verify("curves" if unreadable[1] == "curves" else "outcomes")
        try:
            return _answer(sql, store, scratch, rows)
        except duckdb.Error as error:
            raise QueryError(str(error)) from error


_LOCKS = ("enable_external_access=false", "python_enable_replacements=false", "lock_configuration=true")
_UNREADABLE = re.compile(r"the stream registered as '(curves|outcomes)' failed")


def _answer(sql: str, store: Store, scratch: str, rows: int | None) -> pa.Table:
    with duckdb.connect(config={"temp_directory": scratch}) as connection:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QueryError("expected one SELECT (or DESCRIBE, SUMMARIZE, SHOW TABLES) over trials, curves, outcomes")
        for name, view in _VIEWS.items():
            # A view that the text does not name is not used, and may take seconds to make.
            used = re.search(rf"\b{name}\b", sql, re.IGNORECASE) is not None
            connection.register(name, view(store) if used else _EMPTY[name])
        for setting in ("TimeZone='UTC'", *_LOCKS):
            connection.execute(f"SET {setting}")
        relation = connection.sql(sql)
        return _narrowed((relation if rows is None else relation.limit(rows)).to_arrow_table())


def _narrowed(answer: pa.Table) -> pa.Table:
    """The answer with DuckDB's 128-bit integers, such as sums, as 64-bit ones, or as doubles if they do not fit."""
    for place, field in enumerate(answer.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            try:
                narrow = answer.column(place).cast(pa.int64())
            except pa.ArrowInvalid:
                narrow = answer.column(place).cast(pa.float64())
            answer = answer.set_column(place, field.name, narrow)
    return answer


# --------------------------------------------------------------------------------------------------------------------
# The views
# --------------------------------------------------------------------------------------------------------------------


_VIEWS: dict[View, Callable[[Store], pa.Table | ds.Dataset]] = {
    "trials": trials,
    "curves": lambda store: store.dataset("curves"),
    "outcomes": lambda store: store.dataset("outcomes"),
}
_EMPTY: dict[View, pa.Table] = {
    "trials": TRIALS.empty_table(),
    "curves": CURVES.empty_table(),
    "outcomes": OUTCOMES.empty_table(),
}


# --------------------------------------------------------------------------------------------------------------------
# The command
# --------------------------------------------------------------------------------------------------------------------

SHOWN = 200
"""Rows that are printed as a table; the other formats print all."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT over trials, curves and outcomes.")],
    results: Annotated[
        str, typer.Option(help="Results store: a folder or a URL such as s3://bucket/folder.")
    ] = "results",
    form: Annotated[Format, typer.Option("--format", help="How to print the answer.")] = "table",
) -> None:
    """Ask the store in SQL."""
    try:
        if form == "parquet" and sys.stdout.isatty():
            raise QueryError("parquet is not for a terminal: redirect the output, or choose another --format")
        answer = table(sql, results, rows=SHOWN + 1 if form == "table" else None)
    except (QueryError, StoreError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    _PRINTERS[form](answer)


def _print_table(answer: pa.Table) -> None:
    # Piped into a file nothing should be cut to the width of a terminal that is not there.
    console = Console(width=None if sys.stdout.isatty() else 100_000, highlight=False)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for field in answer.schema:
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        grid.add_column(Text(field.name), justify="right" if numeric else "left")
    for row in _rows(answer.slice(0, SHOWN)):
        # Text is never markup: a store's strings must not be able to restyle the page.
        grid.add_row(*(Text(_cell(value)) for value in row))
    console.print(grid)
    if answer.num_rows > SHOWN:
        print(f"the first {SHOWN} rows; --format csv, json or parquet prints all", file=sys.stderr)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _rows(answer: pa.Table) -> Iterable[tuple[Any, ...]]:
    # By position, since a SELECT may give two columns one name.
    return zip(*(column.to_pylist() for column in answer.columns), strict=True)


def _print_csv(answer: pa.Table) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.column_names)
    writer.writerows(_rows(answer))


def _print_json(answer: pa.Table) -> None:
    separator = "[\n"
    for row in _rows(answer):
        record = {name: _json_value(value) for name, value in zip(answer.column_names, row, strict=True)}
        sys.stdout.write(separator + json.dumps(record, default=str))
        separator = ",\n"
    sys.stdout.write("\n]\n" if answer.num_rows else "[]\n")


def _json_value(value: Any) -> Any:
    """JSON has no NaN and no infinity: null, and the word that specifications use."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return [_json_value(item) for item in value] if isinstance(value, list) else value


def _print_parquet(answer: pa.Table) -> None:
    pq.write_table(answer, pa.PythonFile(sys.stdout.buffer, mode="w"), compression="zstd")


_PRINTERS: dict[Format, Callable[[pa.Table], None]] = {
    "table": _print_table,
    "csv": _print_csv,
    "json": _print_json,
    "parquet": _print_parquet,
}


if __name__ == "__main__":
    app()
