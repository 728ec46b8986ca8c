"""The search for walks of the grid world that cost little, for its exact bounds (`tasks.gridworld.minmax`).

Walks are searched layer by layer in time; of those that have seen the same cells and stand on the same one only the
cheapest is kept. Good walks come from a beam, proofs from the same search without one, or from the bound alone: on the
5 x 5 grid, with the treasure uniform on the 12 cells of even distance, no walk costs less than
(2 + 4 + ... + 24 + 52) / 12 = 52 / 3.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int64

from tasks.gridworld.environment import START, Grid

BEAM = 3_000
"""Walks kept per layer by a search that need not be exhaustive."""

EXHAUSTIVE = 1_000_000
"""Walks in one layer at which an exhaustive search gives up."""

LARGEST = 25
"""Cells of the largest grid that is tried: 25 take seconds, 36 more than a minute."""


class UncertifiedError(RuntimeError):
    """No exact value: the grid is too large, or the horizon so short that second searches matter."""


def mirror_cells(grid: Grid) -> Int[np.ndarray, " cell"]:
    """The mirror image of every cell on the diagonal; the cell itself on a grid that is not square."""
    cell = np.arange(grid.cells)
    return cell % grid.width * grid.width + cell // grid.width if grid.height == grid.width else cell


class World:
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


class _Walks(NamedTuple):
    """Unfinished walks of one length; `steps` holds first visits, 0 where there is none yet."""

    seen: Int64[np.ndarray, " walk"]
    cell: Int[np.ndarray, " walk"]
    score: Float[np.ndarray, " walk"]
    steps: Int[np.ndarray, "walk cell"]


class SearchResult(NamedTuple):
    """The result of a search.

    Attributes:
        costs: Cost of every treasure under each walk of the result.
        nothing_missed: Whether every walk below the threshold is among them, up to walks that are at least as good.
    """

    costs: Float[np.ndarray, "strategy treasure"]
    nothing_missed: bool


def by_weight(world: World, weights: Float[np.ndarray, " cell"], parity: int) -> Int[np.ndarray, " some"]:
    """Cells at even or odd distance, the corner left out, likeliest first."""
    cells = np.argsort(-weights, kind="stable")
    return cells[(cells != START) & (world.distance[cells] % 2 == parity)]


def search(
    world: World,
    weights: Float[np.ndarray, " treasure"],
    threshold: float,
    beam: int,
    deadlines: Int[np.ndarray, " cell"] | None = None,
) -> SearchResult:
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
    orders = [by_weight(world, weights, parity) for parity in (0, 1)]
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
    return SearchResult((np.concatenate(finished) + world.distance)[:, 1:].astype(float), nothing_missed)


def _extended(world: World, walks: _Walks, weights: Float[np.ndarray, " cell"], step: int) -> _Walks:
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


def _in_time(world: World, walks: _Walks, deadlines: Int[np.ndarray, " cell"], step: int) -> Bool[np.ndarray, " walk"]:
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
