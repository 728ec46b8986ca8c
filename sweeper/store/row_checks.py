"""What a row may hold: the one place where rows are held against their schema when they enter from a file.

A seal proves that a file is as it was written, and not who has written it. What this module lets pass is safe for every
reader: columns have their types, names are names, texts of JSON are JSON, and dates are dates of the calendar.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
from pydantic_core import from_json

from sweeper.trial.entry_names import decoded
from sweeper.trial.kinds import declared_with
from sweeper.trial.trial import leaf_values

MOST_NAMES, LONGEST_NAME = 1000, 200
"""Most metrics, curves or outcomes of a trial, and characters of a name."""

ALWAYS = {"trial_id", "status", "seed", "steps", "spec", "schema_version", "protocol", "metrics"}
"""Columns that every program has filled, of trials and of evaluations."""

DATES, YEARS = ("started", "finished"), range(1900, 2200)
"""Columns of dates, and the years in which they may be: pandas counts nanoseconds in 64 bits."""


def check_row(row: pa.Table, schema: pa.Schema) -> None:
    """Refuse the columns of one row of a file with a `ValueError` that ends a sentence about the file."""
    for field in row.schema:
        if field.type != schema.field(field.name).type:
            raise ValueError(f"has {field.type} in the column {field.name!r}")
    for name in row.column_names:
        if pa.types.is_map(row.schema.field(name).type):
            _check_map(name, row[name].combine_chunks())
        elif name in ALWAYS or name in DATES or name in _JSON:
            _check_value(name, row[name][0])


def _check_value(name: str, scalar: pa.Scalar) -> None:
    if not scalar.is_valid:
        if name in ALWAYS:
            raise ValueError(f"has nothing in the column {name!r}")
        return
    try:
        value = scalar.as_py()
        if name in DATES and value.year not in YEARS:
            raise ValueError(f"{value} is no date of a trial")
        if name in _JSON:
            _JSON[name](value)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"has a senseless value in the column {name!r}: {str(error)[:200]}") from None


def check_names(names: Iterable[str], what: str) -> None:
    """Refuse names of metrics, curves or outcomes of a trial with a `ValueError`."""
    named = list(names)
    if len(named) > MOST_NAMES:
        raise ValueError(f"has {len(named):,} {what}; a trial may have {MOST_NAMES:,}")
    for name in named:
        if not name.strip() or len(name) > LONGEST_NAME:
            raise ValueError(f"has {what} called {name[:20]!r}, a name of {len(name):,} characters")


def _check_map(name: str, maps: pa.MapArray) -> None:
    """A map from names to numbers, as `metrics` is, or to lists of numbers, as `curves` and `outcomes` are."""
    check_names(maps.keys.to_pylist(), name)
    if not pa.types.is_list(maps.type.item_type):
        return
    lists, values = maps.items, maps.items.flatten()
    fields = [values.field(index) for index in range(values.type.num_fields)]
    if lists.null_count or values.null_count or any(field.null_count for field in fields):
        raise ValueError(f"has gaps in its {name}")
    if name == "outcomes" and len(set(lists.value_lengths().to_pylist())) > 1:
        raise ValueError("has outcomes of different numbers of inputs")


def _check_specification(text: str) -> None:
    """No plug-in is loaded, and what a plug-in of this checkout says of the values does not matter."""
    specification = _mapping(text)
    if not isinstance(specification.get("steps"), int):
        raise ValueError("steps are no number")
    for part in declared_with(specification).parts:
        written = specification.get(part, {})
        if not isinstance(written, dict) or not isinstance(written.get("name", ""), str):
            raise ValueError(f"{part} has no name")
    for _, value in leaf_values(specification):
        hash(decoded(value))  # lists of lists of plain values, and nothing else


def _check_metrics(text: str) -> None:
    metrics = _mapping(text)
    check_names(metrics, "metrics")
    for name, value in metrics.items():
        if isinstance(value, bool) or not isinstance(decoded(value), int | float | None):
            raise ValueError(f"{name!r} is {value!r}, no number")


def _check_texts(text: str) -> None:
    if not all(isinstance(value, str) for value in _mapping(text).values()):
        raise ValueError("no texts by name")


def _mapping(text: str) -> Mapping[str, Any]:
    value = from_json(text)
    if not isinstance(value, dict):
        raise ValueError("no object of JSON")
    return value


_JSON: Mapping[str, Callable[[str], object]] = {
    "spec": _check_specification, "extra_metrics": _check_metrics, "metrics": _check_metrics, "versions": _check_texts,
    "protocol": _mapping,
}  # fmt: skip
