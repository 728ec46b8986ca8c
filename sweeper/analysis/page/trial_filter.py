"""Which trials a part of the page is about, and the filter that hides the parts about other trials.

A `TrialKind` is a task, a baseline and a model, each empty where it is not known; the filter knows nothing else. All
that is drawn carries its kinds, and an empty part matches every choice: what is about all trials is never hidden.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sweeper.analysis.table import Table

Row = Mapping[str, Any]
"""A row of the store's `trials` as plain data."""


class TrialKind(NamedTuple):
    """Task, baseline and model of trials; an empty part is not known."""

    task: str = ""
    baseline: str = ""
    model: str = ""


TrialKinds = frozenset[TrialKind]

EVERYTHING: TrialKinds = frozenset({TrialKind()})


def kind_of(row: Row) -> TrialKind:
    """The kind of a trial."""
    return TrialKind(row["task"], row["baseline"], row["model"])


def kinds_of(rows: Iterable[Row]) -> TrialKinds:
    """The kinds of several trials."""
    return frozenset(map(kind_of, rows))


def kinds_where(*conditions: Mapping[str, Any]) -> TrialKinds:
    """The kinds that the conditions of a panel speak of, as far as they name any."""
    parts = []
    for columns in (("task", "task.name"), ("baseline",), ("model", "model.name")):
        wanted = [condition[name] for condition in conditions for name in columns if name in condition]
        # Conditions are read from the panel inwards; the innermost is the narrowest.
        values = wanted[-1] if wanted else [""]
        parts.append([str(value) for value in (values if isinstance(values, list) else [values])])
    return frozenset(TrialKind(*kind) for kind in itertools.product(*parts))


def kinds_named(table: Table, known: Iterable[TrialKind]) -> list[TrialKinds]:
    """The kinds of each row of a table that names kinds in columns called task, baseline or model.

    A value that no `known` trial has says nothing, such as a mean over all tasks.
    """
    columns = {column.title.lower(): place for place, column in enumerate(table.columns)}
    parts = {part: columns[part] for part in TrialKind._fields if part in columns}
    values = {part: {getattr(kind, part) for kind in known} for part in parts}
    named = ({part: row[place] for part, place in parts.items() if row[place] in values[part]} for row in table.rows)
    return [frozenset({TrialKind(**kind)}) for kind in named]


class Choice(NamedTuple):
    """A value to filter by, and the numbers of the kinds that it leaves visible."""

    value: str
    kinds: tuple[int, ...]


def choices(kinds: Sequence[TrialKind]) -> dict[str, tuple[Choice, ...]]:
    """The values to filter by, for each of task, baseline and model; numbers are places in `kinds`."""
    return {
        part: tuple(
            Choice(value, tuple(i for i, kind in enumerate(kinds) if getattr(kind, part) in ("", value)))
            for value in sorted({getattr(kind, part) for kind in kinds} - {""})
        )
        for part in TrialKind._fields
    }
