"""A network of dense layers on a classification of two spirals, by stochastic gradient descent with momentum."""

from typing import Literal

import jax
import jax.numpy as jnp
import optax

from sweeper.trial import experiment_contract
from sweeper.trial.experiment_contract import Step
from sweeper.trial.field_types import Count, Positive
from sweeper.trial.record import Traced


class Experiment(experiment_contract.Experiment):
    """Two layers of `width` rectified units."""

    metrics = {"accuracy": "max", "loss": "min"}

    name: Literal["mlp"] = "mlp"
    width: Count = 32
    batch_size: Count = 64
    learning_rate: Traced[Positive] = 1e-2

    def data(self):
        """Points of two spirals with their class, `[point, 2]` and `[point]`, half for training and half held out."""
        key = jax.random.key(0)
        angle = jnp.sqrt(jnp.linspace(0, 1, 2000)) * 3 * jnp.pi
        label = jnp.arange(2000) % 2
        radius, turned = angle / (3 * jnp.pi), angle + label * jnp.pi
        points = radius[:, None] * jnp.stack([jnp.cos(turned), jnp.sin(turned)], axis=1)
        points += 0.02 * jax.random.normal(key, points.shape)
        order = jax.random.permutation(key, 2000)
        return {
            "train": (points[order[:1000]], label[order[:1000]]),
            "held_out": (points[order[1000:]], label[order[1000:]]),
        }

    def init(self, key, data):
        sizes = [2, self.width, self.width, 2]
        keys = jax.random.split(key, len(sizes) - 1)
        layers = [
            {"weight": jax.random.normal(key, (a, b)) * jnp.sqrt(2 / a), "bias": jnp.zeros(b)}
            for key, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]
        return {"layers": layers, "momentum": jax.tree.map(jnp.zeros_like, layers)}

    def step(self, state, at: Step):
        points, labels = at.data["train"]
        batch = jax.random.randint(at.key, (self.batch_size,), 0, len(points))
        loss, gradient = jax.value_and_grad(_loss)(state["layers"], points[batch], labels[batch])
        momentum = jax.tree.map(lambda old, new: 0.9 * old + new, state["momentum"], gradient)
        layers = jax.tree.map(lambda weight, move: weight - self.learning_rate * move, state["layers"], momentum)
        return {"layers": layers, "momentum": momentum}, {"train_loss": loss}

    def evaluate(self, state, at: Step):
        points, labels = at.data["held_out"]
        right = _logits(state["layers"], points).argmax(axis=1) == labels
        outcomes = {"right": right}
        return experiment_contract.Evaluated(
            {"accuracy": right.mean(), "loss": _loss(state["layers"], points, labels)}, outcomes
        )

    def network(self, state):
        return state["layers"]


def _logits(layers, points):
    *hidden, last = layers
    for layer in hidden:
        points = jax.nn.relu(points @ layer["weight"] + layer["bias"])
    return points @ last["weight"] + last["bias"]


def _loss(layers, points, labels):
    return optax.softmax_cross_entropy_with_integer_labels(_logits(layers, points), labels).mean()
