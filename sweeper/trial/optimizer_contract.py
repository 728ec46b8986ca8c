"""The contract of optimisers: records of settings that move the weights of a network.

A `GradientOptimizer` gives a transformation of optax, for experiments and for other kinds of trial. Kinds may have
further contracts of their own.

Fields that are numbers of a formula are `Traced`, so that one compiled program serves all their values.
"""

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from pydantic import Field, SerializeAsAny

from sweeper.trial.field_types import NotNegative, Positive, Schedule
from sweeper.trial.record import SameAs, Spec, Traced
from sweeper.trial.trial import plugin_record

if TYPE_CHECKING:
    # Importing optax takes long. A driver reads these records and must do without, so it is imported where it is used.
    import optax


class Optimizer(Spec, abc.ABC):
    """What all optimisers have."""

    KIND: ClassVar[str] = "optimizer"
    VERSION: ClassVar[int] = 1
    """Raise the version when the meaning of the code changes: the ids of all its trials change with it."""

    TRAINER: ClassVar[str]
    """The trainer that moves the weights, by name, in a kind of trial that has several."""

    name: str

    def doubt(self, steps: int) -> tuple[str, str] | None:
        """Field and words, if a value is legal and hardly meant in a training of so many steps."""
        return None


AnyOptimizer = SerializeAsAny[Annotated[Optimizer, plugin_record("optimizer")]]
"""The type of a field for an optimiser; one without a name is Adam."""


def share_left(schedule: Schedule, progress: Float[Array, ""]) -> Float[Array, ""]:
    """The share of the fall that is still to come: 1 when `progress` is 0, 0 when `progress` is 1."""
    return 1 - progress if schedule == "linear" else 0.5 * (1 + jnp.cos(jnp.pi * progress))


# Gradients


class GradientOptimizer(Optimizer):
    """An optimiser by gradients, with the learning rate that most have.

    The rate rises linearly from 0 to `learning_rate` in `warmup_steps` and falls to `final_learning_rate` at the last
    step along `schedule`; by default it is constant.
    """

    TRAINER: ClassVar[str] = "gradient"

    ELEMENTWISE: ClassVar[bool] = True
    """Whether each weight is moved as if it stood alone, so that all weights may be one vector."""

    learning_rate: Traced[Positive] = 1e-3
    final_learning_rate: Annotated[Traced[NotNegative | None], SameAs("learning_rate")] = None
    warmup_steps: Traced[Annotated[int, Field(ge=0)]] = 0
    schedule: Schedule = "cosine"

    @abc.abstractmethod
    def transformation(self, steps: int) -> "optax.GradientTransformation":
        """The transformation of a training of so many steps, from gradients to what is added to the weights."""

    def rate(self, steps: int) -> "Callable[[Any], Float[Array, '']]":
        """The learning rate by the number of steps done, for `optax.scale_by_learning_rate`."""

        def rate(step: Int[Array, ""]) -> Float[Array, ""]:
            warmup = jnp.asarray(self.warmup_steps, jnp.float32)
            rising = step / jnp.maximum(warmup, 1.0)
            progress = jnp.clip((step - warmup) / jnp.maximum(steps - warmup, 1.0), 0.0, 1.0)
            peak, final = self.learning_rate, self.final_learning_rate
            assert final is not None  # completed by the record
            falling = final + (peak - final) * share_left(self.schedule, progress)
            return jnp.where(step < warmup, peak * rising, falling)

        return rate

    def doubt(self, steps: int) -> tuple[str, str] | None:
        if self.warmup_steps <= steps:
            return None
        words = f"longer than the training ({self.warmup_steps:,} of {steps:,} steps)"
        return "warmup_steps", f"{words}: the learning rate never reaches its peak"
