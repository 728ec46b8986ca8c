"""What workers do with packs: train them, or evaluate their stored networks.

All that differs between the two is said here, for the driver and for its workers: a `WorkKind` is part of the job, and
is sent to every worker.
"""

import abc
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import ClassVar

from sweeper.packs import network_evaluation, pack_run
from sweeper.packs.network_evaluation import EvaluationRun, ProtocolChanges
from sweeper.packs.pack_run import Destination, PackRun
from sweeper.packs.packing import Pack
from sweeper.packs.plan import Work
from sweeper.store.seal import TrialSeal
from sweeper.store.store import Status, Store
from sweeper.training.trainer import Trainer


class WorkKind(abc.ABC):
    """What workers do with packs.

    Attributes:
        leaves_checkpoints: Whether an unfinished pack leaves a checkpoint in the store.
        leaves_failed_rows: Whether trials whose pack fails get failed rows.
    """

    leaves_checkpoints: ClassVar[bool]
    leaves_failed_rows: ClassVar[bool]

    @abc.abstractmethod
    def run(
        self, work: Work, destination: Destination, trainer: Callable[[Pack], Trainer], device_share: float | None
    ) -> PackRun | EvaluationRun:
        """The run of a pack.

        Args:
            work: The pack.
            destination: The store, and what is kept.
            trainer: Makes the trainer of a pack in this worker.
            device_share: See `pack_run.opened`.
        """

    @abc.abstractmethod
    def committed_rows(self, store: Store, work: Work, done: Collection[Status]) -> dict[str, Status]:
        """The rows that a worker has committed before it died; the next worker is not given their trials.

        Args:
            store: The store.
            work: The pack as the worker got it.
            done: Statuses of rows whose trials need not run.

        Returns:
            The status of their trials, by id.

        Raises:
            StoreError: the store cannot be read.
        """


@dataclass(frozen=True)
class Training(WorkKind):
    """Packs are trained, evaluated by the protocols of their trials, and committed."""

    leaves_checkpoints = True
    leaves_failed_rows = True

    def run(
        self, work: Work, destination: Destination, trainer: Callable[[Pack], Trainer], device_share: float | None
    ) -> PackRun:
        """The training of a pack, from its checkpoint if it has one."""
        return pack_run.opened(work.pack, work.pending, destination, trainer(work.pack), work.segment, device_share)

    def committed_rows(self, store: Store, work: Work, done: Collection[Status]) -> dict[str, Status]:
        """The pending trials that have a row as long as the work."""
        pending = work.pack.part(work.pending).trials if work.pending else ()
        seals = store.seals_of(pending)
        return {key: seal.status for key, seal in seals.items() if self._is_done(seal, work, done)}

    def _is_done(self, seal: TrialSeal, work: Work, done: Collection[Status]) -> bool:
        # A stopped row of another sweep may stand until this sweep has run its trial further.
        ends_early = work.segment is None or (work.segment.ending == "stop" and seal.steps >= work.until)
        return seal.status == "finished" or (seal.status == "stopped" and "stopped" in done and ends_early)


@dataclass(frozen=True)
class NetworkEvaluation(WorkKind):
    """The stored networks of packs are evaluated by other protocols.

    The rows of their trials stay as they are, whatever fails. A run passes over trials that were evaluated before, so
    that it needs no checkpoint.

    Attributes:
        changes: Changes of the trials' protocols.
    """

    leaves_checkpoints = False
    leaves_failed_rows = False

    changes: ProtocolChanges

    def run(
        self, work: Work, destination: Destination, trainer: Callable[[Pack], Trainer], device_share: float | None
    ) -> EvaluationRun:
        """The evaluation of a pack's networks."""
        return network_evaluation.opened(work, self.changes, destination.store, destination.provenance)

    def committed_rows(self, store: Store, work: Work, done: Collection[Status]) -> dict[str, Status]:
        """None: the next worker is given all trials, and passes over those that were evaluated."""
        return {}
