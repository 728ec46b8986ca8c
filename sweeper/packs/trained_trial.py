"""A trained trial in Python: its specification, its row, and its network as a function that can be called.

A stored weight is named by its path in the network, such as `blocks.0.attention.query.value`. The names and shapes
belong to the model: a model that renames its parts makes other networks, and raises its `VERSION`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import ValidationError

from sweeper.learned_algorithms.contracts import Network
from sweeper.messages import UserError, one_line
from sweeper.store.store import NoNetworkError, Store
from sweeper.training.kinds import kind_of
from sweeper.trial import jax_settings, plugins
from sweeper.trial.trial import Trial, trial_id, trial_of


class OtherNetworkError(ValueError):
    """Weights that do not fit the network that the model builds."""


def weights_of(network: Network) -> dict[str, np.ndarray]:
    """The weights by name."""
    return {name: np.asarray(leaf) for name, leaf in named_leaves(network).items()}


def named_leaves(network: Network) -> dict[str, Any]:
    """The weights of a network, or their shapes, by name."""
    return {_name(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(network)[0]}


def network_of(trial: Trial, weights: Mapping[str, np.ndarray]) -> Network:
    """The network of a trial's model with these weights, which must have its names, shapes and types."""
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


class LoadError(UserError, ValueError):
    """A trial that cannot be loaded; the message is one sentence for the user."""


@dataclass(frozen=True)
class TrainedTrial:
    """A trial with its network.

    The network of a task, called with the tokens of one sequence and a mask of which token reads which, returns the
    logits of every token (`sweeper.learned_algorithms.contracts.Network`). That of an experiment is what its method
    `network` returned, with keys as `sweeper.training.experiments.KeyData`.
    """

    trial: Trial  # with its task: `trial.task.sample_seeds(key, 3)` draws three seeds r
    network: Any
    row: dict[str, Any]  # the trial's row in the store: value by column of `trials`, null as None


def load(name: str, results: str | Path | Store = "results") -> TrainedTrial:
    """The trained trial of an id, from a store, or its folder or URL; `sweeper.load` is this function.

    Raises:
        LoadError: the trial has no row or no network, or this checkout has no such task or model, or other versions.
        SettingsError: a setting of JAX that decides numbers was changed.
        StoreError: there is no store, or it cannot be read.
    """
    jax_settings.require()
    store = results if isinstance(results, Store) else Store.existing(results)
    rows = store.trials([name]).to_pylist()
    seals = store.seals([name])
    if not rows or not seals:
        raise LoadError(f"there is no trial {name} in {store.url}")
    trial = current_trial(rows[0])
    try:
        return TrainedTrial(trial, network_of(trial, store.weights(seals[name])), rows[0])
    except NoNetworkError as error:
        raise LoadError(f"trial {name} {error}") from error
    except OtherNetworkError as error:
        raise LoadError(f"trial {name}: {error}") from error


def current_trial(row: dict[str, Any]) -> Trial:
    """The trial of a row of `trials`; a `LoadError` if this checkout lacks a plug-in of it, or has another version."""
    try:
        trial = trial_of(json.loads(row["spec"]))
    except (plugins.PluginError, ValidationError) as error:
        reason = one_line(str(error))
        raise LoadError(f"trial {row['trial_id']} cannot be made by this checkout: {reason}") from error
    if trial_id(trial) != row["trial_id"]:
        raise LoadError(
            f"trial {row['trial_id']} is of another version of its plug-ins or the numerics than this checkout: "
            f"load it with the code of commit {row['commit'] or 'unknown'}"
        )
    return trial
