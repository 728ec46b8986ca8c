"""The same small piece of work for many files, which is mostly waiting for the disk or the network."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_THREADS = 16
_PROBES, _QUICK = 8, 0.0005

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """`function` of every item, in the order of the items."""
    begun = time.perf_counter()
    first = [function(item) for item in items[:_PROBES]]
    rest = items[_PROBES:]
    if time.perf_counter() - begun < _QUICK * len(first) or len(rest) < 2:
        # To hand a file to a thread costs more than to read it from a warm disk.
        return first + [function(item) for item in rest]
    with ThreadPoolExecutor(_THREADS) as pool:
        return first + list(pool.map(function, rest))
