"""A process with all that it has started, and their CPU seconds, read from /proc again and again; Linux only.

Ray's processes outlive their parents or are waited for by nobody, so what the operating system adds up for a parent
misses most of them. Whoever was seen below the first process stays a member, whatever its parent is later. A member
counts up to the last look at it; a process that begins and ends between two looks is missed.
"""

import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
"""Units of CPU time in /proc, a second."""


class _Process(NamedTuple):
    parent: int
    ended: bool
    seconds: float


class ProcessTree:
    """The members that are known so far."""

    def __init__(self, pid: int):
        """A tree of one process, which has not been looked at.

        Args:
            pid: The first process.
        """
        self._members = {pid: 0.0}
        self._strangers: set[int] = set()
        self._seconds_of_the_gone = 0.0

    @property
    def seconds(self) -> float:
        """CPU seconds of all members so far, those that have ended included."""
        return self._seconds_of_the_gone + sum(self._members.values())

    def look(self) -> list[int]:
        """Read the CPU time of all members, and take up new ones; returns those that have not ended."""
        present = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        for pid in self._members.keys() - present:
            self._seconds_of_the_gone += self._members.pop(pid)
        self._strangers &= present
        running = []
        for pid in sorted(present - self._strangers):  # parents before their children
            process = _read(pid)
            if process is None:
                continue  # it has ended meanwhile
            if pid not in self._members and process.parent not in self._members:
                self._strangers.add(pid)
                continue
            self._members[pid] = process.seconds
            if not process.ended:
                running.append(pid)
        return running

    def kill(self) -> None:
        """Kill all members."""
        for pid in self.look():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def has_title(pid: int, title: str) -> bool:
    """Whether the title of a process, which Ray sets, begins with `title`."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(title.encode())
    except OSError:
        return False  # it has ended


def _read(pid: int) -> _Process | None:
    """What /proc says of a process now; None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return _Process(int(fields[1]), fields[0] in "ZX", (int(fields[11]) + int(fields[12])) / TICKS)
