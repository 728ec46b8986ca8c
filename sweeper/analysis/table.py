"""Tables for people: printed on a terminal, in Markdown and on a page.

`sweeper.tables` says what a table is. A column of nothing but numbers stands on the right, and every other column on
the left. A column that has a name of `FORMATS` in `attrs["formats"]` is written as that says.

This module alone turns values into text for people.
"""

import datetime
import logging
import math
import re
import sys
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd
import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.text import Text

from sweeper.messages import duration, printable, printable_lines
from sweeper.tables import table, titled, value_text

if TYPE_CHECKING:
    from markupsafe import Markup

logger = logging.getLogger(__name__)

SHOWN = 200  # rows of an answer that are printed for people

MadeT = TypeVar("MadeT")

Facets = Mapping[str, Sequence[str]]
"""Words by which the page filters its rows, by the name of the column that has them."""


# Values


def minute(moment: datetime.datetime) -> str:
    """A moment in UTC to the minute, such as "2026-02-03 04:05"; a moment without a time zone is in UTC."""
    return (moment.astimezone(datetime.UTC) if moment.tzinfo else moment).strftime("%Y-%m-%d %H:%M")


def revision_text(commit: str | None, dirty: bool | None) -> str:
    """A commit as people name it, and whether the files differed from it."""
    return f"{(commit or 'unknown')[:10]}{' + changes' if dirty else ''}"


FORMATS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("", "code", "status", "long", "mean"), value_text),
    "count": "{:,}".format,
    "number": "{:.4g}".format,
    "speed": "{:,.4g}".format,
    "per cent": lambda share: f"{100 * share:.1f} %",
    "seconds": duration,
    "moment": lambda moment: f"{minute(moment)} UTC",
}
"""How the values of a column are written; the empty name is the format of a column without any.

The page sets `status` and `long` texts in their own ways. `mean` is that of a metric over training seeds.
"""

# Tables


def values(rows: pa.Table) -> pd.DataFrame:
    """The rows with their values as Python has them: None is a missing one, and whole numbers stay whole."""
    return pd.DataFrame({name: pd.Series(rows[name].to_pylist(), dtype=object) for name in rows.column_names})


def first_rows(rows: pa.Table, title: str = "") -> pd.DataFrame:
    """The first rows for people; if there are more, a note says how to see them."""
    note = f"the first {SHOWN} rows; --format csv, json or parquet prints all" if rows.num_rows > SHOWN else ""
    return titled(values(rows.slice(0, SHOWN)), title, note)


def attempted(title: str, make: Callable[[], MadeT]) -> MadeT | pd.DataFrame:
    """What `make` returns, or a table whose note says why it could not be made, so that no table ends a report."""
    try:
        return make()
    except Exception as error:  # an error in one table must not end the report
        logger.debug("%s: no table", title, exc_info=error)
        return table([], title, f"This table could not be made: {type(error).__name__}: {error}")


def format_of(frame: pd.DataFrame, head: Hashable) -> str:
    return frame.attrs["formats"].get(head, "")


def text_of(value: Any, form: str = "") -> str:
    return "" if value is None else FORMATS[form](value)


def texts(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """The rows as text, safe to print."""
    columns = [[printable(text_of(value, format_of(frame, head))) for value in cells] for head, cells in frame.items()]
    return list(zip(*columns, strict=True))


def numeric(cells: pd.Series) -> bool:
    """Whether all cells of a column are numbers, or stand for numbers; a boolean is none."""
    return all(value is None or (hasattr(value, "__float__") and not isinstance(value, bool)) for value in cells)


def without_empty_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The table without columns that have no text in any of its rows, if it has rows."""
    return frame.loc[:, list(map(any, zip(*texts(frame), strict=True)))] if len(frame) else frame


# Terminal and Markdown


def console() -> Console:
    """The console for people. Output into a file is not cut to the width of a terminal."""
    return Console(width=None if sys.stdout.isatty() else 100_000, highlight=False)


def terminal(frame: pd.DataFrame, rule: bool = True) -> RenderableType:
    """The table for a console, with a rule below the heads or without; nothing in it is read as console markup."""
    import rich.table
    from rich import box

    title, note = frame.attrs["title"], frame.attrs["note"]
    if frame.columns.empty:
        return Text(printable(f"{title}: {note}"))
    drawn = rich.table.Table(
        box=box.SIMPLE_HEAD if rule else None, show_edge=False, pad_edge=False, collapse_padding=rule
    )
    for head, cells in frame.items():
        justify = "right" if numeric(cells) else "left"
        drawn.add_column(Text(printable(str(head))), justify=justify, overflow="fold")
    for row in texts(frame):
        drawn.add_row(*map(Text, row))
    above = [Text(printable(title), style="italic")] if title else []
    below = [Text(printable(note), style="dim")] if note else []
    return Group(*above, drawn, *below)


def markdown(frame: pd.DataFrame) -> str:
    """The table in GitHub's Markdown, below its title as a second-level heading if it has one."""
    rules = ["---:" if numeric(cells) else "---" for _, cells in frame.items()]
    rows = [list(frame.columns), rules, *texts(frame)] if rules else []
    lines = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows]
    title, note = frame.attrs["title"], frame.attrs["note"]
    return "\n".join([*[f"## {title}", ""] * bool(title), *lines, *["", note] * bool(note)])


# The page


LARGEST = 1e308  # what infinity sorts as: it is the largest value of a column, not a missing one
_PLAIN = re.compile(r"-?[\d,.]+(e[-+]\d+)?( %)?")  # a text that is a number for the page's script
LONG = 80  # characters of a text that is folded


def safe(value: Any) -> Any:
    """A value as the page shows it: nothing in a text reorders or hides what is around it."""
    from markupsafe import Markup

    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return printable_lines(value.replace("\r\n", "\n"))


def html(frame: pd.DataFrame, id: str, filtered: Collection[str] = (), facets: Facets | None = None) -> "Markup":
    """The table as HTML with its note; nothing if it has neither.

    Args:
        frame: `attrs["roles"]` may say what columns are for the charts: a `setting` or a `metric`.
        id: Of the element.
        filtered: Names of facets, of which a column has the words.
        facets: Of all of the table; None if the filter leaves it alone.
    """
    from jinja2.utils import htmlsafe_json_dumps
    from markupsafe import Markup, escape

    title, note = (escape(safe(frame.attrs[name])) for name in ("title", "note"))
    below = f'<p class="note">{note}</p>' if note else ""
    if frame.empty:
        return Markup(below if frame.columns.empty else "")  # noqa: S704  escaped
    heads, columns, numbers = [], [], []
    roles = frame.attrs.get("roles", {})
    for place, (head, cells) in enumerate(frame.items(), start=1):
        name, right = str(head).lower(), numeric(cells)
        marks = ' class="number"' * right + " data-facet" * (name in filtered)
        marks += f' data-role="{roles[name]}"' if name in roles else ""
        shown = str(escape(safe(str(head)))).replace("_", "_<wbr>")  # a long name may have lines
        heads.append(f'<th scope="col"{marks}>{shown}</th>')
        columns.append([_cell(value, format_of(frame, head), right) for value in cells])
        numbers += [f"#{id} td:nth-child({place})"] * right
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in zip(*columns, strict=True))
    style = f"<style>{','.join(numbers)}{{text-align:right}}</style>" if numbers else ""
    about = "" if facets is None else f" data-facets='{htmlsafe_json_dumps(facets)}'"
    return Markup(  # noqa: S704  escaped
        f'{style}<div class="scroll" role="region" tabindex="0" aria-labelledby="{id}-caption">'
        f'<table id="{id}"{about}><caption id="{id}-caption">{title}</caption>'
        f"<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n{below}"
    )


def _cell(value: Any, form: str, right: bool) -> str:
    """A cell, with the number to sort by where its words are no plain number."""
    from markupsafe import escape

    if value is None:
        return "<td>"
    words = text_of(value, form)
    shown = escape(safe(words))
    if form == "status":
        return f'<td class="{shown}">{shown}'
    if form == "long" and (len(words) > LONG or "\n" in words):
        first = escape(safe(words.split("\n")[0][:LONG]))
        return f"<td><details><summary>{first}</summary><pre>{shown}</pre></details>"
    if not right or _PLAIN.fullmatch(words) or math.isnan(number := float(value)):
        return f"<td>{shown}"
    return f"<td data-sort={min(LARGEST, max(-LARGEST, number)):.6g}>{shown}"
