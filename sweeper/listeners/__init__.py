"""Listeners of a sweep; `sweeper.events` has the events that they hear.

To add a listener, write a file with a class that has a method `hear`, and add it to `listeners`.
"""

from collections.abc import Callable

from rich.console import Console

from sweeper.events import Listener
from sweeper.listeners import heartbeat_writer, views
from sweeper.store.store import Store


def listeners(console: Console, store: Store, command: str, ask_to_stop: Callable[[], None]) -> list[Listener]:
    """The listeners of a start that prints to a console.

    `command` is the command line that carries on; `ask_to_stop`, which any thread may call, makes the start leave
    checkpoints and end.
    """
    return [view(console), heartbeat_of(store, command, ask_to_stop)]


def view(console: Console) -> Listener:
    """What people see of a start: a view that moves on a terminal, lines elsewhere."""
    return views.LiveView(console) if console.is_terminal else views.LogLines(console)


def heartbeat_of(store: Store, command: str, ask_to_stop: Callable[[], None]) -> Listener:
    """Tells the store how far one sweep is; the arguments are those of `listeners`."""
    return heartbeat_writer.HeartbeatWriter(store, command, ask_to_stop)
