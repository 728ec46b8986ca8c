"""Contracts of tasks, models and objectives by values: a fresh network, a few pairs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.learned_algorithms.checks.shapes import another
from sweeper.learned_algorithms.contracts import Outcomes, Task
from sweeper.learned_algorithms.objective import drawn_pairs, next_state
from sweeper.learned_algorithms.objective_contract import Batch
from sweeper.learned_algorithms.trained_weights import trained
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.training import compilation
from sweeper.training.kind import Traced
from sweeper.trial import jax_settings, vectorisation
from sweeper.trial.contract_checks import ROUNDING, attributed, broken
from sweeper.trial.optimizer_contract import GradientOptimizer

INPUTS, SEEDS = 4, 3
"""Inputs and seeds r of the pairs whose losses are computed."""


def quick_program(
    function: Callable[..., Any], trial: TrialSpec, *arguments: Any, platform: str = "cpu"
) -> Callable[..., Any]:
    """A program of a trial and more arguments, in the form for a platform, that a CPU runs; results are on the host.

    It is compiled quickly and computes slowly, as it runs on little, and hardly more than once.
    """
    options: dict[str, Any] = {"xla_backend_optimization_level": 0} | dict.fromkeys(compilation.EMITTERS, False)
    seen = trial.for_programs()
    with vectorisation.built_for(platform), jax_settings.one_thread():
        program = compilation.traced(function, seen, *arguments).lower().compile(compiler_options=options)

    def run(*arguments: Any) -> Any:
        with jax_settings.one_thread():
            return jax.device_get(program(seen, *arguments))

    return run


def check_pairs(trial: TrialSpec, rtol: float = 1e-3, atol: float = 1e-4, platform: str = "cpu") -> None:
    """Hold what a task and a model compute against their contracts, in the form of a program for a platform.

    Two ways to compute a number may differ by the tolerances.
    """
    task = trial.task
    with attributed(task, "outcomes"):
        program = quick_program(_few_pairs, trial, platform=platform)
    found = program()

    def require_at_least_0(method: str, what: str, values: np.ndarray) -> None:
        holds = np.isfinite(values) & (values >= -ROUNDING)
        if not holds.all():
            raise broken(task, method, f"{values[~holds][0]:.4g}{what}", "finite and at least 0")

    def agree(method: str, what: str, values: np.ndarray, defined: np.ndarray) -> None:
        holds = np.isclose(values, defined, rtol=rtol, atol=atol)
        if not holds.all():
            first = tuple(np.argwhere(~holds)[0])
            pair = f"{what} for a pair (input {first[0]}, seed {first[1]})"
            raise broken(task, method, f"{values[first]:.6g}{pair}", f"{defined[first]:.6g}, as loss gives")

    outcomes = found["outcomes"]
    for plain in (found["loss"], found["evaluated"]):
        require_at_least_0("loss", " with a fresh network", plain)
    agree("losses", "", found["losses"], found["loss"])
    agree("outcomes", " as loss", outcomes.loss, found["evaluated"])
    for what, values in {"sampled": outcomes.sampled, "variance": outcomes.variance}.items():
        if values is not None:
            require_at_least_0("outcomes", f" as {what}", values)
    if "right" in found and (found["right"] != outcomes.correct).any():
        gives = "correct that differs from what abilities().voting says of its answers"
        raise broken(task, "outcomes", gives, "the same")


def _few_pairs(trial: TrialSpec) -> dict[str, Any]:
    """Losses by their definition and as the task gives them, and outcomes."""
    task, keys = trial.task, trial.keys()
    network = trial.model.build(task, keys.weights)
    # As many as in training are drawn: a task may count on that.
    inputs, seeds = drawn_pairs(trial, *jax.random.split(keys.training))
    inputs, seeds = (jax.tree.map(lambda leaf, n=n: leaf[:n], of) for of, n in ((inputs, INPUTS), (seeds, SEEDS)))
    evaluated = jax.tree.map(lambda leaf: leaf[:INPUTS], task.evaluation_inputs())
    outcomes: Outcomes = task.outcomes(network, evaluated, seeds)
    plain = Task.losses(task, network, inputs, seeds)
    found = {
        "loss": plain,
        "losses": plain if type(task).losses is Task.losses else task.losses(network, inputs, seeds),
        "evaluated": Task.losses(task, network, evaluated, seeds),
        "outcomes": outcomes._replace(measures=dict(outcomes.measures), kept={}),
    }
    abilities = task.abilities()
    if abilities.voting is not None and outcomes.answers is not None:
        found["right"] = abilities.voting.right(evaluated, outcomes.answers)
    return found


def trace_programs(trial: TrialSpec, traced: Traced) -> None:
    """Trace the program of every method of the plug-ins of a trial."""
    task, model, objective = trial.task, trial.model, trial.objective
    count = another(objective.m, trial.batch_size)
    key = jax.eval_shape(lambda: jax.random.key(0))
    network = traced(model, "build", lambda trial, key: trial.model.build(trial.task, key), key)
    inputs = traced(task, "sample_inputs", lambda trial, key: trial.task.sample_inputs(key, trial.batch_size), key)
    seeds = traced(task, "sample_seeds", lambda trial, key: trial.task.sample_seeds(key, count), key)
    traced(task, "losses", lambda trial, *arguments: trial.task.losses(*arguments), network, inputs, seeds)
    inputs = traced(task, "evaluation_inputs", lambda trial: trial.task.evaluation_inputs())
    traced(task, "outcomes", lambda trial, *arguments: tuple(trial.task.outcomes(*arguments)), network, inputs, seeds)
    traced(objective, "value", _objective, jax.ShapeDtypeStruct((trial.batch_size,), jnp.float32))
    if isinstance(trial.optimizer, GradientOptimizer):  # evosax, which makes strategies, would start JAX's devices
        traced(trial.optimizer, "transformation", _changes, network)


def _objective(trial: TrialSpec, losses: Any) -> tuple[Any, Any]:
    """The value of an objective in the first step, and its gradient by the losses."""
    objective = trial.objective
    batch = Batch(losses, jnp.zeros(losses.shape, jnp.int32) if objective.needs_groups else None, jnp.float32(0))
    state = next_state(trial, batch, objective.initial_state(trial.task))
    return jax.value_and_grad(lambda losses: objective.value(batch._replace(losses=losses), state))(losses)


def _changes(trial: TrialSpec, network: Any) -> Any:
    """What an optimiser makes of a first gradient, for which the weights of the network stand."""
    assert isinstance(trial.optimizer, GradientOptimizer)
    weights = trained(network)
    transformation = trial.optimizer.transformation(trial.steps)
    return transformation.update(weights, transformation.init(weights), weights)
