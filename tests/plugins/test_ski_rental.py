"""Ski rental: costs by hand, and the exact ratios against linear programmes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError
from scipy.optimize import linprog

from sweeper.learned_algorithms.contracts import Network
from tasks.ski_rental import Task


class Buyer(Network):
    """Buys on the day that the first feature of the seed says."""

    def __init__(self, days):
        self.days = days

    def __call__(self, tokens, mask):
        return jax.nn.one_hot(tokens[:, 0].astype(int) - 1, self.days)


def _ratios(price: int, longest: int) -> np.ndarray:
    """Ratio of every season and every day of buying."""
    return np.array(
        [
            [(season if season < day else day - 1 + price) / min(season, price) for day in range(1, longest + 1)]
            for season in range(1, longest + 1)
        ]
    )


@pytest.mark.slow
def test_losses_are_those_of_the_definition():
    task = Task(price=4, longest=9, noise=1)
    days = jnp.arange(1, 10, dtype=jnp.float32)[:, None]
    np.testing.assert_allclose(task.losses(Buyer(9), task.evaluation_inputs(), days), _ratios(4, 9), rtol=1e-6)


@pytest.mark.parametrize(("price", "longest"), [(1, 1), (2, 3), (5, 9), (10, 20), (7, 30)])
def test_the_exact_values_are_those_of_linear_programmes(price, longest):
    values = Task(price=price, longest=longest).abilities().exact_values()
    ratios = _ratios(price, longest)
    assert values["best_deterministic"] == pytest.approx(ratios.max(axis=0).min())
    # Probabilities of the days and the ratio v: the least v that no season exceeds.
    answer = linprog(
        np.append(np.zeros(longest), 1),
        A_ub=np.hstack([ratios, -np.ones((longest, 1))]), b_ub=np.zeros(longest),
        A_eq=[np.append(np.ones(longest), 0)], b_eq=[1],
    )  # fmt: skip
    assert values["best_randomised"] == pytest.approx(answer.fun)


@pytest.mark.slow
def test_a_batch_of_all_seasons_holds_each_once():
    task = Task(price=3, longest=6)
    assert sorted(task.sample_inputs(jax.random.key(0), 6).tolist()) == [1, 2, 3, 4, 5, 6]


def test_a_season_too_short_to_have_to_buy_is_refused():
    with pytest.raises(ValidationError, match="longest: must be at least 2"):
        Task(price=10, longest=18)
