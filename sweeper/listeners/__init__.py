"""Listeners of a sweep, one in each file; `sweeper.events` has the events that they hear.

To add a listener, write a file with a function like those below and add it to `LISTENERS`.
"""

from collections.abc import Callable

from sweeper.events import Listener
from sweeper.listeners import heartbeat_writer, live_view, log_lines
from sweeper.listeners.heard_start import HeardStart

LISTENERS: tuple[Callable[[HeardStart], Listener | None], ...] = (
    live_view.listener,
    log_lines.listener,
    heartbeat_writer.listener,
)
"""Each makes a listener for a start, or None where it has nothing to do."""


def listeners(start: HeardStart) -> list[Listener]:
    """The listeners of a start."""
    return [listener for make in LISTENERS if (listener := make(start)) is not None]
