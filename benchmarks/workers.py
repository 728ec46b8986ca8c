"""What very many workers cost the driver, while the workers do nothing.

    python -m benchmarks.workers [--workers 10,50,100] [--seconds 60] [--every 1] [--forked]

Each row is a local Ray that is told to have so many CPUs, and a sweep whose packs sleep instead of training. The launch
path is the real one: Tune, a process for every worker with all its imports, orders and a report a second; as on a
cluster, Ray is started before the launch. Ray's time limit for the start of a worker is raised, because all workers of
one machine start at once. With `--every 0.03` thirty workers report as often as a thousand would, if the driver lets
them. With `--forked` workers share the memory of their imports (`benchmarks.zygote`), so that six times as many fit.

A row has three parts. A first pack for each worker sleeps, and the reports are counted. Then these packs end, and
ten times as many follow that have nothing to do. Last, each worker sleeps again, and is ordered to leave.

The columns: seconds until every worker has reported, and the driver's CPU seconds until then; the machine's memory that
is gone then, a worker; reports a second after that, and the driver's CPU seconds for a thousand of them; packs a second
that pass the workers, and the driver's CPU seconds for a thousand of them; seconds from the order to leave to the end
of Ray; peak memory of the driver's process.
"""

import argparse
import contextlib
import dataclasses
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

from benchmarks.packs import TRIAL
from benchmarks.zygote import Zygote
from sweeper import launch
from sweeper.events import Event, PackEnded, PackProgressed, Stream, SweepPlanned
from sweeper.interruption import Interruption
from sweeper.launch import tune_driver
from sweeper.launch.environment import worker_environment
from sweeper.launch.tune_worker import Pace, PackWorker
from sweeper.packs import plan
from sweeper.packs.packing import Pack
from sweeper.packs.plan import Work
from sweeper.space.resources import Resources
from sweeper.store.store import Store
from sweeper.trial import provenance
from sweeper.trial.trial_spec import TrialSpec

REGISTER_SECONDS = 3600
"""Ray's limit for the start of a worker's process."""

ROUNDS = 10
"""Packs without work for each worker."""


class Sleep:
    """The run of a pack that does nothing.

    Args:
        pack_id: The pack.
        every: Seconds between two reports.
        ends: Whether the pack is to end.
    """

    refused_checkpoint = None

    def __init__(self, pack_id: str, every: float, ends: Callable[[], bool]):
        self._pack_id, self._every, self._ends = pack_id, every, ends
        self._step = 0

    def progress(self) -> PackProgressed:
        """Progress after so many steps."""
        return PackProgressed(self._pack_id, "training", self._step, 10**9, 1, {}, 0.0, 1.0)

    def advance(self) -> PackProgressed:
        """Sleep for the time between two reports, or end."""
        if self._ends():
            return dataclasses.replace(self.progress(), phase="done")
        time.sleep(self._every)
        self._step += 1
        return self.progress()

    def checkpoint(self) -> None:
        """Nothing is kept."""

    def stop_early(self) -> None:
        """Nothing is evaluated."""


class Sleeper(PackWorker):
    """The real worker, with `Sleep` in the place of training.

    Attributes:
        every: Seconds between two reports, as long as the driver keeps up.
        workers: So many packs sleep until `counted` exists, then come `ROUNDS` times as many without work, then so many
            that sleep for ever.
        counted: A path.
    """

    every = Pace().seconds
    workers: int
    counted: Path

    def _started(self, work: Work) -> Any:
        self._pace = Pace(self.every)
        number = work.pack.trials[0].seed // self.workers
        ends = self.counted.exists if number == 0 else lambda: number <= ROUNDS
        return Sleep(work.pack.pack_id, self.every, ends)


class Watch:
    """Measures the three parts of a row, and stops the sweep in the last.

    Args:
        workers: Their number.
        seconds: How long reports are counted.
        counted: The path that ends the first part.
        interruption: Stops the sweep.

    Attributes:
        cells: What was measured.
        ordered: When the workers were ordered to leave.
    """

    def __init__(self, workers: int, seconds: float, counted: Path, interruption: Interruption):
        self._workers, self._seconds, self._counted, self._interruption = workers, seconds, counted, interruption
        self._memory = _available()
        self._reported: set[str] = set()
        self._reports = self._ended = 0
        self.cells: list[str] = []
        self.ordered = 0.0
        self._part = self._count_workers
        self._begin()

    def hear(self, event: Event) -> None:
        """Count an event; the driver's loop calls this."""
        if isinstance(event, PackProgressed) and event.phase != "done":
            self._reported.add(event.pack_id)
            self._reports += 1
        if isinstance(event, PackEnded):
            self._ended += 1
        self._part()

    def _begin(self) -> None:
        self._begun, self._cpu, self._reports = time.monotonic(), time.process_time(), 0

    def _spent(self) -> tuple[float, float]:
        """Wall and CPU seconds of this part so far."""
        return time.monotonic() - self._begun, time.process_time() - self._cpu

    def _count_workers(self) -> None:
        if len(self._reported) == self._workers:
            seconds, cpu = self._spent()
            worker = (self._memory - _available()) / self._workers
            self.cells += [f"{seconds:.0f}", f"{cpu:.1f}", f"{worker / 2**20:,.0f}"]
            self._part = self._count_reports
            self._begin()

    def _count_reports(self) -> None:
        seconds, cpu = self._spent()
        if seconds > self._seconds:
            self.cells += [f"{self._reports / seconds:.1f}", f"{1000 * cpu / self._reports:.2f}"]
            self._counted.touch()
            self._part = self._count_packs
            self._begin()

    def _count_packs(self) -> None:
        packs = self._workers * (1 + ROUNDS)
        if self._ended == packs:
            seconds, cpu = self._spent()
            self.cells += [f"{packs / seconds:.1f}", f"{1000 * cpu / packs:.2f}"]
            self._part = self._end
            self._reported.clear()

    def _end(self) -> None:
        if len(self._reported) == self._workers and not self.ordered:
            self.ordered = time.monotonic()
            self._interruption.ask()


def _available() -> float:
    """Bytes of the machine's memory that processes can still take."""
    [line] = (line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return 1024 * float(line.split()[1])


def measure(workers: int, seconds: float, forked: bool) -> list[str]:
    """The row for so many workers.

    Args:
        workers: Their number.
        seconds: How long reports are counted.
        forked: Whether workers share the memory of their imports.
    """
    template = TrialSpec.model_validate(TRIAL)
    trials = [template.model_copy(update={"seed": seed}) for seed in range(workers * (ROUNDS + 2))]
    packs = [Pack((trial,)) for trial in trials]
    work = tuple(plan.Work(pack, pack.trial_ids) for pack in packs)
    planned = SweepPlanned("benchmark", trials=len(trials), done=0, failed=0, steps=0)
    source = plan.ListedWork(plan.Plan({}, {}, 1, len(trials), work, frozenset()))
    environment = worker_environment(Resources()) | {"PYTHONPATH": os.getcwd()}
    interruption = Interruption()
    with contextlib.ExitStack() as ended:
        folder = ended.enter_context(tempfile.TemporaryDirectory())
        zygote = ended.enter_context(Zygote()) if forked else None
        python = {} if zygote is None else {"py_executable": zygote.command}
        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=128 * 2**20,
            runtime_env={"env_vars": environment, **python},
            _system_config={"worker_register_timeout_seconds": REGISTER_SECONDS},
        )
        if zygote is not None:
            zygote.start()
        interruption.listen()
        Sleeper.workers, Sleeper.counted = workers, Path(folder) / "counted"
        watch = Watch(workers, seconds, Sleeper.counted, interruption)
        with Stream([watch], warn=print) as stream:
            origin = provenance.capture("benchmark")
            job = launch.Job(source, lambda: planned, Store.open(folder), origin, Resources(), launch.Training())
            launched = launch.launch(job, stream, interruption)
        ray.shutdown()
    assert not launched.losses, launched.losses
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [f"{workers:,}", *watch.cells, f"{time.monotonic() - watch.ordered:.0f}", f"{peak:,.0f}"]


def main() -> None:
    """Print a row for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="10,50,100")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=Pace().seconds, help="seconds between two reports")
    parser.add_argument("--forked", action="store_true", help="share the memory of the imports of workers")
    arguments = parser.parse_args()
    Sleeper.every = arguments.every
    tune_driver.PackWorker = Sleeper
    print(
        "| workers | all report after s | driver's CPU s | MB a worker | reports a s | CPU s for 1,000 "
        "| packs a s | CPU s for 1,000 | end s | driver's MB |"
    )
    print("|" + "---|" * 10)
    for workers in map(int, arguments.workers.split(",")):
        print(f"| {' | '.join(measure(workers, arguments.seconds, arguments.forked))} |", flush=True)


if __name__ == "__main__":
    main()
