"""The answer to a query on standard output: as a table for people, as CSV, JSON or parquet for programs."""

import json
import re
import sys
from collections.abc import Collection
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.analysis.results import extra_metrics, foreign_columns
from sweeper.analysis.sql import QueryError
from sweeper.analysis.table import console, narrowed, terminal, texts, values, width, write_csv
from sweeper.analysis.views import csv_table, json_texts, json_value
from sweeper.messages import printable
from sweeper.store.store import TRIALS
from sweeper.tables import table, titled, value_text
from sweeper.trial.columns import COLUMNS, METRICS, TIMINGS

_NAMES = list(COLUMNS)
PROVENANCE = tuple(name for name in _NAMES[_NAMES.index("pack_id") :] if name != "objective")
"""Columns of `trials` that say where a row comes from."""

JSON_COLUMNS = ("spec", "extra_metrics")
"""Columns of `trials` in JSON, whose entries have columns of their own in named rows."""

NOTHING = (None, [])  # values that are left out of an answer: missing ones, and empty lists
SHOWN = 200  # rows that are printed as a table; the other formats print all


def print_table(answer: pa.Table, sql: str) -> None:
    """Print the answer to a query for people.

    A column that the query names is always printed. Of the columns that a `*` brought, provenance and empty columns are
    left out, and columns with a single value are printed once, above the rows. If the table is too wide, trial ids are
    cut, and then columns are left out and named. A single row that does not fit is printed as a list.
    """
    screen = console()
    brought = {
        name for name in answer.column_names if _brought(name, 0, sql) and _brought(*_numbered(name, answer), sql)
    }
    shown, remarks = _shortened(answer.slice(0, SHOWN), brought)
    no_room: list[str] = []
    if brought and width(shown) > screen.width and len(shown) == 1:
        names, values = map(str, shown.columns), texts(shown)[0]
        shown = table({"name": name, "value": value} for name, value in zip(names, values, strict=True))
    elif brought and width(shown) > screen.width:
        shown, no_room = narrowed(_with_short_ids(shown, brought), screen.width, brought - {"trial_id"})
    screen.print(terminal(shown, rule=False))
    if no_room:
        remarks.append(f"no room for {', '.join(no_room)}")
    if answer.num_rows > SHOWN:
        remarks.append(f"the first {SHOWN} rows; --format csv, json or parquet prints all")
    for remark in remarks:
        print(printable(remark), file=sys.stderr)


def _numbered(name: str, answer: pa.Table) -> tuple[str, int]:
    """The name that a query may have for a column, and how many columns of the name are before it.

    Of two columns of one name the answer numbers the second.
    """
    first, _, number = name.rpartition("_")
    return (first, int(number)) if number.isdecimal() and first in answer.column_names else (name, 0)


def _brought(name: str, before: int, sql: str) -> bool:
    """Whether a `*` of the query brought the column: it is a name, and the query does not name it so often."""
    named = re.findall(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)
    return name.replace(".", "_").isidentifier() and len(named) <= before


def _shortened(answer: pa.Table, brought: set[str]) -> tuple[pd.DataFrame, list[str]]:
    """The answer as a table without the columns that are left out, and the values that all rows share."""
    left_out = _left_out(answer, brought)
    own, names = _own_metrics(answer), [name for name in answer.column_names if name not in left_out]
    names.sort(key=lambda name: _order(name, own) if name in brought else 0)
    frame = pd.DataFrame({name: pd.Series(_values(answer[name]), dtype=object) for name in names}, columns=names)
    dull = _dull(frame, brought)
    shared = [f"{name} {value_text(frame[name][0])}" for name in dull if frame[name][0] not in NOTHING]
    remarks = [f"the same in all rows: {', '.join(shared)}"] if shared else []
    if left_out:
        remarks.append("without provenance: name its columns, or take --format csv, json or parquet")
    return titled(frame.drop(columns=dull)), remarks


def _left_out(answer: pa.Table, brought: set[str]) -> set[str]:
    """Of the columns that a `*` brought: provenance, JSON, and what no trial of the answer has by its kind."""
    specs = answer["spec"].to_pylist() if "spec" in brought else []
    foreign = set.intersection(*map(foreign_columns, specs)) if specs else set()
    of_row = {name for name in brought if _numbered(name, answer)[0] in (*PROVENANCE, *JSON_COLUMNS)}
    return of_row | (brought & foreign)


def _dull(frame: pd.DataFrame, brought: set[str]) -> list[str]:
    """Columns that a `*` brought with one value in all rows, but not all columns; of a single row the empty ones."""
    dull = [name for name in map(str, frame) if name in brought and len(set(map(str, frame[name]))) == 1]
    if len(frame) == 1:
        dull = [name for name in dull if frame[name][0] in NOTHING]
    return [] if len(dull) == len(frame.columns) else dull


def _values(column: pa.ChunkedArray) -> list[Any]:
    plain = not pa.types.is_nested(column.type) or (
        pa.types.is_list(column.type) and not pa.types.is_nested(column.type.value_type)
    )
    return column.to_pylist() if plain else json_texts(column)


def _with_short_ids(shown: pd.DataFrame, brought: set[str]) -> pd.DataFrame:
    """The table with trial ids that a `*` brought cut to their beginnings, long enough to differ."""
    if "trial_id" not in shown or "trial_id" not in brought:
        return shown
    ids = shown["trial_id"].map(str)
    length = next((n for n in range(8, 20) if ids.str[:n].nunique() == ids.nunique()), 20)
    return shown.assign(trial_id=ids.str[:length] + "…")


def _own_metrics(answer: pa.Table) -> set[str]:
    """Columns of metrics that the store has no column for, where a `*` brought them."""
    texts = answer["extra_metrics"].to_pylist() if "extra_metrics" in answer.column_names else []
    return {name for text in texts for name in extra_metrics(text)}


def _order(name: str, own_metrics: Collection[str]) -> int:
    """The place of a column that a `*` brought: specification first, then metrics, then costs."""
    groups = (METRICS, own_metrics, TIMINGS)
    return next((place for place, names in enumerate(groups, 2) if name in names), int(name not in TRIALS.names))


def print_csv(answer: pa.Table, raw: bool = False) -> None:
    """Print an answer as CSV; for `raw` see `csv_table`."""

    def told(value: Any) -> Any:
        return printable(value) if isinstance(value, str) and sys.stdout.isatty() else value

    frame = values(csv_table(answer, raw))
    frame = pd.DataFrame({told(name): pd.Series(list(map(told, cells)), dtype=object) for name, cells in frame.items()})
    write_csv(frame, sys.stdout)


def _print_json(answer: pa.Table) -> None:
    separator = "[\n"
    for row in zip(*(column.to_pylist() for column in answer.columns), strict=True):
        record = {field.name: json_value(value, field.type) for field, value in zip(answer.schema, row, strict=True)}
        # The one control character that JSON leaves as it is.
        sys.stdout.write(separator + json.dumps(record).replace("\x7f", "\\u007f"))
        separator = ",\n"
    sys.stdout.write("\n]\n" if answer.num_rows else "[]\n")


def _print_parquet(answer: pa.Table) -> None:
    try:
        pq.write_table(answer, pa.PythonFile(sys.stdout.buffer, mode="w"), compression="zstd")
    except pa.ArrowNotImplementedError as error:
        raise QueryError(f"{error}: parquet lacks such values; cast the column, such as x::text") from None


PRINTERS = {"csv": print_csv, "json": _print_json, "parquet": _print_parquet}  # an answer for programs, by format
