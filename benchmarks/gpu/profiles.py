"""The operations on which training spends most time, without CUDA graphs (`benchmarks.gpu.__main__`)."""

import time
from collections.abc import Callable
from typing import Any

import jax

from benchmarks.operation_times import operation_times
from benchmarks.shipped_trials import shipped_trial
from sweeper.learned_algorithms import evolution, gradient
from sweeper.learned_algorithms.strategy_contract import EvolutionStrategy
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs.packing import stack
from sweeper.training import compilation

PROFILED = {"colouring": 64, "recall": 8, "grid world": 8}
"""Lanes of the profiled programs."""


def print_profile(name: str, toy: bool) -> bool:
    """Print the operations of some steps, or of a generation, that take most time; whether the profiler saw any."""
    lanes = 2 if toy else PROFILED[name]
    stacked = stack([shipped_trial(name, toy).model_copy(update={"seed": seed}) for seed in range(lanes)])
    evolves = isinstance(stacked.optimizer, EvolutionStrategy)
    what, work = ("a generation", _generation(stacked)) if evolves else ("five steps", _steps(stacked, 5))
    times = operation_times(work)
    whole = sum(times.values())
    if whole == 0.0:
        print(f"Profile of {name}: the profiler saw no operation.\n")
        return False
    begun = time.perf_counter()
    jax.block_until_ready(work())
    took = time.perf_counter() - begun
    print(
        f"Without CUDA graphs, {what} of {name} with {lanes} lanes: {1e3 * took:.3g} ms, of operations "
        f"{1e3 * whole:.3g} ms.\n\n| operation | ms | share |\n|---|---|---|"
    )
    for operation, seconds in list(times.items())[:12]:
        print(f"| {operation[:80]} | {1e3 * seconds:.3g} | {seconds / whole:.0%} |")
    print()
    return True


def _steps(stacked: TrialSpec, length: int) -> Callable[[], Any]:
    state = gradient.start(stacked)
    program = compilation.compiled(gradient.advance, stacked, state, length, static_argnums=2)
    return lambda: program(stacked, state)


def _generation(stacked: TrialSpec) -> Callable[[], Any]:
    state = evolution.start(stacked)
    return lambda: evolution.stride(stacked, state, evolution.STRIDE)
