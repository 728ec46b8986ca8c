"""A worker without Ray around it, for the tests of launch."""

import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path

from sweeper.launch import tune_worker
from sweeper.launch.job import NetworkEvaluation, Report, Training, WorkKind, encoded
from sweeper.launch.ray_internals import Order
from sweeper.launch.tune_worker import Pace
from sweeper.packs import plan
from sweeper.packs.packing import Pack, structure
from sweeper.space.resources import Resources
from sweeper.trial import provenance
from sweeper.trial.trial import Trial
from tests.trials import coloring_trial

AFTER_EVERY_STRIDE = Pace(seconds=0.0, idle_share=math.inf)


class Worker(tune_worker.PackWorker):
    """A worker that is given its orders beforehand, and reports after every stride."""

    def __init__(
        self,
        work: plan.Work,
        store: Path,
        orders: Iterable[Order] = (),
        work_kind: WorkKind = Training(),
        resources: Resources = Resources(checkpoint_seconds=1e9),
        origin: provenance.Provenance | None = None,
        pace: Pace = AFTER_EVERY_STRIDE,
    ):
        self.given = iter(orders)
        origin = origin or provenance.capture("test")
        context = {"orders": None, "store": str(store), "provenance": origin}
        self.setup(encoded(work), **context, work_kind=work_kind, resources=resources, pace=pace)
        self._cell = (structure(work.pack.trials[0]),)  # as if it had said that it makes the data

    def _order(self, pack_id: str) -> Order:
        if self._progress is None or self._progress.phase != "compiling":
            self.latest = next(self.given, "carry on")
        return self.latest

    def _keep_programs(self) -> None:
        """This process keeps its programs where other tests find them."""

    def _log(self) -> str:
        return "worker.err"

    def report(self) -> Report:
        """The report of the next step that does more than to say that a program is compiled, without its seconds."""
        (report,) = self.step()["reports"]
        if report.progress is not None and report.progress.phase == "compiling":
            (later,) = self.step()["reports"]
            report = later
        return dataclasses.replace(report, seconds=0.0)


def ended(worker: Worker) -> Report:
    """The last report of a worker."""
    while not (report := worker.report()).done:
        pass
    return report


def whole(*trials: Trial) -> plan.Work:
    """A pack of which everything is pending."""
    pack = Pack(trials)
    return plan.Work(pack, pack.trial_ids)


PAIR = whole(coloring_trial(), coloring_trial(seed=1))

EVALUATION = NetworkEvaluation({"seeds": 20})
