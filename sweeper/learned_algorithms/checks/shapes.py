"""Contracts of tasks, models and objectives by shapes: every method is traced, and nothing is computed."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.learned_algorithms import evaluation, trainers
from sweeper.learned_algorithms.contracts import (
    Abilities,
    EmbeddingNetwork,
    Model,
    Network,
    PolynomialNetwork,
    StepwiseNetwork,
    Task,
)
from sweeper.learned_algorithms.declared import DECLARED
from sweeper.learned_algorithms.objective_contract import Batch, Objective
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.training.kind import Keep
from sweeper.trial.contract_checks import (
    ContractError,
    attributed,
    broken,
    check_array,
    check_batch,
    check_name,
    place,
    shapes,
)
from sweeper.trial.metrics import Metric


def check_networks(trial: TrialSpec, keep: Keep) -> None:
    """Hold the task and the model of a trial, and the network that the model builds, against their contracts."""
    _check_sizes(trial.task)
    _check_abilities(trial.task)
    jax.eval_shape(functools.partial(_trace_task, keep), trial)
    evaluation.names(trial)


def _given(plugin: Any, method: str, *arguments: Any) -> Any:
    """The result of a method of a plug-in. An error that the method raises becomes a `ContractError`."""
    with attributed(plugin, method):
        return getattr(plugin, method)(*arguments)


def _check_sizes(task: Task) -> None:
    for method in ("token_size", "output_size", "context_size"):
        size = _given(task, method)
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise broken(task, method, repr(size), "a whole number, at least 1")


def _check_abilities(task: Task) -> None:
    abilities = _given(task, "abilities")
    if not isinstance(abilities, Abilities):
        raise broken(task, "abilities", f"type {type(abilities).__name__}", "contracts.Abilities")
    if strange := [measure for measure in abilities.measures if not isinstance(measure, Metric)]:
        raise broken(task, "abilities", f"{strange[0]!r} among its measures", "a contracts.Metric")
    if abilities.tail not in (known := ["success", *abilities.quantities]):
        raise broken(task, "abilities", f"{abilities.tail!r} as tail", " or ".join(known))
    voting, groups = abilities.voting, abilities.groups
    if voting is not None and voting.wrong_answers < 1:
        raise broken(task, "abilities", f"{voting.wrong_answers} as voting.wrong_answers", "at least 1")
    if voting is not None and (rules := set(voting.rules.values()) - {"joint", "partwise"}):
        raise broken(task, "abilities", f"{min(rules)!r} among voting.rules", "joint or partwise")
    names = [*abilities.quantities, *abilities.curves]
    for name in names:
        check_name(task, "abilities", name, [*names, *trainers.CURVES])
    if taken := {*DECLARED.metrics, *trainers.CURVES} & abilities.curves.keys():
        raise broken(task, "abilities", f"{min(taken)!r} among curves", "another name: trainers have that curve")
    if groups is not None and groups.count < 1:
        raise broken(task, "abilities", f"{groups.count} as groups.count", "at least 1")


def _trace_task(keep: Keep, trial: TrialSpec) -> None:
    """Every method of a task, its model and the network, while it is traced."""
    task, model, key = trial.task, trial.model, jax.random.key(0)
    network = _given(model, "build", task, key)
    if not isinstance(network, Network):
        raise broken(model, "build", f"type {type(network).__name__}", "a contracts.Network")
    weights = jax.tree.leaves(network)
    if not weights or weights == [network]:
        raise broken(model, "build", "a network without weights", "a pytree of arrays")
    for weight in weights:
        if not jnp.issubdtype(jnp.result_type(weight), jnp.floating):
            raise broken(model, "build", f"a weight of type {jnp.result_type(weight)}", "floating")
    keep(network, model, "build")
    _check_needs(task, model, network)
    with _naming(model, network):
        _trace_network(task, network)

    inputs = _given(task, "sample_inputs", key, trial.batch_size)
    check_batch(task, "sample_inputs", inputs, trial.batch_size)
    # Fewer or more seeds than inputs: a transposed matrix has another shape.
    count = another(trial.objective.m, trial.batch_size)
    seeds = _given(task, "sample_seeds", key, count)
    check_batch(task, "sample_seeds", seeds, count)
    pair = jax.tree.map(lambda leaf: leaf[0], (inputs, seeds))
    check_array(task, "loss", "", _given(task, "loss", network, *pair), np.floating)
    if type(task).losses is not Task.losses:
        losses = _given(task, "losses", network, inputs, seeds)
        check_array(task, "losses", "", losses, np.floating, input=trial.batch_size, seed=count)
    for name, curve in task.abilities().curves.items():
        with attributed(task, "abilities"):
            value = curve(network, inputs, seeds)
        check_array(task, "abilities", f"curves[{name!r}]", value, np.number)
    _trace_outcomes(trial, network)


@contextlib.contextmanager
def _naming(model: Model, network: Network) -> Iterator[None]:
    """Name the model in an error about a network that it borrows from another module."""
    try:
        yield
    except ContractError as error:
        if type(network).__module__ == type(model).__module__:
            raise
        raise ContractError(f"{error} (the network of the model {model.name})") from error


def _check_needs(task: Task, model: Model, network: Network) -> None:
    """Refuse a network that lacks what its task needs."""
    for need in task.NEEDS:
        if not isinstance(network, need):
            missing = sorted(name for name in need.__abstractmethods__ if not hasattr(network, name))
            lacks = f": it lacks {', '.join(missing)}" if missing else ""
            raise ContractError(
                f"{place(model, 'build')}: the task {task.name} needs a contracts.{need.__name__}, and the network of "
                f"the model {model.name} is none{lacks}"
            )


def _trace_outcomes(trial: TrialSpec, network: Network) -> None:
    task, abilities = trial.task, trial.task.abilities()
    inputs = _given(task, "evaluation_inputs")
    inputs_count = check_batch(task, "evaluation_inputs", inputs)
    count = another(trial.evaluation.seeds, inputs_count)
    with attributed(task, "outcomes"):
        seeds = task.sample_seeds(jax.random.key(0), count)
        outcomes = task.outcomes(network, inputs, seeds)
    evaluation.check_outcomes(trial, outcomes, inputs_count, count)
    if (voting := abilities.voting) is None:
        if outcomes.answers is not None:
            raise broken(task, "outcomes", "answers", "None, as abilities has no voting")
    else:
        of_answers = {"input": inputs_count, "seed": count, "part": voting.parts}
        check_array(task, "outcomes", "answers", outcomes.answers, np.integer, **of_answers)
        with attributed(task, "abilities"):
            right = voting.right_parts(inputs, outcomes.answers)  # type: ignore[arg-type]  # checked
        check_array(task, "abilities", "voting.right_parts", right, np.bool_, **of_answers)
    if abilities.groups is not None:
        with attributed(task, "abilities"):
            groups = abilities.groups.of(inputs)
        check_array(task, "abilities", "groups", groups, np.integer, input=inputs_count)


def _trace_network(task: Task, network: Network) -> None:
    """Every method of a network, on one sequence of a task."""
    count, outputs = task.context_size(), task.output_size()
    tokens, positions = jnp.zeros((count, task.token_size())), jnp.arange(count)
    if isinstance(network, EmbeddingNetwork):
        if not isinstance(network.depth, int):
            raise broken(network, "depth", f"type {type(network.depth).__name__}", "a whole number")
        with _pure(network, "content"):
            content = network.content(tokens)
        check_array(network, "content", "", content, np.floating, token=count, feature=None)
        sums = {"placed": lambda: network.placed(positions), "embed": lambda: network.embed(tokens)}
        for method, part in sums.items():
            with _pure(network, method):
                check_array(network, method, "", part(), np.floating, token=count, feature=content.shape[1])
        if isinstance(network, StepwiseNetwork):
            _trace_steps(network, content, outputs)
        if isinstance(network, PolynomialNetwork):
            with _pure(network, "polynomial"):
                network.polynomial()
    with _pure(network, "__call__"):
        logits = network(tokens, jnp.ones((count, count), bool))
        check_array(network, "__call__", "", logits, np.floating, token=count, output=outputs)


def _trace_steps(network: StepwiseNetwork, embedded: Any, outputs: int) -> None:
    """The methods of a network that reads step by step, on embedded tokens."""
    count = len(embedded)
    with _pure(network, "empty_memory"):
        memory, one = network.empty_memory(count), network.empty_memory(1)
    with _pure(network, "step"):
        logits, own = network.step(embedded[0], [(memory, jnp.ones(count, bool))])
        check_array(network, "step", "logits", logits, np.floating, output=outputs)
        if shapes(own) != shapes(one):
            raise broken(network, "step", f"a memory of {shapes(own)}", f"that of one token, {shapes(one)}")


@contextlib.contextmanager
def _pure(network: Network, method: str) -> Iterator[None]:
    """Refuse a method of a network that raises, or that changes the network.

    Training would lose what the method leaves in the network, such as the statistics of a batch.
    """
    structure, before = _held(network)
    with attributed(network, method):
        yield
    now, after = _held(network)
    if now != structure or any(new is not old for old, new in zip(before, after, strict=True)):
        gives = "its result and changes the network"
        raise broken(network, method, gives, "pure: statistics of batches and other state belong to an experiment")


def _held(network: Network) -> tuple[Any, list[Any]]:
    """What a network holds: the structure, and the leaves with the attributes, which need not be leaves."""
    leaves, structure = jax.tree.flatten(network)
    attributes = dict(vars(network))
    return (structure, list(attributes)), [*leaves, *attributes.values()]


def check_objective(trial: TrialSpec) -> None:
    """Hold the objective of a trial against its contract."""
    jax.eval_shape(_trace_objective, trial)


def _trace_objective(trial: TrialSpec) -> None:
    """Every method of an objective, while it is traced."""
    objective: Objective = trial.objective
    with attributed(objective, "initial_state"):
        state = jax.tree.map(jnp.asarray, objective.initial_state(trial.task))
    groups = jnp.zeros(trial.batch_size, jnp.int32) if objective.needs_groups else None
    batch = Batch(jnp.zeros(trial.batch_size), groups, jnp.float32(0))
    after = _given(objective, "next_state", batch, state)
    if shapes(after) != shapes(state):
        raise broken(objective, "next_state", shapes(after), f"like initial_state, {shapes(state)}")
    check_array(objective, "value", "", _given(objective, "value", batch, after), np.floating)
    for name, curve in objective.curves().items():
        with attributed(objective, "curves"):
            value = curve(batch, after)
        check_array(objective, "curves", f"{name!r}", value, np.number)


def another(count: int, other: int) -> int:
    """A number near `count` that is not the other."""
    return count if count != other else count + 1
