"""The q-norm over inputs, ( mean_i L_i^q )^(1/q), the objective of the paper (von Oswald et al., arXiv 2408.10818).

q = 1 is empirical risk minimisation, q = inf the worst input of the batch. Written naively the norm overflows in
float32 at q = 100 as soon as one loss exceeds 2.43, and underflows to a NaN gradient when all are below 0.4. So the
largest loss is factored out first.
"""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from pydantic import BeforeValidator, Field

from sweeper.learned_algorithms import objective_contract
from sweeper.learned_algorithms.objective_contract import Batch
from sweeper.trial.field_types import infinity
from sweeper.trial.record import Traced, Unwritten

Strength = Annotated[float, Field(ge=1, allow_inf_nan=True), BeforeValidator(infinity)]
"""The q of a norm, from 1 to infinity."""


class Objective(objective_contract.Objective):
    """The q-norm over the inputs.

    With a `final_q`, the norm is annealed: 1 / q goes linearly from 1 / `q` in the first step to 1 / `final_q` after
    the last. Without a `final_q` the norm is constant, which is the same as a `final_q` equal to `q`.
    """

    name: Annotated[Literal["q_norm"], Unwritten(at="q_norm")] = "q_norm"
    q: Traced[Strength] = 1.0
    final_q: Annotated[Traced[Strength | None], Unwritten(same_as="q")] = None

    def strength(self, progress: Float[Array, ""]) -> Float[Array, ""]:
        """q when this share of the steps is done; exactly `q` if it is constant."""
        assert self.final_q is not None
        inverse = 1 / self.q + progress * (1 / self.final_q - 1 / self.q)
        annealed = jnp.where(inverse > 0, 1 / jnp.where(inverse > 0, inverse, 1.0), jnp.inf)
        return jnp.where(self.final_q == self.q, self.q, annealed)

    def value(self, batch: Batch, state: PyTree) -> Float[Array, ""]:
        """The norm of the losses, with the q of this step."""
        return q_norm(batch.losses, self.strength(batch.progress))

    def __str__(self) -> str:
        return f"q={self.q:g}"


def q_norm(losses: Float[Array, " input"], q: Float[Array, ""] | float) -> Float[Array, ""]:
    """The norm of one batch.

    Args:
        losses: Loss of every input; not negative.
        q: The strength of the norm, at least 1; may be traced and may be infinite.

    Returns:
        A number between the mean and the maximum of the losses. Its gradient is finite for every legal q, and zero when
        all losses are zero.
    """
    largest = jax.lax.stop_gradient(losses.max())
    # A zero batch is divided by one instead: value and gradient are then exactly zero, not 0 / 0.
    scale = jnp.where(largest > 0, largest, 1.0)
    ratios = losses / scale
    finite_q = jnp.where(jnp.isinf(q), 1.0, q)
    # A log at zero, or a power whose gradient is infinite there, would poison the gradient even where it is masked.
    positive = ratios > 0
    logs = jnp.log(jnp.where(positive, ratios, 1.0))
    powers = jnp.where(positive, jnp.exp(finite_q * logs), 0.0)
    mean_power = powers.mean()
    norm = jnp.where(largest > 0, jnp.exp(jnp.log(jnp.where(largest > 0, mean_power, 1.0)) / finite_q), 0.0)
    return scale * jnp.where(jnp.isinf(q), ratios.max(), norm)
