"""What very many workers cost the driver, while the workers do nothing.

    python -m benchmarks.workers [--workers 10,50,100] [--seconds 60] [--every 1]

Each row is a local Ray that is told to have so many CPUs, and a sweep of so many packs, which all run at once. The
launch path is the real one: Tune, a process for every worker with all its imports, orders and a report a second. Only
the training is replaced, by sleep. Ray's time limit for the start of a worker is raised, because all workers of one
machine start at once. With `--every 0.03` thirty workers report as often as a thousand would, if the driver lets them.

The columns: seconds until every worker has reported, and the driver's CPU seconds until then; the machine's memory that
is gone then, a worker; reports a second after that, and the driver's CPU seconds for a thousand of them; seconds from
the order to leave to the end of Ray; peak memory of the driver's process.
"""

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import ray

from benchmarks.packs import TRIAL
from sweeper import launch
from sweeper.events import Event, PackProgressed, Stream, SweepPlanned
from sweeper.interruption import Interruption
from sweeper.launch import tune_driver, tune_worker
from sweeper.launch.cluster import worker_environment
from sweeper.launch.tune_worker import PackWorker
from sweeper.packs import plan
from sweeper.packs.packing import Pack
from sweeper.packs.plan import Work
from sweeper.space.resources import Resources
from sweeper.store.store import Store
from sweeper.trial import provenance
from sweeper.trial.trial_spec import TrialSpec

REGISTER_SECONDS = 3600
"""Ray's limit for the start of a worker's process."""


class Sleep:
    """The run of a pack that trains for ever and does nothing."""

    refused_checkpoint = None

    def __init__(self, pack_id: str, every: float):
        self._pack_id, self._every, self._step = pack_id, every, 0

    def progress(self) -> PackProgressed:
        """Progress after so many steps."""
        return PackProgressed(self._pack_id, "training", self._step, 10**9, 1, {}, 0.0, 1.0)

    def advance(self) -> PackProgressed:
        """Sleep for the time between two reports."""
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
    """

    every = tune_worker.REPORT_SECONDS

    def _started(self, work: Work) -> Any:
        tune_worker.REPORT_SECONDS = self.every
        return Sleep(work.pack.pack_id, self.every)


class Watch:
    """Counts the reports of a sweep, and stops the sweep `seconds` after every worker has reported."""

    def __init__(self, workers: int, seconds: float, interruption: Interruption):
        self._workers, self._seconds, self._interruption = workers, seconds, interruption
        self._begun, self._cpu, self._memory = time.monotonic(), time.process_time(), _available()
        self._reported: set[str] = set()
        self._reports = 0
        self.cells: list[str] = []
        self.ordered = 0.0

    def hear(self, event: Event) -> None:
        """Count an event; the driver's loop calls this."""
        if not isinstance(event, PackProgressed) or self.ordered:
            return
        self._reports += 1
        seconds, cpu = time.monotonic() - self._begun, time.process_time() - self._cpu
        if len(self._reported) < self._workers:
            self._reported.add(event.pack_id)
            if len(self._reported) == self._workers:
                worker = (self._memory - _available()) / self._workers
                self.cells = [f"{seconds:.0f}", f"{cpu:.1f}", f"{worker / 2**20:,.0f}"]
                self._begun, self._cpu, self._reports = time.monotonic(), time.process_time(), 0
        elif seconds > self._seconds:
            self.cells += [f"{self._reports / seconds:.1f}", f"{1000 * cpu / self._reports:.2f}"]
            self.ordered = time.monotonic()
            self._interruption.ask()


def _available() -> float:
    """Bytes of the machine's memory that processes can still take."""
    [line] = (line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return 1024 * float(line.split()[1])


def measure(workers: int, seconds: float) -> list[str]:
    """The row for so many workers."""
    template = TrialSpec.model_validate(TRIAL)
    trials = [template.model_copy(update={"seed": seed}) for seed in range(workers)]
    packs = [Pack((trial,)) for trial in trials]
    work = tuple(plan.Work(pack, pack.trial_ids) for pack in packs)
    planned = SweepPlanned("benchmark", trials=workers, done=0, failed=0, steps=0)
    source = plan.ListedWork(plan.Plan({}, {}, 1, workers, work, frozenset(), frozenset()))
    environment = worker_environment(Resources()) | {"PYTHONPATH": os.getcwd()}
    interruption = Interruption()
    watch = Watch(workers, seconds, interruption)
    ray.init(
        address="local",
        num_cpus=workers,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=128 * 2**20,
        runtime_env={"env_vars": environment},
        _system_config={"worker_register_timeout_seconds": REGISTER_SECONDS},
    )
    interruption.listen()
    with tempfile.TemporaryDirectory() as folder, Stream([watch], warn=print) as stream:
        origin = provenance.capture(["benchmark"])
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
    parser.add_argument("--every", type=float, default=tune_worker.REPORT_SECONDS, help="seconds between two reports")
    arguments = parser.parse_args()
    Sleeper.every = arguments.every
    tune_driver.PackWorker = Sleeper
    print(
        "| workers | all report after s | driver's CPU s | MB a worker "
        "| reports a s | CPU s for 1,000 | end s | driver's MB |"
    )
    print("|" + "---|" * 8)
    for workers in map(int, arguments.workers.split(",")):
        print(f"| {' | '.join(measure(workers, arguments.seconds))} |", flush=True)


if __name__ == "__main__":
    main()
