"""Entropic risk: (1/t) log mean_i exp(t L_i), for t > 0 (Foellmer and Schied, 2002).

The risk goes from the mean, as t goes to 0, to the largest loss, as t goes to infinity. For small t it is the mean
plus t / 2 times the variance. Training by it is also called exponential tilting (Li et al., 2021).

The losses enter as differences to the largest loss of the batch, which overflow for no t; `expm1` and `log1p` keep the
digits that exp and log would lose for small t.

H. Foellmer and A. Schied: Convex measures of risk and trading constraints. Finance and Stochastics 6, 2002, 429-447.
T. Li, A. Beirami, M. Sanjabi and V. Smith: Tilted empirical risk minimization. ICLR 2021, arXiv 2007.01162.
"""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from pydantic import Field

from sweeper.learned_algorithms import objective_contract
from sweeper.learned_algorithms.objective_contract import Batch
from sweeper.trial.record import Traced


class Objective(objective_contract.Objective):
    """The entropic risk of the losses of a batch.

    Attributes:
        t: The aversion to risk, in units of one over a loss.
    """

    name: Literal["entropic_risk"] = "entropic_risk"
    t: Traced[Annotated[float, Field(gt=0)]] = 1.0

    def value(self, batch: Batch, state: PyTree) -> Float[Array, ""]:
        """The risk: a number between the mean and the maximum of the losses."""
        largest = jax.lax.stop_gradient(batch.losses.max())
        return largest + jnp.log1p(jnp.expm1(self.t * (batch.losses - largest)).mean()) / self.t
