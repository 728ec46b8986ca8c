"""Which process a driver is, and whether that process lives: certain on its own machine, unknown elsewhere."""

import os
import socket
import uuid
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Life = Literal["alive", "dead", "elsewhere"]


class DriverProcess(BaseModel):
    """A process, so that another process can tell whether it lives."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, defer_build=True)

    host: str  # name of the machine, for people
    machine: str  # what tells the boot of the machine, and the container, from all others
    pid: Annotated[int, Field(ge=1, le=2**31 - 1)]  # number of the process there
    # When it began, in ticks since the boot, since numbers are used again; None where that is not known
    born: Annotated[int, Field(ge=0, le=2**63 - 1)] | None


def this_process() -> DriverProcess:
    return DriverProcess(host=socket.gethostname(), machine=_machine(), pid=os.getpid(), born=_born(os.getpid()))


def life(process: DriverProcess) -> Life:
    """Whether a process lives; unknown for a process on another machine."""
    if process.machine != _machine():
        return "elsewhere"
    if process.born is not None:
        return "alive" if _born(process.pid) == process.born else "dead"
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return "dead"
    except PermissionError:
        pass
    return "alive"


def _machine() -> str:
    """The boot and the space of process numbers; without them the hardware and its name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{uuid.getnode():x} {socket.gethostname()}"


def _born(pid: int) -> int | None:
    """Start of a process in ticks since the boot; None without such a process, or on a system that does not say."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = status.rpartition(")")[2].split()  # the name before it may hold anything
    return None if fields[0] in "ZX" else int(fields[19])
