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
from sweeper.tables import MISSING, table, titled, value_text

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
    "moment": lambda moment: f"{minute(moment)} UTC" if isinstance(moment, datetime.datetime) else str(moment),
    # A number of trials by state, as a drawing
    "bar": lambda counts: ", ".join(f"{count:,} {state}" for state, count in counts.items() if count),
    # Lowest, highest, measured and published number as shares of the width of a drawing
    "range": lambda shares: "",
}
"""How the values of a column are written; the empty name is the format of a column without any.

The page sets `code`, `status` and `long` texts in their own ways. `mean` is that of a metric over training seeds.
"""

DRAWN = ("bar", "range")  # formats that only the page can show


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
    frame = _undrawn(frame)
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
    shown = _undrawn(frame)
    rules = ["---:" if numeric(cells) else "---" for _, cells in shown.items()]
    rows = [list(shown.columns), rules, *texts(shown)] if rules else []
    lines = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows]
    title, note = frame.attrs["title"], frame.attrs["note"]
    return "\n".join([*[f"## {title}", ""] * bool(title), *lines, *["", note] * bool(note)])


def _undrawn(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.loc[:, [format_of(frame, head) not in DRAWN for head in frame.columns]]


# The page


MINUS = "\N{MINUS SIGN}"
LARGEST = 1e308  # what infinity sorts as: it is the largest value of a column, not a missing one
_PLAIN = re.compile(r"[\d,.]+(e[-+]\d+)?( %)?")  # a text that is a number for the page's script
_STYLES = {
    "code": "font-family:var(--mono)",
    "long": "white-space:normal;min-width:22rem;max-width:44rem;overflow-wrap:anywhere",
}


def safe(value: Any) -> Any:
    """A value as the page shows it: nothing in a text reorders or hides what is around it."""
    from markupsafe import Markup

    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return printable_lines(value.replace("\r\n", "\n"))


def style(frame: pd.DataFrame, id: str) -> str:
    """How the columns of the table of this id are set, so that no cell has to say it."""
    rules = []
    for place, (head, cells) in enumerate(frame.items() if len(frame) else (), start=1):
        set_as = "text-align:right" if numeric(cells) else _STYLES.get(format_of(frame, head))
        rules += [f"#{id} td:nth-child({place}){{{set_as}}}\n"] if set_as else []
    return "".join(rules)


def html(
    frame: pd.DataFrame,
    id: str,
    filtered: Collection[str] = (),
    facets: Facets | None = None,
    rows: Sequence[Facets] = (),
) -> "Markup":
    """The table as HTML with its note; nothing if it has neither.

    Args:
        frame: `attrs["roles"]` may say what columns are for the charts: a `setting` or a `metric`.
        id: Of the element.
        filtered: Names of facets, of which a column has the words.
        facets: Of all of the table; None if the filter leaves it alone.
        rows: Facets of the rows, if these have other than those of their columns.
    """
    from jinja2.utils import htmlsafe_json_dumps
    from markupsafe import Markup, escape

    def text(value: str) -> Markup:
        return escape(safe(value))

    def data(facets: Facets) -> str:
        return f" data-facets='{htmlsafe_json_dumps(facets)}'"

    note = frame.attrs["note"]
    if frame.empty:
        return Markup(f'<p class="note">{text(note)}</p>' if note and frame.columns.empty else "")  # noqa: S704
    heads, columns = [], []
    roles = frame.attrs.get("roles", {})
    for head, cells in frame.items():
        name, right = str(head).lower(), numeric(cells)
        marks = ' class="number"' * right + " data-facet" * (name in filtered)
        marks += f' data-role="{roles[name]}"' if name in roles else ""
        heads.append(f'<th scope="col"{marks}>{text(str(head))}</th>')
        form = format_of(frame, head)
        columns.append([_cell(value, form, right, text) for value in cells])
    own = [data(each) for each in rows] or [""] * len(frame)
    body = "\n".join(
        f"<tr{mark}>{''.join(row)}</tr>" for mark, row in zip(own, zip(*columns, strict=True), strict=True)
    )
    below = f'<p class="note">{text(note)}</p>' if note else ""
    return Markup(  # noqa: S704  escaped
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{id}-caption">'
        f'<table id="{id}"{"" if facets is None else data(facets)}>'
        f'<caption id="{id}-caption">{text(frame.attrs["title"])}</caption>'
        f"<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n{below}"
    )


def _cell(value: Any, form: str, right: bool, text: Callable[[str], "Markup"]) -> str:
    if value is None:
        return "<td>"
    if isinstance(value, datetime.datetime):
        return f"<td>{minute(value)}"
    words = text_of(value, form)
    match form:
        case "range":
            return f"<td>{_range(*value)}"
        case "bar":
            return f"<td>{_bar(value, text(words))}"
        case "status" if words in ("finished", "stopped", "failed"):
            return f'<td class="{words}">{words}'
        case "long" if len(words) > 160 or "\n" in words:
            first = text(words.split("\n")[0][:140])
            return f"<td><details><summary>{first}</summary><pre>{text(words)}</pre></details>"
    return _number_cell(value, words, text) if right else f"<td>{text(words)}"


def _number_cell(value: Any, words: str, text: Callable[[str], "Markup"]) -> str:
    """A number as people write it, with the number itself to sort by where the words are no number."""
    number = float(value)
    if words in ("inf", "-inf"):
        words = words.replace("inf", "∞")
    if words.startswith("-") and words != str(MISSING):
        words = MINUS + words[1:]
    sort = math.copysign(LARGEST, number) if math.isinf(number) else number
    mark = "" if math.isnan(sort) or _PLAIN.fullmatch(words) else f" data-sort={sort:.6g}"
    shown = text(words)
    return f"<td{mark}><strong>{shown}</strong>" if getattr(value, "striking", False) else f"<td{mark}>{shown}"


def _range(low: float, high: float, mean: float, published: float) -> str:
    """A drawing of lowest, highest, measured and published, shares of its width."""
    low, high, mean, published = (round(3 + 94 * share, 1) for share in (low, high, mean, published))
    return (
        '<svg class="range" viewBox="0 0 100 16" aria-hidden="true"><line x1="3" x2="97" y1="8" y2="8"/>'
        f'<line class="span" x1="{low}" x2="{high}" y1="8" y2="8"/>'
        f'<line class="published" x1="{published}" x2="{published}" y1="2" y2="14"/>'
        f'<circle cx="{mean}" cy="8" r="3"/></svg>'
    )


def _bar(counts: Mapping[str, int], text: str) -> str:
    """A drawing of how many trials are in each state."""
    at, parts, whole = 0.0, [], sum(counts.values()) or 1
    for state, count in counts.items():
        share = 100 * count / whole
        parts.append(f'<rect class="{state}" x="{at:.2f}" width="{share:.2f}" height="8"/>')
        at += share
    label = f'preserveAspectRatio="none" role="img" aria-label="{text}"'
    return f'<svg class="bar" viewBox="0 0 100 8" width="160" height="8" {label}>{"".join(parts)}</svg>'
