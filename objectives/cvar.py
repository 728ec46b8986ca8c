"""Conditional value at risk: the mean over the worst share alpha of the inputs (Rockafellar and Uryasev, 2000).

With the n losses of a batch from the largest down, L_(1) >= L_(2) >= ...,

    CVaR = sum_k w_k L_(k),  w_k = clip(alpha n - (k - 1), 0, 1) / (alpha n),

which is the minimum over c of c + mean_i max(L_i - c, 0) / alpha. alpha = 1 is the mean; alpha of 1 / n and less is the
largest loss. The finance literature calls the share alpha a level of confidence, 1 - alpha.

R. T. Rockafellar and S. Uryasev: Optimization of conditional value-at-risk. Journal of Risk 2(3), 2000, 21-41.
"""

from typing import Annotated, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from pydantic import Field

from sweeper.learned_algorithms import objective_contract
from sweeper.learned_algorithms.objective_contract import Batch
from sweeper.trial.record import Traced


class Objective(objective_contract.Objective):
    """The mean over the worst share `alpha` of the inputs of a batch."""

    name: Literal["cvar"] = "cvar"
    alpha: Traced[Annotated[float, Field(gt=0, le=1)]] = 0.1

    def value(self, batch: Batch, state: PyTree) -> Float[Array, ""]:
        """The mean over the worst inputs, of which the last one counts in part."""
        worst_first = jnp.sort(batch.losses, descending=True)
        worst = self.alpha * len(worst_first)
        weights = jnp.clip(worst - jnp.arange(len(worst_first)), 0.0, 1.0)
        return (weights / weights.sum() * worst_first).sum()
