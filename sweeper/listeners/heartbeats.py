"""Heartbeats of drivers, and requests to stop, as small files of the store.

    drivers/<sweep>/<driver>.json     how far the driver is; written anew every few seconds, removed when it ends
    drivers/<sweep>/<driver>.stop     a request to stop

A heartbeat that stays tells that its driver died. Clocks of machines are never compared: the age of a heartbeat is the
time between two modifications by the clock of the store, of its file and of a file written now.
"""

import contextlib
import re
import secrets
import time
from collections.abc import Iterator
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sweeper.listeners.driver_process import DriverProcess, life
from sweeper.store.files import DurableFiles, StoreError

LARGEST_HEARTBEAT = 2**20  # bytes of the largest file that is read as a heartbeat
LONGEST_PAUSE = 60.0  # most seconds between two heartbeats; nobody waits for a driver that promises fewer

Amount = Annotated[int, Field(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]

MOST_PACKS = 100  # running packs of which a heartbeat says more than their number
LOOK_SECONDS = 1.0  # between two looks for an answer to a request to stop
PATIENCE = 60.0  # seconds without a new heartbeat after which a driver elsewhere is given up

_NAME = re.compile(r"drivers/([A-Za-z0-9_][\w.-]*)/([0-9a-f]{16})\.json", re.ASCII)


class PackProgress(BaseModel):
    """A running pack in a heartbeat."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False, defer_build=True)

    label: str  # what it trains, in a few words
    phase: str  # `waiting` (its worker starts), `compiling`, `training`, `evaluating` or `done`
    step: Amount  # training steps done
    steps: Amount  # training steps of each of its trials
    lanes: Amount  # number of trials that are trained at once
    train_loss: float | None  # latest mean loss; None before the first
    node: str | None  # where its worker is; None before the first report of the worker
    still: Seconds = 0.0  # seconds since the last news of it; 0 where these are few


class Heartbeat(BaseModel):
    """A heartbeat of a driver."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False, defer_build=True)

    driver: str  # sixteen hexadecimal digits, drawn by the driver
    process: DriverProcess  # which process it is
    command: str  # the command line that carries on
    state: str  # `starting`, `running` or `stopping`
    doing: str = ""  # what is done while no pack trains, with its seconds
    every: Annotated[float, Field(ge=0, le=LONGEST_PAUSE)]  # seconds between two heartbeats
    elapsed: Seconds  # seconds since its start
    trials: Amount  # number of trials planned
    done: Amount  # number of trials with a row that did not fail
    failed: Amount  # number of trials with a failed row
    steps_per_second: float  # training steps a second of all lanes
    seconds_left: Seconds | None  # an estimate; None where there is none
    running: Amount  # number of running packs
    packs: tuple[PackProgress, ...]  # the first of them


class StoredHeartbeat(NamedTuple):
    """A heartbeat of a sweep in a store, written at a time in nanoseconds by the clock of the store."""

    sweep: str
    heartbeat: Heartbeat
    modified: int


def write_heartbeat(files: DurableFiles, sweep: str, heartbeat: Heartbeat) -> None:
    files.write(f"drivers/{sweep}/{heartbeat.driver}.json", heartbeat.model_dump_json().encode())


def remove_heartbeat(files: DurableFiles, sweep: str, driver: str) -> None:
    """Forget a driver, and requests to it."""
    files.delete(f"drivers/{sweep}/{driver}.json")
    files.delete(f"drivers/{sweep}/{driver}.stop")


def heartbeats(files: DurableFiles) -> list[StoredHeartbeat]:
    """The heartbeats of all drivers, by sweep; files that make no sense are passed over."""
    stored = []
    for name, state in sorted(files.listing("drivers").items()):
        match = _NAME.fullmatch(name)
        data = files.read(name) if match and state.size <= LARGEST_HEARTBEAT else None
        if match and data is not None:
            with contextlib.suppress(ValidationError):
                heartbeat = Heartbeat.model_validate_json(data)
                if heartbeat.driver == match[2]:
                    stored.append(StoredHeartbeat(match[1], heartbeat, state.modified))
    return stored


def store_clock(files: DurableFiles) -> int | None:
    """The time now by the clock of the store, in nanoseconds, learnt by writing a file; None if that fails."""
    name = f"drivers/clock-{secrets.token_hex(8)}"
    try:
        files.write(name, b"")
        state = files.listing("drivers").get(name)
        files.delete(name)
    except StoreError:
        return None
    return None if state is None else state.modified


def ask_to_stop(files: DurableFiles, sweep: str, driver: str) -> None:
    files.write(f"drivers/{sweep}/{driver}.stop", b"")


def is_asked_to_stop(files: DurableFiles, sweep: str, driver: str) -> bool:
    return files.read(f"drivers/{sweep}/{driver}.stop") is not None


SILENT = "gives no heartbeat; the request stays"


def answers(
    files: DurableFiles, sweep: str, look: float = LOOK_SECONDS, patience: float = PATIENCE
) -> Iterator[tuple[DriverProcess, str]]:
    """Ask all drivers of a sweep to stop, and wait for them: each driver with what became of it, when that is known."""
    waiting = _latest(files, sweep)
    for driver in waiting:
        ask_to_stop(files, sweep, driver)
    heard = dict.fromkeys(waiting, time.monotonic())
    while waiting:
        now = _latest(files, sweep)
        for driver, before in list(waiting.items()):
            process = before.heartbeat.process
            if driver not in now:
                del waiting[driver]
                yield process, "has stopped"
            elif life(process) == "dead":
                remove_heartbeat(files, sweep, driver)
                del waiting[driver]
                yield process, "had died"
            elif now[driver].modified != before.modified:
                waiting[driver], heard[driver] = now[driver], time.monotonic()
            elif time.monotonic() - heard[driver] > max(patience, 4 * before.heartbeat.every):
                del waiting[driver]
                yield process, SILENT
        if waiting:
            time.sleep(look)


def _latest(files: DurableFiles, sweep: str) -> dict[str, StoredHeartbeat]:
    """The latest heartbeat of each driver of a sweep."""
    return {stored.heartbeat.driver: stored for stored in heartbeats(files) if stored.sweep == sweep}
