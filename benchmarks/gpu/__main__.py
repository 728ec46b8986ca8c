"""The numerics on a GPU, in under ten minutes and without Ray: whether they are right, how fast, and what limits them.

    python -m benchmarks.gpu [--parts agreement,profile,lanes] [--seconds 540] [--lanes 1,2,4,...,512] [--toy]

Prints, as Markdown:

1. Agreement: the numbers of the accelerator beside those of the CPU of the same machine, from the same keys, for every
   task, with the bound on their difference.
2. A profile: the operations on which some steps of colouring and of recall spend most time.
3. Lanes: trial-steps or generations a second by number of lanes, memory, and the least time that a step can take by its
   operations, by its bytes, and by the start of its kernels, at the peaks measured in the same process. Then the time
   that the whole of search_spaces/coloring.yaml would take on this one device, with the packs that it has there.

A failure is printed, and ends its own part only. Exits with 1 if a bound is not kept, if anything failed, or if there
was no time for a task or a part. A part that does not come back is ended with the process. `--toy` makes everything
small, and runs on a CPU too, in the form for an accelerator: that shows that the benchmark works, and nothing about a
GPU. Programs are kept in the folder of JAX_COMPILATION_CACHE_DIR, if it is set, so that a second call compiles nothing.
"""

import argparse
import io
import os
import sys
import threading
import time
from collections.abc import Callable

import jax

from benchmarks.gpu import agreement, lanes, profiles
from benchmarks.gpu.attempts import attempted
from sweeper.trial import vectorisation

RESERVED = 60
"""Seconds that are kept for what comes after the lanes."""

OVERTIME = 40
"""Seconds after the last beginning until the process ends, whatever it does then."""

AGREEMENT_UNTIL, PROFILE_UNTIL = 0.45, 0.6
"""Shares of the time after which these parts begin nothing, so that the later parts get theirs."""


def end_after(seconds: float) -> None:
    """End this process with exit code 1 after a time, unless it has ended by itself."""

    def end() -> None:
        print("\nThe time is over: a compilation or a computation has not come back.", flush=True)
        os._exit(1)

    watchdog = threading.Timer(min(seconds, threading.TIMEOUT_MAX), end)
    watchdog.daemon = True
    watchdog.start()


def main(arguments: list[str] | None = None) -> int:
    """Print all parts; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=540.0, help="begin nothing after so many seconds")
    parser.add_argument("--lanes", default="1,2,4,8,16,32,64,128,256,512")
    parser.add_argument("--parts", default="agreement,profile,lanes")
    parser.add_argument("--toy", action="store_true")
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what was printed is kept, whatever ends the process
    begun = time.monotonic()
    until = begun + options.seconds
    device = jax.devices()[0]
    if device.platform == "cpu" and not options.toy:
        print("JAX has no accelerator here (see locks/gpu.lock, and the driver); --toy runs on a CPU", file=sys.stderr)
        return 2
    form = "cuda" if device.platform == "cpu" else device.platform
    print(f"# {device.device_kind}, {device.platform}, JAX {jax.__version__}\n")
    # The end of the last part evaluates two networks on all cycles, and compiles for that.
    end_after(options.seconds + OVERTIME)
    numbers, rows_until = [int(text) for text in options.lanes.split(",")], until - RESERVED
    parts: dict[str, Callable[[], bool]] = {
        "agreement": lambda: agreement.print_agreement(options.toy, begun + AGREEMENT_UNTIL * options.seconds),
        "profile": lambda: profiles.print_profiles(options.toy, begun + PROFILE_UNTIL * options.seconds),
        "lanes": lambda: lanes.print_lanes_and_whole_space(numbers, options.toy, rows_until, until),
    }
    with vectorisation.built_for(form):
        right = [attempted(part, parts[part]) for part in options.parts.split(",")]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
