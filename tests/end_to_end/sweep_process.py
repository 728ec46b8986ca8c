"""`python -m sweeper.run` as a process: its copy of the checkout, its workers, and what it leaves in a store."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from chaos.starts import children, command_line
from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.processes import told

UNSTABLE = ("wall", "seconds", "started", "finished", "per_second", "memory", "command", "pack_id")
"""Columns that say how a trial was executed."""


def copy_checkout(folder: Path, *further: str) -> None:
    """Copy the packages that a sweep imports, and further folders."""
    for package in ("sweeper", "tasks", "models", "objectives", "optimizers", "experiments", *further):
        shutil.copytree(plugins.ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))


HELD = '''
"""Colouring that says where it trains, and waits there."""

import os
import pathlib
import socket
import time
from typing import Literal

from tasks import coloring


class Task(coloring.Task):
    name: Literal["held"] = "held"

    def losses(self, model, inputs, seeds):
        if "SWEEPER_WORKER" not in os.environ:  # the start checks the task
            return super().losses(model, inputs, seeds)
        (pathlib.Path({training!r}) / socket.gethostname()).touch()
        while {waits}:
            time.sleep(0.05)
        return super().losses(model, inputs, seeds)
'''


def write_held_task(checkout: Path, training: Path, waits: str) -> None:
    """A task `held`, which leaves the name of each host in a folder, and waits there while the condition holds."""
    training.mkdir()
    (checkout / "tasks" / "held.py").write_text(HELD.format(training=str(training), waits=waits))


class Command:
    """`python -m sweeper.run` in a session of its own, as a terminal would start it."""

    def __init__(
        self, folder: Path, *arguments: str, program: tuple[str, ...] = ("-m", "sweeper.run"), **variables: str
    ):
        """Start it in a project, or in a copy of the checkout; `program` is what Python runs.

        `variables` are added to its environment.
        """
        self._log = folder / f".log-{time.monotonic_ns()}"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, *program, *arguments], cwd=folder, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True, env=os.environ | {"PYTHONPATH": str(plugins.ROOT)} | variables,
            )  # fmt: skip
        self.seen: set[int] = set()

    def wait(self) -> tuple[int, str]:
        """Exit code and everything printed."""
        return self.process.wait(), self.text()

    def text(self) -> str:
        """What it has printed so far."""
        return self._log.read_text()

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for an event that happens while the command runs."""
        while not condition():
            assert self.process.poll() is None, f"the command ended too early:\n{self.text()}"
            time.sleep(0.05)

    def workers(self) -> list[int]:
        """Processes of Ray that train packs, anywhere below the command."""
        own = children(self.process.pid)
        grandchildren = [below for child in own for below in children(child)]
        self.seen.update(own + grandchildren)
        return [pid for pid in grandchildren if "ray::ResourceTrainable" in command_line(pid)]

    def remaining(self) -> list[str]:
        """What still runs of the processes seen by `workers`."""
        return [line for pid in self.seen if (line := command_line(pid))]


def catches(pid: int, signum: int) -> bool:
    """Whether a process has a handler for a signal."""
    (caught,) = re.findall(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(caught, 16) >> (signum - 1) & 1)


def until(condition: Callable[[], object]) -> None:
    """Wait for an event, without a limit: pytest has one."""
    while not condition():
        time.sleep(0.05)


def status_of(store: Path) -> str:
    """What `sweeper status` prints."""
    return told("status", "--results", store).stdout


def science(store: Path) -> pa.Table:
    """What a store says of its trials, apart from how they were executed."""
    table = Store.open(store).trials()
    return table.select([name for name in table.column_names if not any(word in name for word in UNSTABLE)])


def curves(store: Path) -> pa.Table:
    """All curves of a store, in an order that does not depend on the order of the commits."""
    return Store.open(store).curves().sort_by([(name, "ascending") for name in ("trial_id", "metric", "step")])
