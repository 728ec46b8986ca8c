"""The progress of a sweep on a terminal: running packs and counts, redrawn in place, below the sentences about events.

The view is redrawn when time passes in the driver's loop. So it needs no thread, and reads no count that is changing.
"""

import math
import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeper import events
from sweeper.events import Event
from sweeper.listeners.heard_start import HeardStart
from sweeper.listeners.sentences import sentences
from sweeper.listeners.sweep_progress import RunningPack, SweepProgress
from sweeper.messages import counted, duration, printable

SECONDS = 0.25
"""Between two redraws."""

MAX_ROWS = 12
"""Largest number of running packs with a row of their own."""


def listener(start: HeardStart) -> "LiveView | None":
    """The view, on a terminal."""
    return LiveView(start.console) if start.console.is_terminal else None


class LiveView:
    """Redraws the counts of a sweep."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic):
        """Draw nothing yet.

        Args:
            console: A terminal.
            clock: Seconds since some moment.
        """
        self._console, self._clock = console, clock
        self._progress = SweepProgress(clock)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._next = clock()

    def hear(self, event: Event) -> None:
        """Draw what has changed."""
        self._progress.hear(event)
        for sentence in sentences(event):
            self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)
        match event:
            case events.SweepStarted():
                self._live.start()
            case events.Ticked() if self._clock() >= self._next:
                self._next = self._clock() + SECONDS
                self._live.update(drawing(self._progress), refresh=True)
            case events.SweepEnded():
                self._live.stop()
            case _:
                pass


def drawing(progress: SweepProgress) -> RenderableType:
    """A row for each running pack, a bar for the whole sweep, and the line of counts."""
    rows = Table.grid(padding=(0, 2))
    packs = list(progress.packs.values())
    for pack in packs[:MAX_ROWS]:
        still = progress.still(pack)
        rows.add_row("", *_columns(pack), f"nothing new for {duration(still)}" if still else "")
    if hidden := len(packs[MAX_ROWS:]):
        rows.add_row("", f"and {counted(hidden, 'pack')} more")
    whole = Table.grid()
    whole.add_row(ProgressBar(total=max(1, progress.plan.trials), completed=progress.done + progress.failed, width=40))
    whole.add_row(Text(progress.line()))
    return Group(rows, whole)


def _columns(pack: RunningPack) -> list[RenderableType]:
    label, now = Text(printable(pack.started.label)), pack.progress
    if now is None:
        return [label, ProgressBar(total=1, completed=0, width=20), "waiting for its worker", ""]
    bar = ProgressBar(total=now.steps or 1, completed=now.step, width=20)
    if now.phase == "compiling":
        return [label, bar, "compiling", ""]
    loss = "" if math.isnan(now.train_loss) else f"loss {now.train_loss:.3g}"
    return [label, bar, f"{now.phase} {now.step:,}", loss]
