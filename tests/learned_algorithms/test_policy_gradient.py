"""The policy gradient: against enumeration of small episodes, and against finite differences on a grid of 2 x 2."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from models.transformer import Model
from sweeper.learned_algorithms.contracts import Episodes
from sweeper.learned_algorithms.policy_gradient import entropy, surrogate, weighed_by_others
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs.packing import stack
from sweeper.training.kind import trainer_of
from tasks.gridworld import Task, environment, sampled_episodes
from tasks.gridworld.environment import Grid
from tasks.gridworld.rollout import noise_token, reached_token
from tests.trials import coloring_trial

COSTS = np.array([[1.0, 4.0], [2.0, 7.0], [0.5, 3.0]])
"""Cost of either action of each decision of an episode; the first action of the first decision ends the episode."""


def _episodes(logits, actions) -> Episodes:
    """One input; episodes of all seeds whose actions are given, each seed with logits of its own."""
    taken = np.stack([np.ones(len(actions)), actions[:, 0], actions[:, 0]], axis=1).astype(bool)
    log_shares = jax.nn.log_softmax(logits)
    own = jnp.take_along_axis(log_shares, actions[..., None], axis=-1)[..., 0]
    disorder = -(jnp.exp(log_shares) * log_shares).sum(-1)
    cost = COSTS[np.arange(3), actions]
    return Episodes(*(jnp.asarray(part)[None] for part in (cost, taken, own, disorder, np.zeros_like(cost))))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, pytest.param(1, marks=pytest.mark.long)])
def test_the_gradient_is_that_of_the_expected_loss(seeds):
    """All episodes of all seeds together, each with its probability; a seed is often alone with a decision."""
    logits = jax.random.normal(jax.random.key(0), (seeds, 3, 2))
    every = np.array(list(itertools.product([0, 1], repeat=3 * seeds))).reshape(-1, seeds, 3)

    def share(logits, actions):  # actions after the end of an episode are of no effect, and sum to one
        return jnp.exp(jnp.take_along_axis(jax.nn.log_softmax(logits), actions[..., None], axis=-1).sum())

    def loss(logits, actions):
        return surrogate(_episodes(logits, actions)).mean()

    exact = jax.grad(
        lambda logits: sum(share(logits, each) * jax.lax.stop_gradient(loss(logits, each)) for each in every)
    )
    estimated = sum(share(logits, each) * jax.grad(loss)(logits, each) for each in every)
    np.testing.assert_allclose(estimated, exact(logits), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_decision_that_is_not_taken_has_no_gradient():
    """It would be right on average all the same, and only add noise."""
    episodes = _episodes(jnp.zeros((3, 3, 2)), np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]))
    gradient = jax.grad(lambda own: surrogate(episodes._replace(log_probability=own)).sum())(episodes.log_probability)
    np.testing.assert_array_equal(gradient != 0, episodes.taken)


@pytest.mark.slow
def test_each_seed_is_weighed_by_the_losses_of_the_others():
    losses = jnp.array([[1.0, 2.0, 6.0], [3.0, 3.0, 4.0]])

    def norm(means):
        return jnp.linalg.norm(means, 5)

    value, gradient = jax.value_and_grad(weighed_by_others, argnums=1)(norm, losses)
    assert float(value) == pytest.approx(float(norm(losses.mean(axis=1))))
    for seed in range(3):
        others = losses[:, [other for other in range(3) if other != seed]].mean(axis=1)
        np.testing.assert_allclose(gradient[:, seed], jax.grad(norm)(others) / 3, rtol=1e-6)
    # One seed has no others, and a mean weighs all inputs alike.
    alone = jax.grad(weighed_by_others, argnums=1)(norm, losses[:, :1])
    np.testing.assert_allclose(alone[:, 0], jax.grad(norm)(losses[:, 0]), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(weighed_by_others, argnums=1)(jnp.mean, losses), 1 / 6, rtol=1e-6)


@pytest.mark.slow
def test_the_marginal_bonus_moves_the_gradient_and_not_the_value():
    episodes = _episodes(jnp.zeros((2, 3, 2)), np.array([[1, 0, 1], [1, 1, 1]]))._replace(marginal=-jnp.ones((1, 2, 3)))
    episodes = episodes._replace(marginal=episodes.marginal.at[0, 0, 2].set(-4.0))
    np.testing.assert_allclose(surrogate(episodes, 0.5), surrogate(episodes))
    assert float(entropy(episodes)) == pytest.approx(3 * np.log(2))
    # The last decision of seed 0 is the rarer one by three nats, so it counts as 1.5 cheaper.
    gradients = [
        jax.grad(lambda own, bonus=bonus: surrogate(episodes._replace(log_probability=own), bonus).sum())(
            episodes.log_probability
        )
        for bonus in (0.0, 0.5)
    ]
    np.testing.assert_allclose((gradients[1] - gradients[0])[0, :, 2], [-1.5, 1.5])


TWO = Task(height=2, width=2, horizon=2, noise=2)
SMALL = Model(blocks=1, width=4, key_size=3, attention="softmax", positions="sinusoidal", embedding_scale=4.0)


def _expected_loss(network, noise):
    """Exact, by all sequences of actions; an action that is not taken has each value in a fourth of the sequences."""
    grid: Grid = TWO.grid
    length = 2 * grid.horizon
    sequences = jnp.array(list(itertools.product(range(4), repeat=length)))

    def cost(treasure, noise, actions):
        def step(state, action):
            after, event = environment.step(grid, treasure, state, action)
            return after, (event, environment.reward(event.found))

        _, (event, reward) = jax.lax.scan(step, environment.initial(), actions)
        token = jax.vmap(reached_token, in_axes=(None, None, 0, 0))(grid, 2, event.cell, reward)
        logits = network(jnp.concatenate([noise_token(grid, noise)[None], token[:-1]]), jnp.tri(length, dtype=bool))
        own = jax.nn.log_softmax(logits)[jnp.arange(length), actions]
        return event.counted.sum() * jnp.exp(jnp.where(event.counted, own, -np.log(4)).sum())

    over = jax.vmap(jax.vmap(jax.vmap(cost, (None, None, 0)), (None, 0, None)), (0, None, None))
    return over(TWO.evaluation_inputs(), noise, sequences).sum(axis=-1).mean()


@pytest.mark.long
@pytest.mark.parametrize("followed", [1, 4])
def test_the_gradient_on_a_grid_is_that_of_finite_differences(followed, monkeypatch):
    """Of the loss that is expected of sampled actions, in the mean of 8,000 samples, within five standard errors."""
    monkeypatch.setattr(sampled_episodes, "FOLLOWED", followed)
    network = jax.jit(lambda key: jax.tree.map(lambda w: 1.5 * w, SMALL.build(TWO, key)))(jax.random.key(3))
    weights, unravel = ravel_pytree(network)
    noise = TWO.sample_seeds(jax.random.key(4), 3)
    directions = jax.random.normal(jax.random.key(5), (4, weights.size)) / np.sqrt(weights.size)
    expected = jax.jit(lambda weights: _expected_loss(unravel(weights), noise))
    differences = [float(expected(weights + 0.01 * d) - expected(weights - 0.01 * d)) / 0.02 for d in directions]
    episodes = TWO.abilities().episodes
    assert episodes is not None

    @jax.jit
    def sample(key):
        order, key = jax.random.split(key)
        inputs = TWO.sample_inputs(order, 3)

        def loss(weights):
            return surrogate(episodes(unravel(weights), inputs, noise, key)).mean()

        value, gradient = jax.value_and_grad(loss)(weights)
        return value, directions @ gradient

    values, along = jax.lax.map(sample, jax.random.split(jax.random.key(6), 8000), batch_size=500)
    error = np.std(along, axis=0) / np.sqrt(len(along))
    assert (error < 0.15 * np.abs(differences).max()).all()
    np.testing.assert_array_less(np.abs(along.mean(axis=0) - jnp.array(differences)), 5 * error)
    assert float(values.mean()) == pytest.approx(float(expected(weights)), abs=5 * float(values.std()) / np.sqrt(8000))


def _trial(seed: int, **fields) -> TrialSpec:
    entries = {
        "task": {"name": "gridworld", "height": 2, "width": 2, "horizon": 3, "noise": 2},
        "model": {
            "name": "transformer", "blocks": 1, "width": 4, "key_size": 3,
            "attention": "softmax", "embedding_scale": 4.0,
        },
        "objective": {"q": 4, "m": 4}, "batch_size": 3,
        "optimizer": {
            "name": "policy_gradient", "entropy_bonus": 0.2, "marginal_entropy_bonus": 0.1, "warmup_steps": 0,
        },
    }  # fmt: skip
    return coloring_trial(**entries | fields, seed=seed)


@pytest.mark.long
def test_lanes_and_interruptions_change_no_bit_and_the_loss_falls():
    stacked, alone = stack([_trial(0), _trial(1)]), stack([_trial(1)])
    trainer = trainer_of(stacked)
    state, points = trainer.start(stacked), []
    for length in [50] * 5:
        state, curve = trainer.stride(stacked, state, length)
        points.append([float(values[1]) for values in jax.tree.leaves(curve)])
    other = trainer.start(alone)
    for length in [50] * 5:
        kept = jax.tree.map(np.asarray, other)  # as from a checkpoint
        other, _ = trainer.stride(alone, kept, length)
    for one, two in zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(np.asarray(one)[1], np.asarray(two)[0])
    assert trainer.curves == ("train_loss", "mean_loss", "worst_loss", "entropy")
    assert points[-1][0] < points[0][0]
    assert points[-1][1] <= points[-1][0] <= points[-1][2]
