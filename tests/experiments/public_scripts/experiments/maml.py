"""Model-agnostic meta-learning (Finn et al., 2017) of sine waves: weights from which one step on ten points fits one.

A wave has an amplitude of .1 to 5 and a phase of 0 to pi. The step inside is plain gradient descent, and the loss on
fresh points after it is differentiated through it; Adam moves the weights.
"""

from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from sweeper.trial import experiment_contract
from sweeper.trial.experiment_contract import Step
from sweeper.trial.field_types import Count, Positive
from sweeper.trial.record import Traced


class Experiment(experiment_contract.Experiment):
    """Of fresh waves: the mean squared error after the step inside, and before it."""

    metrics: ClassVar = {"error": "min", "error_before": "min"}

    name: Literal["maml"] = "maml"
    width: Count = 40
    waves: Count = 25  # of a step
    points: Count = 10  # of a wave, before and after the step inside
    inner_rate: Traced[Positive] = 0.01
    learning_rate: Traced[Positive] = 1e-3

    def init(self, at: Step) -> Any:
        sizes = (1, self.width, self.width, 1)
        keys = jax.random.split(at.key, 3)
        weights = [
            (jax.random.normal(key, (rows, columns)) / rows**0.5, jnp.zeros(columns))
            for key, rows, columns in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]
        return {"weights": weights, "adam": optax.adam(self.learning_rate).init(weights)}

    def step(self, state: Any, at: Step) -> Any:
        def loss(weights: Any) -> Float[Array, ""]:
            return self._errors(weights, at.key, self.waves)[0]

        value, gradient = jax.value_and_grad(loss)(state["weights"])
        moves, adam = optax.adam(self.learning_rate).update(gradient, state["adam"])
        return {"weights": optax.apply_updates(state["weights"], moves), "adam": adam}, {"loss": value}

    def evaluate(self, state: Any, at: Step) -> Any:
        after, before = self._errors(state["weights"], at.key, 100)
        return {"error": after, "error_before": before}

    def network(self, state: Any) -> Any:
        return state["weights"]

    def _errors(self, weights: Any, key: PRNGKeyArray, waves: int) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Mean errors over waves on fresh points, after the step inside and before it."""

        def of_wave(key: PRNGKeyArray) -> tuple[Float[Array, ""], Float[Array, ""]]:
            drawn = jax.random.uniform(key, (2 + 2 * self.points,))
            amplitude, phase, x = 0.1 + 4.9 * drawn[0], jnp.pi * drawn[1], (10 * drawn[2:] - 5).reshape(2, -1, 1)
            y = amplitude * jnp.sin(x + phase)
            gradient = jax.grad(_error)(weights, x[0], y[0])
            fitted = jax.tree.map(lambda weight, move: weight - self.inner_rate * move, weights, gradient)
            return _error(fitted, x[1], y[1]), _error(weights, x[1], y[1])

        after, before = jax.vmap(of_wave)(jax.random.split(key, waves))
        return after.mean(), before.mean()


def _error(weights: Any, x: Float[Array, "point 1"], y: Float[Array, "point 1"]) -> Float[Array, ""]:
    *hidden, (last, bias) = weights
    for weight, offset in hidden:
        x = jax.nn.relu(x @ weight + offset)
    return ((x @ last + bias - y) ** 2).mean()
