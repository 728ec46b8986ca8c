"""An attack: the sweeps that a fault disturbs, and the account of what became of them."""

import contextlib
import dataclasses
import itertools
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

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

    def __init__(self, attack: "Attack", file: Path, results: Path, trials: int):
        self.attack, self.file, self.results, self.trials = attack, file, results, trials
        self.lost: set[str] = set()
        self.changed: set[str] = set()
        self.again, self.complete = 0, False
        self._rows: dict[str, dict] = {}
        self._before = 0  # trials that were finished when it was started last

    def start(self, code: Path | None = None, address: str = "local", environment: Mapping[str, str] = {}) -> Start:
        """Start its command, with the code of a folder."""
        self._before = self.look()
        return self.attack.start(self.file, self.results, code, address, environment)

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
    def files(self) -> int:
        """Number of files of rows and checkpoints, which changes while packs train."""
        return len(list(self.results.glob("trials/*/*/*.parquet"))) + len(self.checkpoints)

    @property
    def checkpoints(self) -> list[Path]:
        return list(self.results.glob("checkpoints/*.ckpt"))

    @property
    def newest_checkpoint(self) -> float:
        """Time of the latest checkpoint in seconds; 0 without a checkpoint."""
        times = [0.0]
        for path in self.checkpoints:
            with contextlib.suppress(FileNotFoundError):
                times.append(path.stat().st_mtime)
        return max(times)

    def killed_at_checkpoints(self, times: int) -> Iterator[float]:
        """Kill starts that have written a checkpoint, until `attack.hits` is `times` or the sweep has ended.

        Yields the time of the newest checkpoint before each of them.
        """
        while self.attack.hits < times:
            before, start = self.newest_checkpoint, self.start()
            if not start.until(lambda before=before: self.newest_checkpoint > before):
                break
            self.kill(start)
            yield before

    def trains(self, start: Start, before: int | None = None, seconds: float = 2.0) -> bool:
        """Wait until a start has trained, and some seconds of at most `seconds`; False if the start ended first."""
        before = self.files if before is None else before
        return start.until(lambda: self.files != before) and start.sleep(self.attack.draw.uniform(0, seconds))

    def kill(self, start: Start) -> None:
        """kill -9 of the driver, and a look: what was committed before the start is not planned again."""
        start.kill()
        counts = start.counts()
        self.again += 0 if counts is None else max(0, self._before - counts[0])
        self.attack.hits += 1
        print(
            f"  {self.attack.hits:3}: {self._before} committed before, planned {counts}, then {self.look()}", flush=True
        )

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

    def space(self, packs: int = 4, seeds: int = 2, steps: int = 6000, name: str = "chaos", search: str = "") -> Path:
        """The file of a search space of `packs` times `seeds` trials."""
        file = self.folder / f"{name}.yaml"
        exponents = [1 + index / 8 for index in range(packs)]
        file.write_text(SPACE.format(name=name, exponents=exponents, seeds=seeds, steps=steps) + search)
        return file

    def sweep(self, file: Path, trials: int, results: Path | None = None) -> Sweep:
        """A sweep with a store of its own, or in a folder."""
        self.sweeps.append(Sweep(self, file, results or self.folder / f"results-{next(self._numbers)}", trials))
        return self.sweeps[-1]

    def start(
        self, file: Path, results: Path, code: Path | None = None, address: str = "local",
        environment: Mapping[str, str] = {},
    ) -> Start:  # fmt: skip
        """Start a search space, with the code of a folder."""
        # Beside other work on the machine Ray's nice workers would get nothing done between two kills.
        variables = {"RAY_worker_niceness": "0", **environment}
        log, arguments = self.folder / f"log-{next(self._numbers)}", ("--results", str(results), "--address", address)
        return Start(code or self.checkout, log, str(file), *arguments, variables=variables)

    def interrupted(
        self, times: int, file: Path, begin: Callable[[Sweep], Start], code: Path | None = None
    ) -> Iterator[Start]:
        """Kill starts, sweep after sweep; each is yielded before, when it has trained or was refused.

        A sweep goes on by `begin`, and ends by the code of a folder. What later starts plan again is not counted, as
        rows of other code do not count for them.
        """
        while self.hits < times:
            sweep = self.sweep(file, 8)
            while self.hits < times:
                start = begin(sweep)
                if not sweep.trains(start) and start.wait() == 0:
                    break
                yield start
                start.kill()
                self.hits += 1
                print(f"  {self.hits:3}: {sweep.look()} committed", flush=True)
            sweep.ends(code=code)

    def undisturbed(self, file: Path, code: Path | None = None, environment: Mapping[str, str] = {}) -> Path:
        """Train a sweep without any fault, and learn its numbers; its store."""
        results = self.folder / f"undisturbed-{len(list(self.folder.glob('undisturbed-*')))}"
        start = self.start(file, results, code, environment=environment)
        if start.wait() != 0:
            raise RuntimeError(f"the undisturbed sweep failed:\n{start.text}")
        self.truth |= numbers_of(results)
        return results

    def finding(self, remark: str = "", complete: bool | None = None, other: int | None = None) -> Finding:
        """What became of the sweeps; by default it was asked that all are complete, and all rows are held to the truth.

        A row of several arithmetics is another sample, and says so.
        """
        sweeps = self.sweeps
        rows = {key: value for sweep in sweeps for key, value in numbers_of(sweep.results).items() if self.truth}
        strange = [key for key, value in rows.items() if " " not in key[1] and self.truth.get(key) != value]
        return Finding(
            self.hits, sum(sweep.trials for sweep in sweeps), sum(len(sweep.lost) for sweep in sweeps),
            sum(sweep.doubled() for sweep in sweeps), sum(sweep.again + len(sweep.changed) for sweep in sweeps),
            len(strange) if other is None else other,
            all(sweep.complete for sweep in sweeps) if complete is None else complete, remark,
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
