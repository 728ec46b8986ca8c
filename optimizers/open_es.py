"""OpenAI's evolution strategy (Salimans et al., 2017): a centre, and one standard deviation that is not adapted."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from sweeper.learned_algorithms.strategy_contract import (
    EvolutionStrategy,
    Generation,
    StrategyState,
    adam_with_rate,
    falling,
    with_rate,
)
from sweeper.trial.field_types import NotNegative, Positive, Schedule
from sweeper.trial.record import SameAs, Traced

if TYPE_CHECKING:
    from evosax.algorithms.distribution_based.base import DistributionBasedAlgorithm as Algorithm


class Optimizer(EvolutionStrategy):
    """OpenES, whose centre Adam moves.

    evosax takes the next deviation from a schedule that lags a generation behind. Here the deviation is set beforehand.
    """

    name: Literal["open_es"] = "open_es"
    learning_rate: Traced[Positive] = 0.01  # rate of the centre (Adam's) in the first generation
    # The same at the end; by default the rate is constant
    final_learning_rate: Annotated[Traced[NotNegative | None], SameAs("learning_rate")] = None
    initial_std: Traced[Positive] = 0.03  # the standard deviation of all weights in the first generation
    # The same at the end; by default it is constant
    final_std: Annotated[Traced[Positive | None], SameAs("initial_std")] = None
    schedule: Schedule = "cosine"  # how rate and deviation fall in between

    def algorithm(self, steps: int, network: PyTree, step: Generation) -> "tuple[Algorithm, Any]":
        from evosax.algorithms.distribution_based.open_es import Open_ES

        after = None if step is None else step + 1
        following = falling(self.initial_std, self.final_std, self.schedule, after, steps)  # type: ignore[arg-type]  # traced
        deviation = jnp.full(sum(leaf.size for leaf in jax.tree.leaves(network)), following, jnp.float32)
        algorithm = self.made(Open_ES, network, optimizer=adam_with_rate(), std_schedule=lambda _: deviation)
        return algorithm, algorithm.default_params

    def begun(self, steps: int, state: StrategyState, step: Generation) -> StrategyState:
        return with_rate(state, falling(self.learning_rate, self.final_learning_rate, self.schedule, step, steps))  # type: ignore[arg-type]  # traced
