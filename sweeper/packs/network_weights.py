"""The weights of a network as arrays with names, and the network of given weights.

A weight is named by its path in the network, such as `blocks.0.attention.query.value`. The names and shapes belong to
the model: a model that renames its parts makes other networks, and raises its `VERSION`.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.trial.contracts import Network
from sweeper.trial.trial_spec import TrialSpec


class OtherNetworkError(ValueError):
    """Weights that do not fit the network that the model builds."""


def weights_of(network: Network) -> dict[str, np.ndarray]:
    """The weights by name."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(network)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def network_of(trial: TrialSpec, weights: Mapping[str, np.ndarray]) -> Network:
    """The network of a trial's model with these weights.

    Raises:
        OtherNetworkError: names, shapes or types differ from the network that the model builds.
    """
    built = jax.eval_shape(lambda: trial.model.build(trial.task, trial.keys().weights))
    leaves, structure = jax.tree_util.tree_flatten_with_path(built)
    expected = {_name(path): leaf for path, leaf in leaves}
    for name in sorted(expected.keys() | weights.keys()):
        wanted, given = _described(expected.get(name)), _described(weights.get(name))
        if wanted != given:
            raise OtherNetworkError(
                f"the model {trial.model.name} of this checkout builds another network: its weight {name} is {wanted}, "
                f"the stored one is {given}"
            )
    return jax.tree.unflatten(structure, [jnp.asarray(weights[name]) for name in expected])


def _described(array: np.ndarray | jax.ShapeDtypeStruct | None) -> str:
    return "missing" if array is None else f"{array.dtype}{list(array.shape)}"


def _name(path: tuple[object, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
