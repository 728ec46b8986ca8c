"""The same small piece of work for many files, which is mostly waiting for the disk or the network."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_THREADS = 16

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """`function` of every item, in the order of the items."""
    # Handing a file to a thread costs more than reading it from a warm disk: a thread takes several at a time.
    size = max(1, min(64, len(items) // _THREADS))
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    if len(parts) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(_THREADS) as pool:
        return [result for part in pool.map(lambda part: [function(item) for item in part], parts) for result in part]
