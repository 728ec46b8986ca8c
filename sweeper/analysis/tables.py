"""A table of texts, and its two plain forms: Markdown for a file, aligned lines for a terminal.

Whoever makes a table formats its cells and knows nothing of where it will be read: `report` prints it, writes it as
Markdown, or puts it on the page.
"""

from collections.abc import Sequence
from typing import NamedTuple

import rich.table
from rich import box
from rich.text import Text


class Column(NamedTuple):
    """Head of a column; numbers are aligned to the right."""

    title: str
    numeric: bool = False


class Table(NamedTuple):
    """Rows of text under titled columns.

    Attributes:
        title: What the table shows.
        columns: Heads, one for every cell of a row.
        rows: Cells; an empty one says that there is nothing to say.
        note: What a reader must know to read the rows aright.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def markdown(table: Table) -> str:
    """The table under its title as a second-level heading, as text of GitHub's Markdown."""
    lines = [
        _line([column.title for column in table.columns]),
        _line(["---:" if column.numeric else "---" for column in table.columns]),
        *(_line(row) for row in table.rows),
    ]
    return "\n".join([f"## {table.title}", "", *lines, *(["", table.note] if table.note else []), ""])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def terminal(table: Table) -> rich.table.Table:
    """The table for a console; nothing in it is read as console markup."""
    drawn = rich.table.Table(
        title=Text(table.title), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False,
        collapse_padding=True,
        caption=Text(table.note) if table.note else None, caption_justify="left",
    )  # fmt: skip
    for column in table.columns:
        drawn.add_column(Text(column.title), justify="right" if column.numeric else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn
