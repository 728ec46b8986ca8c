"""The numerics on a GPU, in under ten minutes and without Ray: whether they are right, how fast, and what takes time.

    python -m benchmarks.gpu [--parts agreement,product,lanes,profile] [--seconds 540] [--lanes 1,64,...] [--toy]

Prints, as Markdown, what it is measured with, and then:

1. Agreement: the numbers of the accelerator beside those of the CPU of the same machine, from the same keys, for every
   task and every shipped experiment, with the bound on their difference.
2. The product: the whole of search_spaces/coloring.yaml, trained in one process without Ray, kept in a store, and
   ended by a limit of its own if its time is over. Its table and its seconds.
3. Lanes, from coarse to fine: trial-steps or generations a second by number of lanes, memory, and compilation.
4. A profile: the operations on which some steps of colouring and of recall, and a generation of the grid world, spend
   most time.

Every item of agreement, every profile and each other part run in a process of their own, one after the other, and this
process opens no device. So what ends a process, or leaves it a device on which everything fails, is said and ends
nothing else. A process that does not come back says where it is and is ended. An exception is printed, and ends only
the task or the row. Exits with 1 if a bound is not kept, if anything failed, or if there was no time for a task or a
part, and with 2 if there is no accelerator. `--toy` makes everything small, and runs on a CPU too, in the form for an
accelerator: that shows that the benchmark works, and nothing about a GPU. Programs are kept in the folder of
JAX_COMPILATION_CACHE_DIR, if it is set, so that a second call compiles nothing.
"""

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.gpu import machine
from benchmarks.gpu.part import NO_ACCELERATOR, Order
from benchmarks.gpu.profiles import PROFILED
from benchmarks.shipped_trials import EXPERIMENTS, SPACES
from sweeper.packs.device_memory import memory_share


class Part(NamedTuple):
    """A part of the benchmark."""

    items: tuple[str, ...]  # what has a process of its own
    until: float  # share of the time after which nothing of it begins


# A process costs a start of JAX and of its context on the device, some five seconds. A task of agreement is worth them:
# its programs are the first that ever run there, and what one of them breaks says nothing about the others. So is a
# profile, because profilers crash. The rows of all kinds of lanes take turns, from coarse to fine: a process for each
# row would spend half of the time on starting, and one for each kind would end the turns.
PARTS = {
    "agreement": Part((*SPACES, *EXPERIMENTS), until=0.35),
    "product": Part(("",), until=0.7),
    "lanes": Part(("",), until=0.85),
    "profile": Part(tuple(PROFILED), until=1.0),
}

OVERTIME = 40
"""Seconds from the moment after which a part begins nothing until its last process is ended, whatever it does then."""


def command(order: Order) -> list[str]:
    """The command that does what is ordered."""
    return [sys.executable, "-m", "benchmarks.gpu.part", json.dumps(order)]


def exit_code(command: Sequence[str], variables: Mapping[str, str], ends: float, grace: float = 10.0) -> int:
    """Exit code of a process, negative for the signal that ended it.

    Args:
        command: Its command. It writes where this process writes, so that nothing stands between it and the reader.
        variables: Its environment.
        ends: Moment of `time.monotonic` at which it should have ended.
        grace: Seconds that it then has for ending itself until it is killed.
    """
    process = subprocess.Popen(command, env=variables)
    try:
        return process.wait(max(0.0, ends - time.monotonic()) + grace)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        process.kill()  # if this process is interrupted


def main(
    arguments: list[str] | None = None,
    *,
    parts: Mapping[str, Part] = PARTS,
    command: Callable[[Order], list[str]] = command,
    exit_code: Callable[[Sequence[str], Mapping[str, str], float], int] = exit_code,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Print all parts; returns the exit code. Tests replace processes and clock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=540.0, help="begin nothing after so many seconds")
    parser.add_argument("--lanes", default="1,64,512,8,256,16,128,4,32,2")
    parser.add_argument("--parts", default=",".join(parts))
    parser.add_argument("--toy", action="store_true")
    options = parser.parse_args(arguments)
    begun, lanes = clock(), [int(text) for text in options.lanes.split(",")]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # the processes of the parts write to the same output
    print(f"# The numerics on a GPU\n\n{machine.described()}")
    right = True
    for name in options.parts.split(","):
        part = parts[name]
        until = begun + part.until * options.seconds
        for item in part.items:
            # Half of the time that the part has left, so that if it does not come back the next item has some.
            left = (until + OVERTIME - clock()) / (1 if item == part.items[-1] else 2)
            order = Order(name, item, options.toy, lanes, until, ends=clock() + left)
            if clock() > until:
                print(f"{order.title}: no time left.\n")
                right = False
                continue
            code = exit_code(command(order), environment(name), order.ends)
            if code == NO_ACCELERATOR:
                return NO_ACCELERATOR
            if code != 0:
                print(f"\n{order.title} FAILED: {_ending(code, late=clock() > order.ends)}\n")
                right = False
    return 0 if right else 1


def environment(part: str) -> dict[str, str]:
    """The environment variables of the processes of a part."""
    variables = {**os.environ, **memory_share()}
    platforms = variables.get("JAX_PLATFORMS", "")
    if platforms and "cpu" not in platforms.split(","):
        variables["JAX_PLATFORMS"] = f"{platforms},cpu"  # which agreement compares with
    if part == "profile":
        # The kernels of a CUDA graph can be one event of a profile, without their names.
        variables["XLA_FLAGS"] = f"{variables.get('XLA_FLAGS', '')} --xla_gpu_enable_command_buffer=".strip()
    return variables


def _ending(code: int, late: bool) -> str:
    ending = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"did not return in time, {ending}" if late else ending


if __name__ == "__main__":
    sys.exit(main())
