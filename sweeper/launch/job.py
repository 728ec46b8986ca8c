"""The job of a launch, the messages between the driver and its workers, and the errors that end a start.

All that differs between training and the evaluation of stored networks is in a `WorkKind`, for the driver and for its
workers, to which it is sent.

Work goes out as a Tune configuration, and further short packs of a Tune trial by a call of its worker. Reports come
back in Tune results, about one a second. Orders (`ray_internals.Orders`) wait on the cluster until workers ask between
two reports, because Tune's own way to stop a Tune trial cannot distinguish "leave a checkpoint" from "evaluate and
commit now", and kills a worker that does not stop in time.
"""

import abc
import dataclasses
import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, NamedTuple

from sweeper.events import PackProgressed, SweepPlanned, TrialsLost
from sweeper.packs import pack_run
from sweeper.packs.failures import Failed, Lost
from sweeper.packs.network_evaluation import Changes, EvaluationRun
from sweeper.packs.pack_run import Destination
from sweeper.packs.packing import Pack
from sweeper.packs.plan import Run, Segment, Work, WorkSource
from sweeper.space.early_stopping import EarlyStopping
from sweeper.space.resources import Resources
from sweeper.store.seal import TrialSeal
from sweeper.store.store import Status, Store
from sweeper.training.trainer import Trainer
from sweeper.trial.provenance import Provenance
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, trial_of


class WorkKind(abc.ABC):
    """What workers do with packs.

    Where it `makes_rows`, an unfinished pack leaves a checkpoint, and trials whose pack fails get failed rows. Packs
    that fall behind are stopped by `early_stopping`, if there is any.
    """

    makes_rows: ClassVar[bool]
    early_stopping: EarlyStopping | None = None

    @abc.abstractmethod
    def run(self, work: Work, destination: Destination, trainer: Callable[[Pack], Trainer], room: float | None) -> Run:
        """The run of a pack; `trainer` makes the trainer of a pack in this worker, see also `pack_run.PackRun`."""

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

    def run(self, work: Work, destination: Destination, trainer: Callable[[Pack], Trainer], room: float | None) -> Run:
        return pack_run.PackRun(
            work.pack,
            work.pending,
            destination,
            trainer(work.pack),
            work.segment,
            room,
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

    def run(self, work: Work, destination: Destination, trainer: Callable[[Pack], Trainer], room: float | None) -> Run:
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
    trials: Collection[Trial] = ()  # one of each combination of plug-ins; workers get the files that these name
    text: str = ""  # of the search space; workers get the files that it names


class Launched(NamedTuple):
    """How a launch ended: with which trials that could not be committed (after an interruption pending trials are not
    among them), and whether early because the store took no more commits."""

    losses: list[TrialsLost]
    refused: bool


# Messages

SHORT = 1.0
"""Seconds below which a pack is short: a worker then gets several in one Tune trial, which take about as long."""


@dataclasses.dataclass(frozen=True)
class Report:
    """The report of a worker about a pack."""

    done: bool  # whether the worker has ended its work on the pack
    progress: PackProgressed | None = None  # how far the pack is; None before the worker has begun the pack
    trouble: Failed | Lost | None = None  # the failure or loss that ended the pack, if any
    printed: tuple[str, ...] = ()  # what plug-ins have printed since the last report; of many lines the last
    seconds: float = 0.0  # since the worker took the pack up, without compilation


def result(reports: Sequence[Report], done: bool) -> dict[str, Any]:
    """A Tune result: about the packs that the worker has run since the last one, and whether the Tune trial ends."""
    return {"reports": reports, "done": done}


def encoded(work: Work) -> dict[str, Any]:
    """The Tune configuration of a pack: plain data, which no version of Python or pydantic can fail to read."""
    return {
        "pack_id": work.pack.pack_id,
        "trials": json.dumps([canonical(trial) for trial in work.pack.trials]),
        "pending": json.dumps(work.pending),
        "segment": json.dumps(None if work.segment is None else dataclasses.asdict(work.segment)),
    }


def decoded(config: dict[str, Any]) -> Work:
    trials = tuple(map(trial_of, json.loads(config["trials"])))
    segment = json.loads(config["segment"])
    return Work(Pack(trials), tuple(json.loads(config["pending"])), None if segment is None else Segment(**segment))


# Errors


class LaunchError(RuntimeError):
    """The cluster cannot be reached; the message is for the user."""


class SetupError(LaunchError):
    """A pack, this machine or the project cannot be used as it is set up; the message says what to change."""
