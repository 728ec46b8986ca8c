"""Heartbeats of a driver in the store, and its answer to requests to stop (`sweeper.listeners.heartbeats`).

A thread of its own writes the latest progress that the driver's loop has reported. So a loop that waits for Ray counts
as alive, and a slow store does not delay the loop.
"""

import contextlib
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable

from sweeper import events
from sweeper.events import Event
from sweeper.listeners.heartbeats import (
    MOST_PACKS,
    Heartbeat,
    PackProgress,
    is_asked_to_stop,
    process_space,
    remove_dead,
    remove_heartbeat,
    write_heartbeat,
)
from sweeper.listeners.sweep_progress import RunningPack, SweepProgress
from sweeper.store.files import StoreError
from sweeper.store.store import Store

SECONDS = 5.0  # between two heartbeats, and between two looks for a request to stop
END_SECONDS = 10.0  # how long an end waits for a store that does not answer


class HeartbeatWriter:
    """Tells the store that a driver lives, and how far it is.

    `command` is the command line that carries on; `stop` is called once, in another thread, when there is a request
    that the driver stop.
    """

    def __init__(self, store: Store, command: str, stop: Callable[[], None], seconds: float | None = None):
        self._store, self._command, self._stop = store, command, stop
        self._seconds = SECONDS if seconds is None else seconds
        self._driver = secrets.token_hex(8)
        self._begun = time.monotonic()
        self._progress = SweepProgress()
        self._state = "starting"
        self._latest: Heartbeat | None = None
        self._next = 0.0
        self._asked = False
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
        progress, elapsed = self._progress, time.monotonic() - self._begun
        packs = tuple(_pack_progress(pack, progress) for pack in list(progress.packs.values())[:MOST_PACKS])
        return Heartbeat(
            driver=self._driver,
            host=socket.gethostname(),
            pid=os.getpid(),
            processes=process_space(),
            command=self._command,
            state=self._state,
            doing=progress.doing,
            elapsed=elapsed,
            trials=progress.plan.trials,
            done=progress.done,
            failed=progress.failed,
            steps_per_second=progress.steps_per_second,
            seconds_left=progress.seconds_left,
            running=len(progress.packs),
            packs=packs,
        )

    def _beat(self) -> None:
        sweep, files = self._progress.plan.name, self._store.files
        first = True
        while not self._ended.is_set():
            assert self._latest is not None  # the thread starts after the first heartbeat
            try:
                write_heartbeat(files, sweep, self._latest)
                if first:
                    remove_dead(files, sweep)
                    first = False
                if not self._asked and is_asked_to_stop(files, sweep, self._driver):
                    self._asked = True
                    self._stop()
            except StoreError:
                pass  # the next heartbeat may come through
            self._ended.wait(self._seconds)

    def _end(self) -> None:
        if self._thread is None or self._ended.is_set():
            return
        self._ended.set()

        def forget(thread: threading.Thread = self._thread) -> None:
            thread.join()  # its last heartbeat must not come after its removal
            with contextlib.suppress(StoreError):  # then it looks as if the driver had died
                remove_heartbeat(self._store.files, self._progress.plan.name, self._driver)

        last = threading.Thread(target=forget, daemon=True)
        last.start()
        last.join(END_SECONDS)


def _pack_progress(pack: RunningPack, progress: SweepProgress) -> PackProgress:
    now = pack.progress
    return PackProgress(
        label=pack.started.label,
        phase=now.phase,
        step=now.step,
        steps=now.steps,
        lanes=now.lanes,
        train_loss=now.train_loss if math.isfinite(now.train_loss) else None,
        node=pack.node,
        still=progress.still(pack),
    )
