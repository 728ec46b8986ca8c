"""Distil walks that were found elsewhere into one network of the grid world, played exactly as often as they should be.

`tasks.gridworld.double_oracle` finds a mixture of walks of several networks. Here one network learns it by imitation,
as in `tasks.gridworld_imitation`, but a seed r names its walk: it is a vector that is 1 at the index of the walk. There
are as many seeds as the shares add up to, all equally likely, and a walk has as many as its share. So an evaluation of
all of them is exact. A network that imitates without a fault costs what the mixture does, and needs log2 of the number
of seeds as random bits.
"""

import dataclasses
import functools
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from pydantic import Field, model_validator

from sweeper.learned_algorithms import contracts
from tasks import gridworld_imitation
from tasks.gridworld.environment import ACTIONS, Grid
from tasks.gridworld_imitation import Walks

LETTERS = "".join(action[0].upper() for action in ACTIONS)
"""Of the actions, in their order."""


class Task(gridworld_imitation.Imitation):
    """The grid world with the cross-entropy of given walks as loss.

    Attributes:
        walks: The actions of each walk's first episode, such as `RRUULL`, as many as the horizon.
        shares: How many of the seeds choose each walk.
    """

    name: Literal["gridworld_distillation"] = "gridworld_distillation"  # pyright: ignore[reportIncompatibleVariableOverride]
    walks: Annotated[tuple[Annotated[str, Field(pattern=f"^[{LETTERS}]+$")], ...], Field(strict=False, min_length=1)]
    shares: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(strict=False)]

    @model_validator(mode="after")
    def _can_be_walked(self) -> "Task":
        if len(self.shares) != len(self.walks):
            raise ValueError(f"shares: there must be one for each of the {len(self.walks)} walks")
        if self.noise < len(self.walks):
            raise ValueError(f"noise: each of the {len(self.walks)} walks needs an entry")
        for walk in self.walks:
            if len(walk) != self.horizon:
                raise ValueError(f"walks: {walk} must have horizon = {self.horizon} actions")
        self.known_walks()
        return self

    def known_walks(self) -> Walks:
        return _followed(self.grid, self.walks)

    def walk_of(self, noise: Float[Array, " noise"]) -> Int[Array, ""]:
        return jnp.argmax(noise)

    def sample_seeds(self, key: PRNGKeyArray, count: int) -> Float[Array, "seed noise"]:
        return jnp.asarray(self._all_seeds())[jax.random.randint(key, (count,), 0, sum(self.shares))]

    def abilities(self) -> contracts.Abilities:
        """Those of an imitation, and all seeds."""
        return dataclasses.replace(super().abilities(), all_seeds=self._all_seeds)

    def _all_seeds(self) -> Float[np.ndarray, "seed noise"]:
        chosen = np.repeat(np.arange(len(self.walks)), self.shares)
        return np.eye(self.noise, dtype=np.float32)[np.random.default_rng(0).permutation(chosen)]


@functools.cache
def _followed(grid: Grid, walks: tuple[str, ...]) -> Walks:
    return gridworld_imitation.followed(grid, [tuple(map(LETTERS.index, walk)) for walk in walks])
