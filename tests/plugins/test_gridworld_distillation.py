"""Walks with shares, and a network that learns them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from sweeper.trial import plugins
from tasks.gridworld_distillation import Task

SIZES = {"height": 2, "width": 2, "horizon": 4, "noise": 3}
TASK = Task.model_validate(SIZES | {"walks": ("RULD", "URDL"), "shares": (1, 2)})


def test_the_seeds_choose_walks_by_their_shares():
    every = TASK.abilities().all_seeds
    assert every is not None
    assert sorted(int(TASK.walk_of(jnp.asarray(seed))) for seed in every()) == [0, 1, 1]
    drawn = jax.jit(jax.vmap(TASK.walk_of))(TASK.sample_seeds(jax.random.key(0), 4000))
    np.testing.assert_allclose(np.bincount(drawn) / 4000, [1 / 3, 2 / 3], atol=0.03)


def test_walls_stop_a_walk_and_what_it_misses_is_searched_in_the_second_episode():
    known = Task.model_validate(SIZES | {"walks": ("LRRL",), "shares": (1,)}).known_walks()
    np.testing.assert_array_equal(known.cells[0, 1:, :4], [[0, 1, 1, 0]] * 2)
    assert known.steps[0].tolist() == [2 + 1, 4 + 1, 4 + 2]


def test_the_shipped_mixtures_cost_what_its_space_says():
    space = yaml.safe_load((plugins.ROOT / "search_spaces" / "gridworld_distillation.yaml").read_text())
    for variant, value in zip(space["variants"], (12.344, 17.656), strict=True):
        task = Task.model_validate(space["trial"]["task"] | variant["task"])
        shares = np.array(task.shares) / sum(task.shares)
        assert (shares @ task.known_walks().steps).max() == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shares": (1,)}, "shares:"),
        ({"noise": 1}, "noise:"),
        ({"height": 4, "width": 4, "walks": ("LLLL", "RULD")}, "walks: number 0 "),
    ],
)
def test_walks_that_no_agent_could_learn_are_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        Task(**({"walks": ("RULD", "URDL"), "shares": (1, 2)} | SIZES | fields))
