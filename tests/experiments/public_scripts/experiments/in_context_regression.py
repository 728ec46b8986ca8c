"""Linear regression in context (Garg et al., 2022): a transformer reads pairs (x, w x) and foretells the next w x.

Each sequence has its own w. `batches_of_stage` makes the sequences longer as training goes on, as their curriculum
does: later pairs do not count at first.
"""

from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, PRNGKeyArray

from sweeper.trial import experiment_contract
from sweeper.trial.experiment_contract import Evaluated, Step
from sweeper.trial.field_types import Count
from sweeper.trial.optimizer_contract import AnyOptimizer, GradientOptimizer


class Network(nnx.Module):
    """Blocks of causal attention and a layer of 4 × width units over the numbers of a sequence."""

    def __init__(self, features: int, width: int, heads: int, blocks: int, rngs: nnx.Rngs):
        self.first = nnx.Linear(features, width, rngs=rngs)
        self.attention = nnx.List(nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs) for _ in range(blocks))
        self.layers = nnx.List(
            nnx.Sequential(nnx.Linear(width, 4 * width, rngs=rngs), nnx.gelu, nnx.Linear(4 * width, width, rngs=rngs))
            for _ in range(blocks)
        )
        self.last = nnx.Linear(width, 1, rngs=rngs)

    def __call__(self, tokens: Float[Array, "sequence token feature"]) -> Float[Array, "sequence token"]:
        h = self.first(tokens)
        mask = jnp.tri(tokens.shape[1], dtype=bool)[None, None]
        for attention, layer in zip(self.attention, self.layers, strict=True):
            h = h + attention(h, mask=mask)
            h = h + layer(h)
        return self.last(h)[..., 0]


class Experiment(experiment_contract.Experiment):
    """Squared error of the last w x of a sequence, divided by the number of features: 1 is a guess of 0."""

    metrics: ClassVar = {"error": "min"}

    name: Literal["in_context_regression"] = "in_context_regression"
    features: Count = 4
    pairs: Count = 8
    sequences: Count = 32
    width: Count = 32
    heads: Count = 2
    blocks: Count = 2
    batches_of_stage: Count = 100  # after so many steps a sequence has one pair more
    optimizer: AnyOptimizer

    def init(self, at: Step) -> Any:
        weights = nnx.state(self._fresh(at.key))
        return {"weights": weights, "optimizer": self._optimizer(at).init(weights)}

    def step(self, state: Any, at: Step) -> Any:
        seen = 2 + at.index // self.batches_of_stage

        def loss(weights: Any) -> Float[Array, ""]:
            errors = self._errors(weights, at.key, self.sequences)
            counts = jnp.arange(self.pairs) < seen
            return jnp.where(counts, errors, 0).sum() / counts.sum()

        value, gradient = jax.value_and_grad(loss)(state["weights"])
        moves, optimizer = self._optimizer(at).update(gradient, state["optimizer"], state["weights"])
        return {"weights": optax.apply_updates(state["weights"], moves), "optimizer": optimizer}, {"loss": value}

    def evaluate(self, state: Any, at: Step) -> Any:
        errors = self._errors(state["weights"], at.key, 256)
        return Evaluated({"error": errors[-1]}, {"error_of_pair": errors})

    def network(self, state: Any) -> Any:
        return state["weights"]

    def _optimizer(self, at: Step) -> Any:
        assert isinstance(self.optimizer, GradientOptimizer)
        return self.optimizer.transformation(at.steps)

    def _errors(self, weights: Any, key: PRNGKeyArray, sequences: int) -> Float[Array, " pair"]:
        """Mean squared error of w x at each place, from the pairs before it."""
        of_x, of_w = jax.random.split(key)
        x = jax.random.normal(of_x, (sequences, self.pairs, self.features))
        y = jnp.einsum("spf,sf->sp", x, jax.random.normal(of_w, (sequences, self.features)))
        zeros = jnp.zeros_like(y)[..., None]
        asked, told = jnp.append(x, zeros, axis=2), jnp.append(jnp.zeros_like(x), y[..., None], axis=2)
        tokens = jnp.stack([asked, told], axis=2).reshape(sequences, 2 * self.pairs, -1)
        fresh = nnx.eval_shape(lambda: self._fresh(jax.random.key(0)))
        network = nnx.merge(nnx.graphdef(fresh), weights, copy=True)
        return ((network(tokens)[:, ::2] - y) ** 2).mean(axis=0) / self.features

    def _fresh(self, key: PRNGKeyArray) -> Network:
        return Network(self.features + 1, self.width, self.heads, self.blocks, nnx.Rngs(key))
