"""A part of the benchmark, in a process of its own, so that what goes wrong in the driver ends nothing else.

`python -m benchmarks.gpu` starts it with an order.
"""

import contextlib
import faulthandler
import functools
import io
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax

from benchmarks.gpu import agreement, lanes, product, profiles
from sweeper.packs.device_memory import device_bytes
from sweeper.trial import vectorisation

NO_ACCELERATOR = 2
"""Exit code of a process that needs an accelerator and finds none."""


class Order(NamedTuple):
    """What a process does. Moments are of `time.monotonic`, which all processes of a machine share."""

    part: str  # `agreement`, `product`, `lanes` or `profile`
    item: str  # the task or experiment that is compared or profiled; empty for other parts
    toy: bool  # whether everything is small and may run on a CPU
    lanes: list[int]  # numbers of lanes, in the order in which they are measured
    until: float  # moment after which nothing begins
    ends: float  # moment at which the process ends, whatever it does then

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.part} of {self.item}" if self.item else self.part


@contextlib.contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """End this process with exit code 1 after a time, unless the context has been left.

    Prints where every thread is. The thread that ends the process is no thread of Python, so that a call that keeps
    Python's lock for ever is ended too.
    """
    if seconds < threading.TIMEOUT_MAX:
        faulthandler.dump_traceback_later(max(0.001, seconds), exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def main(order: Order) -> int:
    """Print what is ordered; returns the exit code, 0 if it is right."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what was printed is kept, whatever ends the process
    with ended_after(order.ends - time.monotonic()):
        device = jax.devices()[0]
        if device.platform == "cpu" and not order.toy:
            print(
                "JAX has no accelerator here (see locks/gpu.lock, and the driver); --toy runs on a CPU", file=sys.stderr
            )
            return NO_ACCELERATOR
        memory = device_bytes()
        room = f", {memory / 1e9:.1f} GB for JAX" if memory else ""
        print(f"## {order.title}\n\n{device.device_kind}, {device.platform}{room}.\n")
        works: dict[str, Callable[[], bool]] = {
            "agreement": functools.partial(agreement.print_item, order.item, order.toy),
            "product": functools.partial(product.print_product, order.toy, order.until),
            "lanes": functools.partial(lanes.print_lanes, order.lanes, order.toy, order.until),
            "profile": functools.partial(profiles.print_profile, order.item, order.toy),
        }
        with vectorisation.built_for("cuda" if device.platform == "cpu" else device.platform):
            try:
                return 0 if works[order.part]() else 1
            except Exception as error:  # any bug of a compiler, a library or this project
                traceback.print_exception(error)
                sentence = f"{type(error).__name__}: {error}".splitlines()[0]
                print(f"\n{order.title} FAILED: {sentence}\n", flush=True)
                return 1


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main(Order(*json.loads(sys.argv[1]))))
