"""The policy gradient of a trial: a surrogate of sampled losses, whose gradient is that of their expectation.

Losses of argmax decisions have no gradient. Here decisions are drawn from the softmax of the logits. The surrogate has
the value of the sampled losses, and its gradient estimates that of the expected losses: the log-probability of every
decision is weighed by what followed it, less what followed the same decision with other seeds r (a leave-one-out
baseline). The objective then weighs the inputs, as it does for losses with a gradient.

A baseline depends on other seeds and on the past alone, so that the estimate is right on average for an objective that
is a mean. Where no other seed takes a decision, the baseline is the mean loss of the others less the costs so far.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from sweeper.training.objective import batch_of_losses, drawn_pairs, next_state, own_curves
from sweeper.training.trainer import share_left
from sweeper.trial.contracts import Episodes, Network
from sweeper.trial.trial_spec import PolicyGradient, TrialSpec


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


def entropy(episodes: Episodes) -> Float[Array, ""]:
    """Entropy of the decisions of an input, in nats."""
    return (episodes.taken * episodes.entropy).sum(axis=-1).mean()


def trained(
    trial: TrialSpec, key: PRNGKeyArray, step: Int[Array, ""], state: PyTree, network: Network
) -> tuple[Float[Array, ""], tuple[PolicyCurve, PyTree, Int[Array, ""]]]:
    """The objective of a step less the bonus; and its curve, the objective's next state, a number of `FAILURES`."""
    optimizer, sample = trial.optimizer, trial.task.abilities().episodes
    assert isinstance(optimizer, PolicyGradient)
    assert sample is not None
    inputs_key, seeds_key, decisions_key = jax.random.split(key, 3)
    inputs, seeds = drawn_pairs(trial, inputs_key, seeds_key)
    episodes = sample(network, inputs, seeds, decisions_key)
    left = share_left(optimizer.schedule, step / trial.steps)
    marginal = 0.0 if optimizer.marginal_entropy_bonus is None else left * optimizer.marginal_entropy_bonus
    batch, broken = batch_of_losses(trial, inputs, surrogate(episodes, marginal), step)
    state = next_state(trial, batch, state)
    loss, disorder = trial.objective.value(batch, state), entropy(episodes)
    first, last = optimizer.entropy_bonus, optimizer.final_entropy_bonus
    bonus = last + (first - last) * left
    own = jax.lax.stop_gradient(own_curves(trial, network, inputs, seeds, batch, state))
    curve = PolicyCurve(loss, batch.losses.mean(), batch.losses.max(), disorder, own)
    return loss - bonus * disorder, (curve, state, broken)
