"""Listeners of a sweep, one in each file; `sweeper.events` has the events that they hear.

To add a listener, write a file with a function like those below and add it to `LISTENERS`.
"""

from collections.abc import Callable

from rich.console import Console

from sweeper.events import Listener
from sweeper.listeners import live_view, log_lines

LISTENERS: tuple[Callable[[Console], Listener | None], ...] = (
    live_view.listener,
    log_lines.listener,
)
"""Each makes a listener for a start that prints to the console, or None where it has nothing to do."""


def listeners(console: Console) -> list[Listener]:
    """The listeners of a start that prints to the console."""
    return [listener for make in LISTENERS if (listener := make(console)) is not None]
