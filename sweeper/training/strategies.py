"""Evolution strategies, each a record of functions around an algorithm of evosax.

A strategy has a normal distribution over flattened weights, with a diagonal covariance. `init` makes its state, `tell`
moves it by the objectives of a population that was drawn from it. All functions are for one lane. Who draws populations
is `sweeper.training.evolution`.

Where evosax's algorithm is not what its paper says, this module mends it, in one place each:

- Ranks. Objectives that are whole numbers of steps have ties. evosax takes the average rank of a tie, cuts it to an
  integer and looks up a weight there, so that the weights of a population no longer sum to what they should. Here tied
  individuals share the mean of their weights.
- sep-CMA-ES learns its diagonal with the rates of the full matrix. Ros & Hansen raise them by (n + 2) / 3, because a
  diagonal has fewer entries. Without that nothing is learnt about thousands of weights.
- OpenES takes its next deviation from a schedule that lags a generation behind. Here the deviation is set beforehand.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sweeper.training.trainer import share_left
from sweeper.trial.contracts import Network
from sweeper.trial.evolution_strategies import PGPE, SNES, Evolution, OpenES, SepCMAES
from sweeper.trial.field_types import Schedule
from sweeper.trial.trial_spec import TrialSpec

if TYPE_CHECKING:
    # Importing evosax starts JAX's backend, and with it its threads and its hold on a GPU. Importing optax takes long.
    # The driver imports this module and must do without both, so they are imported where they are used.
    import optax
    from evosax.algorithms.distribution_based.base import DistributionBasedAlgorithm as Algorithm

MAX_STD_CHANGE = 0.2
"""Largest relative change of a standard deviation of PGPE in one generation."""

StrategyState = Any
"""The state of an algorithm of evosax: a pytree with `mean` and `std`."""

Generation = Int[Array, ""] | None


class Strategy(NamedTuple):
    """An evolution strategy: an algorithm of evosax, and what is done with its state around it.

    The functions take the optimiser of the trial, the trial, and the number of a generation, None before the first.
    """

    mirrored: bool  # whether the individuals of a pair lie mirrored at the centre; else all are drawn independently
    # The algorithm, for a network with shapes of the trial's, and its parameters
    algorithm: "Callable[[Any, TrialSpec, Network, Generation], tuple[Algorithm, Any]]"
    # The state as a generation begins with it, of the state that evosax made or the generation before left
    begun: Callable[[Any, TrialSpec, StrategyState, Generation], StrategyState]
    # The state as a generation leaves it, of the state that evosax has moved
    ended: Callable[[Any, StrategyState], StrategyState] = lambda optimizer, state: state

    def init(self, trial: TrialSpec, network: Network) -> StrategyState:
        """The state before the first generation, for a trial and its fresh network; no generation changes its types."""
        algorithm, params = self.algorithm(trial.optimizer, trial, network, None)
        state = algorithm.init(trial.keys().training, network, params)
        state = state.replace(best_fitness=jnp.float32(state.best_fitness), generation_counter=jnp.int32(0))
        return self.begun(trial.optimizer, trial, state, None)

    def tell(
        self,
        trial: TrialSpec,
        step: Int[Array, ""],
        population: Network,
        objectives: Float[Array, " individual"],
        state: StrategyState,
    ) -> StrategyState:
        """The state after generation `step`, of the networks and objectives of the population and the state before."""
        network = jax.tree.map(lambda leaf: leaf[0], population)
        state = self.begun(trial.optimizer, trial, state, step)
        algorithm, params = self.algorithm(trial.optimizer, trial, network, step)
        moved, _ = algorithm.tell(trial.keys().training, population, objectives, state, params)
        return self.ended(trial.optimizer, moved)


def strategy_of(trial: TrialSpec) -> Strategy:
    """The strategy of a trial, or of trials stacked along a lane axis."""
    return _STRATEGIES[type(trial.optimizer)]


def deviations(state: StrategyState) -> Any:
    """The standard deviation of every weight, of NumPy or JAX as the state, and with its lane axis if it has one."""
    scales = getattr(state, "D", None)
    return state.std if scales is None else state.std[..., None] * scales


def falling(
    initial: Float[Array, ""], final: Float[Array, ""], schedule: Schedule, step: Int[Array, ""], steps: int
) -> Float[Array, ""]:
    """A value that falls from `initial` in the first of `steps` generations to `final` after the last."""
    fallen = final + (initial - final) * share_left(schedule, step / steps)
    return jnp.where(final == initial, initial, fallen)


def _at(step: Generation, steps: int, optimizer: PGPE | OpenES, initial: Any, final: Any) -> Any:
    """`falling` along the schedule of an optimiser; `initial` before the first generation."""
    return initial if step is None else falling(initial, final, optimizer.schedule, step, steps)


def _made(algorithm: "type[Algorithm]", trial: TrialSpec, network: Network, **options: Any) -> "Algorithm":
    """An algorithm of evosax for the weights of a network."""
    shapes = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), network)
    assert isinstance(trial.optimizer, Evolution)
    # evosax's own metrics hold whole solutions; nobody here reads them.
    return algorithm(trial.optimizer.population, shapes, metrics_fn=lambda *_: {}, **options)


def _with_rate(state: StrategyState, rate: Float[Array, ""] | float, **others: Any) -> StrategyState:
    """The state whose optimiser has this learning rate: a leaf, so that lanes and generations may differ in it."""
    rates = {name: jnp.float32(value) for name, value in {"learning_rate": rate, **others}.items()}
    hyperparams = state.opt_state.hyperparams | rates
    return state.replace(opt_state=state.opt_state._replace(hyperparams=hyperparams))


def _adam() -> "optax.GradientTransformation":
    import optax

    return optax.inject_hyperparams(optax.adam)(learning_rate=0.0)


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


def _shared_weights(
    population: Any, fitness: Float[Array, " individual"], state: Any, params: Any
) -> Float[Array, " individual"]:
    """The weights of a population by rank, lowest objective first; tied individuals share the mean of their weights."""
    below = (fitness[None, :] < fitness[:, None]).sum(axis=1)
    until = (fitness[None, :] <= fitness[:, None]).sum(axis=1)
    sums = jnp.concatenate([jnp.zeros(1), jnp.cumsum(params.weights)])
    return (sums[until] - sums[below]) / (until - below)


# PGPE


def _pgpe(optimizer: PGPE, trial: TrialSpec, network: Network, step: Generation) -> "tuple[Algorithm, Any]":
    from evosax.algorithms.distribution_based.pgpe import PGPE as Algorithm
    from evosax.algorithms.distribution_based.pgpe import Params

    rate = _at(step, trial.steps, optimizer, optimizer.std_learning_rate, optimizer.final_std_learning_rate)
    params = Params(std_init=optimizer.initial_std, std_lr=rate, std_max_change=MAX_STD_CHANGE)  # pyright: ignore
    center = _adam() if optimizer.center_optimizer == "adam" else _clipup()
    return _made(Algorithm, trial, network, optimizer=center), params


def _pgpe_begun(optimizer: PGPE, trial: TrialSpec, state: StrategyState, step: Generation) -> StrategyState:
    rate = _at(step, trial.steps, optimizer, optimizer.center_learning_rate, optimizer.final_center_learning_rate)
    if optimizer.center_optimizer == "adam":
        return _with_rate(state, rate)
    return _with_rate(state, rate, momentum=optimizer.momentum, max_velocity_ratio=optimizer.max_velocity_ratio)


def _pgpe_ended(optimizer: PGPE, state: StrategyState) -> StrategyState:
    return state.replace(std=jnp.clip(state.std, optimizer.min_std, optimizer.max_std))


# OpenES


def _open_es(optimizer: OpenES, trial: TrialSpec, network: Network, step: Generation) -> "tuple[Algorithm, Any]":
    from evosax.algorithms.distribution_based.open_es import Open_ES as Algorithm

    after = None if step is None else step + 1
    following = _at(after, trial.steps, optimizer, optimizer.initial_std, optimizer.final_std)
    deviation = jnp.full(sum(leaf.size for leaf in jax.tree.leaves(network)), following, jnp.float32)
    algorithm = _made(Algorithm, trial, network, optimizer=_adam(), std_schedule=lambda _: deviation)
    return algorithm, algorithm.default_params


def _open_es_begun(optimizer: OpenES, trial: TrialSpec, state: StrategyState, step: Generation) -> StrategyState:
    rate = _at(step, trial.steps, optimizer, optimizer.learning_rate, optimizer.final_learning_rate)
    return _with_rate(state, rate)


# SNES


def _snes(optimizer: SNES, trial: TrialSpec, network: Network, step: Generation) -> "tuple[Algorithm, Any]":
    import optax
    from evosax.algorithms.distribution_based.snes import SNES as Algorithm

    sgd = optax.inject_hyperparams(optax.sgd)(learning_rate=0.0)
    algorithm = _made(Algorithm, trial, network, optimizer=sgd, fitness_shaping_fn=_shared_weights)
    params = algorithm.default_params
    rate = params.lr_std_init * optimizer.std_learning_rate_ratio
    return algorithm, params.replace(std_init=jnp.float32(optimizer.initial_std), lr_std_init=rate)


def _snes_begun(optimizer: SNES, trial: TrialSpec, state: StrategyState, step: Generation) -> StrategyState:
    return _with_rate(state, optimizer.learning_rate) if step is None else state


# sep-CMA-ES


def _sep_cma_es(optimizer: SepCMAES, trial: TrialSpec, network: Network, step: Generation) -> "tuple[Algorithm, Any]":
    from evosax.algorithms.distribution_based.sep_cma_es import Sep_CMA_ES as Algorithm

    algorithm = _made(Algorithm, trial, network, fitness_shaping_fn=_shared_weights)
    params, ratio = algorithm.default_params, (algorithm.num_dims + 2) / 3
    one = jnp.minimum(1.0, ratio * params.c_1)
    several = jnp.minimum(1 - one, ratio * params.c_mu)
    return algorithm, params.replace(std_init=jnp.float32(optimizer.initial_std), c_1=one, c_mu=several)


def _scaled(optimizer: SepCMAES, state: StrategyState) -> StrategyState:
    """The state with the deviations of its covariance, which evosax makes when it draws a population."""
    from evosax.algorithms.distribution_based.sep_cma_es import eigen_decomposition

    covariance, scales = eigen_decomposition(state.C)
    return state.replace(C=covariance, D=scales)


def _sep_cma_es_begun(optimizer: SepCMAES, trial: TrialSpec, state: StrategyState, step: Generation) -> StrategyState:
    return _scaled(optimizer, state) if step is None else state


_STRATEGIES: Mapping[type, Strategy] = {
    PGPE: Strategy(True, _pgpe, _pgpe_begun, _pgpe_ended),
    OpenES: Strategy(True, _open_es, _open_es_begun),
    SNES: Strategy(False, _snes, _snes_begun),
    SepCMAES: Strategy(False, _sep_cma_es, _sep_cma_es_begun, _scaled),
}
