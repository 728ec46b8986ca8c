"""The operations on which some steps of training spend most time."""

import functools
import time

import jax

from benchmarks.gpu.attempts import attempted
from benchmarks.operation_times import operation_times
from benchmarks.shipped_trials import shipped_trial
from sweeper.packs.packing import stack
from sweeper.training import compilation, gradient

PROFILED = {"colouring": 64, "recall": 8}
"""Lanes of the profiled programs."""


def print_profiles(toy: bool, until: float) -> bool:
    """Print a table for every profiled task; whether none failed."""
    profiles = {name: functools.partial(_print_profile, name, toy, until) for name in PROFILED}
    right = [attempted(f"profile of {name}", work) for name, work in profiles.items()]
    return all(right)


def _print_profile(name: str, toy: bool, until: float) -> bool:
    """The operations of some steps that take most time."""
    if time.monotonic() > until:
        print(f"Profile of {name}: no time left.\n")
        return False
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
    print(
        f"Five steps of {name} with {lanes} lanes take {1e3 * (time.perf_counter() - begun):.3g} ms, their operations "
        f"{1e3 * whole:.3g} ms:\n\n| operation | ms | share |\n|---|---|---|"
    )
    for operation, seconds in list(times.items())[:12]:
        print(f"| {operation[:80]} | {1e3 * seconds:.3g} | {seconds / whole:.0%} |")
    print()
    return True
