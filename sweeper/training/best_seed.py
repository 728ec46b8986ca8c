"""The best single seed r of a randomised model: a deterministic algorithm that comes from a randomised training.

Every fixed seed r turns the model into a deterministic algorithm. By Yao's principle the best of these algorithms is on
average over the inputs at least as good as the randomised model; on the worst input it may be far worse. The seed is
chosen on a random half of the inputs, the same half for all trials of a task, and judged on the other half: on the
inputs of the choice the best of many seeds looks better than it is.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sweeper.training.voting import Share


def best_seed(
    correct: Bool[Array, "input seed"], loss: Float[Array, "input seed"]
) -> dict[str, Share | Float[Array, " judged"]]:
    """Success and loss of the best seed r on the inputs that did not choose it.

    The best seed is right on the most inputs; of several such seeds the best has the lowest average loss.

    Args:
        correct: Whether the answer of each seed is right.
        loss: The loss of each seed.

    Returns:
        `best_seed`, 1 or 0 for each judging input, and `best_seed_loss`. Nothing if there are fewer than two inputs.
    """
    inputs = len(correct)
    if inputs < 2:
        return {}
    judges = np.sort(np.random.default_rng(0).permutation(inputs)[inputs // 2 :])
    chooses = ~np.isin(np.arange(inputs), judges)[:, None]
    right = (correct & chooses).sum(axis=0)
    cost = jnp.where(chooses, loss, 0).sum(axis=0)
    seed = jnp.argmin(jnp.where(right == right.max(), cost, jnp.inf))
    return {
        "best_seed": Share(correct[:, seed][judges].astype(jnp.int32), jnp.asarray(1)),
        "best_seed_loss": loss[:, seed][judges],
    }
