"""What a command is doing, for people who wait: a bar on a terminal, elsewhere a line now and every ten seconds.

Code that may take seconds says so where it does the work: `doing("importing")`, `each(files, "copying files")`. A
command, which is run within `shown`, draws this on standard error; in a program of a user nothing is shown.

Invariants:
    - What ends within a second is not shown, and what has ended leaves nothing on a terminal. In a log what takes two
      seconds has a line.
    - Drawing has a thread of its own, so that seconds go on while the main thread is inside a compiler.
"""

import contextlib
import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from sweeper.interruption import CLEAR_LINE
from sweeper.messages import duration, printable

Item = TypeVar("Item")


class Pace(NamedTuple):
    """Seconds: of an activity before it is shown, or has a line in a log; between two drawings, between two lines."""

    patience: float = 1.0
    news: float = 2.0
    drawing: float = 0.2
    line: float = 10.0


@dataclass
class Activity:
    """Something that takes time: `done` of `total` parts, if it has parts."""

    words: str
    total: int | None
    begun: float = field(default_factory=time.monotonic)
    done: int = 0

    def after(self, part: Item) -> Item:
        """Count a part that is done; returns what came of it."""
        self.done += 1
        return part

    def line(self) -> str:
        parts = "" if self.total is None else f": {self.done:,} of {self.total:,}"
        return f"{printable(self.words)}{parts} · {duration(time.monotonic() - self.begun)}"


_under_way: list[Activity] = []
_drawing = threading.Lock()
_drawn_on: list[Any] = []  # the terminal whose last line is ours now


@contextlib.contextmanager
def doing(words: str, total: int | None = None) -> Iterator[Activity]:
    """Say what the block does; with a `total` the block calls `after` for each part."""
    activity = Activity(words, total)
    _under_way.append(activity)
    try:
        yield activity
    finally:
        _under_way.remove(activity)
        _erase()


def each(items: Collection[Item], words: str) -> Iterator[Item]:
    """The items, while a bar counts those that the loop is done with."""
    with doing(words, len(items)) as activity:
        for item in items:
            yield item
            activity.after(item)


def _erase() -> None:
    """Leave the terminal to whoever prints next."""
    with _drawing:
        while _drawn_on:
            print(CLEAR_LINE, end="", flush=True, file=_drawn_on.pop())


@contextlib.contextmanager
def shown(stream: Any, pace: Pace = Pace()) -> Iterator[None]:
    """Show on a stream, such as `sys.stderr`, what is done in this block."""
    ended, terminal = threading.Event(), stream.isatty()

    def watch() -> None:
        log = _Log(pace)
        while not ended.wait(pace.drawing):
            with _drawing:
                now = list(_under_way)
                if not now or time.monotonic() - now[0].begun < pace.patience:
                    continue
                _drawn_on[:] = [stream] * terminal
                stream.write(f"{CLEAR_LINE}{_bar(now)}" if terminal else log.lines(now))
                stream.flush()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class _Log:
    """Which activities a log has told, and when it had its latest line."""

    def __init__(self, pace: Pace):
        self._pace, self._told, self._latest = pace, list[Activity](), time.monotonic()

    def lines(self, now: Sequence[Activity]) -> str:
        """The line that is due now, if any: of an activity that is new, or of the innermost."""
        clock = time.monotonic()
        lasting = [each for each in now if clock - each.begun >= self._pace.news]
        if not lasting or (lasting[-1] in self._told and clock - self._latest < self._pace.line):
            return ""
        self._told, self._latest = lasting, clock
        return f"{(now if clock - lasting[0].begun >= self._pace.line else lasting)[-1].line()}\n"


def _bar(now: Sequence[Activity]) -> str:
    """The bar of the innermost activity with parts, and the innermost activity in words, as much as a line holds.

    The cursor stays visible, as a signal may end the process at any moment.
    """
    parts = [activity for activity in now if activity.total]
    bar = "".join(f"{'━' * (30 * each.done // (each.total or 1)):╌<30} " for each in parts[-1:])
    try:
        columns = os.get_terminal_size(2).columns
    except OSError:
        columns = 80
    return f"{bar}{now[-1].line()}"[: columns - 1]
