"""Where a computation spends its time, by operation, from JAX's profiler."""

import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

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
