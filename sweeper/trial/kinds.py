"""Which kinds of trial there are: the one place where the platform names the modules of kinds.

A kind is two things. What it declares of the entries and columns of its trials needs no library that computes, so
commands that only read a store are quick. The kind itself is loaded when it is first asked for, as its modules are
made of those of the platform.
"""

import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sweeper.trial.kind_tables import KindTables


class Declared(NamedTuple):
    """What the platform knows of a kind of trial whose code it has not loaded. Entries are dotted paths."""

    # The module that has the kind as `KIND`, a `sweeper.training.kind.Kind`. Its imports compute numbers, but for
    # modules `checks`, `declared` and `figures` beside it
    module: str
    tables: KindTables  # what tables show of its trials
    parts: Mapping[str, Any]  # entries that are plug-ins, whose `name` decides which fields they have; kinds by entry
    carried: Mapping[str, str] = {}  # entries that have a column of another name than their path, with the column
    leading: tuple[str, ...] = ()  # entries whose columns come first, before those of the first part
    label: tuple[str, ...] = ()  # entries that a label begins with, by their values alone
    unnamed: tuple[str, ...] = ()  # further entries that need no name before their value
    protocol: str = ""  # the entry that says how a network is evaluated, and that an evaluation may change
    columns: Mapping[str, str] = {}  # columns of a store for entries, each with its type: string, int64 or double
    metrics: tuple[str, ...] = ()  # metrics that have a column of their own in a store


KINDS: Mapping[str, str] = {
    "experiment": "sweeper.trial.experiment_declared", "task": "sweeper.learned_algorithms.declared",
}  # fmt: skip
"""The module that has the `DECLARED` of a kind, by the entry that only its trials have; the last is meant without one.

It imports no library that computes.
"""


def declared_kinds() -> Iterator[Declared]:
    """What every kind declares."""
    return map(_declared, KINDS)


def kinds() -> Iterator[Any]:
    """Every kind."""
    return map(_kind, KINDS)


def declared_with(data: Any) -> Declared:
    """What the kind of the trial with these entries of a mapping declares, whatever their values are."""
    return _declared(entry_of(data))


def kind_with(data: Any) -> Any:
    """The kind of the trial with these entries, as `declared_with`."""
    return _kind(entry_of(data))


def contract_of(plugin_kind: str) -> type:
    """The class that the plug-ins of a kind extend."""
    parts = ((kind.record, part, of) for kind in kinds() for part, of in kind.record.DECLARED.parts.items())
    return next(record.model_fields[part].annotation for record, part, of in parts if of == plugin_kind)


def entry_of(data: Any) -> str:
    """The name in `KINDS` of the kind of the trial with these entries, as `declared_with`."""
    keys = data if isinstance(data, Mapping) else ()
    return next((entry for entry in KINDS if entry in keys), list(KINDS)[-1])


@functools.cache
def _declared(entry: str) -> Declared:
    return importlib.import_module(KINDS[entry]).DECLARED


@functools.cache
def _kind(entry: str) -> Any:
    return importlib.import_module(_declared(entry).module).KIND
