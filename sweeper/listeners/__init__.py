"""Listeners of a sweep; `sweeper.events` has the events that they hear.

To add a listener, write a file with a class that has a method `hear`, and add it to `listeners`.
"""

from collections.abc import Callable
from typing import NamedTuple

from rich.console import Console

from sweeper.events import Listener
from sweeper.listeners import heartbeat_writer, views
from sweeper.store.store import Store


class HeardStart(NamedTuple):
    """A start, as its listeners know it.

    Attributes:
        console: Where the start prints.
        store: Its results store.
        command: The command line that carries on.
        ask_to_stop: Asks the start to leave checkpoints and end, from any thread.
    """

    console: Console
    store: Store
    command: str
    ask_to_stop: Callable[[], None]


def listeners(start: HeardStart) -> list[Listener]:
    """The listeners of a start."""
    view = views.LiveView if start.console.is_terminal else views.LogLines
    heartbeats = heartbeat_writer.HeartbeatWriter(start.store, start.command, start.ask_to_stop)
    return [view(start.console), heartbeats]
