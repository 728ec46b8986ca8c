"""Requests to the drivers of a sweep that they stop, and what became of each driver."""

import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

from sweeper.listeners.driver_process import DriverProcess, life
from sweeper.listeners.heartbeats import StoredHeartbeat, ask_to_stop, heartbeats, remove_heartbeat
from sweeper.store.files import DurableFiles

SECONDS = 1.0
"""Between two looks for an answer."""

PATIENCE = 60.0
"""Seconds without a new heartbeat after which a driver elsewhere is given up."""


class StopAnswer(NamedTuple):
    """What became of a driver after the request.

    Attributes:
        process: The driver.
        end: It has `stopped`, it had `died` before, or it is `silent`: it gives no heartbeat, and the request stays.
    """

    process: DriverProcess
    end: Literal["stopped", "died", "silent"]


def answers(files: DurableFiles, sweep: str) -> Iterator[StopAnswer]:
    """Ask all drivers of a sweep to stop, and wait for them: the answer of each driver when it comes.

    There is no answer where no driver runs.

    Raises:
        StoreError: the store cannot be read or written.
    """
    waiting = _signs(files, sweep)
    for driver in waiting:
        ask_to_stop(files, sweep, driver)
    heard = dict.fromkeys(waiting, time.monotonic())
    while waiting:
        now = _signs(files, sweep)
        for driver, before in list(waiting.items()):
            process = before.heartbeat.process
            if driver not in now:
                del waiting[driver]
                yield StopAnswer(process, "stopped")
            elif life(process) == "dead":
                remove_heartbeat(files, sweep, driver)
                del waiting[driver]
                yield StopAnswer(process, "died")
            elif now[driver].modified != before.modified:
                waiting[driver], heard[driver] = now[driver], time.monotonic()
            elif time.monotonic() - heard[driver] > max(PATIENCE, 4 * before.heartbeat.every):
                del waiting[driver]
                yield StopAnswer(process, "silent")
        if waiting:
            time.sleep(SECONDS)


def _signs(files: DurableFiles, sweep: str) -> dict[str, StoredHeartbeat]:
    """The latest heartbeat of each driver of a sweep."""
    return {stored.heartbeat.driver: stored for stored in heartbeats(files) if stored.sweep == sweep}
