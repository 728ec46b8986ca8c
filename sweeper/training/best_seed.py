"""The best single seed r of a randomised model: a deterministic algorithm that a randomised training found.

By Yao's principle the best of the deterministic algorithms, into which a seed turns the model, is on average over the
inputs at least as good as the randomised one, and on the worst input it may be far worse. The seed is chosen on a
random half of the inputs, the same half for all trials of a task, and judged on the other half: the best of many seeds
looks better than it is on the inputs that it was chosen by.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sweeper.training.voting import Share


def best_seed(
    correct: Bool[Array, "input seed"], loss: Float[Array, "input seed"]
) -> dict[str, Share | Float[Array, " judged"]]:
    """Success and loss of the best seed on the inputs that it was not chosen by.

    The best seed is the one that is right on most of the inputs; of several, the one with the lowest average loss.

    Args:
        correct: Whether the answer of each seed is right.
        loss: Its loss.

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
