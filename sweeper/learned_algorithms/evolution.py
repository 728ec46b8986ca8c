"""Training without gradients: evolution strategies, whose populations other processes may evaluate.

A strategy keeps a normal distribution over weights: its centre, and a standard deviation for every weight. A generation
draws individuals, ranks them by the objective on one batch of inputs and seeds r that all individuals share, and moves
the distribution; `steps` counts generations. The updates are evosax's (`optimizers/`). The centre is
the network of the trial: its curves are stored, and it is evaluated.

The population is cut into blocks. A block is a function of the trial, the distribution and the number of the block
alone, because each pair of individuals is drawn from a key of its own. So a generation ships the distribution, not the
population, and a lost block is computed again. `stride` takes the evaluator of blocks as an argument: this process, or
actors.

Invariants:
    - On CPUs a block is the same compiled program in every process and in every order of blocks, so its numbers are
      equal bit for bit on processors of one kind. An accelerator computes a generation of this process at once.
    - All lanes and generations share the programs: rates and deviations are traced.
    - An individual whose losses or objective are not finite is ranked last. One whose losses break their contract
      otherwise has the objective -inf, which ends the training of its lane.
    - The individuals of a generation are ranked by one state of the objective, that of before the generation.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from sweeper.learned_algorithms.contracts import Network
from sweeper.learned_algorithms.objective import (
    batch_of,
    drawn_pairs,
    failure_of,
    names_of_own_curves,
    next_state,
    own_curves,
)
from sweeper.learned_algorithms.objective_contract import Batch
from sweeper.learned_algorithms.strategy_contract import EvolutionStrategy, deviations
from sweeper.learned_algorithms.trained_weights import trained, with_trained
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.training import compilation
from sweeper.training.trainer import Evaluator, Population, Trainer, over_lanes
from sweeper.trial import vectorisation

BLOCK = 8
"""Pairs of individuals in a block; the last block of a population is filled up and cut again."""


class Distribution(NamedTuple):
    """The search distribution over flattened weights, and the state of the objective that ranks individuals."""

    center: Float[Array, "*lane weight"]
    std: Float[Array, "*lane weight"]
    objective: PyTree


class EvolutionState(NamedTuple):
    """The state of a training between two generations; under lanes every leaf has a leading lane axis."""

    network: Network  # the network of the centre
    strategy: Any  # evosax's state of the strategy
    step: Int[Array, "*lane"]  # generations done
    failure: Int[Array, "*lane"]  # 0, or a key of `objective.FAILURES`
    objective: PyTree  # the objective's state, which moves once a generation, by the losses of the centre

    def distribution(self) -> Distribution:
        """The distribution of the next population."""
        return Distribution(self.strategy.mean, deviations(self.strategy), self.objective)


class GenerationCurve(NamedTuple):
    """The centre's losses on the batch of a generation, each the mean over the seeds of an input first."""

    train_loss: Float[Array, "*lane"]
    """The objective by which the generation is ranked."""
    mean_loss: Float[Array, "*lane"]
    """Mean over the inputs."""
    tail_loss: Float[Array, "*lane"]
    """95th percentile over the inputs."""
    worst_loss: Float[Array, "*lane"]
    """Maximum over the inputs."""
    own: tuple[Float[Array, "*lane"], ...] = ()
    """The curves of the trial's task and objective."""


STRIDE = 1
"""Generations that are run at once: between any two, a training can be stopped and its state kept."""

CURVE_POINTS = 200
"""Points of the curve of a long run, at most twice as many."""


def blocks(trial: TrialSpec) -> int:
    """Number of blocks of a population."""
    return -(-_population(trial) // (2 * BLOCK))


def init(trials: TrialSpec, networks: Network | None = None) -> EvolutionState:
    """The state before the first generation, for trials stacked along a lane axis, with these centres or fresh ones."""
    return over_lanes(_init, trials, networks)


def block_objectives(
    trials: TrialSpec, distribution: Distribution, step: Int[Array, " lane"], block: Int[Array, ""]
) -> Float[Array, "lane sign pair"]:
    """Objectives of one block of every lane's population: of the first of each pair, and of the second."""
    return over_lanes(functools.partial(_block, block), trials, distribution, step)


def generation(trials: TrialSpec, state: EvolutionState) -> tuple[EvolutionState, GenerationCurve]:
    """A whole generation by one program for an accelerator.

    The centre is computed as one more individual, so that it takes no kernels of its own. The loops over the steps of
    an episode are most of the kernels.
    """
    return over_lanes(_generation, trials, state)


def individual(
    trial: TrialSpec, distribution: Distribution, step: Int[Array, ""], pair: Int[Array, ""], sign: Float[Array, ""]
) -> Network:
    """One individual of the population of generation `step`, of one trial; `sign` is 1 or -1 within the pair."""
    return _unravel(trial)(_weights(trial, distribution, step, pair, sign))


def _weights(
    trial: TrialSpec, distribution: Distribution, step: Int[Array, ""], pair: Int[Array, ""], sign: Float[Array, ""]
) -> Float[Array, " weight"]:
    """The weights of `individual`."""
    key, size = _streams(trial, step).population, distribution.center.size
    if _strategy(trial).MIRRORED:
        noise = sign * jax.random.normal(jax.random.fold_in(key, pair), (size,))
    else:
        noise = jax.random.normal(jax.random.fold_in(key, 2 * pair + (sign < 0)), (size,))
    return distribution.center + distribution.std * noise


def generation_pairs(trial: TrialSpec, step: Int[Array, ""]) -> tuple[PyTree, PyTree]:
    """The inputs and seeds r of generation `step`, which all individuals share."""
    streams = _streams(trial, step)
    return drawn_pairs(trial, streams.inputs, streams.seeds)


def tell(
    trials: TrialSpec, state: EvolutionState, objectives: list[Float[Array, "lane sign pair"]]
) -> tuple[EvolutionState, GenerationCurve]:
    """The state after a generation whose blocks have these objectives."""
    return over_lanes(_tell, trials, state, jnp.concatenate(objectives, axis=2))


def in_process(trials: TrialSpec, distribution: Distribution, step: np.ndarray) -> list[np.ndarray]:
    """The evaluator that computes every block in this process."""
    return [block_in_process(trials, distribution, step, block) for block in range(blocks(trials))]


def block_in_process(trials: TrialSpec, distribution: Distribution, step: np.ndarray, block: int) -> np.ndarray:
    """Objectives of one block, by this process's program for it."""
    arguments = (trials, distribution, step, np.int32(block))
    return np.asarray(compilation.kept(block_objectives, *arguments, trains=True)(*arguments))


def curve_interval(trial: TrialSpec) -> int:
    """Generations from one point of a curve to the next."""
    return max(1, trial.steps // CURVE_POINTS)


def start(trials: TrialSpec, networks: Network | None = None) -> EvolutionState:
    """`init`, by this process's program for it."""
    return compilation.kept(init, trials, networks, runs_once=True)(trials, networks)


def stride(
    trials: TrialSpec, state: EvolutionState, length: int, evaluate: Evaluator = in_process
) -> tuple[EvolutionState, GenerationCurve]:
    """One generation, whose population `evaluate` evaluates; `length` is always 1."""
    assert length == STRIDE
    if evaluate is in_process and not vectorisation.in_turns():
        return compilation.kept(generation, trials, state, trains=True)(trials, state)
    # On the host, so that the numbers that are shipped and those that stay are the same arrays.
    distribution = jax.tree.map(np.asarray, state.distribution())
    objectives = evaluate(trials, distribution, np.asarray(state.step))
    return compilation.kept(tell, trials, state, objectives, trains=True)(trials, state, objectives)


def first_generation(
    trials: TrialSpec,
) -> tuple[EvolutionState, list[tuple[int, Callable[..., Any], tuple[Any, ...]]]]:
    """The state before the first generation of a population that this process evaluates, and the generation's programs.

    A program is how often it runs, its function and its arguments. State and arguments are shapes; nothing is computed.
    """
    state, number = jax.eval_shape(init, trials), blocks(trials)
    if not vectorisation.in_turns():
        return state, [(1, generation, (trials, state))]
    distribution = jax.eval_shape(EvolutionState.distribution, state)
    of_block = trials, distribution, state.step, np.int32(0)
    told = 1, tell, (trials, state, [jax.eval_shape(block_objectives, *of_block)] * number)
    return state, [(number, block_objectives, of_block), told]


def programs(trials: TrialSpec) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The programs of `Trainer.programs`; of a population the blocks are computed by one."""
    yield init, (trials,)
    _, of_generation = first_generation(trials)
    yield from ((function, arguments) for _, function, arguments in of_generation)


def memory(trials: TrialSpec) -> int:
    """Bytes of the device that a generation needs whose population this process evaluates, as the compiler says."""
    _, programs = first_generation(trials)
    return max(
        compilation.kept(function, *arguments, trains=True).memory_bytes() for _, function, arguments in programs
    )


def trainer(evaluate: Evaluator) -> Trainer[EvolutionState]:
    """Evolution whose populations are evaluated by `evaluate`."""
    return Trainer(
        stride_steps=STRIDE,
        curves=("train_loss", "mean_loss", "tail_loss", "worst_loss"),
        curve_interval=curve_interval,
        start=start,
        stride=functools.partial(stride, evaluate=evaluate),
        programs=programs,
        memory=memory,
        failure=failure_of,
        own_curves=names_of_own_curves,
        population=Population(blocks, block_in_process, trainer),
    )


TRAINER = trainer(in_process)


def _strategy(trial: TrialSpec) -> EvolutionStrategy:
    assert isinstance(trial.optimizer, EvolutionStrategy)
    return trial.optimizer


def _population(trial: TrialSpec) -> int:
    return _strategy(trial).population


def _init(trial: TrialSpec, network: Network | None) -> EvolutionState:
    if network is None:
        network = trial.initial_network()
    strategy, objective = (
        _strategy(trial).init(trial.keys().training, trial.steps, trained(network)),
        trial.objective.initial_state(trial.task),
    )
    return EvolutionState(network, strategy, jnp.int32(0), jnp.int32(0), objective)


class _Streams(NamedTuple):
    """Keys of the random draws of a generation."""

    inputs: PRNGKeyArray
    seeds: PRNGKeyArray
    population: PRNGKeyArray


def _streams(trial: TrialSpec, step: Int[Array, ""]) -> _Streams:
    return _Streams(*jax.random.split(jax.random.fold_in(trial.keys().training, step), 3))


def _unravel(trial: TrialSpec) -> Callable[[Float[Array, " weight"]], Network]:
    """The network of a vector of weights; its constants are those of the network as it was built."""
    built = jax.eval_shape(trial.initial_network)
    weights = trained(built)
    unravelled = ravel_pytree(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), weights))[1]
    if weights is built:
        return unravelled
    network = trial.initial_network()
    return lambda vector: with_trained(network, unravelled(vector))


def _assessed(
    trial: TrialSpec,
    objective: PyTree,
    step: Int[Array, ""],
    pairs: tuple[PyTree, PyTree],
    network: Network,
) -> tuple[Float[Array, ""], Batch, Int[Array, ""]]:
    """The objective by which an individual is ranked, its losses, and a number of `objective.FAILURES`."""
    batch, _, broken = batch_of(trial, network, *pairs, step)
    value = trial.objective.value(batch, objective)
    return jnp.where(broken == 1, jnp.inf, jnp.where(broken > 0, -jnp.inf, value)), batch, broken


def _block(
    block: Int[Array, ""], trial: TrialSpec, distribution: Distribution, step: Int[Array, ""]
) -> Float[Array, "sign pair"]:
    def objective(pair: Int[Array, ""], sign: Float[Array, ""]) -> Float[Array, ""]:
        network = individual(trial, distribution, step, pair, sign)
        return _assessed(trial, distribution.objective, step, generation_pairs(trial, step), network)[0]

    pairs, signs = block * BLOCK + jnp.tile(jnp.arange(BLOCK), 2), jnp.repeat(jnp.array([1.0, -1.0]), BLOCK)
    return over_lanes(objective, pairs, signs).reshape(2, BLOCK)


def _generation(trial: TrialSpec, state: EvolutionState) -> tuple[EvolutionState, GenerationCurve]:
    half = _population(trial) // 2
    pairs, signs = jnp.tile(jnp.arange(half), 2), jnp.repeat(jnp.array([1.0, -1.0]), half)
    distribution = state.distribution()
    drawn = jax.vmap(functools.partial(_weights, trial, distribution, state.step))(pairs, signs)
    networks = jax.vmap(_unravel(trial))(jnp.concatenate([drawn, distribution.center[None]]))
    pairs_of_step = generation_pairs(trial, state.step)
    assessed = functools.partial(_assessed, trial, state.objective, state.step, pairs_of_step)
    objectives, batches, broken = jax.vmap(assessed)(networks)
    batch, broken_centre = jax.tree.map(lambda leaf: leaf[-1], (batches, broken))
    population = jax.vmap(_unravel(trial))(drawn)
    return _moved(trial, state, population, objectives[:-1].reshape(2, half), batch, broken_centre)


def _tell(
    trial: TrialSpec, state: EvolutionState, objectives: Float[Array, "sign pair"]
) -> tuple[EvolutionState, GenerationCurve]:
    batch, _, broken = batch_of(trial, state.network, *generation_pairs(trial, state.step), state.step)

    def half(sign: float) -> Network:
        drawn = functools.partial(individual, trial, state.distribution(), state.step, sign=jnp.float32(sign))
        return jax.vmap(drawn)(jnp.arange(_population(trial) // 2))

    population = jax.tree.map(lambda *halves: jnp.concatenate(halves), half(1.0), half(-1.0))
    return _moved(trial, state, population, objectives, batch, broken)


def _moved(
    trial: TrialSpec,
    state: EvolutionState,
    population: Network,
    objectives: Float[Array, "sign pair"],
    batch: Batch,
    broken: Int[Array, ""],
) -> tuple[EvolutionState, GenerationCurve]:
    """The state after a generation, from its individuals, their objectives and the losses of its centre."""
    pairs = _population(trial) // 2
    finite = jnp.where(jnp.isfinite(objectives), objectives, jnp.inf)[:, :pairs].reshape(-1)
    strategy = _strategy(trial).tell(
        trial.keys().training, trial.steps, state.step, trained(population), finite, state.strategy
    )
    loss = trial.objective.value(batch, state.objective)
    own = own_curves(trial, state.network, *generation_pairs(trial, state.step), batch, state.objective)
    curve = GenerationCurve(loss, batch.losses.mean(), jnp.percentile(batch.losses, 95), batch.losses.max(), own)

    failure = jnp.where(jnp.isfinite(loss) & jnp.isfinite(objectives[:, :pairs]).any(), 0, 1)
    failure = jnp.where(jnp.isneginf(objectives[:, :pairs]).any(), 3, failure)
    failure = jnp.where(broken > 0, broken, failure)
    failure = jnp.where(state.failure > 0, state.failure, failure)
    objective = next_state(trial, batch, state.objective)
    moved = EvolutionState(_unravel(trial)(strategy.mean), strategy, state.step + 1, state.failure, objective)
    kept = jax.tree.map(lambda new, old: jnp.where(failure == 0, new, old), moved, state)
    return kept._replace(failure=failure), curve
