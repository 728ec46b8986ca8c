"""The objective of one batch of a trial: the mean over the seeds r first, then what the trial's objective makes of it.

The plug-in of `trial.objective` sees the losses of the inputs (`sweeper.trial.objective_contract`). Both trainers make
its batches here.
"""

import jax
from jaxtyping import Array, Float, Int, PyTree

from sweeper.trial.objective_contract import Batch
from sweeper.trial.trial_spec import TrialSpec


def batch_of(trial: TrialSpec, inputs: PyTree, losses: Float[Array, "input seed"], step: Int[Array, ""]) -> Batch:
    """What the objective of a trial sees of a batch.

    Args:
        trial: The trial, without a lane axis.
        inputs: The inputs of the batch.
        losses: Loss of every pair of an input and a seed.
        step: Steps done before.
    """
    groups = None
    if trial.objective.needs_groups:
        division = trial.task.abilities().groups
        assert division is not None
        groups = division.of(inputs)
    return Batch(losses.mean(axis=1), groups, step / trial.steps)


def next_state(trial: TrialSpec, batch: Batch, state: PyTree) -> PyTree:
    """The state of the objective after a batch; no gradient flows through it."""
    return trial.objective.next_state(jax.lax.stop_gradient(batch), state)
