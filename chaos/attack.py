"""An attack: the sweeps that a fault disturbs, and the account of what became of them."""

import contextlib
import dataclasses
import itertools
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from chaos.starts import Start, end_all
from sweeper.store.store import Store
from sweeper.trial import plugins
from sweeper.trial.columns import METRICS

SPACE = """
name: {name}
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
"""Trials of equal structure; a pack holds the seeds of one exponent."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a fault cost."""

    times: int  # how often the fault was injected
    trials: int  # of the sweeps
    lost: int  # committed trials that were gone later
    doubled: int  # rows beside another row of the same trial at the end
    again: int  # committed trials that a later start planned to run, or whose row changed
    other: int  # rows with other bits than a sweep that nothing disturbed
    complete: bool  # whether the same command finished every sweep, and whatever else the fault asks for
    remark: str

    @property
    def kept(self) -> bool:
        """Whether the fault was injected, and every promise kept."""
        return self.times > 0 and self.complete and not (self.lost or self.doubled or self.again or self.other)


Key = tuple[str, str, str]  # fingerprint, arithmetics, trial
Numbers = tuple[tuple, tuple]
"""The numbers of a trial: the columns of its row that the training decides, and the points of its curves."""


def rows_of(results: Path) -> list[dict]:
    """All rows, rows of other code included, as a tool that reads the whole folder sees them."""
    return [row for path in results.glob("trials/*/*/*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]


def numbers_of(results: Path) -> dict[Key, Numbers]:
    """The numbers of all rows."""
    curves: dict[str, list[tuple]] = {}
    for point in Store.open(results).curves().to_pylist():
        curves.setdefault(point["trial_id"], []).append((point["metric"], point["step"], point["value"]))
    columns = (*METRICS, "extra_metrics", "steps_done")
    return {
        (row["fingerprint"], row["arithmetic"], row["trial_id"]): (
            tuple(row[name] for name in columns), tuple(sorted(curves.get(row["trial_id"], [])))
        )
        for row in rows_of(results)
    }  # fmt: skip


class Sweep:
    """A disturbed sweep: its space, its store, and the finished rows at the last look, which must not change."""

    def __init__(self, attack: "Attack", file: Path, results: Path, trials: int, one_code: bool = True):
        self.attack, self.file, self.results, self.trials = attack, file, results, trials
        self.lost: set[str] = set()
        self.changed: set[str] = set()
        self.again, self.complete = 0, False
        self._one_code = one_code  # whether a start counts the rows of all other starts as done
        self._rows: dict[str, dict] = {}
        self._before = 0  # trials that were finished when it was started last
        self._known = frozenset[Any]()  # the files when it was started, or was seen to train

    def start(self, code: Path | None = None, address: str = "local", environment: Mapping[str, str] = {}) -> Start:
        """Start its command, with the code of a folder."""
        self._before, self._known = self.look(), self._files()
        log = self.attack.new_path("log")
        # Beside other work on the machine Ray's nice workers would get nothing done between two kills.
        variables = {"RAY_worker_niceness": "0", **environment}
        arguments = (str(self.file), "--results", str(self.results), "--address", address)
        return Start(code or self.attack.checkout, log, *arguments, variables=variables)

    def look(self) -> int:
        """Compare the store with the last look; the number of trials that are finished now."""
        store = Store.open(self.results)
        if not store.exists():
            return 0
        rows = {row["trial_id"]: row for row in store.trials().to_pylist() if row["status"] == "finished"}
        self.lost |= self._rows.keys() - rows.keys()
        self.changed |= {key for key, row in self._rows.items() if key in rows and rows[key] != row}
        self._rows = rows
        return len(rows)

    @property
    def checkpoints(self) -> list[Path]:
        return list(self.results.glob("checkpoints/*.ckpt"))

    def _files(self) -> frozenset[Any]:
        """Rows and checkpoints with their times, which change while packs train."""
        found = set()
        for path in (*self.results.glob("trials/*/*/*.parquet"), *self.checkpoints):
            with contextlib.suppress(FileNotFoundError):
                found.add((path.name, path.stat().st_mtime_ns))
        return frozenset(found)

    def trains(self, start: Start, seconds: float = 2.0) -> bool:
        """Wait until a start has trained, and some seconds of at most `seconds`; False if the start ended first."""
        trained = start.until(lambda: self._files() != self._known)
        trained = trained and start.sleep(self.attack.draw.uniform(0, seconds))
        self._known = self._files()
        return trained

    def kill(self, start: Start) -> None:
        """kill -9 of the driver, and a look: what was committed before the start is not planned again."""
        start.kill()
        counts = start.counts()
        if self._one_code and counts is not None:
            self.again += max(0, self._before - counts[0])
        self.attack.hit(f"{self._before} committed before, planned {counts}, then {self.look()}")

    def ends(self, *starts: Start, code: Path | None = None) -> bool:
        """Wait for starts, by default for a new one; whether all trials are finished then."""
        codes = {start.wait() for start in starts or (self.start(code),)}
        self.complete = codes == {0} and self.look() == self.trials
        return self.complete

    def doubled(self) -> int:
        """How many rows stand beside another row of their trial."""
        ids = [row["trial_id"] for row in rows_of(self.results)]
        return len(ids) - len(set(ids))


class Attack:
    """What a fault has to work with, and what it has done."""

    def __init__(self, checkout: Path, folder: Path, draw: random.Random):
        self.checkout, self.folder, self.draw = checkout, folder, draw
        self.hits = 0
        self.truth: dict[Key, Numbers] = {}  # of sweeps that nothing disturbed
        self.sweeps: list[Sweep] = []
        self._numbers = itertools.count()

    def new_path(self, name: str) -> Path:
        return self.folder / f"{name}-{next(self._numbers)}"

    def hit(self, told: str) -> None:
        """Count and tell that the fault was injected."""
        self.hits += 1
        print(f"  {self.hits:3}: {told}", flush=True)

    def space(self, packs: int = 4, seeds: int = 2, steps: int = 6000, name: str = "chaos", search: str = "") -> Path:
        """The file of a search space of `packs` times `seeds` trials."""
        file = self.folder / f"{name}.yaml"
        exponents = [1 + index / 8 for index in range(packs)]
        file.write_text(SPACE.format(name=name, exponents=exponents, seeds=seeds, steps=steps) + search)
        return file

    def sweep(self, file: Path, trials: int = 8, results: Path | None = None, one_code: bool = True) -> Sweep:
        """A sweep with a store of its own, or in a folder."""
        self.sweeps.append(Sweep(self, file, results or self.new_path("results"), trials, one_code))
        return self.sweeps[-1]

    def interrupted(
        self, times: int, sweep: Callable[[], Sweep], begin: Callable[[Sweep], Start] = Sweep.start,
        code: Path | None = None,
    ) -> Iterator[Start]:  # fmt: skip
        """Kill starts, sweep after sweep; each is yielded before, when it has trained or was refused.

        A sweep goes on by `begin`, and ends by the code of a folder.
        """
        while self.hits < times:
            disturbed = sweep()
            while self.hits < times:
                start = begin(disturbed)
                if not disturbed.trains(start) and start.wait() == 0:
                    break
                yield start
                disturbed.kill(start)
            disturbed.ends(code=code)

    def undisturbed(self, file: Path, code: Path | None = None, environment: Mapping[str, str] = {}) -> Path:
        """Train a sweep without any fault, and learn its numbers; its store."""
        sweep = Sweep(self, file, self.new_path("undisturbed"), 0)
        start = sweep.start(code, environment=environment)
        if start.wait() != 0:
            raise RuntimeError(f"the undisturbed sweep failed:\n{start.text}")
        self.truth |= numbers_of(sweep.results)
        return sweep.results

    def finding(self, remark: str = "", complete: bool = True) -> Finding:
        """What became of the sweeps, which must all be complete; all rows are held to the truth.

        A row of several arithmetics is another sample, and says so.
        """
        sweeps = self.sweeps
        rows = {key: value for sweep in sweeps for key, value in numbers_of(sweep.results).items() if self.truth}
        strange = [key for key, value in rows.items() if " " not in key[1] and self.truth.get(key) != value]
        return Finding(
            self.hits, sum(sweep.trials for sweep in sweeps), sum(len(sweep.lost) for sweep in sweeps),
            sum(sweep.doubled() for sweep in sweeps), sum(sweep.again + len(sweep.changed) for sweep in sweeps),
            len(strange), complete and all(sweep.complete for sweep in sweeps), remark,
        )  # fmt: skip


Inject = Callable[[Attack, int], Finding]
FAULTS: dict[str, tuple[Inject, int]] = {}
"""Every fault by its name: what injects it so many times, and how often it is injected."""


def fault(name: str, times: int) -> Callable[[Inject], Inject]:
    """Enter a function into `FAULTS`."""

    def entered(inject: Inject) -> Inject:
        FAULTS[name] = inject, times
        return inject

    return entered


def attacked(name: str, times: int | None = None, seed: int = 0) -> Finding:
    """Inject a fault by its name, in folders that are removed again."""
    inject, usual = FAULTS[name]
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        checkout, scratch = Path(folder, "checkout"), Path(folder, "scratch")
        scratch.mkdir()
        # A copy of what a sweep imports, so that edits made meanwhile do not reach it.
        for package in ("sweeper", "tasks", "models", "objectives", "optimizers", "experiments"):
            shutil.copytree(plugins.ROOT / package, checkout / package, ignore=shutil.ignore_patterns("__pycache__"))
        try:
            return inject(Attack(checkout, scratch, random.Random(seed)), times or usual)
        finally:
            end_all()
