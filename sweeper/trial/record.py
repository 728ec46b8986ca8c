"""A frozen record that is also a JAX pytree.

Fields marked `Traced` are the leaves of the tree; every other field is part of its structure. So two records may share
one compiled program exactly when `jax.tree.structure` of the two is equal.
"""

from typing import Annotated, Any, TypeVar

import jax
from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class _TracedMarker:
    """Marks a field as a leaf of the pytree."""


TRACED = _TracedMarker()
Traced = Annotated[T, TRACED]


class Spec(BaseModel):
    """A frozen record that forbids unknown keys and registers every subclass as a pytree.

    Nested records are subtrees, `Traced` fields leaves, and the rest is auxiliary data, which must be hashable.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        jax.tree_util.register_pytree_with_keys(cls, _flatten_with_keys, _unflattener(cls), _flatten)

    @classmethod
    def traced_fields(cls) -> list[str]:
        """Names of the fields that are leaves, in the order of declaration."""
        return [name for name, field in cls.model_fields.items() if TRACED in field.metadata]


def _split(spec: Spec) -> tuple[dict[str, Any], tuple[tuple[str, Any], ...]]:
    traced = set(spec.traced_fields())
    values = {name: getattr(spec, name) for name in type(spec).model_fields}
    children = {name: value for name, value in values.items() if name in traced or isinstance(value, Spec)}
    return children, tuple((name, value) for name, value in values.items() if name not in children)


def _flatten(spec: Spec) -> tuple[tuple[Any, ...], Any]:
    children, static = _split(spec)
    return tuple(children.values()), (tuple(children), static)


def _flatten_with_keys(spec: Spec) -> tuple[tuple[tuple[Any, Any], ...], Any]:
    children, static = _split(spec)
    pairs = tuple((jax.tree_util.GetAttrKey(name), value) for name, value in children.items())
    return pairs, (tuple(children), static)


def _unflattener(cls: Any) -> Any:
    def unflatten(aux: Any, children: Any) -> Spec:
        names, static = aux
        # Leaves may be tracers or arrays with a lane axis, which no validator accepts.
        return cls.model_construct(**dict(zip(names, children, strict=True)), **dict(static))

    return unflatten
