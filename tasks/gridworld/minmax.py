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

Walks are searched layer by layer in time; of those that have seen the same cells and stand on the same one only the
cheapest is kept. Good walks come from a beam, proofs from the same search without one, or from the bound alone: on the
5 x 5 grid, with the treasure uniform on the 12 cells of even distance, no walk costs less than
(2 + 4 + ... + 24 + 52) / 12 = 52 / 3.

Values are certified: a value that the bounds do not reach is an error, never an approximation.
"""

import functools
from typing import NamedTuple

import numpy as np
import scipy.optimize
from jaxtyping import Bool, Float, Int, Int64

from tasks.gridworld.environment import START, Grid

TOLERANCE = 1e-7
"""Costs closer than this are equal: steps are integers, and the weights of a basic solution small fractions."""

BEAM = 3_000
"""Walks kept per layer by a search that need not be exhaustive."""

EXHAUSTIVE = 1_000_000
"""Walks in one layer at which an exhaustive search gives up."""

LARGEST = 25
"""Cells of the largest grid that is tried: 25 take seconds, 36 more than a minute."""

COLUMNS = 200
"""Most strategies that join the linear programme in one round."""


class UncertifiedError(RuntimeError):
    """No exact value: the grid is too large, or the horizon so short that second searches matter."""


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
    world = _World(grid)
    uniform = np.full(grid.cells - 1, 1 / (grid.cells - 1))
    lower = _parity_bound(world, uniform)
    walks = [_search(world, uniform, np.inf, BEAM).costs]
    costs = world.symmetric(walks[0])
    if not len(costs):
        raise UncertifiedError(f"{grid}: every first walk misses cells off any one shortest path; at least {lower}")
    while True:
        value, mixture, treasure = _best_mixture(costs)
        treasure = world.symmetric(treasure[None])[0]
        if value <= lower + TOLERANCE:
            break
        # Some weight on every treasure; otherwise walks would ignore treasures of weight zero.
        searched = _search(world, 0.98 * treasure + 0.02 * uniform, np.inf, BEAM)
        walks.append(searched.costs)
        new = _improving(world.symmetric(searched.costs), treasure, value)
        if not len(new):
            searched = _search(world, treasure, value - TOLERANCE, EXHAUSTIVE)
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
    world: "_World", costs: Float[np.ndarray, "strategy treasure"], walks: Float[np.ndarray, "walk treasure"]
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
    world = _World(grid)
    uniform = np.full(grid.cells - 1, 1 / (grid.cells - 1))
    best = np.inf
    for beam in (BEAM, EXHAUSTIVE):
        searched = _search(world, uniform, best - TOLERANCE, beam)
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
    world = _World(grid)
    worst = int(2 * world.distance.max())
    while True:
        for beam in (BEAM, EXHAUSTIVE):
            searched = _search(world, np.zeros(grid.cells - 1), np.inf, beam, worst - world.distance)
            if len(searched.costs):
                return worst
            if searched.nothing_missed:
                break
        else:
            raise UncertifiedError(f"{grid}: the best deterministic worst case is at least {worst}")
        worst += 1


def mirror_cells(grid: Grid) -> Int[np.ndarray, " cell"]:
    """The mirror image of every cell on the diagonal; the cell itself on a grid that is not square."""
    cell = np.arange(grid.cells)
    return cell % grid.width * grid.width + cell // grid.width if grid.height == grid.width else cell


class _World:
    """Geometry of the grid, as arrays over cells."""

    def __init__(self, grid: Grid):
        if grid.cells > LARGEST:
            raise UncertifiedError(f"{grid} has more than {LARGEST} cells")
        self.grid = grid
        cell = np.arange(grid.cells)
        self.row, self.column = cell // grid.width, cell % grid.width
        self.distance = self.row + self.column
        moves = np.stack([self.row, self.column], axis=1)[:, None] + [[0, -1], [1, 0], [0, 1], [-1, 0]]
        inside = ((moves >= 0) & (moves < [grid.height, grid.width])).all(axis=2)
        self.neighbours = np.where(inside, moves[:, :, 0] * grid.width + moves[:, :, 1], -1)
        self.between = abs(self.row[:, None] - self.row) + abs(self.column[:, None] - self.column)
        self.mirror = mirror_cells(grid)

    def symmetric(self, costs: Float[np.ndarray, "strategy treasure"]) -> Float[np.ndarray, "distinct treasure"]:
        """Each row averaged with its mirror image on the diagonal, if the grid is square; equal rows once."""
        return np.unique(costs + self.mirrored(costs), axis=0) / 2

    def mirrored(self, costs: Float[np.ndarray, "strategy treasure"]) -> Float[np.ndarray, "strategy treasure"]:
        """The costs of each strategy's mirror image on the diagonal; of a grid that is not square, the costs."""
        return costs[:, self.mirror[1:] - 1]

    def on_one_shortest_path(self, cells: Bool[np.ndarray, " cell"]) -> bool:
        """Whether one shortest path from the corner meets all of these cells."""
        row, column = self.row[cells], self.column[cells]
        order = np.lexsort((row, row + column))
        return bool((np.diff(row[order]) >= 0).all() and (np.diff(column[order]) >= 0).all())


def _best_mixture(costs: Float[np.ndarray, "strategy treasure"]) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, mixture of strategies and distribution of treasures of the matrix game."""
    strategies, treasures = costs.shape
    solved = scipy.optimize.linprog(
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


def _by_weight(world: _World, weights: Float[np.ndarray, " cell"], parity: int) -> Int[np.ndarray, " some"]:
    """Cells at even or odd distance, the corner left out, likeliest first."""
    cells = np.argsort(-weights, kind="stable")
    return cells[(cells != START) & (world.distance[cells] % 2 == parity)]


def _parity_bound(world: _World, weights: Float[np.ndarray, " treasure"]) -> float:
    """Lower bound on the min-max: that of agents which see one new cell a step, in any order that parity allows."""
    assignments: list[np.ndarray] = []
    value = np.inf
    while True:
        steps = np.zeros(world.grid.cells)
        for parity in (0, 1):
            cells = _by_weight(world, np.append(0, weights), parity)
            steps[cells] = np.minimum(2 * np.arange(1, len(cells) + 1) - parity, world.grid.horizon)
        costs = (steps + world.distance)[1:]
        if costs @ weights >= value - TOLERANCE:
            return value
        assignments.append(costs)
        value, _, weights = _best_mixture(np.array(assignments))


class _Walks(NamedTuple):
    """Unfinished walks of one length; `steps` holds first visits, 0 where there is none yet."""

    seen: Int64[np.ndarray, " walk"]
    cell: Int[np.ndarray, " walk"]
    score: Float[np.ndarray, " walk"]
    steps: Int[np.ndarray, "walk cell"]


class _Found(NamedTuple):
    """The result of a search.

    Attributes:
        costs: Cost of every treasure under each walk found.
        nothing_missed: Whether every walk below the threshold is among them, up to walks that are at least as good.
    """

    costs: Float[np.ndarray, "strategy treasure"]
    nothing_missed: bool


def _search(
    world: _World,
    weights: Float[np.ndarray, " treasure"],
    threshold: float,
    beam: int,
    deadlines: Int[np.ndarray, " cell"] | None = None,
) -> _Found:
    """Walks that cost less than a threshold on the weighted mean of treasures.

    Args:
        world: The grid.
        weights: Weight of every treasure.
        threshold: Walks whose bound reaches it are dropped.
        beam: At most so many are kept in a layer, those of least bound.
        deadlines: Latest step for the first visit of every cell; one at the horizon or later does not bind.
    """
    grid, horizon = world.grid, world.grid.horizon
    weights = np.append(0, weights)
    orders = [_by_weight(world, weights, parity) for parity in (0, 1)]
    threshold -= float(weights @ world.distance)
    everything = (1 << grid.cells) - 1
    start = np.zeros((1, grid.cells), np.int64)
    walks = _Walks(np.array([1 << START]), np.array([START]), np.zeros(1), start)
    finished, nothing_missed = [np.zeros((0, grid.cells), np.int64)], True
    for step in range(1, horizon + 1):
        walks = _extended(world, walks, weights, step)
        bound = walks.score + _remaining(walks.seen, orders, weights, step, horizon)
        kept = bound < threshold
        if deadlines is not None:
            kept &= _in_time(world, walks, deadlines, step)
        if kept.sum() > beam:
            nothing_missed = False
            kept = np.argpartition(np.where(kept, bound, np.inf), beam)[:beam]
        walks = _Walks(*(values[kept] for values in walks))
        done = walks.seen == everything
        finished.append(walks.steps[done])
        walks = _Walks(*(values[~done] for values in walks))
        if not len(walks.seen):
            break
    for steps in walks.steps:
        missed = steps == 0
        missed[START] = False
        if world.on_one_shortest_path(missed):
            finished.append(np.where(missed, horizon, steps)[None])
        else:
            nothing_missed = False
    return _Found((np.concatenate(finished) + world.distance)[:, 1:].astype(float), nothing_missed)


def _extended(world: _World, walks: _Walks, weights: Float[np.ndarray, " cell"], step: int) -> _Walks:
    """All walks one step longer; of those that are alike in what they have seen and where they are, the cheapest."""
    source, direction = np.nonzero(world.neighbours[walks.cell] >= 0)
    cell = world.neighbours[walks.cell[source], direction]
    seen = walks.seen[source] | np.left_shift(np.int64(1), cell)
    new = seen != walks.seen[source]
    score = walks.score[source] + np.where(new, weights[cell] * step, 0)
    order = np.lexsort((score, cell, seen))
    alike = (np.diff(seen[order]) == 0) & (np.diff(cell[order]) == 0)
    kept = order[np.append(True, ~alike)]
    steps = walks.steps[source[kept]]
    fresh = np.flatnonzero(new[kept])
    steps[fresh, cell[kept][fresh]] = step
    return _Walks(seen[kept], cell[kept], score[kept], steps)


def _remaining(
    seen: Int64[np.ndarray, " walk"], orders: list[np.ndarray], weights: np.ndarray, step: int, horizon: int
) -> Float[np.ndarray, " walk"]:
    """Lower bound on what the unseen cells add: of each parity the likeliest next, then one every other step."""
    bound = np.zeros(len(seen))
    for parity, cells in enumerate(orders):
        unseen = _unseen(seen, cells)
        visits = np.minimum(_earliest_visits(unseen, parity, step), horizon)
        bound += (unseen * visits) @ weights[cells]
    return bound


def _in_time(world: _World, walks: _Walks, deadlines: Int[np.ndarray, " cell"], step: int) -> Bool[np.ndarray, " walk"]:
    """Whether every unseen cell may still meet its deadline, by its distance and by those due before it."""
    binding = np.flatnonzero((deadlines < world.grid.horizon) & (np.arange(world.grid.cells) != START))
    late = [
        _unseen(walks.seen, binding) & (step + world.between[walks.cell][:, binding] > deadlines[binding]),
        walks.steps[:, binding] > deadlines[binding],
    ]
    for parity in (0, 1):
        cells = binding[world.distance[binding] % 2 == parity]
        cells = cells[np.argsort(deadlines[cells], kind="stable")]
        unseen = _unseen(walks.seen, cells)
        late.append(unseen & (_earliest_visits(unseen, parity, step) > deadlines[cells]))
    return ~np.any(np.concatenate(late, axis=1), axis=1)


def _earliest_visits(unseen: Bool[np.ndarray, "walk some"], parity: int, step: int) -> Int[np.ndarray, "walk some"]:
    """Next steps at which unseen cells of this parity can be first seen, given to them in their order."""
    return step + (2 if step % 2 == parity else 1) + 2 * (np.cumsum(unseen, axis=1) - 1)


def _unseen(seen: Int64[np.ndarray, " walk"], cells: Int[np.ndarray, " some"]) -> Bool[np.ndarray, "walk some"]:
    return ~(seen[:, None] >> cells & 1).astype(bool)
