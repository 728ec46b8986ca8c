"""Group DRO: an adversary that weighs groups of inputs by multiplicative weights (Sagawa et al., 2020).

The adversary keeps a share p_g of every group g, at first equal shares. With L_g the mean loss of the inputs of group g
in a batch, a step makes

    p_g <- p_g exp(step_size L_g),  scaled to the sum that the shares had before,

and the objective is sum_g p_g L_g. Both range over the groups in the batch; a group without an input in the batch keeps
its share, and the sum is divided by the shares of the groups in the batch.

Adam takes the shares after the update on the same batch, as the authors' program does. PGPE ranks the population of a
generation by the shares before it, and updates them once, by the losses of the centre.

S. Sagawa, P. W. Koh, T. B. Hashimoto and P. Liang: Distributionally robust neural networks for group shifts. ICLR 2020,
arXiv 1911.08731, algorithm 1.
"""

from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from pydantic import Field

from sweeper.learned_algorithms import objective_contract
from sweeper.learned_algorithms.contracts import Task
from sweeper.learned_algorithms.objective_contract import Batch
from sweeper.trial.record import Traced

LEAST_LOG_SHARE = -60.0
"""No share falls below exp(-60), about 1e-26, so that every group can come back and every logarithm is finite."""


class Shares(NamedTuple):
    """What the adversary keeps from step to step.

    Attributes:
        logs: Logarithm of the share of every group; the shares sum to 1.
    """

    logs: Float[Array, "*lane group"]


class _Present(NamedTuple):
    """The groups of a batch: which have an input, and the mean loss of each (0 of those that have none)."""

    present: Bool[Array, " group"]
    losses: Float[Array, " group"]


class Objective(objective_contract.Objective):
    """The mean of the groups' losses under the adversary's shares.

    Attributes:
        step_size: Rate of the adversary, in units of one over a loss.
    """

    needs_groups: ClassVar[bool] = True

    name: Literal["group_dro"] = "group_dro"
    step_size: Traced[Annotated[float, Field(gt=0)]] = 0.01

    def initial_state(self, task: Task) -> Shares:
        """Equal shares."""
        groups = task.abilities().groups
        assert groups is not None
        return Shares(jnp.full(groups.count, -jnp.log(groups.count)))

    def value(self, batch: Batch, state: Shares) -> Float[Array, ""]:
        """The mean loss of the groups in the batch, each weighed by its share."""
        groups = _groups(batch, len(state.logs))
        weights = jax.nn.softmax(jnp.where(groups.present, state.logs, -jnp.inf))
        return (weights * groups.losses).sum()

    def next_state(self, batch: Batch, state: Shares) -> Shares:
        """The shares after the adversary's step."""
        groups = _groups(batch, len(state.logs))
        worst = jnp.where(groups.present, groups.losses, -jnp.inf).max()
        # Differences to the worst group: their products with any step size may be -inf, and never NaN.
        raised = jnp.maximum(state.logs + self.step_size * (groups.losses - worst), 2 * LEAST_LOG_SHARE)
        before = jax.nn.logsumexp(jnp.where(groups.present, state.logs, -jnp.inf))
        after = jax.nn.logsumexp(jnp.where(groups.present, raised, -jnp.inf))
        logs = jnp.where(groups.present, raised + (before - after), state.logs)
        return Shares(jax.nn.log_softmax(jnp.maximum(logs, LEAST_LOG_SHARE)))


def _groups(batch: Batch, count: int) -> _Present:
    assert batch.groups is not None
    members = jax.nn.one_hot(batch.groups, count, axis=0)
    sizes = members.sum(axis=1)
    shares = members / jnp.maximum(sizes, 1.0)[:, None]  # divided first: the sum of extreme losses would overflow
    return _Present(sizes > 0, (shares * batch.losses).sum(axis=1))
