"""The operations on which training spends most time, by JAX's profiler, without CUDA graphs."""

import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

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


_NOT_AN_OPERATION = re.compile(
    r"ThunkExecutor|while|call|conditional|end: |\$|PjitFunction|ParseArguments|ThreadpoolListener"
)
"""On a CPU a profile also has what contains operations, the ends of operations, threads, and Python's functions."""


def operation_times(work: Callable[[], Any]) -> dict[str, float]:
    """Seconds of every operation of a computation by name, longest first; of the accelerator, or else of XLA's threads.

    The computation is run once before, so that no compilation is among them. Loops and calls are not among the
    operations, only what they contain.
    """
    jax.block_until_ready(work())
    times: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(work())
        (path,) = Path(folder).rglob("*.xplane.pb")
        for name, seconds in operations_of(list(jax.profiler.ProfileData.from_file(str(path)).planes)):
            times[name] += seconds
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def operations_of(planes: Sequence[Any]) -> Iterator[tuple[str, float]]:
    """Name and seconds of every operation in the planes of a profile (`jax.profiler.ProfileData.planes`)."""
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    if not devices and jax.default_backend() != "cpu":
        raise ValueError(f"the profile has no plane of a device, only {', '.join(plane.name for plane in planes)}")
    lines = [line for plane in devices or planes for line in plane.lines]
    # A GPU's kernels stand by stream; other lines of its plane show the same time by module and step.
    for line in [line for line in lines if "Stream" in line.name] or [line for line in lines if "XLA" in line.name]:
        for event in line.events:
            if not _NOT_AN_OPERATION.match(event.name):
                yield event.name, event.duration_ns / 1e9
