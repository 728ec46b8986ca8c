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


class Strategy(NamedTuple):
    """An evolution strategy.

    Attributes:
        mirrored: Whether the individuals of a pair lie mirrored at the centre; otherwise all are drawn independently.
        init: The state before the first generation, for a trial and its fresh network.
        tell: The state after a generation, for the trial, the number of the generation, the networks of the population
            and their objectives, and the state before.
    """

    mirrored: bool
    init: Callable[[TrialSpec, Network], StrategyState]
    tell: Callable[[TrialSpec, Int[Array, ""], Network, Float[Array, " individual"], StrategyState], StrategyState]


def strategy_of(trial: TrialSpec) -> Strategy:
    """The strategy of a trial, or of trials stacked along a lane axis."""
    return _STRATEGIES[type(trial.optimizer)]


def deviations(state: StrategyState) -> Any:
    """The standard deviation of every weight, with the lane axis of the state if it has one.

    Args:
        state: Its arrays are of NumPy or of JAX, and so is the result.
    """
    scales = getattr(state, "D", None)
    return state.std if scales is None else state.std[..., None] * scales


def falling(
    initial: Float[Array, ""], final: Float[Array, ""], schedule: Schedule, step: Int[Array, ""], steps: int
) -> Float[Array, ""]:
    """A value that falls from `initial` in the first of `steps` generations to `final` after the last."""
    fallen = final + (initial - final) * share_left(schedule, step / steps)
    return jnp.where(final == initial, initial, fallen)


# --------------------------------------------------------------------------------------------------------------------
# evosax
# --------------------------------------------------------------------------------------------------------------------


def _made(algorithm: "type[Algorithm]", trial: TrialSpec, network: Network, **options: Any) -> "Algorithm":
    """An algorithm of evosax for the weights of a network."""
    shapes = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), network)
    assert isinstance(trial.optimizer, Evolution)
    # evosax's own metrics hold whole solutions; nobody here reads them.
    return algorithm(trial.optimizer.population, shapes, metrics_fn=lambda *_: {}, **options)


def _started(trial: TrialSpec, network: Network, algorithm: "Algorithm", params: Any) -> StrategyState:
    """evosax's state with types that no generation changes."""
    state = algorithm.init(trial.keys().training, network, params)
    return state.replace(best_fitness=jnp.float32(state.best_fitness), generation_counter=jnp.int32(0))


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


# --------------------------------------------------------------------------------------------------------------------
# PGPE
# --------------------------------------------------------------------------------------------------------------------


def _pgpe(trial: TrialSpec) -> PGPE:
    assert isinstance(trial.optimizer, PGPE)
    return trial.optimizer


def _pgpe_algorithm(trial: TrialSpec, network: Network) -> "Algorithm":
    from evosax.algorithms.distribution_based.pgpe import PGPE as Algorithm

    return _made(Algorithm, trial, network, optimizer=_adam() if _pgpe(trial).center_optimizer == "adam" else _clipup())


def _pgpe_params(optimizer: PGPE, std_learning_rate: Float[Array, ""] | float) -> Any:
    from evosax.algorithms.distribution_based.pgpe import Params

    return Params(std_init=optimizer.initial_std, std_lr=std_learning_rate, std_max_change=MAX_STD_CHANGE)  # pyright: ignore


def _center_rates(optimizer: PGPE) -> dict[str, Any]:
    if optimizer.center_optimizer == "adam":
        return {}
    return {"momentum": optimizer.momentum, "max_velocity_ratio": optimizer.max_velocity_ratio}


def _pgpe_init(trial: TrialSpec, network: Network) -> StrategyState:
    optimizer = _pgpe(trial)
    params = _pgpe_params(optimizer, optimizer.std_learning_rate)
    state = _started(trial, network, _pgpe_algorithm(trial, network), params)
    return _with_rate(state, optimizer.center_learning_rate, **_center_rates(optimizer))


def _pgpe_tell(
    trial: TrialSpec,
    step: Int[Array, ""],
    population: Network,
    objectives: Float[Array, " individual"],
    state: StrategyState,
) -> StrategyState:
    optimizer = _pgpe(trial)

    def rate(initial: Any, final: Any) -> Float[Array, ""]:
        return falling(initial, final, optimizer.schedule, step, trial.steps)

    center_rate = rate(optimizer.center_learning_rate, optimizer.final_center_learning_rate)
    params = _pgpe_params(optimizer, rate(optimizer.std_learning_rate, optimizer.final_std_learning_rate))
    network = jax.tree.map(lambda leaf: leaf[0], population)
    state = _with_rate(state, center_rate, **_center_rates(optimizer))
    moved, _ = _pgpe_algorithm(trial, network).tell(trial.keys().training, population, objectives, state, params)
    return moved.replace(std=jnp.clip(moved.std, optimizer.min_std, optimizer.max_std))


# --------------------------------------------------------------------------------------------------------------------
# OpenES
# --------------------------------------------------------------------------------------------------------------------


def _open_es(trial: TrialSpec) -> OpenES:
    assert isinstance(trial.optimizer, OpenES)
    return trial.optimizer


def _open_es_algorithm(trial: TrialSpec, network: Network, deviation: Any) -> "Algorithm":
    from evosax.algorithms.distribution_based.open_es import Open_ES as Algorithm

    return _made(Algorithm, trial, network, optimizer=_adam(), std_schedule=lambda _: deviation)


def _open_es_init(trial: TrialSpec, network: Network) -> StrategyState:
    optimizer = _open_es(trial)
    size = sum(leaf.size for leaf in jax.tree.leaves(network))
    algorithm = _open_es_algorithm(trial, network, jnp.full(size, optimizer.initial_std, jnp.float32))
    return _with_rate(_started(trial, network, algorithm, algorithm.default_params), optimizer.learning_rate)


def _open_es_tell(
    trial: TrialSpec,
    step: Int[Array, ""],
    population: Network,
    objectives: Float[Array, " individual"],
    state: StrategyState,
) -> StrategyState:
    optimizer = _open_es(trial)
    assert optimizer.final_learning_rate is not None
    assert optimizer.final_std is not None
    rate = falling(optimizer.learning_rate, optimizer.final_learning_rate, optimizer.schedule, step, trial.steps)  # pyright: ignore[reportArgumentType]
    following = falling(optimizer.initial_std, optimizer.final_std, optimizer.schedule, step + 1, trial.steps)  # pyright: ignore[reportArgumentType]
    network = jax.tree.map(lambda leaf: leaf[0], population)
    algorithm = _open_es_algorithm(trial, network, jnp.full(state.std.shape, following, jnp.float32))
    moved, _ = algorithm.tell(
        trial.keys().training, population, objectives, _with_rate(state, rate), algorithm.default_params
    )
    return moved


# --------------------------------------------------------------------------------------------------------------------
# SNES
# --------------------------------------------------------------------------------------------------------------------


def _snes(trial: TrialSpec) -> SNES:
    assert isinstance(trial.optimizer, SNES)
    return trial.optimizer


def _snes_algorithm(trial: TrialSpec, network: Network) -> "tuple[Algorithm, Any]":
    import optax
    from evosax.algorithms.distribution_based.snes import SNES as Algorithm

    optimizer = _snes(trial)
    sgd = optax.inject_hyperparams(optax.sgd)(learning_rate=0.0)
    algorithm = _made(Algorithm, trial, network, optimizer=sgd, fitness_shaping_fn=_shared_weights)
    params = algorithm.default_params
    rate = params.lr_std_init * optimizer.std_learning_rate_ratio
    return algorithm, params.replace(std_init=jnp.float32(optimizer.initial_std), lr_std_init=rate)


def _snes_init(trial: TrialSpec, network: Network) -> StrategyState:
    return _with_rate(_started(trial, network, *_snes_algorithm(trial, network)), _snes(trial).learning_rate)


def _snes_tell(
    trial: TrialSpec,
    step: Int[Array, ""],
    population: Network,
    objectives: Float[Array, " individual"],
    state: StrategyState,
) -> StrategyState:
    algorithm, params = _snes_algorithm(trial, jax.tree.map(lambda leaf: leaf[0], population))
    moved, _ = algorithm.tell(trial.keys().training, population, objectives, state, params)
    return moved


# --------------------------------------------------------------------------------------------------------------------
# sep-CMA-ES
# --------------------------------------------------------------------------------------------------------------------


def _sep_cma_es_algorithm(trial: TrialSpec, network: Network) -> "tuple[Algorithm, Any]":
    from evosax.algorithms.distribution_based.sep_cma_es import Sep_CMA_ES as Algorithm

    assert isinstance(trial.optimizer, SepCMAES)
    algorithm = _made(Algorithm, trial, network, fitness_shaping_fn=_shared_weights)
    params, ratio = algorithm.default_params, (algorithm.num_dims + 2) / 3
    one = jnp.minimum(1.0, ratio * params.c_1)
    several = jnp.minimum(1 - one, ratio * params.c_mu)
    return algorithm, params.replace(std_init=jnp.float32(trial.optimizer.initial_std), c_1=one, c_mu=several)


def _scaled(state: StrategyState) -> StrategyState:
    """The state with the deviations of its covariance, which evosax makes when it draws a population."""
    from evosax.algorithms.distribution_based.sep_cma_es import eigen_decomposition

    covariance, scales = eigen_decomposition(state.C)
    return state.replace(C=covariance, D=scales)


def _sep_cma_es_init(trial: TrialSpec, network: Network) -> StrategyState:
    return _scaled(_started(trial, network, *_sep_cma_es_algorithm(trial, network)))


def _sep_cma_es_tell(
    trial: TrialSpec,
    step: Int[Array, ""],
    population: Network,
    objectives: Float[Array, " individual"],
    state: StrategyState,
) -> StrategyState:
    algorithm, params = _sep_cma_es_algorithm(trial, jax.tree.map(lambda leaf: leaf[0], population))
    moved, _ = algorithm.tell(trial.keys().training, population, objectives, state, params)
    return _scaled(moved)


_STRATEGIES: Mapping[type, Strategy] = {
    PGPE: Strategy(True, _pgpe_init, _pgpe_tell),
    OpenES: Strategy(True, _open_es_init, _open_es_tell),
    SNES: Strategy(False, _snes_init, _snes_tell),
    SepCMAES: Strategy(False, _sep_cma_es_init, _sep_cma_es_tell),
}
