"""Which first tokens a trained network should get, and how often: a double oracle for its worst treasure.

A trained agent gets normal noise as its first token, and the weights alone decide which walks that means. Here the
weights stay as they are, and a distribution over a few tokens is searched by a double oracle (McMahan, Gordon and Blum,
Planning in the presence of cost functions controlled by an adversary, ICML 2003). Against the tokens found so far a
linear programme gives the best probabilities and the worst distribution of treasures; tokens that cost less against
that distribution are searched, and join; and so on, until rounds in a row find none.

All treasures are in the programme, so the value is exactly what the agent costs on the worst treasure. It is an upper
bound of what the network could reach: better tokens may exist. The agent needs log2 of the number of tokens as random
bits at most.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from sweeper.learned_algorithms.contracts import StepwiseNetwork
from tasks.gridworld import Task, minmax

FIRST = 2000
"""Tokens that are drawn as in training before any is searched."""

CHILDREN = 500
"""Tokens that are tried in a round."""

PARENTS = 100
"""Tokens that are changed at random to make them: the cheapest against the treasures of the round."""

PATIENCE = 25
"""Rounds without a better token that end the search."""


class Agent(NamedTuple):
    """A distribution over first tokens, those of probability 0 left out."""

    value: float  # expected cost T1 + T2 on the worst treasure
    tokens: Float[np.ndarray, "token noise"]
    probabilities: Float[np.ndarray, " token"]
    costs: Float[np.ndarray, "token treasure"]  # T1 + T2


def searched(task: Task, network: StepwiseNetwork, key: PRNGKeyArray, rounds: int) -> Agent:
    """The best distribution that so many rounds find, of a task on the scale of steps."""

    @jax.jit
    def costs_of(tokens: Float[Array, "token noise"]) -> Float[Array, "token treasure"]:
        return task.losses(network, task.evaluation_inputs(), tokens).T

    keys = jax.random.split(key, rounds + 1)
    tokens = task.sample_seeds(keys[0], FIRST)
    tokens, costs = np.asarray(tokens), np.asarray(costs_of(tokens), float)
    waited = 0
    for key in keys[1:]:
        # Many tokens mean the same walks; one of them is enough, or a few walks would have all children.
        costs, distinct = np.unique(costs, axis=0, return_index=True)
        tokens = tokens[distinct]
        value, probabilities, treasure = minmax.best_mixture(costs)
        cheapest = np.argsort(costs @ treasure)
        new = np.asarray(_children(key, tokens[cheapest[:PARENTS]], CHILDREN))
        new_costs = np.asarray(costs_of(new), float)
        waited = 0 if (new_costs @ treasure < value - minmax.TOLERANCE).any() else waited + 1
        if waited == PATIENCE:
            break
        # Tokens that lose against these treasures may be needed against others, but the programme must stay small.
        kept = np.union1d(np.flatnonzero(probabilities), cheapest[:FIRST])
        tokens, costs = np.concatenate([tokens[kept], new]), np.concatenate([costs[kept], new_costs])
    value, probabilities, _ = minmax.best_mixture(costs)
    played = probabilities > minmax.TOLERANCE
    return Agent(value, tokens[played], probabilities[played], costs[played])


def _children(key: PRNGKeyArray, parents: np.ndarray, count: int) -> Float[Array, "token noise"]:
    """Parents with changes of many sizes, half of them in a tenth of the features only."""
    which, size, where, change = jax.random.split(key, 4)
    chosen = jnp.asarray(parents)[jax.random.randint(which, (count,), 0, len(parents))]
    scale = 10 ** jax.random.uniform(size, (count, 1), minval=-2.0, maxval=1.0)
    features = jax.random.bernoulli(where, 0.1, chosen.shape) | (jnp.arange(count) % 2 == 0)[:, None]
    return chosen + scale * features * jax.random.normal(change, chosen.shape)
