"""The policy gradient of a trial: a surrogate of sampled losses, whose gradient is that of their expectation.

Losses of argmax decisions have no gradient. Here decisions are drawn from the softmax of the logits. The surrogate has
the value of the sampled losses, and its gradient estimates that of the expected losses: the log-probability of every
decision is weighed by what followed it, less what followed the same decision with other seeds r (a leave-one-out
baseline). The objective then weighs the inputs, as it does for losses with a gradient, and it weighs those of a seed r
by the losses of the other seeds. A q-norm of means of few seeds is larger for losses that vary between seeds, as those
of a mixture of walks do. If a loss entered its own weight, the mixture would be punished.

A baseline depends on other seeds and on the past alone, so that the estimate is right on average for an objective that
is a mean. Where no other seed takes a decision, the baseline is the mean loss of the others less the costs so far.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from sweeper.learned_algorithms.contracts import Episodes, Network
from sweeper.learned_algorithms.objective import batch_of_losses, drawn_pairs, next_state, own_curves
from sweeper.learned_algorithms.seed_bank import Seeds
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.trial.optimizer_contract import share_left

MARGINAL_ENTROPY_FALLS = 0.6, 0.95
"""Shares of the steps at which the marginal bonus begins to fall and at which it is 0: walks are to part while the
decisions lose their own randomness, and in the end the objective alone decides how often each is taken."""


class PolicyCurve(NamedTuple):
    """Means over a chunk of steps, of sampled decisions; each loss is the mean over the seeds of an input first."""

    train_loss: Float[Array, "*lane"]
    """The trial's objective."""
    mean_loss: Float[Array, "*lane"]
    """Mean over the inputs."""
    worst_loss: Float[Array, "*lane"]
    """Maximum over the inputs."""
    entropy: Float[Array, "*lane"]
    """Entropy of the decisions of an input, in nats."""
    own: tuple[Float[Array, "*lane"], ...] = ()
    """The curves of the trial's task and objective."""


def surrogate(episodes: Episodes, marginal_bonus: Float[Array, ""] | float = 0.0) -> Float[Array, "input seed"]:
    """The sampled losses, with the policy gradient as their gradient; the bonus is in the gradient alone."""
    taken = episodes.taken.astype(jnp.float32)
    sampled = (episodes.cost * taken).sum(axis=-1)
    cost = (episodes.cost + marginal_bonus * episodes.marginal) * taken
    losses, seeds = cost.sum(axis=-1), cost.shape[1]
    to_go = jnp.cumsum(cost[..., ::-1], axis=-1)[..., ::-1]
    others = taken.sum(axis=1, keepdims=True) - taken
    of_others = ((taken * to_go).sum(axis=1, keepdims=True) - taken * to_go) / jnp.maximum(others, 1)
    mean_loss = (losses.sum(axis=1, keepdims=True) - losses) / max(seeds - 1, 1)
    alone = mean_loss[..., None] - (losses[..., None] - to_go)
    advantage = jax.lax.stop_gradient(taken * (to_go - jnp.where(others > 0, of_others, alone)))
    score = (advantage * episodes.log_probability).sum(axis=-1)
    return sampled + (score - jax.lax.stop_gradient(score))


def weighed_by_others(
    value: Callable[[Float[Array, " input"]], Float[Array, ""]], losses: Float[Array, "input seed"]
) -> Float[Array, ""]:
    """The objective of the mean losses; its gradient weighs the losses of each seed r by the means of the others."""
    total, count = jax.lax.stop_gradient(losses.sum(axis=1, keepdims=True)), losses.shape[1]
    others = (total - jax.lax.stop_gradient(losses)) / (count - 1) if count > 1 else total
    weights = jax.vmap(jax.grad(value), in_axes=1, out_axes=1)(others)
    weighed = (weights * losses).sum(axis=0).mean()
    return jax.lax.stop_gradient(value(losses.mean(axis=1))) + (weighed - jax.lax.stop_gradient(weighed))


def entropy(episodes: Episodes) -> Float[Array, ""]:
    """Entropy of the decisions of an input, in nats."""
    return (episodes.taken * episodes.entropy).sum(axis=-1).mean()


def drawn(trial: TrialSpec, key: PRNGKeyArray) -> tuple[PyTree, PyTree, PRNGKeyArray]:
    """The inputs and seeds r of a step, and the key of its sampled decisions."""
    inputs_key, seeds_key, decisions_key = jax.random.split(key, 3)
    return *drawn_pairs(trial, inputs_key, seeds_key), decisions_key


def sampled_value(
    trial: TrialSpec,
    drawn: tuple[PyTree, PyTree, PRNGKeyArray],
    step: Int[Array, ""],
    state: PyTree,
    network: Network,
) -> tuple[Float[Array, ""], tuple[PolicyCurve, PyTree, Int[Array, ""]]]:
    """The objective of a step less the bonus; and its curve, the objective's next state, a number of `FAILURES`."""
    sample = trial.task.abilities().episodes
    optimizer: Any = trial.optimizer  # the plug-in `policy_gradient`
    assert sample is not None
    inputs, seeds, decisions_key = drawn
    episodes = sample(network, inputs, seeds, decisions_key)
    left = share_left(optimizer.schedule, step / trial.steps)
    begin, end = MARGINAL_ENTROPY_FALLS
    marginal = 0.0
    if optimizer.marginal_entropy_bonus is not None:
        marginal = jnp.clip((end - step / trial.steps) / (end - begin), 0.0, 1.0) * optimizer.marginal_entropy_bonus
    losses = surrogate(episodes, marginal)
    batch, broken = batch_of_losses(trial, inputs, Seeds(seeds), losses, step)
    state = next_state(trial, batch, state)
    loss = weighed_by_others(lambda means: trial.objective.value(batch._replace(losses=means), state), losses)
    disorder = entropy(episodes)
    first, last = optimizer.entropy_bonus, optimizer.final_entropy_bonus
    bonus = last + (first - last) * left
    own = jax.lax.stop_gradient(own_curves(trial, network, inputs, seeds, batch, state))
    curve = PolicyCurve(loss, batch.losses.mean(), batch.losses.max(), disorder, own)
    return loss - bonus * disorder, (curve, state, broken)
