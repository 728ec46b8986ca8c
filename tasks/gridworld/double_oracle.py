"""Which first tokens trained networks should get, and how often: a double oracle for the worst treasure.

A trained agent gets normal noise as its first token, and the weights alone decide which walks that means. Here the
weights stay as they are, and a distribution over a few tokens is searched by a double oracle (McMahan, Gordon and Blum,
Planning in the presence of cost functions controlled by an adversary, ICML 2003). Against the tokens found so far a
linear programme gives the best probabilities and the worst distribution of treasures; tokens that cost less against
that distribution are searched, and join; and so on, until rounds in a row find none. Of several networks one is
searched in each round, in turn, and each token goes to the network for which it was found.

All treasures are in the programme, so the value is exactly what the agent costs on the worst treasure. It is an upper
bound of what the networks could reach: better tokens may exist. The agent needs log2 of the number of tokens as random
bits at most. One network can learn the walks of the mixture (`tasks.gridworld_distillation`).
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from sweeper.learned_algorithms.contracts import StepwiseNetwork
from tasks.gridworld import Task, minmax
from tasks.gridworld.rollout import trajectory

FIRST = 2000
"""Tokens that each network is given before any is searched, drawn as in training."""

CHILDREN = 500
"""Tokens that are tried in a round."""

PARENTS = 100
"""Tokens that are changed at random to make them: the cheapest against the treasures of the round."""

PATIENCE = 25
"""Rounds without a better token, for each network, that end the search."""


class Agent(NamedTuple):
    """A distribution over first tokens, those of probability 0 left out."""

    value: float  # expected cost T1 + T2 on the worst treasure
    tokens: Float[np.ndarray, "token noise"]
    networks: Int[np.ndarray, " token"]  # which network gets the token
    probabilities: Float[np.ndarray, " token"]
    costs: Float[np.ndarray, "token treasure"]  # T1 + T2
    actions: Int[np.ndarray, "token step"]  # of a first episode that finds nothing, as in `environment.ACTIONS`


class _Found(NamedTuple):
    """Tokens, and what they cost."""

    tokens: Float[np.ndarray, "token noise"]
    networks: Int[np.ndarray, " token"]
    costs: Float[np.ndarray, "token treasure"]

    def at(self, which: Int[np.ndarray, " some"]) -> "_Found":
        return _Found(*(part[which] for part in self))


def searched(task: Task, networks: Sequence[StepwiseNetwork], key: PRNGKeyArray, rounds: int) -> Agent:
    """The best distribution that so many rounds find, of a task on the scale of steps and networks of one model."""

    @jax.jit
    def costs_of(network: StepwiseNetwork, tokens: Float[Array, "token noise"]) -> Float[Array, "token treasure"]:
        return task.losses(network, task.evaluation_inputs(), tokens).T

    def tried(network: int, tokens: Float[Array, "token noise"]) -> _Found:
        costs = np.asarray(costs_of(networks[network], tokens), float)
        return _Found(np.asarray(tokens), np.full(len(tokens), network), costs)

    first_key, *keys = jax.random.split(key, rounds + 1)
    drawn = task.sample_seeds(first_key, FIRST)
    found = _joined([tried(network, drawn) for network in range(len(networks))])
    waited = 0
    for turn, key in enumerate(keys):
        # Many tokens mean the same walks; one of them is enough, or a few walks would have all children.
        found = found.at(np.unique(np.column_stack([found.networks, found.costs]), axis=0, return_index=True)[1])
        value, probabilities, treasure = minmax.best_mixture(found.costs)
        cheapest = np.argsort(found.costs @ treasure)
        of_network = [cheapest[found.networks[cheapest] == network] for network in range(len(networks))]
        searched = turn % len(networks)
        new = tried(searched, _children(key, found.tokens[of_network[searched][:PARENTS]], CHILDREN))
        waited = 0 if (new.costs @ treasure < value - minmax.TOLERANCE).any() else waited + 1
        if waited == PATIENCE * len(networks):
            break
        # Tokens that lose against these treasures may be needed against others, but the programme must stay small.
        kept = np.unique(np.concatenate([np.flatnonzero(probabilities), *(each[:FIRST] for each in of_network)]))
        found = _joined([found.at(kept), new])
    value, probabilities, _ = minmax.best_mixture(found.costs)
    played = np.flatnonzero(probabilities > minmax.TOLERANCE)
    tokens, owners, costs = found.at(played)
    actions = [_first_episode(task, networks[owner], token) for owner, token in zip(owners, tokens, strict=True)]
    return Agent(value, tokens, owners, probabilities[played], costs, np.array(actions))


@functools.partial(jax.jit, static_argnums=0)
def _first_episode(task: Task, network: StepwiseNetwork, token: Float[Array, " noise"]) -> Int[Array, " step"]:
    nowhere = jnp.int32(-1)
    return trajectory(task.grid, network, nowhere, token).logits[: task.horizon].argmax(axis=-1)


def _joined(parts: Sequence[_Found]) -> _Found:
    return _Found(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _children(key: PRNGKeyArray, parents: np.ndarray, count: int) -> Float[Array, "token noise"]:
    """Parents with changes of many sizes, half of them in a tenth of the features only."""
    which, size, where, change = jax.random.split(key, 4)
    chosen = jnp.asarray(parents)[jax.random.randint(which, (count,), 0, len(parents))]
    scale = 10 ** jax.random.uniform(size, (count, 1), minval=-2.0, maxval=1.0)
    features = jax.random.bernoulli(where, 0.1, chosen.shape) | (jnp.arange(count) % 2 == 0)[:, None]
    return chosen + scale * features * jax.random.normal(change, chosen.shape)
