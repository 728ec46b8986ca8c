"""Failures that end one part of the benchmark, not the benchmark."""

import traceback
from collections.abc import Callable


def attempted(title: str, work: Callable[[], bool]) -> bool:
    """Whether the work was done and right; an exception is told, and ends only this work."""
    try:
        return work()
    except Exception as error:  # any bug of a compiler, a library or this project
        tell_failure(title, error)
        return False


def tell_failure(title: str, error: Exception) -> None:
    """Print an exception, in full and in one line of the report."""
    traceback.print_exception(error)
    sentence = f"{type(error).__name__}: {error}".splitlines()[0]
    print(f"\n{title} FAILED: {sentence}\n", flush=True)
