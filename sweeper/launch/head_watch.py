"""Watching the head of the cluster: when the head is gone, the sweep ends at once, with one sentence.

Ray alone waits for a minute, and then ends the process with a paragraph for its developers.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import ray

from sweeper.interruption import Interruption

SECONDS = 1.0
"""Seconds between two checks."""


def leave(sentence: str, code: int) -> None:
    """End the process at once: the driver's main thread waits inside Ray and cannot be reached."""
    os.write(2, f"{sentence}\n".encode())
    os._exit(code)


@contextlib.contextmanager
def watched_head(
    address: str | None, interruption: Interruption, lost: Callable[[str, int], None] = leave
) -> Iterator[None]:
    """Watch the head of the cluster that Ray is connected to.

    Args:
        address: Host and port of a cluster that was running before; None for the local cluster of this process.
        interruption: Whether the sweep is to stop. A signal to everything on a machine ends the head as well, and the
            exit code is that of the signal then.
        lost: Called in another thread with a sentence and an exit code when the head is gone: when a local head
            refuses a connection, or another head has answered nothing for 45 seconds, since it may be started again.
    """
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    patience, name = (0.0, "on this machine") if address is None else (45.0, f"at {address}")
    ended = threading.Event()

    def watch() -> None:
        answered = time.monotonic()
        while not ended.wait(SECONDS):
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=3).close()
                answered = time.monotonic()
            except OSError as error:
                refused = isinstance(error, ConnectionRefusedError)
                if not ended.is_set() and time.monotonic() - answered > patience and (refused or address is not None):
                    sentence = f"the Ray cluster {name} has died: its head process is gone; the same command carries on"
                    signum = interruption.arrived()
                    lost(sentence, 1 if signum is None else 128 + signum)
                    return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
