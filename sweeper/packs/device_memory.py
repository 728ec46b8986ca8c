"""The memory of a device: JAX's share of it, how many lanes of a pack fit into it, and the most that a pack had in use.

The compiler says how much memory a program takes. If the program of all lanes is far from filling the device, it is
taken. Otherwise those of one and of two lanes estimate the memory of a lane. All lanes are taken if they fit, and if
the estimate says so too or agrees with what they take; else the number is lowered from the estimate until the program
fits. The program that fits is the one that trains. The choice depends on the pack and on the kind of device, never on
what else uses the device or on what is committed. A checkpoint keeps it.

To fit is not enough, because XLA makes a program fit: a program that would fill more than some three quarters of a
device computes values again instead of keeping them (rematerialisation), and is slower. It then takes just as much as
XLA allows, and clearly less than one and two lanes promise. The order of the questions saves compilations, of which
each takes some ten seconds: a pack that is small for its device needs only the program that trains it.
"""

import contextlib
import math
import os
import re
import resource
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax

from sweeper.messages import counted
from sweeper.packs.packing import Pack, stack
from sweeper.training.trainer import Trainer

SHARE = 0.9
"""Share of the device's memory that lanes may fill; the rest is for evaluation and for gaps between arrays."""

SMALL = 0.5
"""Share of the room up to which the program of all lanes cannot have been made to fit."""

AS_ESTIMATED = 0.9
"""Share of the estimate from which on the memory of all lanes agrees with it. Memory that grows less than evenly may be
taken for rematerialised, which costs lanes that would have fitted."""

_OUT_OF_MEMORY = (
    "resource_exhausted",
    "out of memory",
    "out_of_memory",
    "failed to allocate",
    "cublas_status_alloc_failed",
    "cublas_status_not_initialized",
    "cudnn_status_alloc_failed",
)
"""What JAX's own allocator, the driver, and libraries say when memory is too small, in small letters.

A library that finds no memory for its handle says that it is not initialised.
"""


class LaneChoice(NamedTuple):
    """How many lanes are computed at once, and why, in a few words for people."""

    lanes: int
    reason: str


def device_bytes() -> int | None:
    """Memory of this process's first accelerator that JAX may use; None for a CPU, which has no limit of its own."""
    statistics = jax.local_devices()[0].memory_stats()
    return None if statistics is None else statistics.get("bytes_limit")


def chosen_lanes(pack: Pack, trainer: Trainer[Any], share: float) -> LaneChoice | None:
    """The lanes of a pack that fit into its share of this process's device; None where lanes take turns anyway."""
    whole = device_bytes()
    if whole is None or len(pack.trials) == 1:
        return None
    room, everything = SHARE * share * whole, len(pack.trials)
    taken = _memory(pack, trainer, everything)
    if taken <= SMALL * room:
        return LaneChoice(everything, _reason(taken, "all lanes", room))
    one, two = (_memory(pack, trainer, lanes) for lanes in (1, 2))
    lane = max(1, two - one)
    estimated = one + (everything - 1) * lane
    rematerialised = room < estimated < math.inf and taken < AS_ESTIMATED * estimated
    if taken <= room and not rematerialised:
        return LaneChoice(everything, _reason(taken, "all lanes", room))
    fitting = min(everything - 1, int((room - one) // lane) + 1) if two <= room else 1
    why = ", and all lanes fit only with rematerialisation" if taken <= room else ""
    # The memory need not grow evenly with the lanes.
    while fitting > 1 and (taken := _memory(pack, trainer, fitting)) > room:
        fitting = max(1, fitting // 2 if math.isinf(taken) else min(fitting - 1, int(fitting * room // taken)))
    taken = one if fitting == 1 else taken
    return LaneChoice(fitting, _reason(taken, counted(fitting, "lane"), room) + why)


def _reason(taken: float, lanes: str, room: float) -> str:
    return f"{taken / 1e6:,.1f} MB for {lanes}, the device has room for {room / 1e6:,.1f} MB"


def _memory(pack: Pack, trainer: Trainer[Any], lanes: int) -> float:
    """Bytes that the first lanes take; infinity if the compiler itself, which tries kernels, runs out of memory."""
    try:
        return trainer.memory(stack(pack.trials[:lanes]))
    except jax.errors.JaxRuntimeError as error:
        if not out_of_memory(error):
            raise
        return math.inf


def halved(lanes: int) -> LaneChoice:
    """The choice after the device had too little memory for so many lanes."""
    return LaneChoice(-(-lanes // 2), f"the device had too little memory for {lanes:,}")


def out_of_memory(error: Exception) -> bool:
    """Whether a computation failed because the memory of its device was too small."""
    if not isinstance(error, jax.errors.JaxRuntimeError):
        return False
    return any(words in str(error).lower() for words in _OUT_OF_MEMORY)


def memory_share() -> dict[str, str]:
    """The environment variable for it, to be set before JAX looks for devices; none if the user has set a share."""
    if {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"} & os.environ.keys():
        return {}
    # A quarter of the memory would stay out of reach, also without preallocation.
    return {"XLA_CLIENT_MEM_FRACTION": "0.95"}


def forget_peak() -> None:
    """Reset the measured peak, where the system can: Linux does when a 5 is written to this file."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Most memory in use: of the accelerator so far, or of this process since `forget_peak`."""
    statistics = jax.devices()[0].memory_stats()
    if statistics is not None:
        return statistics["peak_bytes_in_use"]
    with contextlib.suppress(OSError):
        if peak := re.search(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE):
            return int(peak[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
