"""Heartbeats of drivers, and requests to stop, as small files of the store.

    drivers/<sweep>/<driver>.json     how far the driver is; written anew every few seconds, removed when it ends
    drivers/<sweep>/<driver>.stop     a request to stop

A heartbeat that stays tells that its driver died. How old it is, is the time between two modifications by the clock of
the store, of its file and of a file written now: the clocks of two machines may differ.
"""

import contextlib
import dataclasses
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sweeper.store.files import DurableFiles, StoreError

MOST_PACKS = 100  # running packs of which a heartbeat says more than their number
LOOK_SECONDS = 1.0  # between two looks for an answer to a request to stop
PATIENCE = 60.0  # seconds without a new heartbeat after which a driver is taken for dead

_NAME = re.compile(r"drivers/([A-Za-z0-9_][\w.-]*)/([0-9a-f]{16})\.json", re.ASCII)


@dataclasses.dataclass(frozen=True)
class PackProgress:
    """A running pack in a heartbeat."""

    label: str  # what it trains, in a few words
    phase: str  # `waiting` (its worker starts), `preparing`, `compiling`, `training`, `evaluating` or `done`
    step: int  # training steps done
    steps: int  # training steps of each of its trials
    lanes: int  # number of trials that are trained at once
    train_loss: float | None  # latest mean loss; None before the first
    node: str | None  # where its worker is; None before the first report of the worker
    still: float = 0.0  # seconds since the last news of it; 0 where these are few


@dataclasses.dataclass(frozen=True)
class Heartbeat:
    """A heartbeat of a driver."""

    driver: str  # sixteen hexadecimal digits, drawn by the driver
    host: str  # its machine
    pid: int  # its process there
    processes: str  # where this number is that of the process, see `process_space`
    command: str  # the command line that carries on
    state: str  # `starting`, `running` or `stopping`
    doing: str  # what is done while no pack trains, with its seconds
    elapsed: float  # seconds since its start
    trials: int  # number of trials planned
    done: int  # number of trials with a row that did not fail
    failed: int  # number of trials with a failed row
    steps_per_second: float  # training steps a second of all lanes
    seconds_left: float | None  # an estimate; None where there is none
    running: int  # number of running packs
    packs: tuple[PackProgress, ...]  # the first of them

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
    for driver in drivers(files):
        if driver.sweep == sweep and not driver.lives:
            remove_heartbeat(files, sweep, driver.heartbeat.driver)


def drivers(files: DurableFiles) -> list[Driver]:
    """All drivers with a heartbeat, by sweep; a file that cannot be read as one is passed over."""
    listed = {name: state for name, state in sorted(files.listing("drivers").items()) if _NAME.fullmatch(name)}
    now = _clock(files) if listed else 0
    found = []
    for name, state in listed.items():
        with contextlib.suppress(ValueError, TypeError, LookupError):
            fields = json.loads(files.read(name) or b"")
            packs = tuple(PackProgress(**pack) for pack in fields["packs"])
            heartbeat = Heartbeat(**(fields | {"packs": packs}))
            found.append(Driver(name.split("/")[1], heartbeat, (now - state.modified) / 1e9))
    return found


def _clock(files: DurableFiles) -> int:
    """The time now in nanoseconds, by the clock of the store if a file can be written there."""
    name = f"drivers/clock-{secrets.token_hex(8)}"
    with contextlib.suppress(StoreError):
        files.write(name, b"")
        state = files.listing("drivers").get(name)
        files.delete(name)
        if state is not None:
            return state.modified
    return time.time_ns()


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
    return {driver.heartbeat.driver: driver for driver in drivers(files) if driver.sweep == sweep}
