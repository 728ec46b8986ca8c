"""Training without gradients: PGPE (Sehnke et al., 2010), whose population other processes may evaluate.

PGPE keeps a normal distribution over weights: its centre, and a standard deviation for every weight. A generation draws
pairs of individuals, mirrored at the centre, ranks them by the objective on one batch of inputs and seeds r that all
individuals share, and moves the distribution; `steps` counts generations. The update is evosax's. The centre is the
network of the trial: its curves are stored, and it is evaluated.

The population is cut into blocks. A block is a function of the trial, the distribution and the number of the block
alone, because each pair of individuals is drawn from a key of its own. So a generation ships the distribution, not the
population, and a lost block is computed again. `stride` takes the evaluator of blocks as an argument: this process, or
actors.

Invariants:
    - A block is the same compiled program in every process and in every order of blocks, so its numbers are equal bit
      for bit on processors of one kind.
    - All lanes share the programs: rates and the initial deviation are traced.
    - An individual whose objective is not finite is ranked last.
    - The individuals of a generation are ranked by one state of the objective, that of before the generation.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from sweeper.training import compilation
from sweeper.training.objective import batch_of, next_state
from sweeper.training.trainer import Trainer, over_lanes
from sweeper.trial.contracts import Network
from sweeper.trial.objective_contract import Batch
from sweeper.trial.trial_spec import PGPE, TrialSpec

if TYPE_CHECKING:
    # Importing evosax starts JAX's backend, and with it its threads and its hold on a GPU. The driver imports this
    # module and must do without, so evosax is imported where it is used.
    from evosax.algorithms.distribution_based.pgpe import PGPE as Algorithm
    from evosax.algorithms.distribution_based.pgpe import Params

BLOCK = 8
"""Pairs of individuals in a block; the last block of a population is filled up and cut again."""

MAX_STD_CHANGE = 0.2
"""Largest relative change of a standard deviation in one generation."""


class Distribution(NamedTuple):
    """The search distribution over flattened weights, and the state of the objective that ranks individuals."""

    center: Float[Array, "*lane weight"]
    std: Float[Array, "*lane weight"]
    objective: PyTree


class EvolutionState(NamedTuple):
    """The state of a training between two generations; under lanes every leaf has a leading lane axis.

    Attributes:
        model: The network of the centre.
        search: evosax's state.
        step: Generations done.
        failure: 0, or a key of `trainer.FAILURES`.
        objective: The objective's state, which moves once a generation, by the losses of the centre.
    """

    model: Network
    search: Any
    step: Int[Array, "*lane"]
    failure: Int[Array, "*lane"]
    objective: PyTree

    def distribution(self) -> Distribution:
        """The distribution of the next population."""
        return Distribution(self.search.mean, self.search.std, self.objective)


class Curve(NamedTuple):
    """The centre's losses on the batch of a generation, each the mean over the seeds of an input first."""

    train_loss: Float[Array, "*lane"]
    """The objective by which the generation is ranked."""
    mean_loss: Float[Array, "*lane"]
    """Mean over the inputs."""
    tail_loss: Float[Array, "*lane"]
    """95th percentile over the inputs."""
    worst_loss: Float[Array, "*lane"]
    """Maximum over the inputs."""


STRIDE = 1
"""Generations that are run at once: between any two, a run can be stopped and its state kept."""

CURVE_POINTS = 200
"""Points of the curve of a long run, at most twice as many."""

Evaluator = Callable[[TrialSpec, Distribution, np.ndarray], list[np.ndarray]]
"""Objectives of all blocks, in order, of the stacked trials, their distributions and their generation counters."""


def blocks(trial: TrialSpec) -> int:
    """Number of blocks of a population."""
    return -(-_pgpe(trial).population // (2 * BLOCK))


def init(trials: TrialSpec) -> EvolutionState:
    """The state before the first generation, for trials stacked along a lane axis."""
    return over_lanes(_init, trials)


def block_objectives(
    trials: TrialSpec, distribution: Distribution, step: Int[Array, " lane"], block: Int[Array, ""]
) -> Float[Array, "lane sign pair"]:
    """Objectives of one block of every lane's population: of centre + std z for each pair, and of centre - std z."""
    return over_lanes(functools.partial(_block, block), trials, distribution, step)


def tell(
    trials: TrialSpec, state: EvolutionState, objectives: list[Float[Array, "lane sign pair"]]
) -> tuple[EvolutionState, Curve]:
    """The state after a generation whose blocks have these objectives."""
    return over_lanes(_tell, trials, state, jnp.concatenate(objectives, axis=2))


def in_process(trials: TrialSpec, distribution: Distribution, step: np.ndarray) -> list[np.ndarray]:
    """The evaluator that computes every block in this process."""
    return [block_in_process(trials, distribution, step, block) for block in range(blocks(trials))]


def block_in_process(trials: TrialSpec, distribution: Distribution, step: np.ndarray, block: int) -> np.ndarray:
    """Objectives of one block, by this process's program for it."""
    arguments = (trials, distribution, step, np.int32(block))
    return np.asarray(compilation.kept(block_objectives, *arguments)(*arguments))


def curve_interval(trial: TrialSpec) -> int:
    """Generations from one point of a curve to the next."""
    return max(1, trial.steps // CURVE_POINTS)


def start(trials: TrialSpec) -> EvolutionState:
    """`init`, by this process's program for it."""
    return compilation.kept(init, trials, runs_once=True)(trials)


def stride(
    trials: TrialSpec, state: EvolutionState, length: int, evaluate: Evaluator = in_process
) -> tuple[EvolutionState, Curve]:
    """One generation, whose population `evaluate` evaluates; `length` is always 1."""
    assert length == STRIDE
    # On the host, so that the numbers that are shipped and those that stay are the same arrays.
    distribution = jax.tree.map(np.asarray, state.distribution())
    objectives = evaluate(trials, distribution, np.asarray(state.step))
    return compilation.kept(tell, trials, state, objectives)(trials, state, objectives)


def memory(trials: TrialSpec) -> int:
    """Bytes of the device that a generation needs whose blocks this process evaluates, as the compiler says."""
    state = jax.eval_shape(init, trials)
    block = trials, state.distribution(), state.step, np.int32(0)
    objectives = [jax.eval_shape(block_objectives, *block)] * blocks(trials)
    programs = compilation.compiled(block_objectives, *block), compilation.compiled(tell, trials, state, objectives)
    return max(map(compilation.memory_bytes, programs))


def trainer(evaluate: Evaluator) -> Trainer:
    """PGPE whose populations are evaluated by `evaluate`."""
    return Trainer(
        stride_steps=STRIDE,
        curves=Curve._fields,
        curve_interval=curve_interval,
        start=start,
        stride=functools.partial(stride, evaluate=evaluate),
        memory=memory,
        with_population=trainer,
    )


TRAINER = trainer(in_process)


def _pgpe(trial: TrialSpec) -> PGPE:
    assert isinstance(trial.optimizer, PGPE)
    return trial.optimizer


def _init(trial: TrialSpec) -> EvolutionState:
    model = trial.model.build(trial.task, trial.keys().weights)
    search = _algorithm(trial, model).init(  # pyright: ignore[reportCallIssue]
        trial.keys().training,
        model,
        _params(_pgpe(trial)),  # pyright: ignore[reportCallIssue]
    )
    # The rate is a leaf of the optimiser's state, so that lanes may differ in it.
    rates = search.opt_state.hyperparams | {"learning_rate": jnp.float32(_pgpe(trial).center_learning_rate)}
    search = search.replace(
        opt_state=search.opt_state._replace(hyperparams=rates),
        best_fitness=jnp.float32(search.best_fitness),
        generation_counter=jnp.int32(0),
    )
    return EvolutionState(model, search, jnp.int32(0), jnp.int32(0), trial.objective.initial_state(trial.task))


def _algorithm(trial: TrialSpec, model: Network) -> "Algorithm":
    from evosax.algorithms.distribution_based.pgpe import PGPE as Algorithm

    shapes = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), model)
    adam = optax.inject_hyperparams(optax.adam)(learning_rate=0.0)
    # evosax's own metrics hold whole solutions, and are not used.
    return Algorithm(_pgpe(trial).population, shapes, optimizer=adam, metrics_fn=lambda *_: {})


def _params(optimizer: PGPE) -> "Params":
    from evosax.algorithms.distribution_based.pgpe import Params

    return Params(std_init=optimizer.initial_std, std_lr=optimizer.std_learning_rate, std_max_change=MAX_STD_CHANGE)  # pyright: ignore[reportCallIssue]


def _noise(key: PRNGKeyArray, pair: Int[Array, ""], size: int) -> Float[Array, " weight"]:
    return jax.random.normal(jax.random.fold_in(key, pair), (size,))


class _Streams(NamedTuple):
    """Keys of the random draws of a generation."""

    inputs: PRNGKeyArray
    seeds: PRNGKeyArray
    population: PRNGKeyArray


def _streams(trial: TrialSpec, step: Int[Array, ""]) -> _Streams:
    return _Streams(*jax.random.split(jax.random.fold_in(trial.keys().training, step), 3))


def _batch(trial: TrialSpec, step: Int[Array, ""], model: Network) -> Batch:
    """The batch of a model for the objective, on the inputs and seeds that all individuals share."""
    task, streams = trial.task, _streams(trial, step)
    inputs = task.sample_inputs(streams.inputs, trial.batch_size)
    if trial.single_seed:
        seeds = task.sample_seeds(trial.keys().fixed_seed, 1)
    else:
        seeds = task.sample_seeds(streams.seeds, trial.objective.m)
    return batch_of(trial, inputs, task.losses(model, inputs, seeds), step)


def _unravel(trial: TrialSpec) -> Callable[[Float[Array, " weight"]], Network]:
    shapes = jax.eval_shape(lambda: trial.model.build(trial.task, jax.random.key(0)))
    return ravel_pytree(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes))[1]


def _block(
    block: Int[Array, ""], trial: TrialSpec, distribution: Distribution, step: Int[Array, ""]
) -> Float[Array, "sign pair"]:
    unravel, key = _unravel(trial), _streams(trial, step).population

    def objective(pair: Int[Array, ""], sign: Float[Array, ""]) -> Float[Array, ""]:
        noise = _noise(key, pair, distribution.center.size)
        model = unravel(distribution.center + sign * distribution.std * noise)
        return trial.objective.value(_batch(trial, step, model), distribution.objective)

    pairs, signs = block * BLOCK + jnp.tile(jnp.arange(BLOCK), 2), jnp.repeat(jnp.array([1.0, -1.0]), BLOCK)
    return over_lanes(objective, pairs, signs).reshape(2, BLOCK)


def _tell(
    trial: TrialSpec, state: EvolutionState, objectives: Float[Array, "sign pair"]
) -> tuple[EvolutionState, Curve]:
    pairs = _pgpe(trial).population // 2
    center, std, _ = state.distribution()
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(_streams(trial, state.step).population, jnp.arange(pairs))
    noise = jax.vmap(lambda key: jax.random.normal(key, center.shape))(keys)
    population = jax.vmap(_unravel(trial))(jnp.concatenate([center + std * noise, center - std * noise]))
    finite = jnp.where(jnp.isfinite(objectives), objectives, jnp.inf)[:, :pairs].reshape(-1)
    algorithm = _algorithm(trial, state.model)
    search, _ = algorithm.tell(trial.keys().training, population, finite, state.search, _params(_pgpe(trial)))
    batch = _batch(trial, state.step, state.model)
    loss = trial.objective.value(batch, state.objective)
    curve = Curve(loss, batch.losses.mean(), jnp.percentile(batch.losses, 95), batch.losses.max())

    failure = jnp.where(jnp.isfinite(loss) & jnp.isfinite(objectives[:, :pairs]).any(), 0, 1)
    failure = jnp.where(state.failure > 0, state.failure, failure)
    objective = next_state(trial, batch, state.objective)
    moved = EvolutionState(_unravel(trial)(search.mean), search, state.step + 1, state.failure, objective)
    kept = jax.tree.map(lambda new, old: jnp.where(failure == 0, new, old), moved, state)
    return kept._replace(failure=failure), curve
