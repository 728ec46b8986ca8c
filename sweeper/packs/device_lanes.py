"""How many lanes of a pack an accelerator computes at once, and what is to be done when its memory is too small.

The compiler says how much memory a program takes. If the program of all lanes does not fit, those of one and of two
lanes estimate the memory of a lane. The number of lanes is lowered from this estimate until the program fits. The
program that fits is the one that trains. The choice depends on the pack and on the kind of device, never on what else
uses the device or on what is committed. A checkpoint keeps it.
"""

import math
from typing import Any, NamedTuple

import jax

from sweeper.messages import counted
from sweeper.packs.packing import Pack, stack
from sweeper.training.trainer import Trainer

SHARE = 0.9
"""Share of the device's memory that lanes may fill; the rest is for evaluation and for gaps between arrays."""

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
    """How many lanes are computed at once, and why.

    Attributes:
        lanes: At least 1.
        reason: A few words for people.
    """

    lanes: int
    reason: str


def device_bytes() -> int | None:
    """Memory of this process's first accelerator that JAX may use; None for a CPU, which has no limit of its own."""
    statistics = jax.local_devices()[0].memory_stats()
    return None if statistics is None else statistics.get("bytes_limit")


def chosen_lanes(pack: Pack, trainer: Trainer[Any], share: float) -> LaneChoice | None:
    """The lanes of a pack that fit into the memory of this process's device; None where lanes take turns anyway.

    Args:
        pack: The pack.
        trainer: Trains the pack.
        share: Share of the device that belongs to the pack; other packs may use the rest.
    """
    whole = device_bytes()
    if whole is None or len(pack.trials) == 1:
        return None
    room, everything = SHARE * share * whole, len(pack.trials)
    taken = _memory(pack, trainer, everything)
    if taken <= room:
        return LaneChoice(everything, f"{_megabytes(taken)} for all lanes, the device has room for {_megabytes(room)}")
    one, two = (_memory(pack, trainer, lanes) for lanes in (1, 2))
    fitting = min(everything - 1, int((room - one) // max(1, two - one)) + 1) if two <= room else 1
    # The memory need not grow evenly with the lanes.
    while fitting > 1 and (taken := _memory(pack, trainer, fitting)) > room:
        fitting = max(1, fitting // 2 if math.isinf(taken) else min(fitting - 1, int(fitting * room // taken)))
    taken = one if fitting == 1 else taken
    reason = f"{_megabytes(taken)} for {counted(fitting, 'lane')}, the device has room for {_megabytes(room)}"
    return LaneChoice(fitting, reason)


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
    text = str(error).lower()
    return isinstance(error, jax.errors.JaxRuntimeError) and any(words in text for words in _OUT_OF_MEMORY)


def _megabytes(amount: float) -> str:
    return f"{amount / 1e6:,.1f} MB"
