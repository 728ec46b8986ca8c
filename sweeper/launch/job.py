"""The job of a launch: the work of a start, what workers do with it, how to execute it, and how that ended.

All that differs between training and the evaluation of stored networks is in a `WorkKind`, for the driver and for its
workers, to which it is sent.
"""

import abc
import dataclasses
from collections.abc import Callable, Collection
from typing import ClassVar, NamedTuple

from sweeper.events import SweepPlanned, TrialsLost
from sweeper.packs import pack_run
from sweeper.packs.network_evaluation import Changes, EvaluationRun
from sweeper.packs.pack_run import Destination, PackRun
from sweeper.packs.packing import Pack
from sweeper.packs.plan import Work, WorkSource
from sweeper.space.early_stopping import EarlyStopping
from sweeper.space.resources import Resources
from sweeper.store.seal import TrialSeal
from sweeper.store.store import Status, Store
from sweeper.training.trainer import Trainer
from sweeper.trial.provenance import Provenance


class WorkKind(abc.ABC):
    """What workers do with packs.

    Where it `makes_rows`, an unfinished pack leaves a checkpoint, and trials whose pack fails get failed rows. Packs
    that fall behind are stopped by `early_stopping`, if there is any.
    """

    makes_rows: ClassVar[bool]
    early_stopping: EarlyStopping | None = None

    @abc.abstractmethod
    def run(
        self, work: Work, destination: Destination, trainer: Callable[[Pack], Trainer], device_share: float | None
    ) -> PackRun | EvaluationRun:
        """The run of a pack; `trainer` makes the trainer of a pack in this worker, see also `PackRun`."""

    @abc.abstractmethod
    def committed_rows(self, store: Store, work: Work, done: Collection[Status]) -> dict[str, Status]:
        """Status by id of the trials that a worker has committed before it died; the next worker is not given these.

        `done` has the statuses of rows whose trials need not run.
        """


@dataclasses.dataclass(frozen=True)
class Training(WorkKind):
    """Packs are trained, evaluated by the protocols of their trials, and committed."""

    makes_rows = True
    early_stopping: EarlyStopping | None = None

    def run(
        self, work: Work, destination: Destination, trainer: Callable[[Pack], Trainer], device_share: float | None
    ) -> PackRun:
        return pack_run.PackRun(
            work.pack,
            work.pending,
            destination,
            trainer(work.pack),
            work.segment,
            device_share,
            early_stopping=self.early_stopping,
        )

    def committed_rows(self, store: Store, work: Work, done: Collection[Status]) -> dict[str, Status]:
        def is_done(seal: TrialSeal) -> bool:
            # A stopped row of another sweep may stand until this sweep has run its trial further.
            ends_early = work.segment is None or (work.segment.ending == "stop" and seal.steps >= work.until)
            return seal.status == "finished" or (seal.status == "stopped" and "stopped" in done and ends_early)

        seals = store.seals_of(work.pack.part(work.pending).trials if work.pending else ())
        return {key: seal.status for key, seal in seals.items() if is_done(seal)}


@dataclasses.dataclass(frozen=True)
class NetworkEvaluation(WorkKind):
    """The stored networks of packs are evaluated by protocols that are changed like this.

    The rows of their trials stay as they are, whatever fails. A run passes over trials that were evaluated before, so
    that it needs no checkpoint.
    """

    makes_rows = False

    changes: Changes

    def run(
        self, work: Work, destination: Destination, trainer: Callable[[Pack], Trainer], device_share: float | None
    ) -> EvaluationRun:
        return EvaluationRun(work, self.changes, destination.store, destination.provenance)

    def committed_rows(self, store: Store, work: Work, done: Collection[Status]) -> dict[str, Status]:
        return {}  # the next worker is given all trials, and passes over those that were evaluated


@dataclasses.dataclass(frozen=True)
class Job:
    """The work of a start."""

    source: WorkSource  # hands out the packs
    planned: Callable[[], SweepPlanned]  # makes the event that says how much the source has planned by now
    store: Store  # the store that takes the rows; workers open it by its URL
    provenance: Provenance  # the origin, in every row
    resources: Resources  # the resources of one pack
    work_kind: WorkKind  # what workers do with the packs
    concurrency: int | None = None  # largest number of packs at once; None for as many as fit


class Launched(NamedTuple):
    """How a launch ended: with which trials that could not be committed (after an interruption pending trials are not
    among them), and whether early because the store took no more commits."""

    losses: list[TrialsLost]
    refused: bool
