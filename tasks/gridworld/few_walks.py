"""The worst treasure with few walks: how much randomness an agent of the grid world needs, as upper bounds.

K walks and their probabilities need log2 K random bits at most. The best K are searched from the exact mixture of all
(`tasks.gridworld.minmax`): the walk that is missed least leaves, until there are K. Then a walk that costs less against
the worst distribution of treasures joins, and again the one that is missed least leaves, as long as that helps.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tasks.gridworld import minmax
from tasks.gridworld.environment import Grid
from tasks.gridworld.walk_search import BEAM, World, search

CANDIDATES = 8
"""Walks that are tried in a step of the search, those that cost least."""


class FewWalks(NamedTuple):
    """Some walks."""

    value: float  # expected cost T1 + T2 on the worst treasure
    probabilities: Float[np.ndarray, " walk"]
    costs: Float[np.ndarray, "walk treasure"]  # T1 + T2


def searched(grid: Grid, count: int) -> FewWalks:
    """The best mixture of at most so many walks that is found; better ones may exist.

    Raises:
        UncertifiedError: there is no exact mixture to start from.
    """
    world = World(grid)
    walks = (minmax.randomised(grid).visits + world.distance)[:, 1:].astype(float)
    best = _best(np.unique(np.concatenate([walks, world.mirrored(walks)]), axis=0), count)
    while True:
        value, probabilities, treasure = minmax.best_mixture(best)
        # Some weight on every treasure; otherwise walks would ignore treasures of weight zero.
        found = search(world, 0.98 * treasure + 0.02 / len(treasure), np.inf, BEAM).costs
        found = np.unique(np.concatenate([found, world.mirrored(found)]), axis=0)
        found = found[np.argsort(found @ treasure, kind="stable")[:CANDIDATES]]
        tried = [_best(np.concatenate([best, walk[None]]), count) for walk in found]
        least = min(tried, key=_value)
        if _value(least) > value - minmax.TOLERANCE:
            return FewWalks(value, probabilities, best)
        best = least


def _best(costs: Float[np.ndarray, "walk treasure"], count: int) -> Float[np.ndarray, "kept treasure"]:
    """The walks without those that are missed least, one at a time, until `count` are left."""
    while len(costs) > count:
        costs = min((np.delete(costs, walk, axis=0) for walk in range(len(costs))), key=_value)
    return costs


def _value(costs: Float[np.ndarray, "walk treasure"]) -> float:
    return minmax.best_mixture(costs)[0]
