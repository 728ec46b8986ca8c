"""Listeners of a sweep; `sweeper.events` has the events that they hear.

A listener is a function of an event. To add one, write a file with it, and add it to `of_sweep`.
"""

from collections.abc import Callable

from rich.console import Console

from sweeper.events import Listener
from sweeper.listeners.heartbeats import HeartbeatWriter
from sweeper.listeners.live_view import LiveView, LogLines, NotebookBar, notebook_display
from sweeper.store.store import Store


def view(console: Console) -> Listener:
    """What people see of a start: a view that moves on a terminal, a bar in a notebook, lines elsewhere."""
    if (display := notebook_display()) is not None:
        return NotebookBar(display).hear
    return (LiveView(console) if console.is_terminal else LogLines(console)).hear


def of_sweep(store: Store, command: str, ask_to_stop: Callable[[], None]) -> list[Listener]:
    """The listeners of one sweep, beside what people see of the start.

    `command` is the command line that carries on; `ask_to_stop`, which any thread may call, makes the start leave
    checkpoints and end.
    """
    return [HeartbeatWriter(store, command, ask_to_stop).hear]
