"""Schedules: how a rate or a deviation falls from its first value to its last."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from sweeper.trial.field_types import Schedule


def share_left(schedule: Schedule, progress: Float[Array, ""]) -> Float[Array, ""]:
    """The share of the fall that is still to come: 1 when `progress` is 0, 0 when `progress` is 1."""
    return 1 - progress if schedule == "linear" else 0.5 * (1 + jnp.cos(jnp.pi * progress))
