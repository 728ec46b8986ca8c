"""Imitate the best randomised agent of the grid world: what a network can express, apart from how it is found.

The exact min-max of `tasks.gridworld.minmax` is a mixture of walks. Here a network is trained by gradient to walk them.
The loss of a treasure and a seed is the mean cross-entropy of the actions of one walk, while the network reads what the
agent that walks it reads: the walk until the treasure is found, then a shortest path. Evaluation is that of the grid
world, by the network's own actions, so rewards, visits and exploitability of both tasks can be compared.

The noise of the seed says which walk. Walks share their beginnings, and each step at which the walks that began alike
part is a choice. The n-th choice of a walk is made by the n-th entry of the noise: its quantile falls into the share of
one of the continuations. So seeds r play every walk as often as the mixture does, and a choice is a threshold on one
entry of the noise.
"""

import abc
import functools
import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from pydantic import model_validator

from sweeper.learned_algorithms import contracts
from tasks import gridworld
from tasks.gridworld import minmax
from tasks.gridworld.environment import ACTIONS, FOUND, START, STEP, Grid, neighbour
from tasks.gridworld.walk_search import mirror_cells


class Walks(NamedTuple):
    """Walks, and what the agent does on each of them with each treasure.

    Attributes:
        actions: Of both episodes, 0 after their end.
        cells: The cell that each action reaches, by walk, treasure and step.
        found: Whether it finds the treasure.
        steps: Number of actions.
    """

    actions: Int[np.ndarray, "walk treasure step"]
    cells: Int[np.ndarray, "walk treasure step"]
    found: Bool[np.ndarray, "walk treasure step"]
    steps: Int[np.ndarray, "walk treasure"]


class Mixture(NamedTuple):
    """The walks of the best agent, and the noise that chooses each.

    Attributes:
        low: The least quantile of each entry of the noise that chooses the walk.
        high: The end of these quantiles.
        walks: What the agent does.
    """

    low: Float[np.ndarray, "walk choice"]
    high: Float[np.ndarray, "walk choice"]
    walks: Walks


class Imitation(gridworld.Task):
    """The grid world with the cross-entropy of walks as loss, one of which each seed chooses."""

    @abc.abstractmethod
    def known_walks(self) -> Walks:
        """The walks to imitate."""

    @abc.abstractmethod
    def walk_of(self, noise: Float[Array, " noise"]) -> Int[Array, ""]:
        """The index of the walk that a seed chooses."""

    def loss(self, network: contracts.Network, x: Int[Array, ""], r: Float[Array, " noise"]) -> Float[Array, ""]:
        """Mean cross-entropy of the actions of both episodes."""
        known = jax.tree.map(jnp.asarray, self.known_walks())
        walk = self.walk_of(r)
        actions, cells, found = (part[walk, x - 1] for part in (known.actions, known.cells, known.found))
        counted = jnp.arange(actions.size) < known.steps[walk, x - 1]

        def token(cell: Int[Array, ""], found: Bool[Array, ""]) -> Float[Array, " feature"]:
            row, column = jnp.arange(self.height) == cell // self.width, jnp.arange(self.width) == cell % self.width
            return jnp.concatenate([jnp.zeros(self.noise), row, column, jnp.where(found, FOUND, STEP)[None]])

        first = jnp.concatenate([r, jnp.zeros(self.token_size() - self.noise)])
        read = jnp.concatenate([first[None], jax.vmap(token)(cells, found)[:-1]])
        logits = network(read, jnp.tril(jnp.ones((actions.size, actions.size), bool)))
        missed = -jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], axis=1)[:, 0]
        return jnp.where(counted, missed, 0.0).sum() / counted.sum()

    def losses(
        self, network: contracts.Network, inputs: Int[Array, " input"], seeds: Float[Array, "seed noise"]
    ) -> Float[Array, "input seed"]:
        return contracts.Task.losses(self, network, inputs, seeds)

    def outcomes(
        self, network: contracts.Network, inputs: Int[Array, " input"], seeds: Float[Array, "seed noise"]
    ) -> contracts.Outcomes:
        """Those of the grid world, by the network's own actions; the loss is the cross-entropy."""
        return super().outcomes(network, inputs, seeds)._replace(loss=self.losses(network, inputs, seeds))

    def abilities(self) -> contracts.Abilities:
        """Those of the grid world, with a gradient; exact values are on the scale of steps and not of this loss."""
        world = super().abilities()
        return contracts.Abilities(measures=world.measures, tail=world.tail, own_metrics=world.own_metrics)


class Task(Imitation):
    """The walks of the exact best mixture, chosen by normal noise."""

    name: Literal["gridworld_imitation"] = "gridworld_imitation"  # pyright: ignore[reportIncompatibleVariableOverride]

    @model_validator(mode="after")
    def _noise_for_every_choice(self) -> "Task":
        try:
            choices = best_mixture(self.grid).low.shape[1]
        except minmax.UncertifiedError as error:
            raise ValueError(f"height, width, horizon: there is no exact mixture to imitate: {error}") from None
        if self.noise < choices:
            raise ValueError(f"noise: the walks of the mixture take {choices} choices, and each needs an entry")
        return self

    def known_walks(self) -> Walks:
        return best_mixture(self.grid).walks

    def walk_of(self, noise: Float[Array, " noise"]) -> Int[Array, ""]:
        best = best_mixture(self.grid)
        quantiles = jax.scipy.stats.norm.cdf(noise[: best.low.shape[1]])
        return jnp.argmax(((best.low <= quantiles) & (quantiles < best.high)).all(axis=1))


@functools.cache
def best_mixture(grid: Grid) -> Mixture:
    """The exact mixture; a few seconds for 5 x 5, once a process.

    Raises:
        minmax.UncertifiedError: the mixture is not known.
    """
    best = minmax.randomised(grid)
    mirror = mirror_cells(grid)
    shares: dict[tuple[int, ...], float] = {}
    for visits, probability in zip(best.visits, best.probabilities, strict=True):
        for first in (visits, visits[mirror]):
            cells = _first_episode(grid, first)
            shares[cells] = shares.get(cells, 0.0) + probability / 2
    episodes = sorted(shares)
    first = [_actions(grid, cells) for cells in episodes]
    low, high = _choices(first, [shares[cells] for cells in episodes])
    return Mixture(low, high, followed(grid, first))


def followed(grid: Grid, first: Sequence[tuple[int, ...]]) -> Walks:
    """What an agent does that takes these actions until it finds the treasure, and then walks to it.

    A treasure that the first episode misses is searched in the cells that were missed, nearest to the corner first.

    Raises:
        ValueError: the second episode is too short for that.
    """
    rows = [[_both_episodes(grid, actions, treasure) for treasure in range(1, grid.cells)] for actions in first]
    steps = np.array([[len(cells) for _, cells in row] for row in rows])
    if (late := (steps > 2 * grid.horizon).any(axis=1)).any():
        raise ValueError(f"walks: number {late.argmax()} misses more cells than a second episode can search")
    actions, cells = np.zeros((2, *steps.shape, 2 * grid.horizon), int)
    for place in np.ndindex(steps.shape):
        actions[place][: steps[place]], cells[place][: steps[place]] = rows[place[0]][place[1]]
    found = (cells == np.arange(1, grid.cells)[:, None]) & (np.arange(2 * grid.horizon) < steps[..., None])
    return Walks(actions, cells, found, steps)


def _first_episode(grid: Grid, visits: Int[np.ndarray, " cell"]) -> tuple[int, ...]:
    """The cells of a walk with these first visits, step by step; those at the horizon may stay unvisited."""
    order = sorted((step, cell) for cell, step in enumerate(visits.tolist()) if cell != START)
    walked, seen = [START], {START}
    for step, cell in order:
        path = _path(grid, walked[-1], cell, step - len(walked) + 1, seen)
        if path is not None:
            walked += path
            seen.add(cell)
    while len(walked) <= grid.horizon:  # nothing is seen any more, whatever the agent does
        walked.append(next(cell for cell in _around(grid, walked[-1]) if cell in seen))
    return tuple(walked[1:])


def _path(grid: Grid, start: int, end: int, length: int, seen: set[int]) -> list[int] | None:
    """The cells of some path of this length whose inner cells have been seen; None if there is none."""
    if length <= 0:
        return None
    layers: list[dict[int, int]] = [{start: -1}]
    for step in range(1, length + 1):
        allowed = {end} if step == length else seen
        layers.append({near: cell for cell in layers[-1] for near in _around(grid, cell) if near in allowed})
    if end not in layers[-1]:
        return None
    path = [end]
    for layer in reversed(layers[2:]):
        path.append(layer[path[-1]])
    return path[::-1]


def _around(grid: Grid, cell: int) -> list[int]:
    row, column = divmod(cell, grid.width)
    around = [(row, column - 1), (row + 1, column), (row, column + 1), (row - 1, column)]
    return [r * grid.width + c for r, c in around if 0 <= r < grid.height and 0 <= c < grid.width]


def _both_episodes(grid: Grid, actions: tuple[int, ...], treasure: int) -> tuple[list[int], list[int]]:
    """The actions of both episodes, and the cells that they reach."""
    first = _cells(grid, actions)
    if treasure in first:
        first = first[: first.index(treasure) + 1]
        second = _shortest(grid, START, treasure)
    else:
        missed = sorted(set(range(1, grid.cells)) - set(first), key=lambda cell: sum(divmod(cell, grid.width)))
        second, at = list[int](), START
        for cell in missed[: missed.index(treasure) + 1]:
            second, at = [*second, *_shortest(grid, at, cell)], cell
    return [*actions[: len(first)], *_actions(grid, tuple(second))], [*first, *second]


def _shortest(grid: Grid, start: int, end: int) -> list[int]:
    """A shortest path, first upwards or downwards."""
    (row, column), (last_row, last_column) = divmod(start, grid.width), divmod(end, grid.width)
    path: list[int] = []
    while (row, column) != (last_row, last_column):
        if row != last_row:
            row += 1 if row < last_row else -1
        else:
            column += 1 if column < last_column else -1
        path.append(row * grid.width + column)
    return path


def _cells(grid: Grid, actions: tuple[int, ...]) -> list[int]:
    """The cells that these actions reach from the corner."""
    reached = _neighbours(grid)
    return [*itertools.accumulate(actions, lambda cell, action: reached[cell][action], initial=START)][1:]


@functools.cache
def _neighbours(grid: Grid) -> list[list[int]]:
    """The cell that each action leads to from each cell."""
    with jax.ensure_compile_time_eval():  # a loss may ask for it while it is traced
        return neighbour(grid, *jnp.indices((grid.cells, len(ACTIONS)))).tolist()


def _actions(grid: Grid, cells: tuple[int, ...]) -> tuple[int, ...]:
    """The actions that lead from the corner through these cells."""
    moves = {-1: 0, grid.width: 1, 1: 2, -grid.width: 3}
    return tuple(moves[after - before] for before, after in zip((START, *cells), cells, strict=False))


def _choices(
    sequences: list[tuple[int, ...]], shares: list[float]
) -> tuple[Float[np.ndarray, "walk choice"], Float[np.ndarray, "walk choice"]]:
    """Quantiles that choose each sequence of actions: from `low` to `high` of the n-th entry at its n-th choice."""
    bounds: list[list[tuple[float, float]]] = []
    for sequence in sequences:
        own: list[tuple[float, float]] = []
        for step in range(len(sequence)):
            alike = [
                (other, share)
                for other, share in zip(sequences, shares, strict=True)
                if other[:step] == sequence[:step]
            ]
            weights = [sum(share for other, share in alike if other[step] == action) for action in range(4)]
            if sum(weight > 0 for weight in weights) > 1:
                below, whole = sum(weights[: sequence[step]]), sum(weights)
                last = not any(weights[sequence[step] + 1 :])
                own.append((below / whole, 2.0 if last else (below + weights[sequence[step]]) / whole))
        bounds.append(own)
    most = max(map(len, bounds))
    filled = np.array([own + [(0.0, 2.0)] * (most - len(own)) for own in bounds]).reshape(len(bounds), most, 2)
    return filled[..., 0], filled[..., 1]
