"""The least time of a training step on one core by its operations, the time it takes, and where the time goes.

    python -m benchmarks.floor [--only colouring]

The operations are those of `benchmarks.operation_counts`. The loops of the grid world's rollouts end by what they
compute: their turns are counted in a run. The floor divides products, other arithmetic, and exponentials, logarithms
and the like by the most that one core does of each, measured here on arrays in its cache with fused multiply-adds, and
adds up. Beside it stands the time to read the step's arguments and write its results once, at the rate of a copy of an
array that no cache holds; what lies between may stay in a cache. All runs in this process on one thread; times are CPU
seconds, medians of several calls. Last stands the time inside XLA's operations in one call that is profiled, which is
slower than the others.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["PJRT_NPROC"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.operation_counts import Operations, operations
from benchmarks.operation_times import operation_times
from benchmarks.shipped_trials import shipped_trial
from sweeper.packs.packing import stack
from sweeper.training import compilation, evolution, gradient
from sweeper.trial.optimizer_contract import EvolutionStrategy
from sweeper.trial.trial_spec import TrialSpec

ROUNDS = 7

TASKS = ("colouring", "recall", "grid world")


class Peaks(NamedTuple):
    """What one core does at most, a second: products, arithmetic, exponentials, and bytes that it reads and writes."""

    products: float
    arithmetic: float
    special: float
    bytes: float


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
    large, copy = jnp.ones(2**26), jax.jit(lambda x: x + 1)
    return Peaks(
        products=2 * 1024**3 / _cpu_seconds(lambda: product(matrix)),
        arithmetic=2 * chain * turns * short.size / _cpu_seconds(lambda: arithmetic(short)),
        special=turns * short.size / _cpu_seconds(lambda: special(short)),
        bytes=2 * large.nbytes / _cpu_seconds(lambda: copy(large)),
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
        bytes: Of the arguments and results of one step.
    """

    run: Callable[[], Any]
    length: int
    operations: Operations
    bytes: int


def step(trial: TrialSpec) -> Step:
    """The step of a trial, compiled as training compiles it."""
    stacked = stack([trial])
    if isinstance(trial.optimizer, EvolutionStrategy):
        return _generation(stacked)
    state = compilation.compiled(gradient.init, stacked)(stacked)
    traced = compilation.traced(gradient.advance, stacked, state, 1, static_argnums=2)
    length = 100 if trial.objective.m * trial.batch_size < 10_000 else 5
    advance = compilation.compiled(gradient.advance, stacked, state, length, static_argnums=2)
    return Step(lambda: advance(stacked, state), length, operations(traced.jaxpr.jaxpr), _bytes(traced))


def _generation(stacked: TrialSpec) -> Step:
    """All blocks of the population, and what the strategy makes of them."""
    state = evolution.start(stacked)
    block = stacked, state.distribution(), np.asarray(state.step), np.int32(0)
    told = stacked, state, evolution.in_process(*block[:3])
    traced_block = compilation.traced(evolution.block_objectives, *block)
    traced_tell = compilation.traced(evolution.tell, *told)
    of_block = operations(traced_block.jaxpr.jaxpr, turns_of_loops(evolution.block_objectives, *block))
    of_tell = operations(traced_tell.jaxpr.jaxpr, turns_of_loops(evolution.tell, *told))
    blocks = evolution.blocks(stacked)
    both = Operations(*(blocks * one + other for one, other in zip(of_block, of_tell, strict=True)))
    moved = blocks * _bytes(traced_block) + _bytes(traced_tell)
    return Step(lambda: evolution.stride(stacked, state, evolution.STRIDE), 1, both, moved)


def _bytes(traced: Any) -> int:
    """Bytes of the arguments and results of a program; random keys are eight bytes each."""
    values = (*traced.jaxpr.in_avals, *traced.jaxpr.out_avals)
    return sum(
        value.size * (8 if jnp.issubdtype(value.dtype, jax.dtypes.prng_key) else value.dtype.itemsize)
        for value in values
    )


def main() -> None:
    """A table, then a profile of every step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TASKS)
    only = parser.parse_args().only
    peak = peaks()
    print(
        f"One core: {peak.products / 1e9:.3g} GFLOP/s of products, {peak.arithmetic / 1e9:.3g} of other arithmetic, "
        f"{peak.special / 1e9:.2g} exponentials a nanosecond, {peak.bytes / 1e9:.3g} GB/s.\n"
    )
    print(
        "| step | products, M | arithmetic, M | special, M | floor, ms | arguments and results, ms | measured, ms "
        "| ratio | inside operations, ms |\n" + "|---" * 9 + "|"
    )
    for name in TASKS:
        if only not in (None, name):
            continue
        measured = step(shipped_trial(name))
        floor = sum(count / rate for count, rate in zip(measured.operations, peak[:3], strict=True))
        seconds = _cpu_seconds(measured.run) / measured.length
        profile = operation_times(measured.run)
        inside = sum(profile.values()) / measured.length
        counts = " | ".join(f"{count / 1e6:.3g}" for count in measured.operations)
        moving = measured.bytes / peak.bytes
        columns = f"{1e3 * floor:.3g} | {1e3 * moving:.2g} | {1e3 * seconds:.3g} | {seconds / floor:.2f}"
        print(f"| {name} | {counts} | {columns} | {1e3 * inside:.3g} |", flush=True)
        times: Counter[str] = Counter()
        for operation, spent in profile.items():
            times[operation.rstrip(".0123456789")] += spent  # pyright: ignore[reportArgumentType]
        for operation, spent in times.most_common(8):
            print(f"    {spent / times.total():4.0%}  {operation[:90]}")


if __name__ == "__main__":
    main()
