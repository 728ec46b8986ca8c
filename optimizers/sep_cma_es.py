"""CMA-ES with a diagonal covariance matrix (Ros & Hansen, 2008), whose rates follow from population and weights."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import PyTree

from sweeper.learned_algorithms.strategy_contract import EvolutionStrategy, Generation, StrategyState, shared_weights
from sweeper.trial.field_types import Positive
from sweeper.trial.record import Traced

if TYPE_CHECKING:
    from evosax.algorithms.distribution_based.base import DistributionBasedAlgorithm as Algorithm


class Optimizer(EvolutionStrategy):
    """sep-CMA-ES.

    evosax learns the diagonal with the rates of the full matrix. Ros & Hansen raise them by (n + 2) / 3, because a
    diagonal has fewer entries. Without that nothing is learnt about thousands of weights.
    """

    MIRRORED: ClassVar[bool] = False

    name: Literal["sep_cma_es"] = "sep_cma_es"
    initial_std: Traced[Positive] = 0.03  # standard deviation of every weight at the start

    def algorithm(self, steps: int, network: PyTree, step: Generation) -> "tuple[Algorithm, Any]":
        from evosax.algorithms.distribution_based.sep_cma_es import Sep_CMA_ES

        algorithm = self.made(Sep_CMA_ES, network, fitness_shaping_fn=shared_weights)
        params, ratio = algorithm.default_params, (algorithm.num_dims + 2) / 3
        one = jnp.minimum(1.0, ratio * params.c_1)
        several = jnp.minimum(1 - one, ratio * params.c_mu)
        return algorithm, params.replace(std_init=jnp.float32(self.initial_std), c_1=one, c_mu=several)

    def begun(self, steps: int, state: StrategyState, step: Generation) -> StrategyState:
        return self.ended(state) if step is None else state

    def ended(self, state: StrategyState) -> StrategyState:
        """The state with the deviations of its covariance, which evosax makes when it draws a population."""
        from evosax.algorithms.distribution_based.sep_cma_es import eigen_decomposition

        covariance, scales = eigen_decomposition(state.C)
        return state.replace(C=covariance, D=scales)
