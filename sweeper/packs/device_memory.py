"""The memory of a device: JAX's share of it, how many lanes of a pack fit into it, and the most that a pack had in use.

The compiler says how much memory a program takes. The program of all lanes is tried first, then those of half as many
and so on, until one fits; this program trains. The choice depends on the pack and on the kind of device, never on what
else uses the device or on what is committed. A checkpoint keeps it.

XLA makes a program fit: a program that would fill more than some three quarters of a device computes values again
instead of keeping them (rematerialisation), and is slower. Such a program takes just as much as XLA allows, which is
more than `SHARE`.
"""

import math
import os
import resource
import sys
from typing import Any, NamedTuple

import jax

from sweeper.messages import counted
from sweeper.packs.packing import Pack, stack
from sweeper.training.trainer import Trainer

SHARE = 0.7
"""Share of the device's memory that lanes may fill; a program of more may have been made to fit, and the evaluation
needs the rest."""

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


ONE_BY_ONE = LaneChoice(1, "the program of all has raised an error, and each is tried alone")
"""The choice after a program of several lanes has raised something else than a lack of memory."""


def device_bytes() -> int | None:
    """Memory of this process's first accelerator that JAX may use; None for a CPU, which has no limit of its own."""
    statistics = jax.local_devices()[0].memory_stats()
    return None if statistics is None else statistics.get("bytes_limit")


def room_for_lanes(share: float | None) -> float | None:
    """Bytes of this process's device for the lanes of a pack with this share of it; None where lanes take turns."""
    if share is None or (whole := device_bytes()) is None:
        return None
    return SHARE * share * whole


def chosen_lanes(pack: Pack, trainer: Trainer[Any], room: float) -> LaneChoice:
    """The lanes of a pack that fit into so many bytes."""
    lanes = len(pack.trials)
    while (taken := _memory(pack, trainer, lanes)) > room and lanes > 1:
        lanes = _half(lanes)
    needs = f"{taken / 1e6:,.1f} MB for {counted(lanes, 'lane')}"
    return LaneChoice(lanes, f"{needs}, the device has room for {room / 1e6:,.1f} MB")


def _half(lanes: int) -> int:
    return -(-lanes // 2)


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
    return LaneChoice(_half(lanes), f"the device had too little memory for {lanes:,}")


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


def peak_bytes() -> int:
    """Most memory in use so far: of the accelerator, or of this process."""
    statistics = jax.devices()[0].memory_stats()
    if statistics is not None:
        return statistics["peak_bytes_in_use"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
