"""How many lanes of a pack an accelerator computes at once, and what is to be done when its memory is too small.

The compiler says how much memory a program takes. Programs of one and of two lanes give the memory of a lane and of
what all lanes share, and with the memory of the device the number of lanes that fit. The choice depends on the pack and
on the kind of device, never on what else uses the device or on what is committed. A checkpoint keeps it.
"""

from typing import Any, NamedTuple

import jax

from sweeper.packs.packing import Pack, stack
from sweeper.training.trainer import Trainer

SHARE = 0.9
"""Share of the device's memory that lanes may fill; the rest is for evaluation and for gaps between arrays."""


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
    memory = share * whole
    one, two = (trainer.memory(stack(pack.trials[:lanes])) for lanes in (1, 2))
    each = max(1, two - one)
    fitting = min(len(pack.trials), max(1, int((SHARE * memory - (one - each)) // each)))
    reason = f"the first lane takes {_megabytes(one)}, each further lane {_megabytes(each)}, the device has room for "
    return LaneChoice(fitting, reason + _megabytes(memory))


def halved(lanes: int) -> LaneChoice:
    """The choice after the device had too little memory for so many lanes."""
    return LaneChoice(-(-lanes // 2), f"the device had too little memory for {lanes:,}")


def out_of_memory(error: Exception) -> bool:
    """Whether a computation failed because the memory of its device was too small."""
    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


def _megabytes(amount: float) -> str:
    return f"{amount / 1e6:,.1f} MB"
