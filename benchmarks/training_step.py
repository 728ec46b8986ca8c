"""Steps per CPU-second of the shipped training, and of its evaluation, against the plain version of each.

    python -m benchmarks.training_step

The plain training applies the model to every pair of an input and a seed (double vmap) and dispatches one jitted step
at a time; the plain evaluation does the same for a sample of all cycles and is scaled to the whole set. Both versions
run in this process on one thread, in turns, and the ratio is of medians, so that a drift of the machine hits both.

Beside it stand the operations a second of the shipped step, additions and multiplications of floats as written down,
and those of a large matrix product on the same thread: the limit of the core.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["PJRT_NPROC"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import jaxprs_in_params

from benchmarks.shipped_trials import shipped_trial
from sweeper.learned_algorithms import evaluation, gradient, voting
from sweeper.learned_algorithms.contracts import Task
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs.packing import lane, stack
from sweeper.training.compilation import compiled, traced
from tasks import coloring

ROUNDS = 7
SAMPLE = 1_000
"""Cycles on which the plain evaluation is timed."""


def plain(trial: TrialSpec) -> TrialSpec:
    """The same trial, whose task shares no work between pairs."""

    class Plain(type(trial.task)):
        losses = Task.losses

    return trial.model_copy(update={"task": Plain.model_validate(trial.task.model_dump())})


def _cpu_seconds(work: Callable[[], Any]) -> float:
    begun = time.process_time()
    jax.block_until_ready(work())
    return time.process_time() - begun


def _medians(shipped: Callable[[], Any], plain: Callable[[], Any]) -> tuple[float, float]:
    for work in (shipped, plain):
        jax.block_until_ready(work())
    pairs = [(_cpu_seconds(shipped), _cpu_seconds(plain)) for _ in range(ROUNDS)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def training_step(trial: TrialSpec, length: int, calls: int) -> tuple[float, float]:
    """Milliseconds of CPU per step: `length` shipped steps in one program, `calls` plain ones."""
    one, other = _medians(_steps(trial, calls=1, length=length), _steps(plain(trial), calls=calls, length=1))
    return 1e3 * one / length, 1e3 * other / calls


def _steps(trial: TrialSpec, calls: int, length: int) -> Callable[[], Any]:
    stacked = stack([trial])
    state = compiled(gradient.init, stacked)(stacked)
    advance = compiled(gradient.advance, stacked, state, length, static_argnums=2, trains=True)

    def run() -> Any:
        current = state
        for _ in range(calls):
            current, _ = advance(stacked, current)
        return current

    return run


ARITHMETIC = {
    "add", "sub", "mul", "div", "max", "exp", "log", "neg", "pow", "sqrt", "add_any", "reduce_sum", "reduce_max",
}  # fmt: skip


def operations(program: Any) -> int:
    """Additions and multiplications of floats in a traced program, whose loops have known lengths."""
    total = 0
    for equation in program.eqns:
        inner = [operations(part) for part in jaxprs_in_params(equation.params)]
        floats = any(jnp.issubdtype(each.aval.dtype, jnp.floating) for each in equation.outvars)
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            total += 2 * equation.outvars[0].aval.size * math.prod(left[axis] for axis in contracted)
        elif inner:
            total += sum(inner) * equation.params.get("length", 1)
        elif floats and equation.primitive.name in ARITHMETIC:
            total += max(each.aval.size for each in (*equation.invars, *equation.outvars))
    return total


def operations_of_a_step(trial: TrialSpec) -> int:
    """Those of one shipped step."""
    stacked = stack([trial])
    return operations(
        traced(gradient.advance, stacked, jax.eval_shape(gradient.init, stacked), 1, static_argnums=2).jaxpr.jaxpr
    )


def limit() -> float:
    """Billions of operations a CPU-second of a large matrix product."""
    size = 1024
    x = jnp.ones((size, size))
    product = jax.jit(jnp.matmul).lower(x, x).compile()
    product(x, x)
    return 2 * size**3 / min(_cpu_seconds(lambda: product(x, x)) for _ in range(ROUNDS)) / 1e9


def full_evaluation() -> tuple[float, float]:
    """Seconds of CPU for all cycles at 100 seeds: shipped, plain (scaled from a sample)."""
    trial = shipped_trial("colouring")
    stacked = stack([trial])
    model = jax.tree.map(jnp.asarray, lane(compiled(gradient.init, stacked)(stacked).network, 0))
    inputs = trial.task.evaluation_inputs()

    def plain_outcomes(model: Any, cycles: Any) -> Any:
        task: Any = trial.task
        seeds = task.sample_seeds(trial.keys().evaluation, trial.evaluation.seeds)

        def of_cycle(cycle: Any) -> Any:
            logits = jax.vmap(task.logits, in_axes=(None, None, 0))(model, cycle.astype(jnp.int32), seeds)
            probabilities = jnp.moveaxis(jax.nn.softmax(logits), 0, -1)[cycle]
            return coloring.cycle_outcomes(probabilities, probabilities.var(axis=-1).mean(axis=1))

        outcomes = jax.lax.map(of_cycle, cycles, batch_size=64)
        rules, answers = task.abilities().voting, outcomes.answers
        votes = [voting.vote_success(rules, cycles, answers, size, "joint").amount for size in trial.evaluation.votes]
        groups = voting.random_groups(len(seeds), voting.sizes_of(len(seeds), trial.evaluation.votes))
        ballots = voting.count_ballots(outcomes.correct, answers, groups)
        estimates = [estimate.by_input.amount for estimate in ballots.estimates.values()]
        columns = outcomes.correct, outcomes.sampled, outcomes.loss, ballots.margin.amount, ballots.wrong_entropy
        return [column.mean() for column in (*columns, *votes, *estimates)]

    sample = inputs[:: len(inputs) // SAMPLE][:SAMPLE]
    program = jax.jit(plain_outcomes).lower(model, sample).compile()
    shipped, sampled = _medians(lambda: evaluation.evaluate(trial, model)[0], lambda: program(model, sample))
    return shipped, sampled * len(inputs) / SAMPLE


def main() -> None:
    """Print one line per measurement."""
    for name, single_seed, length, calls in (
        ("colouring", False, 100, 50), ("colouring", True, 100, 50), ("recall", False, 5, 2), ("recall", True, 50, 20),
    ):  # fmt: skip
        trial = shipped_trial(name, single_seed=single_seed)
        here, other = training_step(trial, length, calls)
        title = f"{name} {trial.baseline}, m = {trial.objective.m}"
        speed = operations_of_a_step(trial) / here / 1e6
        print(
            f"training {title}: {here:.2f} ms/step shipped, {other:.2f} plain, {other / here:.1f} x; "
            f"{speed:.1f} of {limit():.0f} GF/s",
            flush=True,
        )
    here, other = full_evaluation()
    print(f"evaluation of colouring: {here:.1f} s shipped, {other:.0f} s plain, {other / here:.0f} x")


if __name__ == "__main__":
    main()
