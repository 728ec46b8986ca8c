"""The q-norm over inputs of the mean loss over seeds: ( mean_i ( mean_j L[i, j] )^q )^(1/q).

q = 1 is empirical risk minimisation, q = inf the worst input of the batch; the mean over seeds is inside the power,
always (von Oswald et al., arXiv 2408.10818). Written naively it overflows in float32 at q = 100 as soon as one loss
exceeds 2.43 and underflows to a NaN gradient when all are below 0.4, so the largest loss is factored out first.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def q_norm(losses: Float[Array, "input seed"], q: Float[Array, ""] | float) -> Float[Array, ""]:
    """The objective of one batch.

    Args:
        losses: Loss of every pair of an input and a seed; not negative.
        q: The strength of the norm, at least 1; may be traced and may be infinite.

    Returns:
        A number between the mean and the maximum over inputs of the mean over seeds. Its gradient is finite for every
        legal q, and zero when all losses are zero.
    """
    means = losses.mean(axis=1)
    largest = jax.lax.stop_gradient(means.max())
    # A zero batch is divided by one instead: value and gradient are then exactly zero, not 0 / 0.
    scale = jnp.where(largest > 0, largest, 1.0)
    ratios = means / scale
    finite_q = jnp.where(jnp.isinf(q), 1.0, q)
    # A log at zero, or a power whose gradient is infinite there, would poison the gradient even where it is masked.
    positive = ratios > 0
    logs = jnp.log(jnp.where(positive, ratios, 1.0))
    powers = jnp.where(positive, jnp.exp(finite_q * logs), 0.0)
    mean_power = powers.mean()
    norm = jnp.where(largest > 0, jnp.exp(jnp.log(jnp.where(largest > 0, mean_power, 1.0)) / finite_q), 0.0)
    return scale * jnp.where(jnp.isinf(q), ratios.max(), norm)
