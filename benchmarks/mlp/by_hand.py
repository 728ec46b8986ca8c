"""The training of `experiments/mlp_in_turns.py` as a script by hand, for `benchmarks.experiments`."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

LENGTH = 1000
"""Steps of one call of `train`."""


def data() -> tuple[Any, Any]:
    """1,024 points `[point, 1]` and the sine at each."""
    x = jnp.linspace(-3, 3, 1024)[:, None]
    return x, jnp.sin(2 * x)


def loss_of(layers: Any, x: Any, y: Any) -> Any:
    """Mean squared error."""
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    return ((x @ layers[-1][0] + layers[-1][1] - y) ** 2).mean()


def start(rate: Any, seed: Any) -> tuple[Any, Any]:
    """Weights, and the state of Adam."""
    sizes, keys = [1, 32, 32, 1], jax.random.split(jax.random.key(seed), 3)
    layers = [
        (jax.random.normal(key, (a, b)) * jnp.sqrt(2 / a), jnp.zeros(b))
        for key, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]
    return layers, optax.adam(rate).init(layers)


def train(rate: Any, seed: Any, state: Any, done: Any, points: Any) -> tuple[Any, Any]:
    """`LENGTH` steps after `done` steps, and the mean loss."""
    x, y = points

    def step(now: Any, index: Any) -> Any:
        layers, adam = now
        batch = jax.random.randint(jax.random.fold_in(jax.random.key(seed), index), (64,), 0, len(x))
        loss, gradient = jax.value_and_grad(loss_of)(layers, x[batch], y[batch])
        moves, adam = optax.adam(rate).update(gradient, adam)
        return (optax.apply_updates(layers, moves), adam), loss

    state, losses = jax.lax.scan(step, state, done + jnp.arange(LENGTH))
    return state, losses.mean()
