"""How a sweep is going: a live view on a terminal, plain lines elsewhere.

`Board` counts; it is fed by the driver's loop and knows nothing of Ray or of terminals. The two views show the same
line of it: `LiveView` redraws it in place, `PlainView` prints it now and then, for logs. Both only read.

Time left is the work left, in training steps of all trials, at the rate of this start so far; evaluation rides along.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeper.messages import duration
from sweeper.packs.plan import Source, Work

PLAIN_SECONDS = 10.0
MAX_ROWS = 12
"""Running packs that the live view names."""


class Board:
    """Counts of a sweep.

    Attributes:
        done: Trials with a row, failed ones left out, those of earlier starts included.
        failed: Trials with a failed row.
    """

    def __init__(self, source: Source, done: int, failed: int, clock: Callable[[], float] = time.monotonic):
        """Start counting.

        Args:
            source: Knows how much is planned; an Optuna search plans more as it goes.
            done: How many trials are finished or stopped already.
            failed: How many have failed and are not run again.
            clock: Seconds.
        """
        self.done, self.failed = done, failed
        self._source, self._clock, self._begun = source, clock, clock()
        self._first: tuple[float, int] | None = None
        self._ended_steps = 0
        self._running: dict[str, tuple[Work, dict[str, Any]]] = {}

    def started(self, work: Work) -> None:
        """A worker has taken up a pack."""
        earlier, before = self._running.get(work.pack.pack_id, (work, {}))
        # After the death of its worker the pack counts what it has still to do from nothing.
        self.done += len(earlier.pending) - len(work.pending) - before.get("committed", 0)
        self._ended_steps += earlier.steps - work.steps
        self.failed -= before.get("failed", 0)
        self._running[work.pack.pack_id] = (work, {})

    def progress(self, pack_id: str, fields: dict[str, Any]) -> None:
        """A pack has come so far; `fields` are some of those of `worker.Progress`."""
        if pack_id not in self._running:
            return
        work, before = self._running[pack_id]
        self.done += fields.get("committed", 0) - before.get("committed", 0)
        self.failed += fields.get("failed", 0) - before.get("failed", 0)
        self._running[pack_id] = (work, before | fields)
        if self._first is None:
            # What a checkpoint brought along has cost no time today.
            self._first = (self._clock(), self._steps_done())

    def ended(self, pack_id: str) -> None:
        """The pack is no longer running."""
        if pack_id in self._running:
            self._ended_steps += self._pack_steps(pack_id)
            del self._running[pack_id]

    @property
    def planned(self) -> int:
        """Number of trials of the sweep, as far as it is known."""
        return len(self._source.planned)

    @property
    def running(self) -> int:
        """Trials that a worker has and has not committed."""
        taken = (len(work.pending) - f.get("committed", 0) - f.get("failed", 0) for work, f in self._running.values())
        return sum(max(0, left) for left in taken)

    @property
    def lanes(self) -> int:
        """Lanes of all running packs."""
        return sum(fields.get("lanes", len(work.pending)) for work, fields in self._running.values())

    @property
    def steps_per_second(self) -> float:
        """Training steps a second of all lanes now in training."""
        training = (fields for _, fields in self._running.values() if fields.get("phase") == "training")
        return sum((fields.get("steps_per_second", 0.0) for fields in training), 0.0)

    @property
    def seconds_left(self) -> float | None:
        """An estimate; None as long as there is nothing to go by."""
        if self._first is None:
            return None
        at, had = self._first
        gained, elapsed = self._steps_done() - had, self._clock() - at
        if gained <= 0 or elapsed <= 0:
            return None
        return max(0.0, self._source.steps - self._steps_done()) * elapsed / gained

    def _pack_steps(self, pack_id: str) -> int:
        work, fields = self._running[pack_id]
        return fields.get("step", 0) * len(work.pending)

    def _steps_done(self) -> int:
        return self._ended_steps + sum(map(self._pack_steps, self._running))

    def line(self) -> str:
        """All of it in one line."""
        parts = [f"{self.done:,}/{self.planned:,} done", f"{self.running:,} running", f"{self.failed:,} failed"]
        parts += [f"{self.lanes:,} lanes", f"{self.steps_per_second:,.0f} steps/s"]
        left = self.seconds_left
        parts += [
            f"{duration(self._clock() - self._begun)} so far",
            f"{duration(left)} left" if left else "time left unknown",
        ]
        return " · ".join(parts)

    def __rich__(self) -> RenderableType:
        rows = Table.grid(padding=(0, 2))
        shown = list(self._running.items())[:MAX_ROWS]
        for pack_id, (work, fields) in shown:
            trial = work.pack.trials[0]
            phase = fields.get("phase", "starting")
            loss = fields.get("train_loss", math.nan)
            rows.add_row(
                Text(f"  {pack_id[:8]}"),
                f"{trial.task.name} {trial.baseline} q={trial.objective.q:g} m={trial.objective.m}",
                ProgressBar(total=fields.get("steps", 1) or 1, completed=fields.get("step", 0), width=20),
                f"{phase} {fields.get('step', 0):,}",
                "" if math.isnan(loss) else f"loss {loss:.3g}",
            )
        if hidden := len(self._running) - len(shown):
            rows.add_row("", f"and {hidden} packs more")
        whole = Table.grid()
        whole.add_row(ProgressBar(total=max(1, self.planned), completed=self.done + self.failed, width=40))
        whole.add_row(Text(self.line()))
        return Group(rows, whole)


class LiveView:
    """Rich redraws the board in a thread of its own; notes scroll by above it."""

    def __init__(self, console: Console):
        self._console = console

    def note(self, text: str) -> None:
        """Print a line for good."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def tick(self) -> None:
        """Time has passed."""


class PlainView:
    """Prints the board's line every ten seconds."""

    def __init__(self, board: Board, console: Console, clock: Callable[[], float] = time.monotonic):
        self._board, self._console, self._clock = board, console, clock
        self._next = clock() + PLAIN_SECONDS

    def note(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def tick(self) -> None:
        """Time has passed."""
        if self._clock() >= self._next:
            self._next = self._clock() + PLAIN_SECONDS
            self.note(self._board.line())


class Watch:
    """A board and its view, told of everything that happens to packs."""

    def __init__(self, board: Board, view: LiveView | PlainView):
        self.started, self.progress, self.ended = board.started, board.progress, board.ended
        self.note, self.tick = view.note, view.tick


@contextlib.contextmanager
def watch(board: Board, console: Console) -> Iterator[Watch]:
    """Shows the board on the console, in the way that suits it."""
    if console.is_terminal:
        with Live(board, console=console, refresh_per_second=4, transient=True):
            yield Watch(board, LiveView(console))
    else:
        yield Watch(board, PlainView(board, console))
