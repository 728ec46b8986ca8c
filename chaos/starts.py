"""Starts of the command in processes of their own, which are watched and killed by their ids; Linux only."""

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
    """One start of `python -m sweeper.run`, in a session of its own as a terminal would make it.

    Ray's processes outlive their parents or are waited for by nobody. So whoever was seen below the command stays
    known, with its CPU seconds at the last look. A process that begins and ends between two looks is missed.
    """

    def __init__(self, code: Path, log: Path, *arguments: str, variables: Mapping[str, str] = {}):
        """Start the code of a folder, which writes to a log; `variables` are added to its environment."""
        self._log = log
        with log.open("w") as printed:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sweeper.run", *arguments], cwd=code, stdout=printed, stderr=subprocess.STDOUT,
                start_new_session=True, env=os.environ | dict(variables),
            )  # fmt: skip
        self._seconds = {self.process.pid: 0.0}
        _STARTED.append(self)

    @property
    def text(self) -> str:
        """Everything printed so far."""
        return self._log.read_text()

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the command and of all that it has started, those that have ended included."""
        return sum(self._seconds.values())

    def family(self, name: str = "") -> list[int]:
        """Ids of the processes below the command whose command line has `name`: Ray's daemons and workers."""
        known = set(self._seconds)
        for _ in range(4):
            known.update(child for parent in list(known) for child in children(parent))
        for pid in known:
            self._seconds[pid] = max(_cpu_seconds(pid), self._seconds.get(pid, 0.0))
        known.discard(self.process.pid)
        return [pid for pid in sorted(known) if name in command_line(pid) and command_line(pid)]

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
        self.process.kill()
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


def _cpu_seconds(pid: int) -> float:
    """CPU seconds of a process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def send(number: signal.Signals, pids: list[int]) -> None:
    """Send a signal to those of the processes that are there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
