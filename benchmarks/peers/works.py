"""The trainings of `benchmarks.peers`, as pure functions that every tool trains in its own way.

`network` is a multilayer perceptron on a smooth function, `coloring` a transformer on 3-colouring of a cycle, with ten
seeds r a step. Both use Adam; a trial is a learning rate and a seed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

ADAM = optax.scale_by_adam()


class Work(NamedTuple):
    """A training."""

    steps: int
    together: bool  # whether its lanes are faster together, by `vmap`, on a CPU; else in turns, by `lax.map`
    data: Any  # () -> arrays
    weights: Any  # key -> weights
    loss: Any  # weights, key, data -> loss of a random batch
    error: Any  # weights, data -> what a trial reports

    def start(self, key: Any) -> Any:
        """The state before the first step."""
        weights = self.weights(key)
        return weights, ADAM.init(weights)

    def step(self, state: Any, key: Any, rate: Any, data: Any) -> Any:
        """The state after a step, and the loss."""
        weights, adam = state
        loss, gradient = jax.value_and_grad(self.loss)(weights, key, data)
        updates, adam = ADAM.update(gradient, adam)
        return (jax.tree.map(lambda weight, update: weight - rate * update, weights, updates), adam), loss

    def trained(self, rate: Any, seed: Any, data: Any) -> Any:
        """The error after all steps: the whole training as one function."""
        key = jax.random.key(seed)

        def step(state: Any, index: Any) -> Any:
            return self.step(state, jax.random.fold_in(key, index), rate, data)

        state, losses = jax.lax.scan(step, self.start(key), jnp.arange(self.steps))
        return self.error(state[0], data), losses


def settings(trials: int) -> tuple[list[float], list[int]]:
    """Rate and seed of every trial: four seeds of each rate, as far as the trials go."""
    rates = [float(f"{rate:.6g}") for rate in np.geomspace(1e-4, 1e-2, -(-trials // 4))]
    return [rates[trial // 4] for trial in range(trials)], [trial % 4 for trial in range(trials)]


def named(work: str) -> Work:
    """The work of a name."""
    return {"network": _network, "coloring": _coloring}[work]()


# A multilayer perceptron


def _network() -> Work:
    def data() -> Any:
        x = jax.random.uniform(jax.random.key(0), (2000, 4), minval=-2, maxval=2)
        y = jnp.sin(x[:, :2]).sum(1) * jnp.cos(x[:, 2]) + 0.1 * x[:, 3]
        return x, y

    def weights(key: Any) -> Any:
        sizes = [(4, 32), (32, 32), (32, 1)]
        keys = jax.random.split(key, len(sizes))
        normal = [jax.random.normal(each, size) * size[0] ** -0.5 for each, size in zip(keys, sizes, strict=True)]
        return [(matrix, jnp.zeros(matrix.shape[1])) for matrix in normal]

    def predicted(weights: Any, x: Any) -> Any:
        for matrix, offset in weights[:-1]:
            x = jax.nn.relu(x @ matrix + offset)
        return (x @ weights[-1][0] + weights[-1][1])[:, 0]

    def loss(weights: Any, key: Any, data: Any) -> Any:
        x, y = data
        batch = jax.random.randint(key, (64,), 0, 1500)
        return ((predicted(weights, x[batch]) - y[batch]) ** 2).mean()

    def error(weights: Any, data: Any) -> Any:
        x, y = data
        return ((predicted(weights, x[1500:]) - y[1500:]) ** 2).mean()

    return Work(2000, True, data, weights, loss, error)


# 3-colouring of a cycle


def _coloring() -> Work:
    from models.transformer import Model
    from tasks.coloring import Task

    task, model, exponent = Task(vertices=10), Model(), 10

    def data() -> Any:
        return task.sample_inputs(jax.random.key(0), 2000), task.sample_seeds(jax.random.key(1), 100)

    def loss(network: Any, key: Any, _: Any) -> Any:
        cycles, seeds = jax.random.split(key)
        losses = task.losses(network, task.sample_inputs(cycles, 128), task.sample_seeds(seeds, 10)).mean(axis=1)
        return (losses**exponent).mean() ** (1 / exponent)

    def error(network: Any, data: Any) -> Any:
        return task.losses(network, *data).mean()

    return Work(1000, False, data, lambda key: model.build(task, key), loss, error)
