"""The least time of a training step on one core by its operations, the time it takes, and where the time goes.

    python -m benchmarks.floor [--only colouring]

The operations are counted in the program as it is traced, before XLA: loops by their length, a product of an (m, k) and
a (k, n) matrix as 2 m k n operations, sums by their terms, all other arithmetic by its results. What only moves numbers
(gathers, scatters, reshapes, copies) counts as nothing. The loops of the grid world's rollouts end by what they
compute: their turns are counted in a run. The floor divides products, other arithmetic, and exponentials, logarithms
and the like by the most that one core does of each, measured here on arrays in its cache with fused multiply-adds, and
adds up. All runs in this process on one thread; times are CPU seconds, medians of several calls.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["PJRT_NPROC"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import argparse
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np

from benchmarks.gpu import SPACES, shipped_trial
from benchmarks.operation_times import operation_times
from sweeper.packs.packing import stack
from sweeper.training import compilation, evolution, gradient
from sweeper.trial.trial_spec import PGPE, TrialSpec

ROUNDS = 7

JAXPRS = (jax.extend.core.Jaxpr, jax.extend.core.ClosedJaxpr)
SPECIAL = {
    "exp",
    "exp2",
    "log",
    "log1p",
    "expm1",
    "tanh",
    "sin",
    "cos",
    "erf",
    "erf_inv",
    "logistic",
    "pow",
    "rsqrt",
    "sqrt",
}
MOVES = {
    *("broadcast_in_dim", "reshape", "transpose", "slice", "squeeze", "concatenate", "pad", "split", "tile", "gather"),
    *("scatter", "scatter-add", "scatter_add", "dynamic_slice", "dynamic_update_slice", "select_n", "copy", "iota"),
    *("convert_element_type", "bitcast_convert_type", "stack", "expand_dims", "rev", "stop_gradient"),
}


class Operations(NamedTuple):
    """Operations of a program.

    Attributes:
        products: Additions and multiplications of matrix products.
        arithmetic: Of everything else.
        special: Exponentials, logarithms and the like.
    """

    products: float
    arithmetic: float
    special: float


class Peaks(NamedTuple):
    """What one core does at most, a second: of products, of arithmetic, and of exponentials."""

    products: float
    arithmetic: float
    special: float


def operations(jaxpr: Any, turns: Sequence[float] = ()) -> Operations:
    """The operations of a traced program.

    Args:
        jaxpr: The program.
        turns: Of every loop that ends by what it computes, in the order of the program.
    """
    counts: Counter[str] = Counter()
    _count(jaxpr, 1, counts, iter(turns))
    return Operations(counts["products"], counts["arithmetic"], counts["special"])


def _count(jaxpr: Any, times: float, counts: Counter[str], turns: Iterator[float]) -> None:
    for equation in jaxpr.eqns:
        name, parameters = equation.primitive.name, equation.params
        results = sum(variable.aval.size for variable in equation.outvars)
        inner = [getattr(value, "jaxpr", value) for value in parameters.values() if isinstance(value, JAXPRS)]
        if name == "while":
            _count(parameters["body_jaxpr"].jaxpr, times * next(turns), counts, turns)
        elif name == "cond":
            branches: list[Counter[str]] = []
            for branch in parameters["branches"]:
                branches.append(Counter())
                _count(branch.jaxpr, times, branches[-1], turns)
            counts.update(max(branches, key=Counter.total))
        elif name == "dot_general":
            (contracted, _), _ = parameters["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            terms = math.prod(shape[axis] for axis in contracted)
            counts["products"] += times * 2 * terms * results  # pyright: ignore[reportArgumentType]
        elif inner:
            _count(inner[-1], times * (parameters["length"] if name == "scan" else 1), counts, turns)
        elif name in SPECIAL:
            counts["special"] += times * results  # pyright: ignore[reportArgumentType]
        elif name not in MOVES:
            terms = equation.invars[0].aval.size if name.startswith(("reduce", "arg")) else results
            counts["arithmetic"] += times * terms  # pyright: ignore[reportArgumentType]


def turns_of_loops(function: Callable[..., Any], *arguments: Any) -> list[float]:
    """Mean number of turns of every `while_loop` of a function, in the order in which they are traced."""
    turns: list[list[int]] = []
    while_loop = jax.lax.while_loop

    def counted(condition: Callable[[Any], Any], body: Callable[[Any], Any], start: Any) -> Any:
        mine: list[int] = []
        turns.append(mine)
        count, end = while_loop(
            lambda carry: condition(carry[1]), lambda carry: (carry[0] + 1, body(carry[1])), (jnp.int32(0), start)
        )
        jax.debug.callback(lambda count: mine.extend(np.ravel(count).tolist()), count)
        return end

    jax.lax.while_loop = counted
    try:
        jax.block_until_ready(jax.jit(function)(*arguments))
        jax.effects_barrier()
    finally:
        jax.lax.while_loop = while_loop
    return [statistics.mean(mine) for mine in turns]


def peaks() -> Peaks:
    """Measured on one thread: a large product, and short arrays that stay in the first cache."""
    matrix, short, turns, chain = jnp.ones((1024, 1024)), jnp.linspace(0.1, 0.9, 2048), 20_000, 16

    def multiply_add(_: Any, x: Any) -> Any:
        for _ in range(chain):
            x = x * 0.999 + 0.0005
        return x

    product = jax.jit(lambda x: x @ x)
    arithmetic = jax.jit(lambda x: jax.lax.fori_loop(0, turns, multiply_add, x))
    special = jax.jit(lambda x: jax.lax.fori_loop(0, turns, lambda _, y: jnp.exp(-y), x))
    return Peaks(
        products=2 * 1024**3 / _cpu_seconds(lambda: product(matrix)),
        arithmetic=2 * chain * turns * short.size / _cpu_seconds(lambda: arithmetic(short)),
        special=turns * short.size / _cpu_seconds(lambda: special(short)),
    )


def _cpu_seconds(work: Callable[[], Any]) -> float:
    """Median CPU time of a computation, without compilation."""
    jax.block_until_ready(work())
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        jax.block_until_ready(work())
        times.append(time.process_time() - begun)
    return statistics.median(times)


class Step(NamedTuple):
    """A step of training, or a generation.

    Attributes:
        run: Makes `length` steps.
        length: How many.
        operations: Of one step.
    """

    run: Callable[[], Any]
    length: int
    operations: Operations


def step(trial: TrialSpec) -> Step:
    """The step of a trial, compiled as training compiles it."""
    stacked = stack([trial])
    if isinstance(trial.optimizer, PGPE):
        return _generation(stacked)
    state = compilation.compiled(gradient.init, stacked)(stacked)
    traced = compilation.traced(gradient.advance, stacked, state, 1, static_argnums=2)
    length = 100 if trial.objective.m * trial.batch_size < 10_000 else 5
    advance = compilation.compiled(gradient.advance, stacked, state, length, static_argnums=2)
    return Step(lambda: advance(stacked, state), length, operations(traced.jaxpr.jaxpr))


def _generation(stacked: TrialSpec) -> Step:
    """All blocks of the population, and what the search makes of them."""
    state = evolution.start(stacked)
    block = stacked, state.distribution(), np.asarray(state.step), np.int32(0)
    told = stacked, state, evolution.in_process(*block[:3])
    of_block = operations(
        compilation.traced(evolution.block_objectives, *block).jaxpr.jaxpr,
        turns_of_loops(evolution.block_objectives, *block),
    )
    of_tell = operations(compilation.traced(evolution.tell, *told).jaxpr.jaxpr, turns_of_loops(evolution.tell, *told))
    blocks = evolution.blocks(stacked)
    both = Operations(*(blocks * one + other for one, other in zip(of_block, of_tell, strict=True)))
    return Step(lambda: evolution.stride(stacked, state, evolution.STRIDE), 1, both)


def main() -> None:
    """A table, then a profile of every step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SPACES)
    only = parser.parse_args().only
    peak = peaks()
    print(
        f"One core: {peak.products / 1e9:.3g} GFLOP/s of products, {peak.arithmetic / 1e9:.3g} of other arithmetic, "
        f"{peak.special / 1e9:.2g} exponentials a nanosecond.\n"
    )
    print("| step | products, M | arithmetic, M | special, M | floor, ms | measured, ms | ratio |\n" + "|---" * 7 + "|")
    for name in SPACES:
        if only not in (None, name):
            continue
        measured = step(shipped_trial(name))
        floor = sum(count / rate for count, rate in zip(measured.operations, peak, strict=True))
        seconds = _cpu_seconds(measured.run) / measured.length
        counts = " | ".join(f"{count / 1e6:.3g}" for count in measured.operations)
        print(f"| {name} | {counts} | {1e3 * floor:.3g} | {1e3 * seconds:.3g} | {seconds / floor:.2f} |", flush=True)
        times: Counter[str] = Counter()
        for operation, spent in operation_times(measured.run).items():
            times[operation.rstrip(".0123456789")] += spent  # pyright: ignore[reportArgumentType]
        for operation, spent in times.most_common(8):
            print(f"    {spent / times.total():4.0%}  {operation[:90]}")


if __name__ == "__main__":
    main()
