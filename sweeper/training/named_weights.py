"""The weights of a network by name, as a store keeps them.

A weight is named by its path in the network, such as `blocks.0.attention.query.value`. The names and shapes belong to
the plug-in that makes the network: one that renames its parts makes other networks, and raises its `VERSION`.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from sweeper.training.kind import kind_of
from sweeper.trial.trial import Trial


class OtherNetworkError(ValueError):
    """Weights that do not fit the network of a trial."""


def weights_of(network: PyTree) -> dict[str, np.ndarray]:
    """The weights by name."""
    return {name: np.asarray(leaf) for name, leaf in named_leaves(network).items()}


def named_leaves(network: PyTree) -> dict[str, Any]:
    """The weights of a network, or their shapes, by name."""
    return {_name(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(network)[0]}


def network_of(trial: Trial, weights: Mapping[str, np.ndarray]) -> PyTree:
    """The network of a trial with these weights, which must have its names, shapes and types."""
    built = kind_of(trial).built(trial)
    expected = named_leaves(built)
    if (other := first_difference(expected, weights)) is not None:
        name, wanted, given = other
        raise OtherNetworkError(
            f"this checkout builds another network for {' '.join(trial.plugin_names)}: its weight {name} is "
            f"{wanted}, the stored one is {given}"
        )
    return jax.tree.unflatten(jax.tree.structure(built), [jnp.asarray(weights[name]) for name in expected])


def first_difference(wanted: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The first weight by name that is not the same in two networks by shapes, with both in words; None if all are."""
    for name in sorted(wanted.keys() | given.keys()):
        if (one := _described(wanted.get(name))) != (other := _described(given.get(name))):
            return name, one, other
    return None


def _described(array: np.ndarray | jax.ShapeDtypeStruct | None) -> str:
    return "missing" if array is None else f"{array.dtype}{list(array.shape)}"


def _name(path: tuple[object, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
