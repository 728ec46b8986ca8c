"""The answer to a query on standard output: as a table for people, as CSV, JSON or parquet for programs."""

import csv
import datetime
import decimal
import json
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from sweeper.analysis.table import Column, Form, Table, terminal
from sweeper.messages import printable

SHOWN = 200
"""Rows that are printed as a table; the other formats print all."""


def _print_table(answer: pa.Table) -> None:
    # Piped into a file nothing should be cut to the width of a terminal that is not there.
    console = Console(width=None if sys.stdout.isatty() else 100_000, highlight=False)
    columns = tuple(Column(field.name, NUMBER if _numeric(field.type) else TEXT) for field in answer.schema)
    console.print(terminal(Table("", columns, tuple(_rows(answer.slice(0, SHOWN)))), rule=False))
    if answer.num_rows > SHOWN:
        print(f"the first {SHOWN} rows; --format csv, json or parquet prints all", file=sys.stderr)


def _numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


TEXT = Form(_text)
NUMBER = Form(_text, numeric=True)


def _rows(answer: pa.Table) -> Iterable[tuple[Any, ...]]:
    # By position, since a SELECT may give two columns one name.
    return zip(*(column.to_pylist() for column in answer.columns), strict=True)


def _print_csv(answer: pa.Table) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if not sys.stdout.isatty():
        writer.writerow(answer.column_names)
        writer.writerows(_rows(answer))
        return
    writer.writerow(map(printable, answer.column_names))
    for row in _rows(answer):
        writer.writerow(printable(value) if isinstance(value, str) else value for value in row)


def _print_json(answer: pa.Table) -> None:
    separator = "[\n"
    for row in _rows(answer):
        record = {name: _json_value(value) for name, value in zip(answer.column_names, row, strict=True)}
        # The one control character that JSON leaves as it is.
        sys.stdout.write(separator + json.dumps(record, default=str).replace("\x7f", "\\u007f"))
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


PRINTERS: dict[str, Callable[[pa.Table], None]] = {
    "table": _print_table,
    "csv": _print_csv,
    "json": _print_json,
    "parquet": _print_parquet,
}
"""How to print an answer, by the name of the format."""
