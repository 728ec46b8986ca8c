"""Policy gradients with parameter-based exploration (Sehnke et al., 2010): a normal distribution over weights."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import PyTree
from pydantic import Field

from sweeper.learned_algorithms.strategy_contract import (
    EvolutionStrategy,
    Generation,
    StrategyState,
    adam_with_rate,
    falling,
    with_rate,
)
from sweeper.trial.field_types import BelowOne, NotNegative, Positive, Schedule
from sweeper.trial.record import Traced, Unwritten

if TYPE_CHECKING:
    import optax
    from evosax.algorithms.distribution_based.base import DistributionBasedAlgorithm as Algorithm

MAX_STD_CHANGE = 0.2
"""Largest relative change of a standard deviation in one generation."""

Bound = Annotated[float, Field(ge=0, allow_inf_nan=True)]


class Optimizer(EvolutionStrategy):
    """PGPE."""

    name: Literal["pgpe"] = "pgpe"
    center_learning_rate: Traced[Positive] = 0.01  # rate of the centre in the first generation
    # The same at the end; by default the rate is constant
    final_center_learning_rate: Annotated[Traced[NotNegative | None], Unwritten(same_as="center_learning_rate")] = None
    std_learning_rate: Traced[Positive] = 0.01  # rate of the standard deviations in the first generation
    # The same at the end
    final_std_learning_rate: Annotated[Traced[NotNegative | None], Unwritten(same_as="std_learning_rate")] = None
    schedule: Annotated[Schedule, Unwritten(at="cosine")] = "cosine"  # how rates fall in between
    initial_std: Traced[Positive] = 0.03  # standard deviation of every weight at the start
    min_std: Annotated[Traced[Bound], Unwritten(at=0.0)] = 0.0  # standard deviations fall no lower
    max_std: Annotated[Traced[Bound], Unwritten(at=float("inf"))] = float("inf")  # standard deviations rise no higher
    # What moves the centre along the estimated gradient: Adam, or ClipUp (Toklu et al., 2020), which takes the
    # direction of the gradient alone, with momentum and a largest step
    center_optimizer: Annotated[Literal["adam", "clipup"], Unwritten(at="adam")] = "adam"
    momentum: Annotated[Traced[BelowOne], Unwritten(at=0.9)] = 0.9  # of ClipUp
    # The largest step of ClipUp, in units of the learning rate
    max_velocity_ratio: Annotated[Traced[Positive], Unwritten(at=2.0)] = 2.0

    def algorithm(self, steps: int, network: PyTree, step: Generation) -> "tuple[Algorithm, Any]":
        from evosax.algorithms.distribution_based.pgpe import PGPE, Params

        rate = falling(self.std_learning_rate, self.final_std_learning_rate, self.schedule, step, steps)  # type: ignore[arg-type]  # traced
        params = Params(std_init=self.initial_std, std_lr=rate, std_max_change=MAX_STD_CHANGE)  # pyright: ignore
        center = adam_with_rate() if self.center_optimizer == "adam" else _clipup()
        return self.made(PGPE, network, optimizer=center), params

    def begun(self, steps: int, state: StrategyState, step: Generation) -> StrategyState:
        rate = falling(self.center_learning_rate, self.final_center_learning_rate, self.schedule, step, steps)  # type: ignore[arg-type]  # traced
        if self.center_optimizer == "adam":
            return with_rate(state, rate)
        return with_rate(state, rate, momentum=self.momentum, max_velocity_ratio=self.max_velocity_ratio)

    def ended(self, state: StrategyState) -> StrategyState:
        return state.replace(std=jnp.clip(state.std, self.min_std, self.max_std))


def _clipup() -> "optax.GradientTransformation":
    """ClipUp, with a velocity in units of the learning rate; evosax's uses a deprecated function of optax."""
    import optax

    def transformation(learning_rate: Any, momentum: Any, max_velocity_ratio: Any) -> "optax.GradientTransformation":
        def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            # A population of equal objectives has no gradient, and no direction.
            faster = momentum * state + updates / (jnp.linalg.norm(updates) + 1e-8)
            clipped = faster * jnp.minimum(1.0, max_velocity_ratio / (jnp.linalg.norm(faster) + 1e-8))
            return -learning_rate * clipped, clipped

        return optax.GradientTransformation(lambda params: jax.tree.map(jnp.zeros_like, params), update)

    return optax.inject_hyperparams(transformation)(learning_rate=0.0, momentum=0.0, max_velocity_ratio=0.0)
