"""A small network of dense layers that learns a sine, for `benchmarks.experiments`."""

from typing import Literal

import jax
import jax.numpy as jnp
import optax

from sweeper.trial import experiment_contract
from sweeper.trial.field_types import Count, Positive
from sweeper.trial.record import Traced


class Experiment(experiment_contract.Experiment):
    """Two layers of `width` rectified units, by Adam."""

    metrics = {"error": "min"}  # noqa: RUF012

    name: Literal["mlp_in_turns", "mlp_together"] = "mlp_in_turns"
    width: Count = 32
    batch_size: Count = 64
    learning_rate: Traced[Positive] = 1e-3

    def data(self):
        """1,024 points `[point, 1]` and the sine at each."""
        x = jnp.linspace(-3, 3, 1024)[:, None]
        return x, jnp.sin(2 * x)

    def init(self, at):
        sizes = [1, self.width, self.width, 1]
        keys = jax.random.split(at.key, 3)
        layers = [
            (jax.random.normal(key, (a, b)) * jnp.sqrt(2 / a), jnp.zeros(b))
            for key, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]
        return layers, optax.adam(self.learning_rate).init(layers)

    def step(self, state, at):
        layers, adam = state
        x, y = at.data
        batch = jax.random.randint(at.key, (self.batch_size,), 0, len(x))
        loss, gradient = jax.value_and_grad(_loss)(layers, x[batch], y[batch])
        moves, adam = optax.adam(self.learning_rate).update(gradient, adam)
        return (optax.apply_updates(layers, moves), adam), {"train_loss": loss}

    def evaluate(self, state, at):
        return {"error": _loss(state[0], *at.data)}

    def network(self, state):
        return state[0]


def _loss(layers, x, y):
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    return ((x @ layers[-1][0] + layers[-1][1] - y) ** 2).mean()
