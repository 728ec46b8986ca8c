"""The q-norm: its limits, its order, and how q is annealed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from objectives.q_norm import Objective, q_norm


def norm_of_means(losses, q):
    """The q-norm as a trainer takes it: of the mean over the seeds of every input."""
    return q_norm(losses.mean(axis=1), q)


matrices = hnp.arrays(np.float32, (4, 3), elements=st.floats(0, 100, width=32))
norm = jax.jit(norm_of_means)
strengths = st.one_of(st.floats(1, 500), st.just(float("inf")))


@pytest.mark.slow
@given(matrices, strengths, strengths)
def test_lies_between_mean_and_maximum_and_grows_with_q(losses, q, p):
    means = losses.mean(axis=1)
    low, high = (float(norm(losses, strength)) for strength in sorted((q, p)))
    for smaller, larger in ((means.mean(), low), (low, high), (high, means.max())):
        assert smaller <= larger * (1 + 1e-4) + 1e-6


@pytest.mark.slow
def test_infinite_q_is_the_worst_input_and_its_gradient_falls_on_it():
    losses = jnp.array([[1.0, 3.0], [4.0, 6.0], [0.0, 0.0]])
    value, gradient = jax.value_and_grad(norm_of_means)(losses, jnp.inf)
    assert value == 5.0
    np.testing.assert_array_equal(gradient, [[0, 0], [0.5, 0.5], [0, 0]])


def test_annealing_moves_the_inverse_of_q_linearly_from_one_end_to_the_other():
    annealed = Objective.model_validate({"q": 2, "final_q": "inf"})
    values = [float(annealed.strength(jnp.int32(step) / 4)) for step in range(5)]
    np.testing.assert_allclose(values, [2, 8 / 3, 4, 8, np.inf], rtol=1e-6)
    falling = Objective.model_validate({"q": "inf", "final_q": 2})
    np.testing.assert_allclose(falling.strength(jnp.int32(2) / 4), 4, rtol=1e-6)


@given(strengths, st.integers(0, 999))
def test_a_constant_q_is_the_same_in_every_step_to_the_last_bit(q, step):
    constant = Objective.model_validate({"q": q})
    assert constant.strength(jnp.int32(step) / 1000) == jnp.float32(q)
