"""Weights have names, and a network made of stored weights is the network that they came from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.packs.network_weights import OtherNetworkError, network_of, weights_of
from tests.trials import coloring_trial

pytestmark = pytest.mark.slow

MODELS = [
    {"name": "transformer", "width": 4, "key_size": 4, "mlp": True, "layer_norm": True, "positions": "learnt"},
    {"name": "deep_sets", "width": 4, "hidden": 4},
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
def test_the_way_to_names_and_back(model):
    trial = coloring_trial(model=model)
    network = trial.model.build(trial.task, trial.keys().weights)
    weights = weights_of(network)
    assert "readout.weight.value" in weights
    again = network_of(trial, weights)
    assert jax.tree.structure(again) == jax.tree.structure(network)
    cycle, noise = jnp.arange(5), jnp.linspace(0, 1, 5)
    logits = trial.task.logits(network, cycle, noise)
    assert (trial.task.logits(again, cycle, noise) == logits).all()


def test_weights_of_another_network_are_refused():
    trial = coloring_trial()
    weights = weights_of(trial.model.build(trial.task, trial.keys().weights))
    wider = coloring_trial(model={"name": "transformer", "width": 6, "key_size": 4})
    with pytest.raises(OtherNetworkError, match=r"transformer .* float32\[6, 4\], the stored one is float32\[4, 4\]"):
        network_of(wider, weights)
    weights["more"] = np.zeros(1, np.float32)
    with pytest.raises(OtherNetworkError, match=r"its weight more is missing, the stored one is float32\[1\]"):
        network_of(trial, weights)
