"""The min-max that a network learns on its own walks, and the games that its training solves."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.gridworld_best_responses import Experiment, matrix_game
from sweeper.packs.packing import lane, stack
from sweeper.training.kind import kind_of, trainer_of
from sweeper.trial.experiment_trial import ExperimentTrial
from tasks.gridworld.minmax import best_mixture


@pytest.mark.parametrize(("rows", "columns"), [(1, 3), (40, 1), (8, 8), (300, 24)])
def test_a_game_is_solved_between_bounds(rows, columns):
    costs = np.random.default_rng(rows).integers(2, 50, (rows, columns)).astype(np.float32)
    game = matrix_game.solved(jnp.asarray(costs))
    value = best_mixture(costs)[0]
    assert value - 1e-3 <= game.value <= value + 5e-3
    assert value - 5e-3 <= game.bound <= value + 1e-3
    assert (game.rows > 0).sum() <= columns


def test_equally_likely_parts_cost_little_more_than_the_best_shares():
    costs = np.random.default_rng(0).integers(2, 50, (32, 24)).astype(np.float32)
    parts = matrix_game.parts(jnp.asarray(costs), matrix_game.solved(jnp.asarray(costs)).rows, 512)
    assert parts.sum() == 512
    assert parts.min() >= 0
    assert (parts @ costs).max() / 512 <= best_mixture(costs)[0] + 0.05


def test_a_token_has_its_share_of_all_seeds():
    experiment, seeds = Experiment(tokens=3, bits=3), jnp.array([5, 0, 3])
    every = jnp.array(list(itertools.product((0, 1), repeat=3)))
    assert jnp.bincount(experiment.token_of(every, seeds), length=3).tolist() == seeds.tolist()


def _least_3x3() -> float:
    """A bound that no mixture of walks can beat: a cell that the first episode misses is the first that the second
    looks for."""
    cell, steps = np.zeros(4**9, int), np.arange(4**9)
    distance = np.add.outer(np.arange(3), np.arange(3)).ravel()
    visit = np.full((4**9, 9), 9)
    for step in range(1, 10):
        action, steps = steps % 4, steps // 4
        row = np.clip(cell // 3 + (action == 1) - (action == 3), 0, 2)
        column = np.clip(cell % 3 + (action == 2) - (action == 0), 0, 2)
        cell = row * 3 + column
        np.minimum.at(visit, (np.arange(4**9), cell), step)
    return best_mixture(np.unique((visit + distance)[:, 1:], axis=0).astype(float))[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_on_3_by_3_nothing_is_better_than_what_is_learned(seed):
    fields = {"name": "gridworld_best_responses", "height": 3, "width": 3, "horizon": 9, "tokens": 9}
    trial = ExperimentTrial.model_validate({"experiment": fields, "steps": 600, "seed": seed})
    trials, trainer = stack([trial]), trainer_of(trial)
    state = trainer.start(trials)
    for _ in range(0, trial.steps, trainer.stride_steps):
        state, _ = trainer.stride(trials, state, trainer.stride_steps)
    metrics = kind_of(trial).evaluate(trial, lane(state.network, 0), trial.steps).metrics
    assert metrics["loss_worst"] == 8.0 == pytest.approx(_least_3x3())


@pytest.mark.slow
def test_walks_at_random_make_a_mixture_near_the_min_max():
    """Walks that step on new cells where they can, and shortest second episodes (docs/beyond-the-paper.md)."""
    random, size, costs = np.random.default_rng(0), 5, []
    for _ in range(6000):
        cell, visit = 0, {0: 0}
        for step in range(1, size**2 + 1):
            row, column = divmod(cell, size)
            around = [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
            near = [r * size + c for r, c in around if 0 <= r < size and 0 <= c < size]
            cell = random.choice([cell for cell in near if cell not in visit] or near)
            visit.setdefault(cell, step)
        costs.append([visit.get(cell, size**2) + sum(divmod(cell, size)) for cell in range(1, size**2)])
    assert 52 / 3 < best_mixture(np.array(costs, float))[0] == pytest.approx(17.348, abs=5e-4)
