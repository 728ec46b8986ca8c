"""Separable natural evolution strategy (Wierstra et al., 2014): natural gradients of centre and deviations."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import PyTree

from sweeper.learned_algorithms.strategy_contract import (
    EvolutionStrategy,
    Generation,
    StrategyState,
    shared_weights,
    with_rate,
)
from sweeper.trial.field_types import Positive
from sweeper.trial.record import Traced

if TYPE_CHECKING:
    from evosax.algorithms.distribution_based.base import DistributionBasedAlgorithm as Algorithm


class Optimizer(EvolutionStrategy):
    """SNES."""

    MIRRORED: ClassVar[bool] = False

    name: Literal["snes"] = "snes"
    learning_rate: Traced[Positive] = 1.0  # rate of the centre; 1 is the natural step
    # Rate of the deviations, in units of (3 + ln n) / (5 sqrt n) for n weights
    std_learning_rate_ratio: Traced[Positive] = 1.0
    initial_std: Traced[Positive] = 0.03  # standard deviation of every weight at the start

    def algorithm(self, steps: int, network: PyTree, step: Generation) -> "tuple[Algorithm, Any]":
        import optax
        from evosax.algorithms.distribution_based.snes import SNES

        sgd = optax.inject_hyperparams(optax.sgd)(learning_rate=0.0)
        algorithm = self.made(SNES, network, optimizer=sgd, fitness_shaping_fn=shared_weights)
        params = algorithm.default_params
        rate = params.lr_std_init * self.std_learning_rate_ratio
        return algorithm, params.replace(std_init=jnp.float32(self.initial_std), lr_std_init=rate)

    def begun(self, steps: int, state: StrategyState, step: Generation) -> StrategyState:
        return with_rate(state, self.learning_rate) if step is None else state
