"""A frozen record that is also a JAX pytree, and its canonical form.

Fields marked `Traced` are the leaves of the tree; every other field is part of its structure. So two records may share
one compiled program exactly when `jax.tree.structure` of the two is equal. A program computes in float32 and int32, so
a leaf that is too large for these is refused.

The canonical form of a record is plain data with every default written out, and its hash is the identity of a trial. A
field that joins a record later would change the identity of every older trial. Such a field is marked `Unwritten`: it
has a default that means "as before", and it is left out of the canonical form where it has that value.

Invariants:
    - The canonical form validates to an equal record.
    - The default of an `Unwritten` field is the value at which the field is not written, for ever. A class that breaks
      this rule cannot be defined.
"""

import enum
import functools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, WrapValidator, model_validator

T = TypeVar("T")


class _TracedMarker:
    """Marks a field as a leaf of the pytree."""


MAX_INTEGER = 2**31 - 1
_MAX_FLOAT = (2 - 2**-23) * 2.0**127


def _leaf(value: Any, validated: Callable[[Any], Any]) -> Any:
    """The value of a leaf, which the float32 or int32 of a compiled program holds."""
    leaf = validated(value)
    if isinstance(leaf, int) and leaf > MAX_INTEGER:
        raise ValueError(f"must be at most {MAX_INTEGER:,}, got {value}")
    if isinstance(leaf, float) and math.isfinite(leaf) and abs(leaf) > _MAX_FLOAT:
        raise ValueError(f"must be at most {_MAX_FLOAT:.3g} in single precision, got {value}")
    return leaf


TRACED = _TracedMarker()
Traced = Annotated[T, TRACED, WrapValidator(_leaf)]
"""A field that is a leaf; its bounds stand inside, as in `Traced[Positive]`."""


@dataclass(frozen=True)
class Unwritten:
    """Marks a field that is neither written nor hashed while it means "as before"."""

    at: Any = None  # the value that means "as before"; the default of the field must be this value
    # Name of another field of the record; a value equal to that field means "as before". The default of the marked
    # field is then None, which is replaced as for `SameAs`.
    same_as: str | None = None


@dataclass(frozen=True)
class SameAs:
    """Marks a field whose None means the value of another field, and is replaced by that value.

    So a rate that falls and a constant rate, whose final value equals its first, are lanes of one program.
    """

    same_as: str


class _BroughtMarker:
    """Marks a leaf that is no setting: whoever trains puts it there, and it is neither written nor hashed."""


BROUGHT = _BroughtMarker()


@functools.cache
def marks(record: "type[Spec]", *kinds: type) -> dict[str, Any]:
    """The marks of some kinds in a record, by the name of their field."""
    fields = record.model_fields.items()
    return {name: mark for name, field in fields for mark in field.metadata if isinstance(mark, kinds)}


class Spec(BaseModel):
    """A frozen record that forbids unknown keys and registers every subclass as a pytree.

    Nested records are subtrees, `Traced` fields leaves, and the rest is auxiliary data, which must be hashable. A
    record without leaves does not import JAX: it is registered when JAX is there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        _no_trees_yet.append(cls)
        # Not for good: a field whose type is defined below its record gets its marks later.
        if marks.__wrapped__(cls, _TracedMarker) or "jax" in sys.modules:
            _make_trees()
        for name, mark in marks.__wrapped__(cls, Unwritten).items():
            if (default := cls.model_fields[name].get_default()) != mark.at:
                raise TypeError(
                    f"{cls.__name__}.{name} is not written at {mark.at!r}, so this must be its default, not {default!r}"
                )

    @model_validator(mode="after")
    def _completed(self) -> Self:
        for kind in (SameAs, Unwritten):
            for name, mark in marks(type(self), kind).items():
                if mark.same_as is not None and getattr(self, name) is None:
                    # The record is frozen for its users; a validator is the one place where it may still be completed.
                    object.__setattr__(self, name, getattr(self, mark.same_as))
        return self

    @classmethod
    def traced_fields(cls) -> list[str]:
        """Names of the fields that are leaves, in the order of declaration."""
        return list(marks(cls, _TracedMarker))


_no_trees_yet: list[type[Spec]] = []
"""Records that were defined before JAX was imported; the first with a leaf makes trees of all."""


def _make_trees() -> None:
    import jax  # takes most of a second, and records of stores and resources have no leaf

    def with_keys(spec: Spec) -> tuple[Any, Any]:
        children, (names, static) = _flatten(spec)
        return tuple(zip(map(jax.tree_util.GetAttrKey, names), children, strict=True)), (names, static)

    while _no_trees_yet:
        cls = _no_trees_yet.pop()
        jax.tree_util.register_pytree_with_keys(cls, with_keys, functools.partial(_unflatten, cls), _flatten)


def canonical(value: Any) -> Any:
    """A record as plain data that JSON can hold: defaults written out, infinity as the string "inf".

    A value without a stable form, such as an array, is a `TypeError`.
    """
    match value:  # plain values first: to ask a value whether it is a record is slow
        case enum.Enum():
            return canonical(value.value)
        case str() | int() | None:
            return value
        case dict():
            return {key: canonical(item) for key, item in value.items()}
        case list() | tuple():
            return [canonical(item) for item in value]
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case float():
            return value + 0.0  # -0.0 and 0.0 are one value and must have one spelling
        case Spec():
            return _written(value)
        case _:
            raise TypeError(f"{value!r} has no stable form to hash")


def _written(spec: Spec) -> dict[str, Any]:
    """The fields of a record as plain data, without those that mean "as before"."""
    brought = marks(type(spec), _BroughtMarker)
    plain = {
        name: each if type(each) in _PLAIN else canonical(each)
        for name, each in values(spec).items()
        if name not in brought
    }
    for name, mark in marks(type(spec), Unwritten).items():
        if plain[name] == (canonical(mark.at) if mark.same_as is None else plain[mark.same_as]):
            del plain[name]
    return plain


_PLAIN = {str, int, bool, type(None)}
"""Types of values that are plain data as they are."""


@functools.cache
def _fields(record: type[Spec]) -> tuple[str, ...]:
    return tuple(record.model_fields)


def values(spec: Spec) -> dict[str, Any]:
    """The values of the fields of a record by name; a store has thousands of records, and pydantic is slower."""
    own = spec.__dict__
    return {name: own[name] for name in _fields(type(spec))}


def _flatten(spec: Spec) -> tuple[tuple[Any, ...], Any]:
    traced, every = marks(type(spec), _TracedMarker), values(spec)
    children = {name: value for name, value in every.items() if name in traced or isinstance(value, Spec)}
    static = tuple((name, value) for name, value in every.items() if name not in children)
    return tuple(children.values()), (tuple(children), static)


def _unflatten(cls: type[Spec], aux: Any, children: Any) -> Spec:
    names, static = aux
    # Leaves may be tracers or arrays with a lane axis, which no validator accepts.
    return cls.model_construct(**dict(zip(names, children, strict=True)), **dict(static))
