"""Exact values of the grid world against enumeration of all strategies, and against proven bounds."""

import functools
import itertools

import numpy as np
import pytest
import scipy.optimize

from tasks.gridworld import minmax, walk_search
from tasks.gridworld.environment import Grid


def _moves(grid: Grid, cell: int) -> list[int]:
    row, column = divmod(cell, grid.width)
    around = [(row, column - 1), (row + 1, column), (row, column + 1), (row - 1, column)]
    inside = [(r, c) if 0 <= r < grid.height and 0 <= c < grid.width else (row, column) for r, c in around]
    return [r * grid.width + c for r, c in inside]


def _first_visits(grid: Grid) -> set[tuple[int | None, ...]]:
    """Step of the first visit of every cell, None if there is none, for every sequence of actions."""
    walks = set()
    for actions in itertools.product(range(4), repeat=grid.horizon):
        cell, visits = 0, [0] + [None] * (grid.cells - 1)
        for step, action in enumerate(actions, start=1):
            cell = _moves(grid, cell)[action]
            visits[cell] = step if visits[cell] is None else visits[cell]
        walks.add(tuple(visits))
    return walks


@functools.cache
def _all_costs(grid: Grid) -> np.ndarray:
    """Cost of every treasure under every pair of a first and a second walk, by the rules and nothing else."""
    walks = _first_visits(grid)
    rows = set()
    for first, second in itertools.product(walks, walks):
        row = []
        for treasure in range(1, grid.cells):
            if first[treasure] is not None:
                row.append(first[treasure] + sum(divmod(treasure, grid.width)))
            else:
                row.append(grid.horizon + (second[treasure] or grid.horizon))
        rows.add(tuple(row))
    return np.array(sorted(rows), float)


def _game_value(costs: np.ndarray) -> float:
    """Value of the matrix game over all strategies at once."""
    strategies, treasures = costs.shape
    solved = scipy.optimize.linprog(
        [*[0] * strategies, 1], A_ub=np.column_stack([costs.T, -np.ones(treasures)]), b_ub=np.zeros(treasures),
        A_eq=[[*[1] * strategies, 0]], b_eq=[1], bounds=[(0, None)] * (strategies + 1),
    )  # fmt: skip
    return solved.fun


ENUMERABLE = [Grid(2, 2, 4), Grid(2, 2, 2), Grid(1, 4, 5), Grid(2, 3, 5), Grid(1, 2, 3)]


@pytest.mark.parametrize("grid", [*ENUMERABLE, pytest.param(Grid(2, 3, 6), marks=pytest.mark.slow)], ids=str)
def test_values_equal_those_of_all_strategies(grid):
    costs = _all_costs(grid)
    assert minmax.best_average(grid) == pytest.approx(costs.mean(axis=1).min())
    assert minmax.deterministic(grid) == costs.max(axis=1).min()
    assert minmax.randomised(grid).value == pytest.approx(_game_value(costs), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "average", "deterministic", "randomised"),
    [pytest.param(3, 27 / 4, 10, 8, marks=pytest.mark.long), (4, 56 / 5, 16, 278 / 23), (5, 50 / 3, 26, 52 / 3)],
)
def test_values_of_square_grids(size, average, deterministic, randomised):
    grid = Grid(size, size, 25)
    assert minmax.best_average(grid) == pytest.approx(average)
    assert minmax.deterministic(grid) == deterministic
    assert minmax.randomised(grid).value == pytest.approx(randomised, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("grid", [Grid(3, 3, 25), Grid(3, 4, 12)], ids=str)
def test_the_mixture_attains_the_value_and_the_grid_may_be_turned(grid):
    mixture = minmax.randomised(grid)
    assert mixture.probabilities.sum() == pytest.approx(1)
    assert (mixture.probabilities @ mixture.costs).max() == pytest.approx(mixture.value)
    turned = Grid(grid.width, grid.height, grid.horizon)
    assert minmax.randomised(turned).value == pytest.approx(mixture.value, abs=1e-6)


def test_the_bound_by_parity_holds_for_grids_that_are_too_large_to_search(monkeypatch):
    """On 5 × 5 it is the value, and 23.294 on 6 × 6 (docs/beyond-the-paper.md)."""
    monkeypatch.setattr(walk_search, "LARGEST", 36)

    def bound(size):
        weights = np.full(size**2 - 1, 1 / (size**2 - 1))
        return minmax._parity_bound(walk_search.World(Grid(size, size, size**2)), weights)

    assert bound(3) <= 8
    assert bound(5) == pytest.approx(52 / 3)
    assert bound(6) == pytest.approx(396 / 17)


def test_a_value_that_cannot_be_proved_is_refused():
    # Four steps cannot see 24 cells, and the best second walks visit many cells that the first has missed.
    with pytest.raises(minmax.UncertifiedError, match="misses cells"):
        minmax.randomised(Grid(5, 5, 4))
    with pytest.raises(minmax.UncertifiedError, match="more than 25 cells"):
        minmax.deterministic(Grid(6, 6, 40))
