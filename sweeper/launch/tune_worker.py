"""The worker's side: a process that runs pack after pack, and asks for orders in between.

A Tune trial brings one pack. When a worker has ended packs that took less than a second, the driver may give it more in
the same Tune trial, as Tune costs more than they do.
"""

import collections
import contextlib
import dataclasses
import io
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import ray
from ray import tune
from ray.util import get_current_placement_group

from sweeper.events import PackProgressed
from sweeper.interruption import ignore_batch_systems
from sweeper.launch.environment import worker_environment
from sweeper.launch.job import SHORT, Report, WorkKind, decoded, result
from sweeper.launch.population import Population
from sweeper.launch.ray_internals import Order, Orders
from sweeper.messages import printable_lines
from sweeper.packs import checkpoint
from sweeper.packs.device_memory import room_for_lanes
from sweeper.packs.failures import commit_failed, trouble
from sweeper.packs.pack_run import Destination
from sweeper.packs.packing import Pack, structure
from sweeper.packs.plan import Run, Work
from sweeper.packs.progress_events import preparing, printed_lines
from sweeper.space.resources import Resources
from sweeper.store.store import Store
from sweeper.training import compilation
from sweeper.training.kind import trainer_of
from sweeper.training.trainer import Trainer
from sweeper.trial import fingerprint, jax_settings, plugins
from sweeper.trial.provenance import Provenance
from sweeper.trial.trial import used_plug_ins


@dataclasses.dataclass(frozen=True)
class Pace:
    """How often a worker reports.

    An order of the driver waits for the next report, and so the grace of `tune_callback.Patience` must be longer than
    the longest time between two.

    Tune lets a worker go on after it has read the worker's report, and reads some hundreds of reports a second. A
    worker that waits for the driver reports less often; without this a thousand workers would wait for each other.
    """

    seconds: float = 1.0  # of training between two reports, as long as the driver keeps up
    longest_seconds: float = 5.0  # most seconds between two reports
    idle_share: float = 0.1  # share of its time that a worker may wait for the driver
    clock: Callable[[], float] = time.monotonic

    def until_report(self, waited: float) -> float:
        """Seconds to the next report of a worker that has waited so long for the driver."""
        return min(max(self.seconds, waited / self.idle_share), self.longest_seconds)


class PackWorker(tune.Trainable):
    """Runs one pack after another in one process, which keeps its compiled programs."""

    def setup(self, config: dict[str, Any], **launch: Any) -> None:
        """Called once in each process, with the first pack and with what `tune_driver.launch` gives all workers."""
        ignore_batch_systems()
        self._orders: Orders = launch["orders"]
        self._store_url: str = launch["store"]
        self._provenance: Provenance = launch["provenance"]
        self._resources: Resources = launch["resources"]
        self._work_kind: WorkKind = launch["work_kind"]
        self._pace: Pace = launch["pace"]
        self._store: Store | None = None
        self._population: Population | None = None
        jax_settings.put_back()  # before a plug-in is imported: the environment of this node may have changed one
        self._loaded = set[tuple[plugins.Kind, str]]()  # plug-ins of the packs so far
        self._cell: tuple[Any, ...] = ()  # the structure of the trials of the latest pack, once there is one
        self._structures = set[Any]()  # of the packs so far, which need no further program
        self._is_short = False  # whether the latest pack was
        self._reported_at: float | None = None
        self._keep_programs()
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begin another Tune trial with a pack, as `job.encoded` has made it."""
        self._packs = collections.deque([new_config])  # the first is the one that is run
        self._prepare()
        return True

    def take(self, packs: Iterable[dict[str, Any]]) -> None:
        """Take packs, as `job.encoded` has made them, that follow in the same Tune trial."""
        self._packs.extend(packs)

    def _prepare(self) -> None:
        """Get ready for another pack."""
        jax_settings.put_back()  # the environment of this node, or an earlier pack, may have changed one
        self._run: Run | None = None
        self._progress: PackProgressed | None = None
        self._begun_at = self._pace.clock()
        self._compiled = compilation.seconds()

    def step(self) -> dict[str, Any]:
        """Train, evaluate and commit for about a second; returns a Tune result, see `job.result`.

        Where the driver takes longer than a share of a second to read a report (`Pace`), the step is longer.
        """
        clock = self._pace.clock
        until = clock() + self._pace.until_report(0.0 if self._reported_at is None else clock() - self._reported_at)
        order = self._order(self._packs[0]["pack_id"]) if self._packs else "carry on"
        ends = not self._packs or order == "leave"  # whether the Tune trial ends; without packs the driver has no more
        reports: list[Report] = []
        while self._packs:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                report = self._reported(order, until)
            seconds = clock() - self._begun_at - (compilation.seconds() - self._compiled)
            reports.append(dataclasses.replace(report, printed=printed_lines(printed.getvalue()), seconds=seconds))
            if not report.done:
                break
            self._packs.popleft()
            self._prepare()
            self._is_short = seconds < SHORT
            ends |= not (self._packs or self._is_short)
            if ends or report.trouble is not None or clock() >= until:
                break
            order = "carry on"
        self._reported_at = None if ends else clock()
        return result(reports, done=ends)

    def _keep_programs(self) -> None:
        compilation.keep_on_this_machine()

    def _reported(self, order: Order, until: float) -> Report:
        try:
            if order == "leave":
                if self._run is not None:
                    self._run.checkpoint()
                return Report(done=True, progress=self._progress)
            begun = self._begun() if self._run is None else None
            return self._further(order, until) if begun is None else begun
        except Exception as error:
            print(printable_lines(traceback.format_exc()), file=sys.stderr)  # Ray's log takes no half characters
            commit = self._commit_failed if self._work_kind.makes_rows else None
            found = trouble(error, self._progress, commit, self._log())
            return Report(done=True, progress=self._progress, trouble=found)

    def _begun(self) -> Report | None:
        """Take up the pack; None if there is something to report only after its first stride."""
        work = decoded(self._packs[0])
        if not work.pending:  # an earlier worker died right after its last commit
            if self._work_kind.makes_rows:
                checkpoint.remove(self._opened(), work.pack.pack_id)
            return Report(done=True)
        program = structure(work.pack.trials[0])
        is_quick = self._is_short and program in self._structures
        if self._cell != (program,):
            self._cell = (program,)
            if not is_quick:  # Data may take minutes to make: the driver learns before where the worker is.
                return Report(done=False, progress=preparing(work))
        self._run = self._started(work)
        now = self._run.progress()
        if now.phase != "training" or is_quick:
            return None
        self._structures.add(program)
        # The first steps may compile for minutes: the driver learns before them where the worker is.
        self._progress = dataclasses.replace(now, phase="compiling")
        return Report(done=False, progress=self._progress)

    def _further(self, order: Order, until: float) -> Report:
        """Run the pack for so long, or until the driver has something to decide."""
        assert self._run is not None
        if order == "stop early" and self._progress is not None and self._progress.phase == "training":
            self._run.stop_early()
        before = self._progress
        while True:
            self._progress = self._run.advance()
            done = self._progress.phase == "done"
            # The driver compares each evaluation, and may stop the pack before it goes on.
            compared = self._progress.evaluated != (None if before is None else before.evaluated)
            if done or compared or self._pace.clock() >= until:
                return Report(done=done, progress=self._progress)

    def _order(self, pack_id: str) -> Order:
        return self._orders.order(pack_id)

    def _started(self, work: Work) -> Run:
        """The run of a pack; an `OtherCodeError` if this process does not run the code of the start."""
        if not (used := used_plug_ins(work.pack.trials)) <= self._loaded:
            self._loaded |= used
            self._code = fingerprint.captured()
        self._code.require(self._provenance.code, work.pack.trials[0])
        destination = Destination.of(self._opened(), self._provenance, self._resources)
        return self._work_kind.run(work, destination, self._trainer, room_for_lanes(self._resources.device_share))

    def _trainer(self, pack: Pack) -> Trainer:
        trainer, workers = trainer_of(pack.trials[0]), self._resources.population_workers
        if not workers or trainer.population is None:
            return trainer
        if self._population is None:
            # Ray leaves an empty bundle out of the group.
            first = 1 if self._resources.bundles()[0] else 0
            group = get_current_placement_group()
            assert group is not None  # Tune gives every trial one
            self._population = Population(workers, worker_environment(Resources()), group, first)
        return trainer.population.trainer(self._population.evaluator(pack.trials, self._code))

    def cleanup(self) -> None:
        if self._population is not None:
            self._population.close()

    def _opened(self) -> Store:
        if self._store is None:
            self._store = Store.open(self._store_url)
        return self._store

    def _commit_failed(self, error: dict[str, Any]) -> tuple[str, ...]:
        """Commit a failed row for every trial without a row; returns their ids."""
        rows = () if self._progress is None else self._progress.rows
        return commit_failed(self._opened(), self._provenance, decoded(self._packs[0]), error, rows)

    def _log(self) -> str:
        """Where this worker's error stream goes, on its node."""
        context = ray.get_runtime_context()
        return f"{context.get_temp_dir()}/{context.get_session_name()}/logs/worker-{context.get_worker_id()}-*.err"
