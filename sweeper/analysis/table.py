"""A table of values, and its plain forms: aligned lines for a terminal, Markdown for a file.

A table holds values: numbers stay numbers, moments stay moments. The form of a column says how its values are written,
aligned and sorted, and every renderer uses the form. The page has a renderer of its own
(`sweeper.analysis.page.Tables`).
"""

import datetime
import itertools
import json
import logging
import math
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import rich.table
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from sweeper.messages import duration, printable

logger = logging.getLogger(__name__)

GAP = 2  # blanks between two columns on a terminal
MAX_VALUES = 6  # most values in one cell; of more values only the ends are told

RecordT = TypeVar("RecordT")
MadeT = TypeVar("MadeT")

Look = Literal["text", "code", "status", "long", "range", "bar"]
"""How the page sets a value; `long` may be folded away, `range` and `bar` are drawings."""


def _itself(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else None


@dataclass(frozen=True)
class Form:
    """How the values of a column are written. A form never gets a missing value (None)."""

    text: Callable[[Any], str] = str  # a value as text
    numeric: bool = False  # whether the column is aligned to the right, and sorted by number where it can be sorted
    # The number by which a value is sorted, None for a value without such a number
    order: Callable[[Any], float | None] = _itself
    look: Look = "text"  # how the page sets a value
    striking: Callable[[Any], bool] = lambda value: False  # whether the page highlights a value


def value_text(value: Any) -> str:
    """An entry of a specification as people write it."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)


def values_text(values: Sequence[Any]) -> str:
    """Different values of an entry in ascending order, all of a few and the ends of many."""
    if len(values) <= MAX_VALUES:
        return ", ".join("none" if value is None else value_text(value) for value in values)
    numbers = all(isinstance(value, int | float) for value in values)
    ends = f", {value_text(values[0])} to {value_text(values[-1])}" if numbers else ""
    return f"{len(values):,} values{ends}"


def entries_text(named: Iterable[tuple[str, Any]]) -> str:
    """Entries of a specification by name, such as "batch_size 8, schedule cosine"."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in named)


def moment_text(value: Any) -> str:
    """A moment to the minute in UTC, such as "2026-02-03 04:05 UTC"; a text that is no moment as it is."""
    return f"{minute(value)} UTC" if isinstance(value, datetime.datetime) else str(value)


def minute(moment: datetime.datetime) -> str:
    """A moment in UTC to the minute, such as "2026-02-03 04:05"; a moment without a time zone is in UTC."""
    return (moment.astimezone(datetime.UTC) if moment.tzinfo else moment).strftime("%Y-%m-%d %H:%M")


def revision_text(revision: tuple[str | None, bool | None]) -> str:
    """A commit as people name it, and whether the files differed from it."""
    commit, dirty = revision
    return f"{(commit or 'unknown')[:10]}{' + changes' if dirty else ''}"


TEXT = Form()
CODE = Form(look="code")
STATUS = Form(look="status")
LONG = Form(look="long")
COUNT = Form("{:,}".format, numeric=True)
NUMBER = Form("{:.4g}".format, numeric=True)
PER_CENT = Form(lambda share: f"{100 * share:.1f} %", numeric=True)
SECONDS = Form(duration, numeric=True)
VALUE = Form(value_text, numeric=True)
VALUES = Form(values_text)
ENTRIES = Form(entries_text)
MOMENT = Form(moment_text)
REVISION = Form(revision_text, look="code")


DRAWN = ("range", "bar")  # looks of drawings, which only the page can show


class Column(NamedTuple):
    """Head of a column, the form of its values, and the text for a missing value."""

    title: str
    form: Form = TEXT
    empty: str = ""

    def text(self, value: Any) -> str:
        return self.empty if value is None else self.form.text(value)


Field = tuple[Column, Callable[[RecordT], Any]]  # a column, and its value of a record


class Table(NamedTuple):
    """Rows of values under titled columns, None for a missing value, and a note that explains the rows."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""


def tabulated(title: str, fields: Sequence[Field[RecordT]], records: Iterable[RecordT], note: str = "") -> Table:
    rows = tuple(tuple(value(record) for _, value in fields) for record in records)
    return Table(title, tuple(column for column, _ in fields), rows, note)


def attempted(title: str, make: Callable[[], MadeT]) -> MadeT | Table:
    """What `make` returns, or a table whose note says why it could not be made, so that no table ends a report."""
    try:
        return make()
    except Exception as error:  # an error in one table must not end the report
        logger.debug("%s: no table", title, exc_info=error)
        return Table(title, (), (), f"This table could not be made: {type(error).__name__}: {error}")


def console() -> Console:
    """The console for people. Output into a file is not cut to the width of a terminal."""
    return Console(width=None if sys.stdout.isatty() else 100_000, highlight=False)


def texts(table: Table) -> list[tuple[str, ...]]:
    """The rows as text, safe to print."""
    return [
        tuple(printable(column.text(value)) for column, value in zip(table.columns, row, strict=True))
        for row in table.rows
    ]


def without_empty_columns(table: Table) -> Table:
    """The table without columns that have no text in any of its rows, if it has rows."""
    if not table.rows:
        return table
    return _only(table, list(map(any, zip(*texts(table), strict=True))))


def width(table: Table) -> int:
    """How many columns of a terminal the table takes."""
    heads = [tuple(printable(column.title) for column in table.columns)]
    cells = zip(*(heads + texts(table)), strict=True)
    return sum(max(map(cell_len, column)) for column in cells) + GAP * (len(table.columns) - 1)


def narrowed(table: Table, most: int, optional: Collection[str]) -> tuple[Table, list[str]]:
    """The table without its last optional columns, as many as needed to fit; and the titles of these columns."""
    left_out: list[str] = []
    for title in reversed([column.title for column in table.columns if column.title in optional]):
        if width(table) <= most:
            break
        left_out.insert(0, title)
        table = _only(table, [column.title != title for column in table.columns])
    return table, left_out


def _only(table: Table, kept: Sequence[bool]) -> Table:
    columns, *rows = (tuple(itertools.compress(row, kept)) for row in (table.columns, *table.rows))
    return table._replace(columns=columns, rows=tuple(rows))


def markdown(table: Table) -> str:
    """The table under its title as a second-level heading, as text of GitHub's Markdown."""
    lines = markdown_lines(table)
    return "\n".join([f"## {table.title}", "", *lines, *(["", table.note] if table.note else []), ""])


def markdown_lines(table: Table) -> list[str]:
    """Heads and rows of the table in GitHub's Markdown."""
    table = _only(table, [column.form.look not in DRAWN for column in table.columns])
    heads = [column.title for column in table.columns]
    rules = ["---:" if column.form.numeric else "---" for column in table.columns]
    rows = [heads, rules, *texts(table)] if heads else []
    return [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows]


def terminal(table: Table, rule: bool = True) -> RenderableType:
    """The table for a console, with a rule below the heads or without; nothing in it is read as console markup."""
    if not table.columns:
        return Text(printable(f"{table.title}: {table.note}"))
    table = _only(table, [column.form.look not in DRAWN for column in table.columns])
    drawn = rich.table.Table(
        box=box.SIMPLE_HEAD if rule else None, show_edge=False, pad_edge=False, collapse_padding=rule
    )
    for column in table.columns:
        justify = "right" if column.form.numeric else "left"
        drawn.add_column(Text(printable(column.title)), justify=justify, overflow="fold")
    for row in texts(table):
        drawn.add_row(*map(Text, row))
    above = [Text(printable(table.title), style="italic")] if table.title else []
    below = [Text(printable(table.note), style="dim")] if table.note else []
    return Group(*above, drawn, *below)
