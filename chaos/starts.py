"""Starts of the command in processes of their own, which are watched and killed by their ids."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path


class Start:
    """One start of `python -m sweeper.run`, in a session of its own as a terminal would make it."""

    def __init__(self, code: Path, space: Path, results: Path, address: str, environment: Mapping[str, str]):
        self._log = code.parent / f"log-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "sweeper.run", str(space), "--results", str(results), "--address", address]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                cwd=code,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Beside other work on the machine Ray's nice workers would get nothing done between two kills.
                env=os.environ | {"RAY_worker_niceness": "0"} | dict(environment),
            )
        self._family: set[int] = set()
        _STARTED.append(self)

    @property
    def text(self) -> str:
        """Everything printed so far."""
        return self._log.read_text()

    def family(self, name: str = "") -> list[int]:
        """Ids of the processes below the command whose command line has `name`: Ray's daemons and workers."""
        grown = {self.process.pid}
        for _ in range(4):
            grown.update(child for parent in list(grown) for child in children(parent))
        self._family.update(grown - {self.process.pid})
        return [pid for pid in sorted(self._family) if name in command_line(pid) and command_line(pid)]

    def until(self, condition: Callable[[], object], seconds: float = 1800) -> bool:
        """Wait for a condition; False if the command ended first."""
        end = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                return False
            if time.monotonic() > end:
                raise TimeoutError(f"waited {seconds} s in vain:\n{self.text}")
            self.family()
            time.sleep(0.05)
        return True

    def sleep(self, seconds: float) -> bool:
        """Let the command run for so many seconds; False if it ended meanwhile."""
        end = time.monotonic() + seconds
        return self.until(lambda: time.monotonic() > end)

    def kill(self) -> None:
        """kill -9 of the driver; returns when all processes that it had started have ended."""
        self.family()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        end = time.monotonic() + 20
        while self.family():
            if time.monotonic() > end:
                send(signal.SIGKILL, self.family())
            time.sleep(0.1)

    def wait(self, seconds: float = 3600) -> int:
        """The exit code."""
        return self.process.wait(seconds)

    def counts(self) -> tuple[int, int] | None:
        """How many trials are done and to run, as the command printed after planning."""
        counts = re.search(r"([\d,]+) done · (?:[\d,]+ failed · )?([\d,]+) to run", self.text)
        return (int(counts[1].replace(",", "")), int(counts[2].replace(",", ""))) if counts else None


_STARTED: list[Start] = []


def end_all() -> None:
    """Kill the starts that still run, after a fault that raised an error."""
    for start in _STARTED:
        if start.process.poll() is None:
            start.kill()


TRAINER = "ResourceTrainable"
"""A word in the command line of a process of Ray that trains packs or waits for a pack."""


def children(pid: int) -> list[int]:
    """Ids of the processes that a process has started itself; by `ps` this would take a core while one waits."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            found += map(int, thread.read_text().split())
    return found


def command_line(pid: int) -> str:
    """The command line of a process; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def send(number: signal.Signals, pids: list[int]) -> None:
    """Send a signal to those of the processes that are there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
