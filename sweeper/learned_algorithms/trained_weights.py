"""The weights of a network that training moves.

A network of flax nnx may hold constants beside its weights, such as random features or statistics that are given: each
is a `Variable` that is no `nnx.Param`. They are leaves of the network and are stored with it, and no training changes
them. All other leaves are weights. A network may also be the vector of its weights, and then has no constants.
"""

from typing import Any

import jax
from jaxtyping import PyTree


def trained(network: PyTree) -> PyTree:
    """The weights that training moves: the network itself, or a list if it has constants."""
    leaves, moves = jax.tree.leaves(network), _moves(network)
    return network if all(moves) else [leaf for leaf, moved in zip(leaves, moves, strict=True) if moved]


def with_trained(network: PyTree, weights: PyTree) -> PyTree:
    """The network with other weights, in the form of `trained`, and with its own constants."""
    leaves, structure = jax.tree.flatten(network)
    moves, others = _moves(network), iter(jax.tree.leaves(weights))
    return structure.unflatten([next(others) if moved else leaf for leaf, moved in zip(leaves, moves, strict=True)])


def _moves(network: PyTree) -> list[bool]:
    """Of every leaf, in order, whether training moves it."""
    from flax import nnx  # takes long; a driver that has no network does without it

    def is_variable(node: Any) -> bool:
        return isinstance(node, nnx.Variable)

    nodes = jax.tree.leaves(network, is_leaf=is_variable)
    return [not is_variable(node) or isinstance(node, nnx.Param) for node in nodes for _ in jax.tree.leaves(node)]
