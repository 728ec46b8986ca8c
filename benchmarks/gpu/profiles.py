"""The operations on which some steps of training spend most time, without CUDA graphs (`benchmarks.gpu.__main__`)."""

import time

import jax

from benchmarks.operation_times import operation_times
from benchmarks.shipped_trials import shipped_trial
from sweeper.packs.packing import stack
from sweeper.training import compilation, gradient

PROFILED = {"colouring": 64, "recall": 8}
"""Lanes of the profiled programs."""


def print_profile(name: str, toy: bool) -> bool:
    """Print the operations of some steps that take most time; whether the profiler saw any."""
    lanes = 2 if toy else PROFILED[name]
    stacked = stack([shipped_trial(name, toy).model_copy(update={"seed": seed}) for seed in range(lanes)])
    state = gradient.start(stacked)
    program = compilation.compiled(gradient.advance, stacked, state, 5, static_argnums=2)
    times = operation_times(lambda: program(stacked, state))
    whole, begun = sum(times.values()), time.perf_counter()
    if whole == 0.0:
        print(f"Profile of {name}: the profiler saw no operation.\n")
        return False
    jax.block_until_ready(program(stacked, state))
    took = time.perf_counter() - begun
    print(
        f"Without CUDA graphs, five steps of {name} with {lanes} lanes take {1e3 * took:.3g} ms, their "
        f"operations {1e3 * whole:.3g} ms:\n\n| operation | ms | share |\n|---|---|---|"
    )
    for operation, seconds in list(times.items())[:12]:
        print(f"| {operation[:80]} | {1e3 * seconds:.3g} | {seconds / whole:.0%} |")
    print()
    return True
