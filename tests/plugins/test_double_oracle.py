"""The search for first tokens of the grid world, against costs of the plain task and the exact min-max."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.transformer import Model
from tasks.gridworld import Task, double_oracle
from tasks.gridworld.environment import neighbour
from tasks.gridworld.rollout import durations

TASK = Task(height=3, width=3, horizon=9, noise=6)
EXACT = 8.0  # tests/plugins/test_minmax.py


@pytest.fixture(scope="module")
def network():
    model = Model(blocks=1, heads=1, width=8, key_size=4, positions="sinusoidal")
    network = jax.jit(model.build)(TASK, jax.random.key(3))
    return jax.tree.map(lambda weight: 3 * weight, network)


@pytest.mark.slow
def test_the_value_is_what_the_agent_costs_and_search_lowers_it(network, monkeypatch):
    monkeypatch.setattr(double_oracle, "FIRST", 8)
    monkeypatch.setattr(double_oracle, "CHILDREN", 40)
    drawn, agent = (double_oracle.searched(TASK, [network], jax.random.key(1), rounds) for rounds in (0, 12))
    for each in (drawn, agent):
        assert each.probabilities.sum() == pytest.approx(1)
        assert len(each.tokens) <= TASK.grid.cells - 1
        costs = jax.jit(TASK.losses)(network, TASK.evaluation_inputs(), each.tokens)
        np.testing.assert_array_equal(each.costs, np.asarray(costs).T)
        assert (each.probabilities @ each.costs).max() == pytest.approx(each.value)
    assert EXACT <= agent.value < drawn.value - 0.1


@pytest.mark.slow
def test_two_networks_share_a_mixture_that_costs_what_their_walks_do(network, monkeypatch):
    monkeypatch.setattr(double_oracle, "FIRST", 8)
    monkeypatch.setattr(double_oracle, "CHILDREN", 40)
    networks = [jax.tree.map(lambda weight: -weight, network), network]
    of_each = [double_oracle.searched(TASK, [each], jax.random.key(1), 0).value for each in networks]
    agent = double_oracle.searched(TASK, networks, jax.random.key(1), 12)
    assert set(agent.networks) == {0, 1}
    assert EXACT <= agent.value < min(of_each)
    for owner, token, costs, actions in zip(agent.networks, agent.tokens, agent.costs, agent.actions, strict=True):
        both = jax.jit(durations, static_argnums=0)(TASK.grid, networks[owner], token[None]).steps[:, :, 0]
        cell, first = 0, np.full(TASK.grid.cells, TASK.horizon)
        for number, action in enumerate(actions.tolist()):
            cell = int(neighbour(TASK.grid, jnp.int32(cell), jnp.int32(action)))
            first[cell] = min(first[cell], number + 1)
        np.testing.assert_array_equal(first[1:], both[0])
        np.testing.assert_array_equal(costs, both.sum(axis=0))
