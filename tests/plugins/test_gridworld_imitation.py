"""The exact mixture of walks that a network imitates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.transformer import Model
from tasks import gridworld_imitation as imitation
from tasks.gridworld import minmax
from tasks.gridworld.environment import Grid, initial, step

GRIDS = (Grid(2, 2, 4), Grid(2, 3, 6), Grid(3, 3, 9))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_the_walks_are_the_best_mixture_and_the_noise_plays_them_as_often(grid):
    known = imitation.best_mixture(grid)
    shares = (np.minimum(known.high, 1) - known.low).prod(axis=1)
    assert shares.sum() == pytest.approx(1)
    assert (shares @ known.walks.steps).max() == pytest.approx(minmax.randomised(grid).value)
    noise = jax.random.normal(jax.random.key(0), (4000, 80))
    chosen = jax.jit(jax.vmap(imitation.Task(height=grid.height, width=grid.width, horizon=grid.horizon).walk_of))(
        noise
    )
    np.testing.assert_allclose(np.bincount(chosen, minlength=len(shares)) / 4000, shares, atol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_the_actions_walk_the_cells_and_find_the_treasure_when_they_say_so(grid):
    known = imitation.best_mixture(grid).walks
    for walk in range(len(known.steps)):
        for treasure in range(1, grid.cells):
            state, place = initial(), (walk, treasure - 1)
            for number in range(known.steps[place]):
                state, event = step(grid, jnp.int32(treasure), state, jnp.int32(known.actions[place][number]))
                assert int(event.cell) == known.cells[place][number]
                assert bool(event.found) == known.found[place][number]
            assert int(state.episode) == 2


@pytest.mark.slow
def test_the_loss_reads_no_action_before_it_is_taken():
    """The network reads the cell that a step reached after the step: all actions but the first follow from it."""
    task = imitation.Task(height=2, width=2, horizon=4, noise=2)
    network = Model(width=8, key_size=4, attention="softmax").build(task, jax.random.key(0))
    losses = task.losses(network, task.evaluation_inputs(), task.sample_seeds(jax.random.key(1), 3))
    assert losses.shape == (3, 3)
    assert bool((losses > 0.1).all())
    assert float(losses.mean()) == pytest.approx(np.log(4), abs=1.0)


def test_noise_without_an_entry_for_every_choice_is_refused():
    with pytest.raises(ValueError, match="noise: the walks of the mixture take 2 choices"):
        imitation.Task(height=3, width=3, horizon=9, noise=1)
    with pytest.raises(ValueError, match="there is no exact mixture to imitate"):
        imitation.Task(height=6, width=6, horizon=36)
