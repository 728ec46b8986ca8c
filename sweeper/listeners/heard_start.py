"""The start whose events listeners hear: its console, its store, and how to stop it or carry it on."""

from collections.abc import Callable
from typing import NamedTuple

from rich.console import Console

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
