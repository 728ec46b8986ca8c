"""Tables as the page's template places them, and the kinds of trials that their rows are about.

A cell knows its text, its look, and the number it sorts by. Nothing here is HTML. Every text may come from a store that
somebody else wrote; the template escapes all of it.

A `TrialKind` is a task, a baseline, a model, a sweep and a status, each empty where it is not known. All that the page
shows carries its kinds, and the filter hides what is about other trials. An empty part matches every choice, so the
filter never hides what is about all trials.
"""

import datetime
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from sweeper.analysis import table as tables
from sweeper.analysis.table import Column, Look, Table, minute

Row = Mapping[str, Any]
"""A row of the store's `trials` as plain data, with the names of the sweeps that plan the trial as `sweeps`."""

NO_SWEEP = "(none)"  # the sweep of trials that no sweep plans


def ended(row: Row) -> float:
    """When a trial ended, in seconds; 0 where that is not known."""
    return row["finished"].timestamp() if row["finished"] else 0.0


class TrialKind(NamedTuple):
    """Task, baseline, model, sweep and status of trials; an empty part is not known."""

    task: str = ""
    baseline: str = ""
    model: str = ""
    sweep: str = ""
    status: str = ""


TrialKinds = frozenset[TrialKind]

EVERYTHING: TrialKinds = frozenset({TrialKind()})


def kinds_of(rows: Iterable[Row]) -> TrialKinds:
    """The kinds of trials; a trial that several sweeps plan is of as many kinds."""
    return frozenset(
        TrialKind(row["task"], row["baseline"], row["model"], sweep, row["status"])
        for row in rows
        for sweep in row["sweeps"] or (NO_SWEEP,)
    )


def kinds_where(sweep: str, *conditions: Mapping[str, Any]) -> TrialKinds:
    """The kinds of a sweep that the conditions of a panel speak of, as far as they name any."""
    parts = []
    for columns in (("task", "task.name"), ("baseline",), ("model", "model.name")):
        wanted = [condition[name] for condition in conditions for name in columns if name in condition]
        # Conditions are read from the panel inwards; the innermost is the narrowest.
        values = wanted[-1] if wanted else [""]
        parts.append([str(value) for value in (values if isinstance(values, list) else [values])])
    return frozenset(TrialKind(*kind)._replace(sweep=sweep) for kind in itertools.product(*parts))


def kinds_named(table: Table, known: Collection[TrialKind], sweep: str = "") -> list[TrialKinds]:
    """The kinds of each row of a table about a sweep, which may name them in columns such as task or baseline.

    A value that no `known` trial has says nothing, such as a mean over all tasks.
    """
    columns = {column.title.lower(): place for place, column in enumerate(table.columns)}
    parts = {part: columns[part] for part in TrialKind._fields if part in columns}
    values = {part: {getattr(kind, part) for kind in known} for part in parts}
    named = ({part: row[place] for part, place in parts.items() if row[place] in values[part]} for row in table.rows)
    return [frozenset({TrialKind(**({"sweep": sweep} | kind))}) for kind in named]


def choices(kinds: Sequence[TrialKind]) -> dict[str, dict[str, list[int]]]:
    """For each part of a kind the values to filter by, with the places in `kinds` that stay visible."""
    return {
        part: {
            value: [place for place, kind in enumerate(kinds) if getattr(kind, part) in ("", value)]
            for value in sorted({getattr(kind, part) for kind in kinds} - {""})
        }
        for part in TrialKind._fields
    }


MINUS = "\N{MINUS SIGN}"

LARGEST = 1e308
"""What infinity sorts as: it is the largest value of a column, not a missing one, and JSON has no infinity."""


class Cell(NamedTuple):
    """A value of a table."""

    text: str  # what is read; empty where there is nothing to say
    # How it is set; `miss` marks a number that is far from the published number
    look: Look | Literal["miss"] = "text"
    # The number it sorts by; None if that is the text, or the number that the text begins with
    sort: float | None = None
    # For `range`: lowest, highest, measured and published, as shares of the drawing's width. For `bar`: name and
    # share of every part.
    shape: tuple[Any, ...] = ()


class PageTable(NamedTuple):
    """A table of the page. A table that could not be made has no heads, and its note gives the reason."""

    title: str
    heads: tuple[Column, ...]
    lines: tuple[tuple[list[Cell], TrialKinds], ...]  # the cells of each row, and the kinds of trials it is about
    note: str = ""

    @property
    def shown(self) -> bool:
        return bool(self.lines) or not self.heads


def page_table(table: Table, kinds: Sequence[TrialKinds] | None = None) -> PageTable:
    """The table for the template, with the kinds of each row; without them all rows are about everything."""
    cells = [[_cell(column, value) for column, value in zip(table.columns, row, strict=True)] for row in table.rows]
    lines = tuple(zip(cells, kinds or [EVERYTHING] * len(cells), strict=True))
    return PageTable(table.title, table.columns, lines, table.note)


def attempted(title: str, make: Callable[[], tuple[Table, Sequence[TrialKinds] | None]]) -> PageTable:
    """The page table of what `make` returns, or a note that says why it could not be made."""
    made = tables.attempted(title, lambda: page_table(*make()))
    return page_table(made) if isinstance(made, Table) else made


def _cell(column: Column, value: Any) -> Cell:
    form, text = column.form, column.text(value)
    if isinstance(value, datetime.datetime):
        return Cell(minute(value), form.look)
    if value is not None and form.look == "range":
        return Cell(text, form.look, None, tuple(value))
    if value is not None and form.look == "bar":
        whole = sum(value.values())
        return Cell(text, form.look, None, tuple((name, part / whole) for name, part in value.items()) if whole else ())
    if value is None or not form.numeric:
        return Cell(text, form.look)
    if isinstance(value, float) and math.isinf(value):
        text = "∞" if value > 0 else f"{MINUS}∞"
    if text.startswith("-") and text != column.empty:
        text = MINUS + text[1:]
    look = "miss" if form.striking(value) else form.look
    number = None if _PLAIN.fullmatch(text) else form.order(value)
    if number is None or math.isnan(number):
        return Cell(text, look)
    return Cell(text, look, math.copysign(LARGEST, number) if math.isinf(number) else float(number))


_PLAIN = re.compile(r"[\d,.]+(e[-+]\d+)?( %)?")  # a text that is a number for the page's script
