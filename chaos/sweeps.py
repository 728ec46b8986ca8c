"""Sweeps for faults: small search spaces, a copy of the checkout that runs them, and the books of a store."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from sweeper.store.store import Store
from sweeper.trial import plugins

SPACE = """
name: chaos
trial:
  task: {{name: coloring, vertices: 5}}
  model: {{name: transformer, width: 4, key_size: 4}}
  baseline: Aq_R
  objective: {{q: {{choice: {exponents}}}, m: 2}}
  optimizer: {{warmup_steps: 10}}
  steps: {steps}
  batch_size: 8
  evaluation: {{seeds: 10, votes: [5]}}
  seed: {{seeds: {seeds}}}
resources: {{checkpoint_seconds: 0.5}}
"""


def space(packs: int, seeds: int, steps: int) -> str:
    """A search space of `packs` times `seeds` trials of equal structure; a pack holds the seeds of one exponent."""
    return SPACE.format(exponents=[1 + index / 8 for index in range(packs)], seeds=seeds, steps=steps)


@contextlib.contextmanager
def checkout(folder: Path) -> Iterator[Path]:
    """A copy of what a sweep imports, so that edits made meanwhile do not reach it."""
    copy = folder / "checkout"
    for package in ("sweeper", "tasks", "models", "objectives", "optimizers", "experiments", "chaos"):
        shutil.copytree(plugins.ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    yield copy


class Start:
    """One start of `python -m sweeper.run`, in a session of its own as a terminal would make it."""

    def __init__(
        self,
        checkout: Path,
        space: Path,
        results: Path | str,
        *options: str,
        address: str = "local",
        environment: Mapping[str, str] = {},
    ):
        self._log = checkout.parent / f"log-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "sweeper.run", str(space), "--results", str(results), "--address", address]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *options],
                cwd=checkout,
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
                for pid in self.family():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def wait(self, seconds: float = 3600) -> int:
        """The exit code."""
        return self.process.wait(seconds)

    def counts(self) -> tuple[int, int] | None:
        """How many trials are done and to run, as the command printed after planning."""
        counts = re.search(r"([\d,]+) done · (?:[\d,]+ failed · )?([\d,]+) to run", self.text)
        return (_number(counts[1]), _number(counts[2])) if counts else None


def progress_files(results: Path) -> int:
    """How many files of rows and checkpoints there are: a sweep that trains changes their number."""
    return len(list(results.glob("trials/*/*/*.parquet"))) + len(list(results.glob("checkpoints/*.ckpt")))


def newest_checkpoint(results: Path) -> float:
    """Time of the latest checkpoint in seconds; 0 without a checkpoint."""
    times = [0.0]
    for path in results.glob("checkpoints/*.ckpt"):
        with contextlib.suppress(FileNotFoundError):
            times.append(path.stat().st_mtime)
    return max(times)


_STARTED: list[Start] = []


def end_all() -> None:
    """Kill the starts that still run, after a fault that raised an error."""
    for start in _STARTED:
        if start.process.poll() is None:
            start.kill()


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def children(pid: int) -> list[int]:
    """Ids of the processes that a process has started itself."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


def command_line(pid: int) -> str:
    """The command line of a process; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Books:
    """The finished rows that a store had at the last look: a later look must find them unchanged."""

    def __init__(self, results: Path):
        self._results = results
        self._rows: dict[str, dict] = {}
        self.lost: set[str] = set()
        self.changed: set[str] = set()

    def check(self) -> int:
        """Compare the store with the last look; the number of trials that are finished now."""
        store = Store.open(self._results)
        if not store.exists():
            return 0
        rows = {row["trial_id"]: row for row in store.trials().to_pylist() if row["status"] == "finished"}
        self.lost |= self._rows.keys() - rows.keys()
        self.changed |= {key for key, row in self._rows.items() if key in rows and rows[key] != row}
        self._rows = rows
        return len(rows)

    def doubled(self) -> int:
        """How many rows stand beside another row of their trial, for a tool that reads the whole folder."""
        ids = [
            trial_id
            for path in Path(self._results, "trials").rglob("*.parquet")
            for trial_id in pq.ParquetFile(path).read(columns=["trial_id"])["trial_id"].to_pylist()
        ]
        return len(ids) - len(set(ids))
