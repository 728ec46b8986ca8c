"""A network walks through the grid world: one pair of treasure and seed at a time, or all treasures together.

The network reads one token a step and its action is the argmax of four logits. Token 0 is the noise of the seed, the
only randomness; token t says which cell step t reached and with what reward. A rollout keeps the network's memory of
all tokens, so that a step costs one token.

Work is shared exactly. Until it is found, a treasure changes nothing: one first episode per seed gives the first visit
of every cell, which is where the rollout of that treasure ends its first episode. Only second episodes differ, one for
every cell met in the first, and a single one for all others, which once more gives first visits. These branches read
the memory of the first episode they grew from, and their own.

Branches differ in number and length from one set of weights to the next, so they wait in one queue for all seeds and
are served by a fixed number of slots: a slot whose branch is over takes the next one. All slots write the memory
of a step to the same place of a ring, and each reads as many of the latest entries as its branch is long.

An accelerator has no use for a queue: there every cell of every seed is a branch, all branches take the same number of
steps, and steps of a branch after its end are not counted.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sweeper.learned_algorithms.contracts import Memory, StepwiseNetwork
from sweeper.trial import vectorisation
from tasks.gridworld import environment
from tasks.gridworld.environment import FOUND, START, STEP, Grid, State

SLOTS_PER_SEED = 4
"""Branches in progress at once, per seed: fewer waste less at the end of the queue, more fill the machine better."""


class Tokens(NamedTuple):
    """The embedded tokens that the network reads, without positions.

    Attributes:
        noise: Token 0 of every seed.
        reached: The token after a step that did not (0) or did (1) find the treasure, by the cell reached.
    """

    noise: Float[Array, "seed width"]
    reached: Float[Array, "2 cell width"]


Walk = tuple[State, Float[Array, " feature"], Memory]
"""A plain rollout between two steps: where the agent is, what the network reads next, and what was read before."""


class Trajectory(NamedTuple):
    """Both episodes of one treasure and one seed, step by step.

    Attributes:
        token: The features read before each step.
        logits: The network's answer.
        cell: The cell reached by it.
        episode: The episode of the step; 2 after the end of both, where nothing moves or counts any more.
        found: Whether the step found the treasure.
    """

    token: Float[Array, "step feature"]
    logits: Float[Array, "step action"]
    cell: Int[Array, " step"]
    episode: Int[Array, " step"]
    found: Bool[Array, " step"]


class Durations(NamedTuple):
    """How long each episode takes and whether it finds the treasure; the episode is the leading axis.

    Attributes:
        steps: Steps of the episode, the horizon if the treasure is not found.
        found: Whether it is.
    """

    steps: Int[Array, "2 *pair"]
    found: Bool[Array, "2 *pair"]


def trajectory(
    grid: Grid, network: StepwiseNetwork, treasure: Int[Array, ""], noise: Float[Array, " noise"]
) -> Trajectory:
    """The plain rollout of one pair, with a memory: the definition that `durations` must agree with."""
    length = 2 * grid.horizon
    placed = network.placed(jnp.arange(length))

    def one_step(carry: Walk, t: Int[Array, ""]) -> tuple[Walk, Trajectory]:
        state, token, memory = carry
        h = network.content(token[None])[0] + placed[t]
        logits, own = network.step(h, [(memory, jnp.arange(length) < t)])
        memory = written(memory, own, t)
        after, event = environment.step(grid, treasure, state, jnp.argmax(logits))
        taken = Trajectory(token, logits, event.cell, state.episode, event.found)
        reached = reached_token(grid, len(noise), event.cell, environment.reward(event.found))
        return (after, reached, memory), taken

    start = (environment.initial(), noise_token(grid, noise), network.empty_memory(length))
    return jax.lax.scan(one_step, start, jnp.arange(length))[1]


def trajectory_durations(walk: Trajectory) -> Durations:
    """Steps and success of both episodes of a plain rollout."""
    of_episode = walk.episode == jnp.arange(2)[:, None]
    return Durations(of_episode.sum(axis=1), (of_episode & walk.found).any(axis=1))


def durations(grid: Grid, network: StepwiseNetwork, noise: Float[Array, "seed noise"]) -> Durations:
    """Both episodes of every treasure and seed, with shared work; the pair is (cell, seed), the corner left out."""
    network = network.for_steps()
    tokens = embedded(grid, network, noise)
    placed = network.placed(jnp.arange(2 * grid.horizon))
    if vectorisation.in_turns():
        first = _first_episodes_in_turns(grid, network, tokens, placed)
        second = _second_episodes_in_turns(grid, network, tokens, placed, first)
    else:
        first = _first_episodes_at_once(grid, network, tokens, placed)
        second = _second_episodes_at_once(grid, network, tokens, placed, first)
    visits = jnp.stack([first.visit, second])[:, :, 1:].swapaxes(1, 2)
    return Durations(jnp.minimum(visits, grid.horizon), visits <= grid.horizon)


class _FirstEpisodes(NamedTuple):
    """First episodes that meet no treasure.

    Attributes:
        visit: Step of the first visit of each cell, the horizon + 1 if there is none, and 0 for the corner.
        last: The cell reached by the last step.
        memory: Of tokens 0 .. horizon - 1, with a leading axis of seeds.
    """

    visit: Int[Array, "seed cell"]
    last: Int[Array, " seed"]
    memory: Memory


def _first_episodes_in_turns(
    grid: Grid, network: StepwiseNetwork, tokens: Tokens, placed: Float[Array, "position width"]
) -> _FirstEpisodes:
    seeds, never = len(tokens.noise), grid.horizon + 1

    def unfinished(carry: tuple[Any, ...]) -> Bool[Array, ""]:
        t, _, state = carry
        return (t < grid.horizon) & (state.visit == never).any()

    def one_step(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        t, h, state = carry
        step = jax.vmap(lambda h, memory: network.step(h, [(memory, jnp.arange(grid.horizon) < t)]))
        logits, own = step(h + placed[t], state.memory)
        cell = environment.neighbour(grid, state.last, jnp.argmax(logits, axis=-1))
        new = (jnp.arange(grid.cells) == cell[:, None]) & (state.visit == never)
        memory = written(state.memory, own, t)
        return t + 1, tokens.reached[0, cell], _FirstEpisodes(jnp.where(new, t + 1, state.visit), cell, memory)

    memory = jax.tree.map(lambda room: jnp.zeros((seeds, *room.shape)), network.empty_memory(grid.horizon))
    visit = jnp.full((seeds, grid.cells), never, jnp.int32).at[:, START].set(0)
    start = jnp.int32(0), tokens.noise, _FirstEpisodes(visit, jnp.full(seeds, START, jnp.int32), memory)
    return jax.lax.while_loop(unfinished, one_step, start)[2]


def _first_episodes_at_once(
    grid: Grid, network: StepwiseNetwork, tokens: Tokens, placed: Float[Array, "position width"]
) -> _FirstEpisodes:
    """As `_first_episodes_in_turns`, but always for `horizon` steps.

    To know whether to go on, each step would wait for the host. Once all cells are visited, further steps change
    nothing that is read.
    """
    seeds, horizon = len(tokens.noise), grid.horizon

    def one_step(t: Int[Array, ""], carry: tuple[Any, ...]) -> tuple[Any, ...]:
        at, walked, memory = carry
        h = jnp.where(t == 0, tokens.noise, tokens.reached[0, at]) + placed[t]
        step = jax.vmap(lambda h, memory: network.step(h, [(memory, jnp.arange(horizon) < t)]))
        logits, own = step(h, memory)
        reached = environment.neighbour(grid, at, _best(logits))
        return reached, _updated(walked, at[..., None, None], t), written(memory, own, t)

    memory = jax.tree.map(lambda room: jnp.zeros((seeds, *room.shape)), network.empty_memory(horizon))
    begin = jnp.full(seeds, START, jnp.int32), jnp.zeros((seeds, horizon, 1), jnp.int32), memory
    last, walked, memory = jax.lax.fori_loop(0, horizon, one_step, begin)
    walked = jnp.concatenate([walked, last[:, None, None]], axis=1)
    return _FirstEpisodes(_first_visits(walked == jnp.arange(grid.cells)), last, memory)


class _Slots(NamedTuple):
    """Branches in progress.

    Attributes:
        branch: Which one each slot serves: seed * cells + treasure, where the corner as treasure stands for all
            cells that were not met in the first episode; -1 if the slot is idle.
        length: Steps taken in it.
        cell: Where the agent stands.
    """

    branch: Int[Array, " slot"]
    length: Int[Array, " slot"]
    cell: Int[Array, " slot"]


def _second_episodes_in_turns(
    grid: Grid, network: StepwiseNetwork, tokens: Tokens, placed: Float[Array, "position width"], first: _FirstEpisodes
) -> Int[Array, "seed cell"]:
    """Step of the second episode that finds the treasure on each cell, the horizon + 1 if none does."""
    seeds, cells, horizon, never = len(tokens.noise), grid.cells, grid.horizon, grid.horizon + 1
    slots = min(SLOTS_PER_SEED * seeds, seeds * cells)
    unmet = first.visit == never
    met_at = first.visit.at[:, START].set(horizon)  # the branch of unmet cells starts after a full first episode
    first_token = first_tokens(tokens, first.last)

    # Long branches first, so that the slots finish together: unmet cells, then treasures by distance.
    exists = jnp.where(jnp.arange(cells) == START, unmet.any(axis=1, keepdims=True), ~unmet)
    distance = jnp.arange(cells) // grid.width + jnp.arange(cells) % grid.width
    urgency = jnp.where(jnp.arange(cells) == START, grid.height + grid.width, distance)
    queue = jnp.argsort(jnp.where(exists, -urgency, 1).reshape(-1))
    waiting = exists.sum()

    def refilled(state: _Slots, served: Int[Array, ""]) -> tuple[_Slots, Int[Array, ""]]:
        idle = state.branch < 0
        turn = served + jnp.cumsum(idle) - 1
        taken = idle & (turn < waiting)
        branch = jnp.where(taken, queue[jnp.minimum(turn, len(queue) - 1)], state.branch)
        length, cell = (jnp.where(taken, fresh, old) for fresh, old in ((0, state.length), (START, state.cell)))
        return _Slots(branch, length, cell), served + taken.sum()

    def unfinished(carry: tuple[Any, ...]) -> Bool[Array, ""]:
        return (carry[1].branch >= 0).any()

    def one_step(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        clock, state, served, visit, ring = carry
        seed, treasure = jnp.maximum(state.branch, 0) // cells, jnp.maximum(state.branch, 0) % cells
        start = met_at[seed, treasure]
        h = jnp.where((state.length == 0)[:, None], first_token[seed, treasure], tokens.reached[0, state.cell])
        age = (clock - 1 - jnp.arange(horizon)) % horizon
        logits, own = jax.vmap(
            lambda h, memory, start, ring, length: network.step(
                h, [(memory, jnp.arange(horizon) < start), (ring, age < length)]
            )
        )(h + placed[start + state.length], jax.tree.map(lambda x: x[seed], first.memory), start, ring, state.length)
        ring = written(ring, own, clock % horizon)
        cell = environment.neighbour(grid, state.cell, jnp.argmax(logits, axis=-1))
        length = state.length + 1
        found = (state.branch >= 0) & jnp.where(treasure == START, unmet[seed, cell], cell == treasure)
        visit = visit.at[seed, cell].min(jnp.where(found, length, never))  # no two branches may find the same cell
        exploring = (treasure == START) & (unmet & (visit == never)).any(axis=1)[seed]
        over = (length == horizon) | jnp.where(treasure == START, ~exploring, found)
        state, served = refilled(_Slots(jnp.where(over, -1, state.branch), length, cell), served)
        return clock + 1, state, served, visit, ring

    ring = jax.tree.map(lambda room: jnp.zeros((slots, *room.shape)), network.empty_memory(horizon))
    idle = _Slots(jnp.full(slots, -1), jnp.zeros(slots, jnp.int32), jnp.zeros(slots, jnp.int32))
    state, served = refilled(idle, jnp.int32(0))
    visit = jnp.full((seeds, cells), never, jnp.int32)
    return jax.lax.while_loop(unfinished, one_step, (jnp.int32(0), state, served, visit, ring))[3]


def _second_episodes_at_once(
    grid: Grid, network: StepwiseNetwork, tokens: Tokens, placed: Float[Array, "position width"], first: _FirstEpisodes
) -> Int[Array, "seed cell"]:
    """As `_second_episodes_in_turns`, with one branch for every cell of every seed.

    The branch of a cell that was met in the first episode looks for this cell. The branch of the corner gives the first
    visits of all cells that were not met. The branches of these cells are not read.
    """
    seeds, cells, horizon = len(tokens.noise), grid.cells, grid.horizon
    unmet, own_cell = first.visit == horizon + 1, jnp.arange(cells)
    start = jnp.minimum(first.visit, horizon).at[:, START].set(horizon)
    known = jnp.arange(horizon) < start[..., None]
    first_token = first_tokens(tokens, first.last)

    def one_step(t: Int[Array, ""], carry: tuple[Any, ...]) -> tuple[Any, ...]:
        at, walked, memory = carry
        h = jnp.where(t == 0, first_token, tokens.reached[0, at]) + placed[start + t]

        def step(h: Any, known: Any, memory: Memory, earlier: Memory) -> tuple[Any, Memory]:
            return network.step(h, [(earlier, known), (memory, jnp.arange(horizon) < t)])

        of_seed = jax.vmap(step, in_axes=(0, 0, 0, None))
        logits, own = jax.vmap(of_seed)(h, known, memory, first.memory)
        reached = environment.neighbour(grid, at, _best(logits))
        return reached, _updated(walked, at[..., None, None], t), written(memory, own, t)

    memory = jax.tree.map(lambda room: jnp.zeros((seeds, cells, *room.shape)), network.empty_memory(horizon))
    begin = jnp.full((seeds, cells), START, jnp.int32), jnp.zeros((seeds, cells, horizon, 1), jnp.int32), memory
    last, walked, _ = jax.lax.fori_loop(0, horizon, one_step, begin)
    walked = jnp.concatenate([walked[..., 0], last[..., None]], axis=2)
    found = (jnp.swapaxes(walked, 1, 2) == own_cell) & (own_cell != START)
    return _first_visits(jnp.where(unmet[:, None], walked[:, START, :, None] == own_cell, found))


def _best(logits: Float[Array, "*branch action"]) -> Int[Array, "*branch"]:
    """The argmax of few logits, by comparisons, which need no kernel of their own."""
    best, action = logits[..., 0], jnp.zeros(logits.shape[:-1], jnp.int32)
    for other in range(1, logits.shape[-1]):
        better = logits[..., other] > best
        best, action = jnp.where(better, logits[..., other], best), jnp.where(better, other, action)
    return action


def _first_visits(visited: Bool[Array, "seed step cell"]) -> Int[Array, "seed cell"]:
    """The first step by which each cell is visited, step 0 being the start; one more than there are if none is."""
    steps = visited.shape[1]
    return jnp.where(visited, jnp.arange(steps)[:, None], steps).min(axis=1)


def first_tokens(tokens: Tokens, last: Int[Array, " seed"]) -> Float[Array, "seed cell width"]:
    """What the network reads first in the second episode of each branch; `last` is the end of the first episode."""
    found = jnp.broadcast_to(tokens.reached[1], (len(last), *tokens.reached.shape[1:]))
    return found.at[:, START].set(tokens.reached[0, last])


def written(memory: Memory, own: Memory, place: Int[Array, ""]) -> Memory:
    """The memory with one token written to a place of its token axis, the last but one."""
    return jax.tree.map(lambda kept, new: _updated(kept, new, place), memory, own)


def _write(kept: Array, new: Array, place: Array) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(kept, new, place, -2)


_updated = jax.custom_batching.custom_vmap(_write)


@_updated.def_vmap
def _updated_all(size: int, batched: Sequence[bool], kept: Array, new: Array, place: Array) -> tuple[Array, bool]:
    """Of a batch with one place it is the same operation; JAX would make it a scatter, several kernels."""
    if batched[2]:  # in a loop that takes as many turns as each member of the batch needs
        return jax.vmap(_write, [0 if given else None for given in batched])(kept, new, place), True
    arrays = zip((kept, new), batched, strict=False)
    return _updated(*(x if given else jnp.broadcast_to(x, (size, *x.shape)) for x, given in arrays), place), True


def noise_token(grid: Grid, noise: Float[Array, " noise"]) -> Float[Array, " feature"]:
    return jnp.concatenate([noise, jnp.zeros(grid.height + grid.width + 1)])


def reached_token(
    grid: Grid, noise: int, cell: Int[Array, ""], reward: Float[Array, ""] | float
) -> Float[Array, " feature"]:
    row, column = jnp.arange(grid.height) == cell // grid.width, jnp.arange(grid.width) == cell % grid.width
    return jnp.concatenate([jnp.zeros(noise), row, column, jnp.asarray(reward)[None]])


def embedded(grid: Grid, network: StepwiseNetwork, noise: Float[Array, "seed noise"]) -> Tokens:
    features = noise.shape[-1]
    over_cells = jax.vmap(lambda cell, reward: reached_token(grid, features, cell, reward), in_axes=(0, None))
    reached = jnp.stack([over_cells(jnp.arange(grid.cells), reward) for reward in (STEP, FOUND)])
    return Tokens(
        network.content(jax.vmap(lambda row: noise_token(grid, row))(noise)),
        jax.vmap(network.content)(reached),
    )
