"""The progress of a sweep in a notebook: one output that is written anew, with a bar, the counts, and what happened."""

import html
import sys
import time
from collections.abc import Callable
from typing import Any

from sweeper import events
from sweeper.events import Event
from sweeper.listeners.live_view import sentences
from sweeper.listeners.sweep_progress import SweepProgress
from sweeper.messages import duration

DRAWING_SECONDS = 0.5  # between two drawings of the bar


def display() -> Callable[..., Any] | None:
    """The function of IPython that makes an output of a notebook's cell; None where no notebook is."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display  # pyright: ignore[reportMissingImports]  whoever is here has it

    return display


class NotebookBar:
    """Writes one output of a cell anew while a sweep goes on."""

    def __init__(self, display: Callable[..., Any], clock: Callable[[], float] = time.monotonic):
        self._clock, self._progress, self._told = clock, SweepProgress(clock), list[str]()
        self._begun = self._next = clock()
        self._output = display(self._shown(), raw=True, display_id=True)

    def hear(self, event: Event) -> None:
        self._progress.hear(event)
        self._told += sentences(event)
        ended = isinstance(event, events.SweepEnded)
        if ended or self._clock() >= self._next:
            self._next = self._clock() + DRAWING_SECONDS
            self._output.update(self._shown(ended), raw=True)

    def _shown(self, ended: bool = False) -> dict[str, str]:
        """The bar as HTML, and as text for whoever shows no HTML."""
        progress, total = self._progress, self._progress.plan.trials
        took = duration(self._clock() - self._begun)
        line = f"{progress.done:,}/{total:,} done · {progress.failed:,} failed · {took}" if ended else progress.line()
        done = progress.done + progress.failed
        lines = "".join(f"<br>{html.escape(told)}" for told in self._told)
        bar = f'<progress max="{max(1, total)}" value="{done}" style="width: 20em"></progress>'
        return {"text/html": f"{bar} {html.escape(line)}{lines}", "text/plain": "\n".join([line, *self._told])}
