"""Work in native code that Ctrl-C can end.

Python answers a signal between two of its own instructions, so a call into a database delays the answer until the call
returns. Here the call runs in another thread, and the main thread, which gets the signals, only waits.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

ResultT = TypeVar("ResultT")

GRACE_SECONDS = 3.0
"""Seconds that interrupted work may take to end. Some functions of a database ignore interruptions until their end."""


def interruptible(work: Callable[[], ResultT], interrupt: Callable[[], None]) -> ResultT:
    """The result of the work; raises what it raises.

    Args:
        work: Called in a thread of its own.
        interrupt: Asks the work to end; called in this thread when a signal raises an exception here. The exception
            goes on after the work has ended, or after a few seconds.
    """
    outcomes: list[tuple[ResultT, None] | tuple[None, BaseException]] = []
    # After an interrupted `join` Python 3.11 and 3.12 believe that the thread has ended.
    ended = threading.Event()

    def run() -> None:
        try:
            outcomes.append((work(), None))
        except BaseException as error:  # belongs to the thread that waits
            outcomes.append((None, error))
        finally:
            ended.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        ended.wait()
    except BaseException:
        interrupt()
        ended.wait(GRACE_SECONDS)
        raise
    match outcomes.pop():
        case (_, BaseException() as error):
            try:
                raise error
            finally:
                del error  # its traceback holds this frame, and would keep the database open
        case (result, _):
            return result
