"""Which trials a part of the page is about, and the filter that hides the parts about other trials.

A `Kind` is a task, a baseline and a network, each empty where it is not known. The filter knows kinds and nothing else.
Whatever is drawn carries its kinds, and an empty part matches every choice: what is about all trials is never hidden.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sweeper.analysis.table import Table

Row = Mapping[str, Any]
"""A row of the store's `trials` as plain data."""


class Kind(NamedTuple):
    """Task, baseline and network of trials; an empty part is not known."""

    task: str = ""
    baseline: str = ""
    network: str = ""


Kinds = frozenset[Kind]

EVERYTHING: Kinds = frozenset({Kind()})

_COLUMNS = ("task", "baseline", "network", "model")


def kind_of(row: Row) -> Kind:
    """The kind of a trial."""
    return Kind(row["task"], row["baseline"], row["model"])


def kinds_of(rows: Iterable[Row]) -> Kinds:
    """The kinds of several trials."""
    return frozenset(map(kind_of, rows))


def kinds_where(*conditions: Mapping[str, Any]) -> Kinds:
    """The kinds that the conditions of a panel speak of, as far as they name any."""
    parts = []
    for columns in (("task", "task.name"), ("baseline",), ("model", "model.name")):
        wanted = [condition[name] for condition in conditions for name in columns if name in condition]
        # Conditions are read from the panel inwards; the innermost is the narrowest.
        values = wanted[-1] if wanted else [""]
        parts.append([str(value) for value in (values if isinstance(values, list) else [values])])
    return frozenset(Kind(*kind) for kind in itertools.product(*parts))


def kinds_named(table: Table, known: Iterable[Kind]) -> list[Kinds]:
    """The kinds of each row of a table that names kinds in columns called task, baseline, network or model.

    A value counts as what `known` trials have by that name: some tables call a baseline a model, others a network.
    """
    parts = {value: part for kind in known for part, value in kind._asdict().items()}
    places = [place for place, column in enumerate(table.columns) if column.title.lower() in _COLUMNS]
    named = ({parts[row[place]]: row[place] for place in places if row[place] in parts} for row in table.rows)
    return [frozenset({Kind(**values)}) for values in named]


class Choice(NamedTuple):
    """A value to filter by, and the numbers of the kinds that it leaves visible."""

    value: str
    kinds: tuple[int, ...]


def choices(kinds: Sequence[Kind]) -> dict[str, tuple[Choice, ...]]:
    """The values to filter by, for each of task, baseline and network; numbers are places in `kinds`."""
    return {
        part: tuple(
            Choice(value, tuple(i for i, kind in enumerate(kinds) if getattr(kind, part) in ("", value)))
            for value in sorted({getattr(kind, part) for kind in kinds} - {""})
        )
        for part in Kind._fields
    }
