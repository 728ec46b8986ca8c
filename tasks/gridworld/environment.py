"""A grid with walls around it, a treasure on one cell, and two episodes that both start in the lower left corner.

Cells are numbered row by row from the corner: cell i * width + j is in row i, counted upwards, and column j. The four
actions are left, up, right and down; walking into a wall costs a step and stays. An episode ends when the treasure is
found or after `horizon` steps, and the second starts at once from the corner. All is a pure function of integers.

The corner is cell 0 and never holds the treasure.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sweeper.trial import vectorisation

START = 0
"""The lower left corner."""

ACTIONS = ("left", "up", "right", "down")
"""In the order of the paper; an action is an index into them."""

FOUND, STEP = 1.0, -0.1
"""Reward of the step that finds the treasure, and of any other."""


class Grid(NamedTuple):
    """Sizes of the world; `horizon` is the longest episode."""

    height: int
    width: int
    horizon: int

    @property
    def cells(self) -> int:
        """Number of cells, the corner included."""
        return self.height * self.width


class State(NamedTuple):
    """Where the agent is.

    Attributes:
        cell: The cell it stands on.
        episode: 0, 1, or 2 once both are over.
        clock: Steps taken in this episode.
    """

    cell: Int[Array, "*batch"]
    episode: Int[Array, "*batch"]
    clock: Int[Array, "*batch"]


class Event(NamedTuple):
    """The result of one step, before the next episode puts the agent back to the corner.

    Attributes:
        cell: The cell that was reached.
        found: Whether the treasure lies there.
        counted: Whether an episode was still running, so that the step counts.
    """

    cell: Int[Array, "*batch"]
    found: Bool[Array, "*batch"]
    counted: Bool[Array, "*batch"]


def initial() -> State:
    """The state before the first step."""
    return State(jnp.int32(START), jnp.int32(0), jnp.int32(0))


def neighbour(grid: Grid, cell: Int[Array, "*batch"], action: Int[Array, "*batch"]) -> Int[Array, "*batch"]:
    """The cell that an action leads to; at a wall the same."""
    if vectorisation.in_turns():
        row, column = cell // grid.width, cell % grid.width
    else:  # cells are not negative, and what `//` does for others would be a kernel of its own
        width = jnp.asarray(grid.width, cell.dtype)
        row, column = jax.lax.div(cell, width), jax.lax.rem(cell, width)
    row = jnp.clip(row + (action == 1) - (action == 3), 0, grid.height - 1)
    column = jnp.clip(column + (action == 2) - (action == 0), 0, grid.width - 1)
    return row * grid.width + column


def step(grid: Grid, treasure: Int[Array, "*batch"], state: State, action: Int[Array, "*batch"]) -> tuple[State, Event]:
    """One action; after the second episode nothing changes any more."""
    running = state.episode < 2
    cell = jnp.where(running, neighbour(grid, state.cell, action), state.cell)
    found = running & (cell == treasure)
    over = found | (running & (state.clock + 1 == grid.horizon))
    after = State(
        cell=jnp.where(over, START, cell),
        episode=state.episode + over,
        clock=jnp.where(over, 0, state.clock + running),
    )
    return after, Event(cell, found, running)


def reward(found: Bool[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Reward of one step, on the scale of the paper's text."""
    return jnp.where(found, FOUND, STEP)


def episode_reward(steps: Int[Array, "*batch"], found: Bool[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Accumulated reward of an episode of so many steps."""
    return steps * STEP + found * (FOUND - STEP)
