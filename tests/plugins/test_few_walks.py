"""The worst treasure with few walks, against all subsets of all walks."""

import functools
import itertools

import numpy as np
import pytest

from tasks.gridworld import few_walks
from tasks.gridworld.environment import Grid
from tests.plugins.test_minmax import _all_costs, _game_value, _moves
from tests.plugins.test_seed_banks import _best_of_few


def _undominated(costs: np.ndarray) -> np.ndarray:
    """Rows that no other is below everywhere; what remains has the same best mixtures of any number."""
    kept = np.zeros((0, costs.shape[1]))
    for row in sorted(np.unique(costs, axis=0).tolist(), key=sum):
        if not (kept <= row).all(axis=1).any():
            kept = np.vstack([kept, row])
    return kept


@functools.cache
def _strategies(grid: Grid) -> np.ndarray:
    """Cost of every treasure under every pair of walks that no other pair beats everywhere."""
    never = grid.horizon + 1
    walks = {(0, (0,) + (never,) * (grid.cells - 1))}
    for step in range(1, never):
        moved = {(near, visits) for cell, visits in walks for near in _moves(grid, cell)}
        walks = {
            (cell, visits if visits[cell] < never else (*visits[:cell], step, *visits[cell + 1 :]))
            for cell, visits in moved
        }
    visits = np.array(sorted({visits[1:] for _, visits in walks}), float)
    distance = np.array([sum(divmod(cell, grid.width)) for cell in range(1, grid.cells)])
    missed, pairs = visits == never, []
    for some in np.unique(missed, axis=0):
        first = _undominated(np.where(some, grid.horizon, visits + distance)[(missed == some).all(axis=1)])
        second = _undominated(np.where(some, np.minimum(visits, grid.horizon), 0))
        pairs.extend(first[:, None] + second)
    return _undominated(np.concatenate(pairs))


@pytest.mark.parametrize(
    "grid", [Grid(2, 2, 4), pytest.param(Grid(2, 3, 5), marks=pytest.mark.slow), Grid(1, 4, 5)], ids=str
)
def test_the_strategies_are_those_that_matter(grid):
    np.testing.assert_array_equal(_undominated(_strategies(grid)), _undominated(_all_costs(grid)))


@pytest.mark.slow
@pytest.mark.parametrize("grid", [Grid(2, 3, 6), pytest.param(Grid(3, 3, 9), marks=pytest.mark.long)], ids=str)
def test_few_walks_against_all_subsets(grid):
    costs = _strategies(grid)
    for count in (1, 2):
        best = min(_game_value(costs[list(some)]) for some in itertools.combinations(range(len(costs)), count))
        assert _best_of_few(costs.T, count) == pytest.approx(best, abs=1e-5)
        found = few_walks.searched(grid, count)
        assert found.value == pytest.approx(best)
        assert (found.probabilities @ found.costs).max() == pytest.approx(found.value)
        for row in found.costs:
            assert (costs <= row).all(axis=1).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "values"),
    [
        (3, {2: 8}),
        (4, {2: 13, 4: 12.3247, 6: 12.1429, 8: 278 / 23}),
        pytest.param(5, {2: 20.8, 4: 19.2644, 6: 17.951, 8: 17.4631, 16: 52 / 3}, marks=pytest.mark.long),
    ],
)
def test_the_bounds_of_docs_beyond_the_paper(size, values):
    for count, value in values.items():
        assert few_walks.searched(Grid(size, size, size**2), count).value <= value + 1e-4
