"""The contract of evolution strategies: optimisers that move a distribution over weights without gradients.

The distribution moves by the objectives of a population that was drawn from it. Fields that are numbers of a formula
are `Traced`, so that one compiled program serves all their values.
"""

import abc
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree
from pydantic import Field

from sweeper.trial.field_types import Schedule
from sweeper.trial.optimizer_contract import Optimizer, share_left

if TYPE_CHECKING:
    # Importing evosax starts JAX's backend, and with it its threads and its hold on a GPU. Importing optax takes long.
    # A driver reads these records and must do without both, so they are imported where they are used.
    import optax
    from evosax.algorithms.distribution_based.base import DistributionBasedAlgorithm as Algorithm

StrategyState = Any
"""The state of an algorithm of evosax: a pytree with `mean` and `std`."""

Generation = Int[Array, ""] | None


class EvolutionStrategy(Optimizer):
    """An optimiser without gradients: an algorithm of evosax, and what is done with its state around it.

    A strategy has a normal distribution over flattened weights, with a diagonal covariance. `init` makes its state,
    `tell` moves it. All methods are for one lane. Who draws populations is `sweeper.learned_algorithms.evolution`.

    Rates and deviations are in the units of the weights. `steps` of a trial that a strategy trains are generations.
    """

    TRAINER: ClassVar[str] = "evolution"

    MIRRORED: ClassVar[bool] = True
    """Whether the individuals of a pair lie mirrored at the centre; else all are drawn independently."""

    # Individuals of a generation; an even number, because blocks hold pairs
    population: Annotated[int, Field(ge=2, multiple_of=2)] = 300

    # What a strategy is

    @abc.abstractmethod
    def algorithm(self, steps: int, network: PyTree, step: Generation) -> "tuple[Algorithm, Any]":
        """The algorithm and its parameters, for a network with shapes of the trial's.

        `step` is the number of a generation of `steps`, None before the first.
        """

    @abc.abstractmethod
    def begun(self, steps: int, state: StrategyState, step: Generation) -> StrategyState:
        """The state as a generation begins with it, of what evosax made or the generation before left."""

    def ended(self, state: StrategyState) -> StrategyState:
        """The state as a generation leaves it, of what evosax has moved."""
        return state

    # What is done with it

    def init(self, key: PRNGKeyArray, steps: int, network: PyTree) -> StrategyState:
        """The state before the first generation, for a fresh network; no generation changes its types."""
        algorithm, params = self.algorithm(steps, network, None)
        state = algorithm.init(key, network, params)
        state = state.replace(best_fitness=jnp.float32(state.best_fitness), generation_counter=jnp.int32(0))
        return self.begun(steps, state, None)

    def tell(
        self,
        key: PRNGKeyArray,
        steps: int,
        step: Int[Array, ""],
        population: PyTree,
        objectives: Float[Array, " individual"],
        state: StrategyState,
    ) -> StrategyState:
        """The state after generation `step`, of the networks and objectives of the population and the state before."""
        network = jax.tree.map(lambda leaf: leaf[0], population)
        state = self.begun(steps, state, step)
        algorithm, params = self.algorithm(steps, network, step)
        moved, _ = algorithm.tell(key, population, objectives, state, params)
        return self.ended(moved)

    def made(self, algorithm: "type[Algorithm]", network: PyTree, **options: Any) -> "Algorithm":
        """An algorithm of evosax for the weights of a network."""
        shapes = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), network)
        # evosax's own metrics hold whole solutions; nobody here reads them.
        return algorithm(self.population, shapes, metrics_fn=lambda *_: {}, **options)


def deviations(state: StrategyState) -> Any:
    """The standard deviation of every weight, of NumPy or JAX as the state, and with its lane axis if it has one."""
    scales = getattr(state, "D", None)
    return state.std if scales is None else state.std[..., None] * scales


def falling(
    initial: Float[Array, ""], final: Float[Array, ""], schedule: Schedule, step: Generation, steps: int
) -> Float[Array, ""]:
    """A value that falls from `initial` in the first of `steps` generations to `final` after the last.

    It is `initial` before the first generation.
    """
    if step is None:
        return initial
    fallen = final + (initial - final) * share_left(schedule, step / steps)
    return jnp.where(final == initial, initial, fallen)


def with_rate(state: StrategyState, rate: Float[Array, ""] | float, **others: Any) -> StrategyState:
    """The state whose optimiser has this learning rate: a leaf, so that lanes and generations may differ in it."""
    rates = {name: jnp.float32(value) for name, value in {"learning_rate": rate, **others}.items()}
    hyperparams = state.opt_state.hyperparams | rates
    return state.replace(opt_state=state.opt_state._replace(hyperparams=hyperparams))


def adam_with_rate() -> "optax.GradientTransformation":
    """Adam for the centre of a strategy, whose state takes the learning rate (`with_rate`)."""
    import optax

    return optax.inject_hyperparams(optax.adam)(learning_rate=0.0)


def shared_weights(
    population: Any, fitness: Float[Array, " individual"], state: Any, params: Any
) -> Float[Array, " individual"]:
    """The weights of a population by rank, lowest objective first; tied individuals share the mean of their weights.

    Objectives that are whole numbers of steps have ties. evosax takes the average rank of a tie, cuts it to an integer
    and looks up a weight there, so that the weights of a population no longer sum to what they should.
    """
    below = (fitness[None, :] < fitness[:, None]).sum(axis=1)
    until = (fitness[None, :] <= fitness[:, None]).sum(axis=1)
    sums = jnp.concatenate([jnp.zeros(1), jnp.cumsum(params.weights)])
    return (sums[until] - sums[below]) / (until - below)
