"""Contracts of tasks, models and objectives by shapes: every method is traced, and nothing is computed.

What a method raises while it is traced, which is mostly JAX's own word on arrays that do not fit, is told with the
method. Beyond that the checks are for what would go on in silence: losses and outcomes of other axes, names that tables
have, and networks that keep what their methods see.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.learned_algorithms import evaluation, trainers
from sweeper.learned_algorithms.contracts import Network, Task
from sweeper.learned_algorithms.declared import DECLARED
from sweeper.learned_algorithms.objective_contract import Batch
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.training.kind import Keep
from sweeper.trial.contract_checks import attributed, broken, check_array, check_batch, check_name


def check_networks(trial: TrialSpec, keep: Keep) -> None:
    """Hold the task and the model of a trial, and the network that the model builds, against their contracts."""
    jax.eval_shape(functools.partial(_trace_task, keep), trial)
    evaluation.names(trial)


def _given(plugin: Any, method: str, *arguments: Any) -> Any:
    """The result of a method of a plug-in. An error that the method raises becomes a `ContractError`."""
    with attributed(plugin, method):
        return getattr(plugin, method)(*arguments)


def _trace_task(keep: Keep, trial: TrialSpec) -> None:
    """Every method of a task and its model, and the call of the network, while they are traced."""
    task, model, key = trial.task, trial.model, jax.random.key(0)
    _check_names(task)
    network = _given(model, "build", task, key)
    for need in task.NEEDS:
        if not isinstance(network, need):
            raise broken(model, "build", "another network", f"a contracts.{need.__name__} for the task {task.name}")
    keep(network, model, "build")
    before = _held(network)
    count = task.context_size()
    logits = _given(network, "__call__", jnp.zeros((count, task.token_size())), jnp.ones((count, count), bool))
    check_array(network, "__call__", "", logits, np.floating, token=count, output=task.output_size())

    inputs = _given(task, "sample_inputs", key, trial.batch_size)
    check_batch(task, "sample_inputs", inputs, trial.batch_size)
    # Fewer or more seeds than inputs: a transposed matrix has another shape.
    count = another(trial.objective.m, trial.batch_size)
    seeds = _given(task, "sample_seeds", key, count)
    check_batch(task, "sample_seeds", seeds, count)
    pair = jax.tree.map(lambda leaf: leaf[0], (inputs, seeds))
    check_array(task, "loss", "", _given(task, "loss", network, *pair), np.floating)
    losses = _given(task, "losses", network, inputs, seeds)
    check_array(task, "losses", "", losses, np.floating, input=trial.batch_size, seed=count)
    for curve in task.abilities().curves.values():
        with attributed(task, "abilities"):
            curve(network, inputs, seeds)

    inputs = _given(task, "evaluation_inputs")
    inputs_count = check_batch(task, "evaluation_inputs", inputs)
    count = another(trial.evaluation.seeds, inputs_count)
    outcomes = _given(task, "outcomes", network, inputs, _given(task, "sample_seeds", key, count))
    evaluation.check_outcomes(trial, outcomes, inputs_count, count)
    _require_unchanged(network, before)


def _check_names(task: Task) -> None:
    """Refuse measures and curves of a task whose names tables, or curves of its trainers, have."""
    abilities = _given(task, "abilities")
    names = [*abilities.quantities, *abilities.curves]
    for name in names:
        check_name(task, "abilities", name, [*names, *trainers.CURVES])
    if taken := {*DECLARED.metrics, *trainers.CURVES} & abilities.curves.keys():
        raise broken(task, "abilities", f"{min(taken)!r} among curves", "another name: trainers have that curve")


def _held(network: Network) -> tuple[Any, list[Any]]:
    """What a network holds: the structure, and the leaves with the attributes, which need not be leaves."""
    leaves, structure = jax.tree.flatten(network)
    attributes = dict(vars(network))
    return (structure, list(attributes)), [*leaves, *attributes.values()]


def _require_unchanged(network: Network, before: tuple[Any, list[Any]]) -> None:
    """Refuse a network that one of its methods has changed since `before`.

    Training would lose what the method leaves in the network, such as the statistics of a batch.
    """
    (structure, leaves), (now, after) = before, _held(network)
    if now != structure or any(new is not old for old, new in zip(leaves, after, strict=True)):
        gives = "its result and changes the network"
        raise broken(network, "__call__", gives, "pure: statistics of batches and other state belong to an experiment")


def check_objective(trial: TrialSpec) -> None:
    """Hold the objective of a trial against its contract."""
    jax.eval_shape(_trace_objective, trial)


def _trace_objective(trial: TrialSpec) -> None:
    """Every method of an objective, while it is traced."""
    objective = trial.objective
    state = jax.tree.map(jnp.asarray, _given(objective, "initial_state", trial.task))
    groups = jnp.zeros(trial.batch_size, jnp.int32) if objective.needs_groups else None
    batch = Batch(jnp.zeros(trial.batch_size), groups, jnp.float32(0))
    with attributed(objective, "next_state"):  # as a loop calls it, which wants a state like the one before
        after, _ = jax.lax.scan(lambda state, _: (objective.next_state(batch, state), None), state, length=1)
    check_array(objective, "value", "", _given(objective, "value", batch, after), np.floating)
    for curve in objective.curves().values():
        with attributed(objective, "curves"):
            curve(batch, after)


def another(count: int, other: int) -> int:
    """A number near `count` that is not the other."""
    return count if count != other else count + 1
