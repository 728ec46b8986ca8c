"""A trained trial in Python: its specification, its row, and its network as a function that can be called."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sweeper.messages import UserError, one_line
from sweeper.store.seal import TrialSeal
from sweeper.store.store import NoNetworkError, Store
from sweeper.training.named_weights import OtherNetworkError, network_of
from sweeper.trial import jax_settings, plugins
from sweeper.trial.trial import Trial, trial_id, trial_of


class LoadError(UserError, ValueError):
    """A trial that cannot be loaded; the message is one sentence for the user."""


@dataclass(frozen=True)
class TrainedTrial:
    """A trial with its network.

    What the network is says its kind of trial. That of an experiment is what its method `network` returned, with keys
    as `sweeper.training.experiments.KeyData`.
    """

    trial: Trial  # with its plug-ins
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


def with_network(row: dict[str, Any], seal: TrialSeal) -> Trial:
    """As `current_trial`; a `LoadError` also if the store has no network of the trial."""
    if seal.without_network is not None:
        raise LoadError(f"trial {seal.trial_id} {seal.without_network}")
    return current_trial(row)


def current_trial(row: dict[str, Any]) -> Trial:
    """The trial of a row of `trials`; a `LoadError` if this checkout lacks a plug-in of it, or has another version."""
    try:
        trial = trial_of(json.loads(row["spec"]))
    except (plugins.PluginError, ValidationError) as error:
        reason = one_line(str(error))
        raise LoadError(f"trial {row['trial_id']} cannot be made by this checkout: {reason}") from error
    if trial_id(trial) != row["trial_id"]:
        raise LoadError(
            f"trial {row['trial_id']} is of another version of its plug-ins or the numerics than this code: run its "
            f"sweep again, or take the code of commit {row['commit'] or 'unknown'}"
        )
    return trial
