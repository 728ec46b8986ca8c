"""The progress of a sweep in lines for a log: each event when it happens, and the counts every ten seconds."""

import time
from collections.abc import Callable

from rich.console import Console

from sweeper import events
from sweeper.events import Event
from sweeper.listeners.heard_start import HeardStart
from sweeper.listeners.sentences import sentences
from sweeper.listeners.sweep_progress import SweepProgress

SECONDS = 10.0


def listener(start: HeardStart) -> "LogLines | None":
    """Lines wherever the output is not a terminal."""
    return None if start.console.is_terminal else LogLines(start.console)


class LogLines:
    """Prints sentences about events, and now and then the counts."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic):
        """Print nothing yet.

        Args:
            console: Where to.
            clock: Seconds since some moment.
        """
        self._console, self._clock = console, clock
        self._progress = SweepProgress(clock)
        self._next = clock() + SECONDS

    def hear(self, event: Event) -> None:
        """Print what there is to say."""
        self._progress.hear(event)
        for sentence in sentences(event):
            self._print(sentence)
        if isinstance(event, events.Ticked) and self._clock() >= self._next:
            self._next = self._clock() + SECONDS
            self._print(self._progress.line())

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
