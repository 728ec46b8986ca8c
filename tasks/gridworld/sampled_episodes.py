"""Episodes of a stochastic agent, which draws its actions from the softmax of its logits, for policy gradients.

First episodes are shared by all treasures, as in `tasks.gridworld.rollout`: one walk per seed, and one second episode
for every cell met in it. The walks are drawn without a gradient. Then the network reads what it has read once more, all
tokens of a seed at once: the first episode, and some of the second episodes as branches that grow from it. This gives
the log-probabilities of the actions with their gradient.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from sweeper.learned_algorithms.contracts import Episodes, StepwiseNetwork
from sweeper.trial import vectorisation
from tasks.gridworld import environment
from tasks.gridworld.environment import START, STEP, Grid
from tasks.gridworld.rollout import embedded, first_tokens, noise_token, reached_token, written

FOLLOWED = 4
"""Second episodes of a seed whose actions have a gradient. Those of all treasures would cost most of a training step,
and learn what is learnt first: the way to a treasure that was seen."""


class _Walks(NamedTuple):
    """Actions of both episodes and the cells that they reach.

    The second episodes of a seed are one for each cell as the treasure; that of the corner looks for the cells that the
    first episode has not met.

    Attributes:
        action: Of the first episode.
        cell: Reached by it.
        visit: Step of the first visit of each cell, the horizon + 1 if there is none, and 0 for the corner.
        second_action: Of the second episode.
        second_cell: Reached by it.
        second_visit: Step of the second episode that finds the treasure, the horizon + 1 if none does.
    """

    action: Int[Array, "seed step"]
    cell: Int[Array, "seed step"]
    visit: Int[Array, "seed cell"]
    second_action: Int[Array, "seed branch step"]
    second_cell: Int[Array, "seed branch step"]
    second_visit: Int[Array, "seed cell"]


def episodes(
    grid: Grid,
    network: StepwiseNetwork,
    treasures: Int[Array, " input"],
    noise: Float[Array, "seed noise"],
    key: PRNGKeyArray,
    failure: float,
) -> Episodes:
    """Both episodes of every pair; the decisions are the steps of the first, then those of the second.

    A decision costs 1, and the last one of an episode without success costs `failure` more. Where there are more
    treasures than `FOLLOWED`, each seed follows the second episodes of so many, of all treasures equally often.
    """
    walks = _walks(grid, jax.lax.stop_gradient(network), noise, key)
    inputs, seeds, horizon = len(treasures), len(noise), grid.horizon
    followed = min(FOLLOWED, inputs)
    rows = jnp.arange(seeds)[:, None]
    chosen = (rows * followed + jnp.arange(followed)) % inputs  # the order of the inputs of a step is random
    log_shares = jax.vmap(_log_shares, in_axes=(None, None, 0, 0, 0))(grid, network, noise, walks, treasures[chosen])

    met = walks.visit <= horizon
    branch = jnp.where(met, jnp.arange(grid.cells), START)[rows, treasures[chosen]]
    action = jnp.concatenate([walks.action[:, None], walks.second_action[rows, branch]], axis=1)
    log_probability = jnp.take_along_axis(log_shares, action[..., None], axis=-1)[..., 0]
    entropy = -(jnp.exp(log_shares) * log_shares).sum(axis=-1)

    def of_pairs(values: Float[Array, "seed episode step"]) -> Float[Array, "input seed decision"]:
        first = jnp.broadcast_to(values[:, 0], (inputs, seeds, horizon))
        second = jnp.zeros((inputs, seeds, horizon)).at[chosen, rows].set(values[:, 1:] * (inputs / followed))
        return jnp.concatenate([first, second], axis=-1)

    visits = jnp.stack([walks.visit, walks.second_visit])[:, :, treasures, None].transpose(2, 1, 0, 3)
    clock = jnp.arange(horizon)
    taken = (clock < visits).reshape(inputs, seeds, 2 * horizon)
    cost = 1 + failure * ((visits > horizon) & (clock == horizon - 1)).reshape(taken.shape)
    shared = jnp.concatenate([_marginal(grid, network, noise, walks), jnp.zeros((seeds, horizon))], axis=1)
    marginal = jnp.broadcast_to(shared, taken.shape)
    return Episodes(cost, taken, of_pairs(log_probability), of_pairs(entropy), marginal)


def _marginal(
    grid: Grid, network: StepwiseNetwork, noise: Float[Array, "seed noise"], walks: _Walks
) -> Float[Array, "seed step"]:
    """Log-probability of each step of the first episodes given the steps before, for a seed r that is not known."""
    horizon, causal = grid.horizon, jnp.tri(grid.horizon, dtype=bool)
    token = jax.vmap(reached_token, in_axes=(None, None, 0, None))

    def under_all(cell: Int[Array, " step"], action: Int[Array, " step"]) -> Float[Array, " step"]:
        def under(own: Float[Array, " noise"]) -> Float[Array, " step"]:
            tokens = jnp.concatenate([noise_token(grid, own)[None], token(grid, len(own), cell[:-1], STEP)])
            log_shares = jax.nn.log_softmax(network(tokens, causal))
            return jnp.cumsum(log_shares[jnp.arange(horizon), action])

        return jax.nn.logsumexp(jax.vmap(under)(noise), axis=0) - jnp.log(len(noise))

    of_walks = jax.lax.stop_gradient(jax.vmap(under_all)(walks.cell, walks.action))
    return jnp.diff(of_walks, axis=1, prepend=0.0)


def _log_shares(
    grid: Grid,
    network: StepwiseNetwork,
    noise: Float[Array, " noise"],
    walks: _Walks,
    treasures: Int[Array, " followed"],
) -> Float[Array, "episode step action"]:
    """Log-probabilities of all actions of one seed, in its first episode and in the second ones of some treasures."""
    horizon, count = grid.horizon, len(treasures)
    token = jax.vmap(reached_token, in_axes=(None, None, 0, 0))
    met = walks.visit[treasures] <= horizon
    start = jnp.where(met, walks.visit[treasures], horizon)
    cells = walks.second_cell[jnp.where(met, treasures, START), :-1]
    before = jnp.where(met, treasures, walks.cell[-1])[:, None]
    reached = jnp.concatenate([walks.cell[:-1], jnp.concatenate([before, cells], axis=1).reshape(-1)])
    found = jnp.zeros((count, horizon), bool).at[:, 0].set(met).reshape(-1)
    reward = environment.reward(jnp.concatenate([jnp.zeros(horizon - 1, bool), found]))
    tokens = jnp.concatenate([noise_token(grid, noise)[None], token(grid, len(noise), reached, reward)])

    clock = jnp.arange(horizon)
    positions = jnp.concatenate([clock, (start[:, None] + clock).reshape(-1)])
    episode, step = jnp.repeat(jnp.arange(1 + count), horizon), jnp.tile(clock, 1 + count)
    past = jnp.concatenate([jnp.zeros(1, int), start])[episode]  # tokens of the first episode that a branch reads
    reads_first = (episode == 0) & (step < past[:, None])
    reads_own = (episode == episode[:, None]) & (step <= step[:, None])
    logits = network(tokens, reads_first | reads_own, positions)
    return jax.nn.log_softmax(logits).reshape(1 + count, horizon, -1)


def _walks(grid: Grid, network: StepwiseNetwork, noise: Float[Array, "seed noise"], key: PRNGKeyArray) -> _Walks:
    seeds, cells, horizon, never = len(noise), grid.cells, grid.horizon, grid.horizon + 1
    network = network.for_steps()
    tokens, placed = embedded(grid, network, noise), network.placed(jnp.arange(2 * horizon))
    first_key, second_key = jax.random.split(key)
    clock, own_cell = jnp.arange(horizon), jnp.arange(cells)

    def first_step(carry: tuple[Any, ...], t: Int[Array, ""]) -> tuple[tuple[Any, ...], tuple[Array, Array]]:
        h, at, memory = carry
        logits, own = jax.vmap(lambda h, memory: network.step(h, [(memory, clock < t)]))(h + placed[t], memory)
        action = jax.random.categorical(jax.random.fold_in(first_key, t), logits)
        at = environment.neighbour(grid, at, action)
        return (tokens.reached[0, at], at, written(memory, own, t)), (action, at)

    empty = network.empty_memory(horizon)
    earlier = jax.tree.map(lambda room: jnp.zeros((seeds, *room.shape)), empty)
    begin = tokens.noise, jnp.full(seeds, START), earlier
    (_, last, earlier), (action, cell) = jax.lax.scan(first_step, begin, clock)
    reached = cell.T[:, :, None] == own_cell
    visit = jnp.where(reached.any(axis=1), reached.argmax(axis=1) + 1, never).at[:, START].set(0)

    unmet = visit == never
    start = jnp.minimum(visit, horizon).at[:, START].set(horizon)
    known = clock < start[..., None]
    first_token = first_tokens(tokens, last)

    def running(visit: Int[Array, "seed cell"]) -> Array:
        """Which second episodes still look for something."""
        missing = visit == never
        return (missing & ~unmet).at[:, START].set((missing & unmet).any(axis=1))

    def second_step(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        t, at, visit, memory, actions, reached = carry
        h = jnp.where(t == 0, first_token, tokens.reached[0, at]) + placed[start + t]

        def step(h: Any, known: Any, memory: Any, earlier: Any) -> tuple[Any, Any]:
            return network.step(h, [(earlier, known), (memory, clock < t)])

        logits, own = jax.vmap(jax.vmap(step, in_axes=(0, 0, 0, None)))(h, known, memory, earlier)
        action = jax.random.categorical(jax.random.fold_in(second_key, t), logits)
        at = environment.neighbour(grid, at, action)
        found = jnp.where(unmet, at[:, START, None] == own_cell, (at == own_cell) & (own_cell != START))
        visit = jnp.where(found & (visit == never), t + 1, visit)
        return t + 1, at, visit, written(memory, own, t), actions.at[t].set(action), reached.at[t].set(at)

    room = jax.tree.map(lambda room: jnp.zeros((seeds, cells, *room.shape)), empty)
    trace = jnp.zeros((horizon, seeds, cells), int)
    begin = jnp.int32(0), jnp.full((seeds, cells), START), jnp.full((seeds, cells), never), room, trace, trace
    if vectorisation.in_turns():
        done = jax.lax.while_loop(lambda carry: (carry[0] < horizon) & running(carry[2]).any(), second_step, begin)
    else:  # an accelerator would wait for the host at each step; steps after the end are not taken
        done = jax.lax.fori_loop(0, horizon, lambda _, carry: second_step(carry), begin)
    _, _, second_visit, _, second_action, second_cell = done
    return _Walks(
        action.T, cell.T, visit, second_action.transpose(1, 2, 0), second_cell.transpose(1, 2, 0), second_visit
    )
