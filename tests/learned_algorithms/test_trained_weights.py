"""Training moves the weights of a network, and none of its constants."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from sweeper.learned_algorithms import evolution, gradient
from sweeper.learned_algorithms.contracts import Model, Network, Task
from sweeper.packs.packing import stack
from sweeper.trial import vectorisation
from tests.trials import coloring_trial


class Scaled(nnx.Module, Network):
    """A linear network of tokens times a constant."""

    def __init__(self, tokens: int, outputs: int, rngs: nnx.Rngs):
        self.scale = nnx.Variable(jax.random.normal(rngs(), (tokens,)))
        self.readout = nnx.Linear(tokens, outputs, rngs=rngs)

    def __call__(self, tokens: Any, mask: Any) -> Any:
        return self.readout(tokens * self.scale[...])


class ScaledModel(Model):
    """Its networks."""

    name: Literal["scaled"] = "scaled"

    def build(self, task: Task, key: Any) -> Scaled:
        return Scaled(task.token_size(), task.output_size(), nnx.Rngs(key))


def _check(before: Any, after: Any) -> None:
    assert after.failure.tolist() == [0]
    np.testing.assert_array_equal(after.network.scale[...], before.network.scale[...])
    assert (after.network.readout.kernel[...] != before.network.readout.kernel[...]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "platform"), [("adam", "cpu"), ("adam", "cuda"), ("muon", "cpu")])
def test_no_step_moves_a_constant(name, platform):
    """Not even by weight decay, which needs no gradient."""
    optimizer = {"name": name, "weight_decay": 0.1, "warmup_steps": 0}
    trials = stack([coloring_trial(optimizer=optimizer).model_copy(update={"model": ScaledModel()})])
    with vectorisation.built_for(platform):
        before = jax.jit(gradient.init)(trials)
        after, _ = jax.jit(gradient.advance, static_argnums=2)(trials, before, 3)
    _check(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pgpe", pytest.param("sep_cma_es", marks=pytest.mark.long)])
def test_no_generation_moves_a_constant(name):
    trial = coloring_trial(optimizer={"name": name, "population": 4}).model_copy(update={"model": ScaledModel()})
    before: Any = evolution.start(stack([trial]))
    after, _ = evolution.stride(stack([trial]), before, 1)
    _check(before, after)
    weights = sum(jnp.size(leaf) for leaf in jax.tree.leaves(before.network.readout))
    assert after.strategy.mean.shape == (1, weights)
