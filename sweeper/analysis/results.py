"""The rows of a store as one table with a named column for everything that is known of a trial."""

import collections
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from sweeper.store.store import Store
from sweeper.trial.trial_spec import leaf_values

CARRIED = {
    "task.name": "task",
    "model.name": "model",
    "objective.q": "q",
    "objective.m": "m",
    "optimizer.name": "optimizer",
    "optimizer.learning_rate": "learning_rate",
}
"""Entries of the specification that a column of the store carries under a name of its own."""


def trials(store: Store) -> pa.Table:
    """The view `trials`: the store's columns, then the entries of the specifications, then the other metrics.

    An entry is called by the last part of its dotted path (`weight_decay`), or by the whole path where the last part
    is taken or belongs to several entries. A metric whose name is taken is called `metrics.<name>`.
    """
    rows = store.trials()
    specs = [dict(leaf_values(json.loads(text))) for text in rows["spec"].to_pylist()]
    extras = [json.loads(text) for text in rows["extra_metrics"].to_pylist()]
    # SQL does not tell small letters from capitals.
    taken = {name.lower() for name in rows.column_names}
    paths = [path for path in _names(specs) if CARRIED.get(path, path) not in rows.column_names]
    uses = collections.Counter(_last(path).lower() for path in paths)
    for path in paths:
        name = _last(path) if uses[_last(path).lower()] == 1 and _last(path).lower() not in taken else path
        taken.add(name.lower())
        rows = rows.append_column(name, column([entries.get(path) for entries in specs]))
    for metric in _names(extras):
        name = f"metrics.{metric}" if metric.lower() in taken else metric
        rows = rows.append_column(name, column([metrics.get(metric) for metrics in extras]))
    return rows


def _names(records: Iterable[dict[str, Any]]) -> list[str]:
    """All keys of the records, in the order of first appearance."""
    return list(dict.fromkeys(key for record in records for key in record))


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def column(values: Sequence[Any]) -> pa.Array:
    """Plain data of a canonical specification as a column of the narrowest type that holds all of it.

    Numbers among which infinity is spelt out become doubles; what has no common type becomes JSON text.
    """
    present = [value for value in values if value is not None]
    if any(type(value) is float or value in _SPELT for value in present if not isinstance(value, list)):
        try:
            return pa.array([None if value is None else _number(value) for value in values], pa.float64())
        except TypeError:
            pass
    if len({type(value) for value in present}) <= 1:
        try:
            return pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
    return pa.array([None if value is None else json.dumps(value) for value in values])


_SPELT = ("inf", "-inf", "nan")


def _number(value: Any) -> float:
    if isinstance(value, bool) or not (isinstance(value, int | float) or value in _SPELT):
        raise TypeError(f"{value!r} is no number")
    return float(value)
