"""The cores that this process may use: those of its affinity, as far as its control groups let it use them.

`os.cpu_count` is the machine's. A job of Slurm, a container and `taskset` give a process a part of it. More processes
than cores would take turns, each with the memory of its own.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def cores(process: Path = Path("/proc/self")) -> int:
    """The number of whole cores, at least 1, by a folder such as `/proc/self`."""
    bounds = [float(_of_affinity())]
    with contextlib.suppress(OSError):  # no Linux
        for group in _groups(process):
            bounds += _quota(group)
            bounds += _cpuset(group)
    return max(1, int(min(bounds)))


def _of_affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _groups(process: Path) -> Iterator[Path]:
    """The folders of the control groups of a process, of both versions, each with those around it."""
    lines = (process / "cgroup").read_text().splitlines()
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    for line in (process / "mountinfo").read_text().splitlines():
        mounted, _, system = line.partition(" - ")
        root, place = (text.encode().decode("unicode_escape") for text in mounted.split()[3:5])
        kind, _, options = system.split(maxsplit=2)
        for controllers, path in paths.items():
            if kind == "cgroup2" if not controllers else kind == "cgroup" and controllers in options:
                inner = os.path.relpath(path, root)
                # In a container the path may be one of the host, of which the mount shows the end alone.
                own = Path(place) if inner.startswith("..") else Path(place, inner)
                yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(place))


def _quota(group: Path) -> Iterator[float]:
    """The cores that a group may take on average, if there is a limit."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError):  # no such file; "max"
            quota, period = map(int, " ".join((group / name).read_text() for name in names).split())
            if quota > 0 and period > 0:
                yield quota / period


def _cpuset(group: Path) -> Iterator[float]:
    """The number of cores that a group may run on, such as "0-3,7"; these files are empty where there is no limit."""
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
        with contextlib.suppress(OSError, ValueError):
            if text := (group / name).read_text().strip():
                ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
                yield sum(end[-1] - end[0] + 1 for end in ends)
