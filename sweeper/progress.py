"""What a command is doing, for people who wait: a bar on a terminal, elsewhere a line every ten seconds.

Code that may take seconds says so where it does the work: `doing("importing")`, `each(files, "copying files")`. A
command, which is run within `shown`, draws this on standard error; in a program of a user nothing is shown.

Invariants:
    - What ends within a second is not shown, and what has ended leaves nothing on a terminal.
    - Drawing has a thread of its own, so that seconds go on while the main thread is inside a compiler.
    - While another view draws on the terminal (`hidden`), nothing is shown.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from sweeper.interruption import CLEAR_LINE
from sweeper.messages import duration, printable

Item = TypeVar("Item")


class Pace(NamedTuple):
    """Seconds: of an activity before it is shown, between two drawings on a terminal, between two lines elsewhere."""

    patience: float = 1.0
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


class _Line:
    """The last line of a terminal, which is ours while something is written in it."""

    def __init__(self, stream: Any):
        self._stream, self._written, self._lock = stream, "", threading.Lock()

    def write(self, make: Callable[[], str]) -> None:
        """Replace what is written by what `make` gives once no other thread writes."""
        with self._lock:
            if (text := make()) != self._written:
                self._stream.write(CLEAR_LINE + text)
                self._stream.flush()
                self._written = text


_under_way: list[Activity] = []
_hiding: list[None] = []
_lines: list[_Line] = []


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


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Show nothing in this block, which draws on the terminal itself."""
    _hiding.append(None)
    _erase()
    try:
        yield
    finally:
        _hiding.pop()


def _erase() -> None:
    """Leave the terminal to whoever prints next."""
    for line in _lines:
        line.write(str)


@contextlib.contextmanager
def shown(stream: Any, pace: Pace = Pace()) -> Iterator[None]:
    """Show on a stream, such as `sys.stderr`, what is done in this block."""
    ended = threading.Event()
    keep = _keep_bar if stream.isatty() else _keep_log
    thread = threading.Thread(target=keep, args=(stream, pace, ended.wait), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _now(patience: float) -> list[Activity]:
    """The activities to show, each within the one before; none of them is new."""
    now = [] if _hiding else list(_under_way)
    return now if now and time.monotonic() - now[0].begun >= patience else []


def _keep_log(stream: Any, pace: Pace, ended: Callable[[float], bool]) -> None:
    """Write a line about the innermost activity now and then."""
    while not ended(pace.line):
        if now := _now(pace.patience):
            stream.write(f"{now[-1].line()}\n")
            stream.flush()


def _keep_bar(stream: Any, pace: Pace, ended: Callable[[float], bool]) -> None:
    """Keep one line of a terminal: the bar of the innermost activity with parts, and the innermost activity in words.

    The cursor stays visible, as a signal may end the process at any moment.
    """
    _lines.append(line := _Line(stream))
    while not ended(pace.drawing):
        line.write(lambda: _drawing(stream, now) if (now := _now(pace.patience)) else "")
    _lines.remove(line)
    line.write(str)


def _drawing(stream: Any, now: Sequence[Activity]) -> str:
    from rich.console import Console
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream, force_terminal=True, force_jupyter=False, highlight=False)
    bars = [ProgressBar(activity.total, activity.done, width=30) for activity in now if activity.total]
    row = Table.grid(padding=(0, 1))
    row.add_row(*bars[-1:], Text(now[-1].line(), no_wrap=True, overflow="ellipsis"))
    with console.capture() as captured:
        console.print(row, width=console.width - 1)
    return captured.get().rstrip("\n")
