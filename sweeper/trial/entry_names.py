"""The entries of a specification by dotted path, their columns, and the entries by which specifications differ.

The column of an entry is its path: `task.vertices` is `task_vertices`, whatever other trials a store has. A few have
shorter names (`CARRIED`). Columns of SQL, tables and panels, notes of figures, and labels of packs and runs use this
rule.

Values: numbers are numbers, also the infinities and NaN that JSON spells out, and lists are tuples.

A setting is what trials share that are equal in all entries but the training seed.
"""

import functools
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from sweeper.messages import nearest_name
from sweeper.trial.kinds import declared_kinds, declared_with
from sweeper.trial.start_from import differs_by_seed
from sweeper.trial.trial import leaf_values, traits_of_entries, with_unwritten

if TYPE_CHECKING:
    import pandas as pd

_KINDS = list(declared_kinds())

CARRIED: Mapping[str, str] = {
    **{path: column for kind in _KINDS for path, column in kind.carried.items()},
    "start_from.trial": "start_from",
}
"""Entries of the specification that have a column of another name."""

LABEL = tuple(path for kind in _KINDS for path in kind.label)
"""Entries that a label begins with."""

LEADING = tuple(path for kind in _KINDS for path in kind.leading)
"""Entries whose columns come first; those of the first part of a trial follow, then all others."""

FIRST_PARTS = tuple(f"{part}." for kind in _KINDS for part in list(kind.parts)[:1])
"""How the entries of the first part of a trial begin."""

NAMELESS = tuple(path for path in LEADING if any(path in (*kind.label, *kind.unnamed) for kind in _KINDS))
"""Entries that need no name before their value, those of `LABEL` among them."""

CACHED = 2**14
"""Largest number of specifications whose entries are cached: enough for a large sweep."""


# Entries


def entries(spec: str) -> Mapping[str, Any]:
    """Every entry by its dotted path, also those not written at their value, of JSON as in the column `spec`.

    The training seeds of a setting share the entries, but for the seed.
    """
    seeds = list(_SEED.finditer(spec))
    if len(seeds) != 1:
        return _entries(spec)
    start, end = seeds[0].span(1)
    return {**_entries(f"{spec[:start]}0{spec[end:]}"), "seed": int(spec[start:end])}


_SEED = re.compile(r'"seed": ?(\d+)')


@functools.lru_cache(CACHED)
def _entries(spec: str) -> Mapping[str, Any]:
    return entries_of(from_json(spec))


def entries_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """As `entries`, of a specification as nested mappings."""
    record = {path: decoded(value) for path, value in leaf_values(with_unwritten(spec))}
    left_out = declared_with(spec).tables.meaningless(traits_of_entries(spec))
    return {path: value for path, value in record.items() if path not in left_out}


_SPELLED = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def decoded(value: Any) -> Any:
    """A value of JSON with lists as tuples, and with infinities and NaN as numbers."""
    if isinstance(value, list):
        return tuple(map(decoded, value))
    return _SPELLED.get(value, value) if isinstance(value, str) else value


def is_number(value: Any) -> bool:
    """Whether a value is a number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def value_order(value: Any) -> tuple[int, float, str]:
    """What values of entries are sorted by: missing values before numbers, and numbers before all others, as texts."""
    if value is None:
        return 0, 0.0, ""
    return (1, float(value), "") if is_number(value) else (2, 0.0, str(value))


# Names


def column_name(path: str) -> str:
    """The column of an entry, of its dotted path; the name of a column is its own."""
    return CARRIED.get(path) or path.replace(".", "_")


def meant(name: str, columns: Iterable[str]) -> str:
    """The end of a message about an unknown column: those that may be meant, of which `name` may be the end."""
    columns = list(columns)
    near = nearest_name(name, [*columns, *(column.partition("_")[2] for column in columns)])
    likely = [column for column in columns if near is not None and f"_{column}".endswith(f"_{near}")]
    return f" (did you mean {' or '.join(map(repr, likely))}?)" if likely else ""


def named_values(paths: Iterable[str], text_of: Callable[[str], str]) -> list[str]:
    """Entries in words such as "width=10", or "transformer" where the value needs no name.

    `text_of` gives the value of a path; an entry with an empty text is left out.
    """
    texts = [(path, text_of(path)) for path in paths]
    return [text if path in NAMELESS else f"{column_name(path)}={text}" for path, text in texts if text]


# Settings


def by_entries(trials: "pd.DataFrame") -> "list[tuple[dict[str, Any], pd.DataFrame]]":
    """The trials in groups that are equal in all entries but the training seed.

    Variables of their space, columns such as `variables.x`, count as entries. A group is its shared entries and its
    rows; groups are in the order of first appearance.
    """
    groups: dict[frozenset[tuple[str, Any]], tuple[dict[str, Any], list[int]]] = {}
    variables = trials[[name for name in trials if str(name).startswith("variables.")]].to_dict("records")
    for place, (spec, own) in enumerate(zip(trials["spec"], variables, strict=True)):
        whole = {**entries(spec), **{path: value for path, value in own.items() if value is not None}}
        shared = {path: value for path, value in whole.items() if not differs_by_seed(path, whole)}
        groups.setdefault(frozenset(shared.items()), (shared, []))[1].append(place)
    ordered = trials.iloc[[place for _, places in groups.values() for place in places]]
    ends = itertools.accumulate(len(places) for _, places in groups.values())
    # Rows in a row are cheap, a choice of rows is copied column by column.
    parts = zip(groups.values(), ends, strict=True)
    return [(shared, ordered.iloc[end - len(places) : end]) for (shared, places), end in parts]


# Differences


def varying(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The entries by which specifications differ: those with several values, and those that only some have.

    The entries of a plug-in, and of a choice inside it, depend on its name. Such an entry differs if a specification
    with the same name lacks it.
    """
    paths = dict.fromkeys(path for record in records for path in record)

    def differs(path: str) -> bool:
        having = [record for record in records if path in record]
        if len(having) < len(records):
            owners = {_owner(record, path) for record in having}
            if any(path not in record and not owners.isdisjoint({None, _owner(record, path)}) for record in records):
                return True
        return len({record[path] for record in having}) > 1

    return sorted(filter(differs, paths), key=_order)


def shown_entries(
    records: Sequence[Mapping[str, Any]],
    written: Sequence[str] = (),
    most: int | None = None,
    among: Collection[str] | None = None,
) -> list[str]:
    """The entries of specifications that differ, in the order in which tables and legends show them.

    `written` are the entries of a space, those left open first: they come in this order after those of `LEADING`.
    Without `most` all follow that differ. With it, entries that nobody wrote, such as the defaults of an optimiser that
    is chosen, are shown only if specifications would look alike without them; and of too many entries the first go
    without which more would look alike. `among` chooses from other entries than those that differ.
    """
    places = {path: place for place, path in enumerate(written)}

    def place(path: str) -> int:
        """That of the entry, or of what stands for it: a name for its record, a trial or sweep for its setting."""
        above, _, end = path.rpartition(".")
        written_as = {"name": [above], "setting": [above, f"{above}.trial", f"{above}.sweep"]}.get(end, [])
        return next((places[each] for each in (path, *written_as) if each in places), len(places))

    differing = varying(records) if among is None else sorted(sorted(among), key=_order)
    paths = sorted(differing, key=lambda path: -1 if path in LEADING else place(path))
    if most is None:
        return paths
    telling = _telling(paths, records)
    chosen = [path for path in paths if not places or path in LEADING or place(path) < len(places) or path in telling]
    kept = {*[*telling, *(path for path in chosen if path not in telling)][:most]}
    return [path for path in chosen if path in kept]


def _telling(paths: Sequence[str], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those of the paths that tell specifications apart that look alike in the paths before."""
    groups, count, telling = [0] * len(records), 1, []
    for path in paths:
        number: dict[Any, int] = {}
        for place, record in enumerate(records):
            groups[place] = number.setdefault((groups[place], record.get(path)), len(number))
        if len(number) > count:
            telling.append(path)
        count = len(number)
    return telling


def _owner(record: Mapping[str, Any], path: str) -> Any:
    """The innermost name above an entry, such as that of an optimiser inside an experiment; None if there is none."""
    above = path.removesuffix(".name").split(".")[:-1]
    names = (f"{'.'.join(above[:depth])}.name" for depth in range(len(above), 0, -1))
    return next(((name, record[name]) for name in names if name in record), None)


def _order(path: str) -> tuple[int, int, bool]:
    if path in LEADING:
        return 0, LEADING.index(path), False
    return 2 - path.startswith(FIRST_PARTS), 0, not path.endswith(".name")
