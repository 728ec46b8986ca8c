"""The entries of a specification by dotted path, their names, and the entries by which specifications differ.

Names: an entry that has a column in the store (`CARRIED`, `steps`, `seed` ...) is called like that column. Any other
entry is called by the last part of its path (`weight_decay`), or by the whole path where the last part is the name of
something else or belongs to several entries. SQL ignores capitals, so names that differ only in capitals are equal.
Columns of SQL, tables, notes of figures, labels of packs and labels of trackers' runs use this rule.

Values: numbers are numbers, also the infinities and NaN that JSON spells out, and lists are tuples.
"""

import collections
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from sweeper.trial.columns import COLUMNS
from sweeper.trial.trial import leaf_values, record_of, with_unwritten

CARRIED = {
    "experiment.name": "task",
    "task.name": "task",
    "model.name": "model",
    "objective.name": "objective",
    "objective.q": "q",
    "objective.m": "m",
    "optimizer.name": "optimizer",
    "optimizer.learning_rate": "learning_rate",
}
"""Entries of the specification that have a column of another name in the store."""

TAKEN = (*COLUMNS, "seeds")
"""Names that no other entry and no metric has: the columns of the store, and the number of training seeds."""

FIRST = ("experiment.name", "task.name", "model.name", "baseline", "objective.name", "objective.q", "objective.m")
"""Entries whose columns come first; the entries of the task follow, then all others."""

CACHED = 2**14
"""Largest number of specifications whose entries are cached: enough for a large sweep."""

_WITHOUT_NAME = ("baseline", "model.name")


# Entries


@functools.lru_cache(CACHED)
def entries(spec: str) -> Mapping[str, Any]:
    """Every entry by its dotted path, also those not written at their value, of JSON as in the column `spec`."""
    return entries_of(from_json(spec))


def entries_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """As `entries`, of a specification as nested mappings."""
    record = {}
    for part, value in with_unwritten(spec).items():
        leaves = leaf_values(value, f"{part}.") if isinstance(value, Mapping) else [(part, value)]
        record |= {path: decoded(leaf) for path, leaf in leaves}
    meaningless = record_of(spec).meaningless(spec)
    return {path: value for path, value in record.items() if path not in meaningless}


_SPELLED = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def decoded(value: Any) -> Any:
    """A value of JSON with lists as tuples, and with infinities and NaN as numbers."""
    if isinstance(value, list):
        return tuple(map(decoded, value))
    return _SPELLED.get(value, value) if isinstance(value, str) else value


# Names


def entry_names(records: Iterable[Mapping[str, Any]], taken: Collection[str] = TAKEN) -> dict[str, str]:
    """The name of every entry of specifications by its dotted path; no other entry has a name that is `taken`."""
    paths = list(dict.fromkeys(path for record in records for path in record))
    names = {path: CARRIED.get(path, path) for path in paths if CARRIED.get(path, path) in taken}
    lower = {name.lower() for name in taken}
    uses = collections.Counter(last_part(path).lower() for path in paths if path not in names)
    for path in paths:
        if path not in names:
            last = last_part(path)
            names[path] = last if uses[last.lower()] == 1 and last.lower() not in lower else path
            lower.add(names[path].lower())
    return names


def last_part(path: str) -> str:
    """The last part of a dotted path."""
    return path.rpartition(".")[2]


def varying_names(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The names of the entries by which specifications differ, by dotted path, in the order of `varying`."""
    names = entry_names(records)
    return {path: names[path] for path in varying(records)}


def named_values(names: Mapping[str, str], text_of: Callable[[str], str]) -> list[str]:
    """Entries in words such as "q=10", or "Aq_R" where the value needs no name, of names by dotted path.

    `text_of` gives the value of a path; an entry with an empty text is left out.
    """
    texts = [(path, name, text_of(path)) for path, name in names.items()]
    return [text if path in _WITHOUT_NAME else f"{name}={text}" for path, name, text in texts if text]


# Differences


def varying(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The entries by which specifications differ: those with several values, and those that only some have.

    The entries of a task, a model, an objective or an optimiser depend on its name. Such an entry differs if a
    specification with the same name lacks it.
    """
    values: dict[str, set[Any]] = {}
    having: collections.Counter[tuple[str, Any]] = collections.Counter()
    for record in records:
        for path, value in record.items():
            values.setdefault(path, set()).add(value)
            having[path, _owner(record, path)] += 1
    parts = {path.partition(".")[0] for path in values}
    named = collections.Counter((part, record.get(f"{part}.name")) for record in records for part in parts)
    differing = {path for path, seen in values.items() if len(seen) > 1}
    for (path, owner), count in having.items():
        everyone = len(records) if owner is None else named[path.partition(".")[0], owner]
        if count < everyone:
            differing.add(path)
    places = {path: place for place, path in enumerate(values)}
    return sorted(differing, key=lambda path: (*_rank(path), places[path]))


def _owner(record: Mapping[str, Any], path: str) -> Any:
    """The name of the task, model, objective or optimiser that an entry is of; None for its name, and others."""
    name = f"{path.partition('.')[0]}.name"
    return None if path == name else record.get(name)


def _rank(path: str) -> tuple[int, int]:
    if path in FIRST:
        return 0, FIRST.index(path)
    return (1, 0) if path.startswith(("task.", "experiment.")) else (2, 0)
