"""The objective of one batch of a trial: the mean over the seeds r first, then what the trial's objective makes of it.

The plug-in of `trial.objective` sees the losses of the inputs (`sweeper.learned_algorithms.objective_contract`). Both
trainers draw their pairs and make its batches here, and here the contract of a task's losses is checked: shapes and
types while a program is traced, values by the number of a failure.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from sweeper.learned_algorithms.contracts import Network
from sweeper.learned_algorithms.objective_contract import Batch
from sweeper.learned_algorithms.seed_bank import Seeds, with_seeds
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.training.trainer import Failure
from sweeper.trial.contract_checks import ROUNDING, check_array, check_batch, place

FAILURES = {1: "non-finite loss", 2: "non-finite gradient", 3: "negative loss", 4: "group out of range"}
"""The meaning of the number in `TrainerState.failure`; 0 is a sound lane."""

BROKEN_BY = {3: "losses", 4: "abilities"}
"""The method of a task that has broken its contract, by the number of the failure."""


def failure_of(trial: TrialSpec, number: int) -> Failure:
    """The failure with a number in `TrainerState.failure`."""
    return Failure(FAILURES[number], place(trial.task, BROKEN_BY[number]) if number in BROKEN_BY else None)


def names_of_own_curves(trial: TrialSpec) -> tuple[str, ...]:
    """The training curves that the task and the objective add to those of the trainer."""
    return (*trial.task.abilities().curves, *trial.objective.curves())


def drawn_pairs(trial: TrialSpec, inputs_key: PRNGKeyArray, seeds_key: PRNGKeyArray) -> tuple[PyTree, PyTree]:
    """The inputs and the seeds r of a step of a trial without a lane axis; a `ContractError` if they are too few."""
    task = trial.task
    inputs = task.sample_inputs(inputs_key, trial.batch_size)
    check_batch(task, "sample_inputs", inputs, trial.batch_size)
    key, count = (trial.keys().fixed_seed, 1) if trial.single_seed else (seeds_key, trial.objective.m)
    seeds = task.sample_seeds(key, count)
    check_batch(task, "sample_seeds", seeds, count)
    return inputs, seeds


def batch_of(
    trial: TrialSpec, network: Network, inputs: PyTree, seeds: PyTree, step: Int[Array, ""]
) -> tuple[Batch, Float[Array, ""], Int[Array, ""]]:
    """What the objective of a trial sees of a batch, the mean loss, and a number of `FAILURES`.

    A network with a bank takes its own seeds r for the drawn ones. The trial has no lane axis, and `step` counts the
    steps done before. The number is 0 where the losses and the groups are what their contracts allow; losses of another
    type or shape are a `ContractError`.
    """
    task, count = trial.task, 1 if trial.single_seed else trial.objective.m
    network, of_step = with_seeds(network, seeds)
    losses = task.losses(network, inputs, of_step.values)
    check_array(task, "losses", "", losses, jnp.floating, input=trial.batch_size, seed=count)
    batch, broken = batch_of_losses(trial, inputs, of_step, losses, step)
    return batch, of_step.mean_of_all(losses), broken


def batch_of_losses(
    trial: TrialSpec, inputs: PyTree, seeds: Seeds, losses: Float[Array, "input seed"], step: Int[Array, ""]
) -> tuple[Batch, Int[Array, ""]]:
    """As `batch_of`, of losses that are there."""
    task, groups = trial.task, None
    # An objective may make a finite number of what is none: the q-norm of NaN is 0.
    failure = jnp.where(jnp.isfinite(losses).all(), jnp.where((losses < -ROUNDING).any(), 3, 0), 1)
    if trial.objective.needs_groups:
        division = task.abilities().groups
        assert division is not None
        groups = division.of(inputs)
        check_array(task, "abilities", "groups", groups, jnp.integer, input=trial.batch_size)
        failure = jnp.where(((groups < 0) | (groups >= division.count)).any(), 4, failure)
    return Batch(seeds.mean(losses), groups, step / trial.steps), failure


def own_curves(
    trial: TrialSpec, network: Network, inputs: PyTree, seeds: PyTree, batch: Batch, state: PyTree
) -> tuple[Float[Array, ""], ...]:
    """The values of a step, in float32, of the curves that the task and the objective add to those of the trainer.

    A curve of a task sees each seed r of a bank once, whatever its probability.
    """
    network, of_step = with_seeds(network, seeds)
    of_task = [curve(network, inputs, of_step.values) for curve in trial.task.abilities().curves.values()]
    of_objective = [curve(batch, state) for curve in trial.objective.curves().values()]
    return tuple(jnp.asarray(value, jnp.float32) for value in (*of_task, *of_objective))


def next_state(trial: TrialSpec, batch: Batch, state: PyTree) -> PyTree:
    """The state of the objective after a batch; no gradient flows through it."""
    return trial.objective.next_state(jax.lax.stop_gradient(batch), state)
