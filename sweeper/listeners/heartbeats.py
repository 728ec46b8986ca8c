"""Heartbeats of drivers, and requests to stop, as small files of the store.

    drivers/<sweep>/<driver>.json     how far the driver is; written anew every few seconds, removed when it ends
    drivers/<sweep>/<driver>.stop     a request to stop

A heartbeat that stays tells that its driver died. A thread of the driver writes the latest progress that the driver's
loop has reported. So a loop that waits for Ray counts as alive, and a slow store does not delay the loop.
"""

import contextlib
import dataclasses
import json
import math
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sweeper import events
from sweeper.events import Event
from sweeper.listeners.sweep_progress import RunningPack, SweepProgress
from sweeper.store.files import DurableFiles, StoreError
from sweeper.store.store import Store

SECONDS = 5.0  # between two heartbeats, and between two looks for a request to stop
END_SECONDS = 10.0  # how long an end waits for a store that does not answer
MOST_PACKS = 100  # running packs of which a heartbeat says more than their number
LOOK_SECONDS = 1.0  # between two looks for an answer to a request to stop
PATIENCE = 60.0  # seconds without a new heartbeat after which a driver is taken for dead

_NAME = re.compile(r"drivers/([A-Za-z0-9_][\w.-]*)/([0-9a-f]{16})\.json", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Heartbeat:
    """A heartbeat of a driver."""

    driver: str  # sixteen hexadecimal digits, drawn by the driver
    host: str  # its machine
    pid: int  # its process there
    processes: str  # where this number is that of the process, see `process_space`
    command: str  # the command line that carries on
    state: str  # `starting`, `running` or `stopping`
    line: str  # how far the sweep is, in words
    seconds_left: float | None  # an estimate; None where there is none
    packs: list[dict[str, Any]]  # the first of the running packs, as rows of a table

    @property
    def place(self) -> str:
        """Where it runs, in words."""
        return f"{self.host} (process {self.pid})"

    @property
    def has_died(self) -> bool:
        """Whether its process is gone; no process of another machine or container is known to be."""
        if self.processes != process_space():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:  # the process of another user
            pass
        return False


def process_space() -> str:
    """Where processes have the numbers that this one sees: a container may have its host's name and numbers of its own.

    A machine has others after each of its starts.
    """
    with contextlib.suppress(OSError):  # no Linux
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname()


class Driver(NamedTuple):
    """A driver as the store knows it."""

    sweep: str
    heartbeat: Heartbeat  # its latest
    age: float  # of the heartbeat, in seconds

    @property
    def lives(self) -> bool:
        """Whether the driver runs, as far as can be known."""
        return not self.heartbeat.has_died and self.age <= PATIENCE


def write_heartbeat(files: DurableFiles, sweep: str, heartbeat: Heartbeat) -> None:
    files.write(f"drivers/{sweep}/{heartbeat.driver}.json", json.dumps(dataclasses.asdict(heartbeat)).encode())


def remove_heartbeat(files: DurableFiles, sweep: str, driver: str) -> None:
    """Forget a driver, and requests to it."""
    files.delete(f"drivers/{sweep}/{driver}.json")
    files.delete(f"drivers/{sweep}/{driver}.stop")


def remove_dead(files: DurableFiles, sweep: str) -> None:
    """Remove the heartbeats of drivers of a sweep that have died: another one carries on, or finds nothing to do."""
    for driver in drivers(files, sweep):
        if not driver.lives:
            remove_heartbeat(files, sweep, driver.heartbeat.driver)


def drivers(files: DurableFiles, sweep: str | None = None) -> list[Driver]:
    """The drivers with a heartbeat, of one sweep or of all; a file that cannot be read as one is passed over."""
    found = []
    for name, state in sorted(files.listing("drivers" if sweep is None else f"drivers/{sweep}").items()):
        with contextlib.suppress(ValueError, TypeError, LookupError):
            if _NAME.fullmatch(name) is None:
                continue
            heartbeat = Heartbeat(**json.loads(files.read(name) or b""))
            found.append(Driver(name.split("/")[1], heartbeat, time.time() - state.modified / 1e9))
    return found


def ask_to_stop(files: DurableFiles, sweep: str, driver: str) -> None:
    files.write(f"drivers/{sweep}/{driver}.stop", b"")


def is_asked_to_stop(files: DurableFiles, sweep: str, driver: str) -> bool:
    return files.read(f"drivers/{sweep}/{driver}.stop") is not None


SILENT = "gives no heartbeat; the request stays"


def answers(
    files: DurableFiles, sweep: str, look: float = LOOK_SECONDS, patience: float = PATIENCE
) -> Iterator[tuple[Heartbeat, str]]:
    """Ask all drivers of a sweep to stop, and wait for them: of each a heartbeat, and what became of it once known."""
    waiting = _of_sweep(files, sweep)
    for key in waiting:
        ask_to_stop(files, sweep, key)
    while waiting:
        now = _of_sweep(files, sweep)
        for key, driver in list(waiting.items()):
            if key not in now:
                end = "has stopped"
            elif driver.heartbeat.has_died:
                remove_heartbeat(files, sweep, key)
                end = "had died"
            elif now[key].age > patience:
                end = SILENT
            else:
                continue
            del waiting[key]
            yield driver.heartbeat, end
        if waiting:
            time.sleep(look)


def _of_sweep(files: DurableFiles, sweep: str) -> dict[str, Driver]:
    return {driver.heartbeat.driver: driver for driver in drivers(files, sweep)}


class HeartbeatWriter:
    """Tells the store that a driver lives, and how far it is.

    `command` is the command line that carries on; `stop` is called once, in another thread, when there is a request
    that the driver stop.
    """

    def __init__(self, store: Store, command: str, stop: Callable[[], None], seconds: float | None = None):
        self._store, self._command, self._stop = store, command, stop
        self._seconds = SECONDS if seconds is None else seconds
        self._driver = secrets.token_hex(8)
        self._progress = SweepProgress()
        self._state = "starting"
        self._latest: Heartbeat | None = None
        self._next = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def hear(self, event: Event) -> None:
        self._progress.hear(event)
        match event:
            case events.SweepStarted():
                self._state = "running"
            case events.SweepStopping():
                self._state = "stopping"
            case events.SweepEnded():
                self._end()
                return
            case _:
                pass
        if not isinstance(event, events.Ticked) or time.monotonic() >= self._next:
            self._next = time.monotonic() + 1.0
            self._latest = self._heartbeat()
        if isinstance(event, events.SweepPlanned) and self._thread is None:
            self._thread = threading.Thread(target=self._beat, daemon=True)
            self._thread.start()

    def _heartbeat(self) -> Heartbeat:
        progress, packs = self._progress, list(self._progress.packs.values())
        return Heartbeat(
            driver=self._driver,
            host=socket.gethostname(),
            pid=os.getpid(),
            processes=process_space(),
            command=self._command,
            state=self._state,
            line=progress.line(),
            seconds_left=progress.seconds_left,
            packs=[_row(pack, progress.still(pack)) for pack in packs[:MOST_PACKS]],
        )

    def _beat(self) -> None:
        sweep, files = self._progress.plan.name, self._store.files
        asked, first = False, True
        while not self._ended.is_set():
            assert self._latest is not None  # the thread starts after the first heartbeat
            try:
                write_heartbeat(files, sweep, self._latest)
                if first:
                    remove_dead(files, sweep)
                    first = False
                if not asked and is_asked_to_stop(files, sweep, self._driver):
                    asked = True
                    self._stop()
            except StoreError:
                pass  # the next heartbeat may come through
            self._ended.wait(self._seconds)
        with contextlib.suppress(StoreError):  # then it looks as if the driver had died
            remove_heartbeat(files, sweep, self._driver)

    def _end(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(END_SECONDS)


def _row(pack: RunningPack, still: float) -> dict[str, Any]:
    """A running pack as a row of a table."""
    now, loss = pack.progress, pack.progress.train_loss
    return {
        "pack": pack.started.label,
        "lanes": now.lanes,
        "does": now.phase,
        "step": now.step,
        "of": now.steps,
        "loss": loss if math.isfinite(loss) else None,
        "node": now.node or None,
        "nothing new for": still or None,
    }
