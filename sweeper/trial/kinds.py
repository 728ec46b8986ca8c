"""Which kinds of trial there are: the one place where the platform names the modules of kinds.

A kind is loaded when it is first asked for, as its modules are made of those of the platform.
"""

import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

KINDS: Mapping[str, str] = {"experiment": "sweeper.training.experiments", "task": "sweeper.learned_algorithms.kind"}
"""The module of every kind of trial, by the entry that only its trials have; the last is meant without one.

A module has its kind as `KIND`, a `sweeper.training.kind.Kind`. Its imports compute numbers, but for modules `checks`
and `figures` beside it.
"""


def kinds() -> Iterator[Any]:
    """Every kind."""
    return map(_kind, KINDS)


def kind_with(data: Any) -> Any:
    """The kind of the trial with these entries of a mapping, whatever their values are."""
    keys = data if isinstance(data, Mapping) else ()
    return _kind(next((entry for entry in KINDS if entry in keys), list(KINDS)[-1]))


def contract_of(plugin_kind: str) -> type:
    """The class that the plug-ins of a kind extend."""
    parts = ((kind.record, part, of) for kind in kinds() for part, of in kind.record.PARTS.items())
    return next(record.model_fields[part].annotation for record, part, of in parts if of == plugin_kind)


@functools.cache
def _kind(entry: str) -> Any:
    return importlib.import_module(KINDS[entry]).KIND
