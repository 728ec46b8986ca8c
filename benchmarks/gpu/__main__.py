"""The numerics on a GPU, in under ten minutes and without Ray: whether they are right, how fast, and what limits them.

    python -m benchmarks.gpu [--parts agreement,lanes,profile] [--seconds 540] [--lanes 1,64,512,...] [--toy]

Prints, as Markdown:

1. Agreement: the numbers of the accelerator beside those of the CPU of the same machine, from the same keys, for every
   task, with the bound on their difference.
2. Lanes, from coarse to fine: trial-steps or generations a second by number of lanes, memory, and the least time that a
   step can take by its operations, by its bytes (not where the program of a step is a loop), and by the start of its
   kernels, at the peaks measured in the same process. Then the time that the whole of search_spaces/coloring.yaml would
   take on this one device, with the packs that it has there.
3. A profile: the operations on which some steps of colouring and of recall spend most time. It comes last, because a
   profiler may end the process.

An exception is printed, and ends its own part only. Exits with 1 if a bound is not kept, if anything failed, or if
there was no time for a task or a part. A part that does not come back is ended with the process, which prints where
it was. `--toy` makes everything small, and runs on a CPU too, in the form for an accelerator: that shows that the
benchmark works, and nothing about a GPU. Programs are kept in the folder of JAX_COMPILATION_CACHE_DIR, if it is set,
so that a second call compiles nothing.
"""

import argparse
import contextlib
import faulthandler
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import jax

from benchmarks.gpu import agreement, lanes, profiles
from benchmarks.gpu.attempts import attempted
from sweeper.packs.memory_share import memory_share
from sweeper.trial import vectorisation

OVERTIME = 40
"""Seconds after the last beginning until the process ends, whatever it does then."""

AGREEMENT_UNTIL, ROWS_UNTIL, LANES_UNTIL = 0.45, 0.75, 0.9
"""Shares of the time after which agreement, the rows of the table of lanes, and what follows them begin nothing."""


@contextlib.contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """End this process with exit code 1 after a time, unless the context has been left.

    Prints where every thread is. The thread that ends the process is no thread of Python, so that a call that keeps
    Python's lock for ever is ended too.
    """
    if seconds < threading.TIMEOUT_MAX:
        faulthandler.dump_traceback_later(seconds, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def main(arguments: list[str] | None = None) -> int:
    """Print all parts; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=540.0, help="begin nothing after so many seconds")
    parser.add_argument("--lanes", default="1,64,512,8,256,16,128,4,32,2")
    parser.add_argument("--parts", default="agreement,lanes,profile")
    parser.add_argument("--toy", action="store_true")
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what was printed is kept, whatever ends the process
    # The end of the last part compiles, too.
    with ended_after(options.seconds + OVERTIME):
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    begun = time.monotonic()
    os.environ.update(memory_share())
    device = jax.devices()[0]
    if device.platform == "cpu" and not options.toy:
        print("JAX has no accelerator here (see locks/gpu.lock, and the driver); --toy runs on a CPU", file=sys.stderr)
        return 2
    form = "cuda" if device.platform == "cpu" else device.platform
    print(f"# {device.device_kind}, {device.platform}, JAX {jax.__version__}\n")
    numbers = [int(text) for text in options.lanes.split(",")]
    agreement_until, rows_until, lanes_until = (
        begun + share * options.seconds for share in (AGREEMENT_UNTIL, ROWS_UNTIL, LANES_UNTIL)
    )
    parts: dict[str, Callable[[], bool]] = {
        "agreement": lambda: agreement.print_agreement(options.toy, agreement_until),
        "lanes": lambda: lanes.print_lanes_and_whole_space(numbers, options.toy, rows_until, lanes_until),
        "profile": lambda: profiles.print_profiles(options.toy, begun + options.seconds),
    }
    with vectorisation.built_for(form):
        right = [attempted(part, parts[part]) for part in options.parts.split(",")]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
