"""Exact bounds of the grid world: the values of T1 + T2 that no agent can beat, with and without randomness.

Against an adversary who hides the treasure, a deterministic agent is a pair of walks: one for the first episode, one
for the second if the first was in vain; once the treasure is known, the second episode is a shortest path. With t the
step of a cell's first visit, d its distance from the corner and H the horizon, a cell costs t + d, or H + t' if only
the second walk meets it, at step t'. A randomised agent is a mixture of such pairs. The best mixture solves a linear
programme with one variable a pair; pairs are generated as they are needed (column generation), and the price of the
best new one under the treasure distribution p of the dual bounds the value from below.

Two facts make this exact and fast.

- t' >= d, so every pair costs at least min(t, H) + d on every cell. Searches minimise that bound, and only walks that
  reach it are used: those whose missed cells, if any, lie on one shortest path, which is then the second walk.
- Steps alternate between cells of even and odd distance, so the cells of one parity are first seen at least two steps
  apart. Assigning the likeliest unseen cells of each parity to the next free steps bounds the cost of every unfinished
  walk. Running into a wall only delays what follows and is never needed.

Values are certified: a value that the bounds do not reach is an error, never an approximation.
"""

import functools
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float, Int

from tasks.gridworld.environment import Grid
from tasks.gridworld.walk_search import BEAM, EXHAUSTIVE, UncertifiedError, World, by_weight, search

TOLERANCE = 1e-7
"""Costs closer than this are equal: steps are integers, and the weights of a basic solution small fractions."""

COLUMNS = 200
"""Most strategies that join the linear programme in one round."""


class MinMax(NamedTuple):
    """The best randomised agent.

    Attributes:
        value: Its expected cost T1 + T2 on the worst treasure.
        costs: Cost of every treasure under each strategy of its mixture, the corner left out. On a square grid each
            row is the average of a walk and its mirror image, which are played equally often.
        probabilities: How often each strategy is played.
        visits: Step of the first visit of every cell in the first episode of each strategy, the horizon for a cell that
            is not visited. On a square grid these are the steps of one of the two walks.
    """

    value: float
    costs: Float[np.ndarray, "strategy treasure"]
    probabilities: Float[np.ndarray, " strategy"]
    visits: Int[np.ndarray, "strategy cell"]


@functools.cache
def randomised(grid: Grid) -> MinMax:
    """The exact min-max over mixtures of walks; a few seconds for 5 x 5, once a process.

    Raises:
        UncertifiedError: the value lies between two bounds, which the message tells.
    """
    world = World(grid)
    uniform = np.full(grid.cells - 1, 1 / (grid.cells - 1))
    lower = _parity_bound(world, uniform)
    walks = [search(world, uniform, np.inf, BEAM).costs]
    costs = world.symmetric(walks[0])
    if not len(costs):
        raise UncertifiedError(f"{grid}: every first walk misses cells off any one shortest path; at least {lower}")
    while True:
        value, mixture, treasure = best_mixture(costs)
        treasure = world.symmetric(treasure[None])[0]
        if value <= lower + TOLERANCE:
            break
        # Some weight on every treasure; otherwise walks would ignore treasures of weight zero.
        searched = search(world, 0.98 * treasure + 0.02 * uniform, np.inf, BEAM)
        walks.append(searched.costs)
        new = _improving(world.symmetric(searched.costs), treasure, value)
        if not len(new):
            searched = search(world, treasure, value - TOLERANCE, EXHAUSTIVE)
            if searched.nothing_missed and not len(searched.costs):
                break
            walks.append(searched.costs)
            new = _improving(world.symmetric(searched.costs), treasure, value)
            if not len(new):
                raise UncertifiedError(f"{grid}: the randomised min-max lies between {lower} and {value}")
        costs = np.concatenate([costs, new])
    played = mixture > TOLERANCE
    visits = _visits_behind(world, costs[played], np.concatenate(walks))
    return MinMax(float(value), costs[played], mixture[played], visits)


def _visits_behind(
    world: World, costs: Float[np.ndarray, "strategy treasure"], walks: Float[np.ndarray, "walk treasure"]
) -> Int[np.ndarray, "strategy cell"]:
    """First visits of a walk whose costs, averaged with those of its mirror image, are those of a strategy."""
    averaged = (walks + world.mirrored(walks)) / 2
    behind = [walks[(averaged == row).all(axis=1).argmax()] for row in costs]
    return np.column_stack([np.zeros(len(costs)), np.array(behind) - world.distance[1:]]).astype(int)


@functools.cache
def best_average(grid: Grid) -> float:
    """The least cost T1 + T2, averaged over treasures; no randomness can improve it.

    Raises:
        UncertifiedError: no walk that reaches its bound has been proved best.
    """
    world = World(grid)
    uniform = np.full(grid.cells - 1, 1 / (grid.cells - 1))
    best = np.inf
    for beam in (BEAM, EXHAUSTIVE):
        searched = search(world, uniform, best - TOLERANCE, beam)
        best = min(best, *(searched.costs @ uniform)) if len(searched.costs) else best
    if not searched.nothing_missed:
        raise UncertifiedError(f"{grid}: the best average is at most {best}")
    return float(best)


@functools.cache
def deterministic(grid: Grid) -> int:
    """The least cost T1 + T2 on its worst treasure that one walk can have.

    Raises:
        UncertifiedError: some cost can neither be reached nor be excluded.
    """
    world = World(grid)
    worst = int(2 * world.distance.max())
    while True:
        for beam in (BEAM, EXHAUSTIVE):
            searched = search(world, np.zeros(grid.cells - 1), np.inf, beam, worst - world.distance)
            if len(searched.costs):
                return worst
            if searched.nothing_missed:
                break
        else:
            raise UncertifiedError(f"{grid}: the best deterministic worst case is at least {worst}")
        worst += 1


def best_mixture(costs: Float[np.ndarray, "strategy treasure"]) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, mixture of strategies and distribution of treasures of the matrix game."""
    import scipy.optimize  # takes a quarter of a second, and most who import the task want no bound

    strategies, treasures = costs.shape
    # scipy has no types, and those of this function take pyright 15 CPU seconds to infer.
    solved = cast("Any", scipy.optimize).linprog(
        np.append(np.zeros(strategies), 1),
        A_ub=np.column_stack([costs.T, -np.ones(treasures)]),
        b_ub=np.zeros(treasures),
        A_eq=np.append(np.ones(strategies), 0)[None],
        b_eq=[1],
        bounds=[(0, None)] * strategies + [(None, None)],
        method="highs",
    )
    return solved.fun, solved.x[:-1], -solved.ineqlin.marginals


def _improving(
    costs: Float[np.ndarray, "strategy treasure"], treasure: Float[np.ndarray, " treasure"], value: float
) -> Float[np.ndarray, "better treasure"]:
    """The strategies that beat `value` against this distribution of treasures, best first and not too many."""
    means = costs @ treasure
    best = np.argsort(means, kind="stable")[:COLUMNS]
    return costs[best[means[best] < value - TOLERANCE]]


def _parity_bound(world: World, weights: Float[np.ndarray, " treasure"]) -> float:
    """Lower bound on the min-max: that of agents which see one new cell a step, in any order that parity allows."""
    assignments: list[np.ndarray] = []
    value = np.inf
    while True:
        steps = np.zeros(world.grid.cells)
        for parity in (0, 1):
            cells = by_weight(world, np.append(0, weights), parity)
            steps[cells] = np.minimum(2 * np.arange(1, len(cells) + 1) - parity, world.grid.horizon)
        costs = (steps + world.distance)[1:]
        if costs @ weights >= value - TOLERANCE:
            return value
        assignments.append(costs)
        value, _, weights = best_mixture(np.array(assignments))
