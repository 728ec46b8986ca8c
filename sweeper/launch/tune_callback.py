"""Tune's callbacks about packs, turned into events, failed rows and losses.

A Tune trial begins with one pack. While its packs are short, its worker gets further ones, and runs them in order: the
first of those that a worker has is the one that runs.

Tune writes the reason why a Tune trial ended only to its log, and to a pickle in a folder that other users may be able
to write to. So `TrialErrors` reads the exception from the log, and nothing is unpickled.
"""

import contextlib
import dataclasses
import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import ray
from ray import tune
from ray.exceptions import RayActorError, RayTaskError
from ray.tune.experiment import Trial

from sweeper import events
from sweeper.events import Stream
from sweeper.interruption import Interruption
from sweeper.launch.job import SHORT, Job, Launched, Report, decoded, encoded
from sweeper.launch.ray_internals import KilledForMemory, Orders, actor_of
from sweeper.messages import duration
from sweeper.packs.failures import Failed, Lost, commit_failed, reason
from sweeper.packs.plan import Work
from sweeper.packs.progress_events import PackEvents, named
from sweeper.space.early_stopping import StoppingRule
from sweeper.store.store import Status, StoreError


@dataclasses.dataclass(frozen=True)
class Patience:
    """How often the driver tries a pack, and how long it waits."""

    deaths: int = 3  # how often the worker of one pack may die before the pack counts as failed
    nodes_seconds: float = 2.0  # between two looks at the nodes of the cluster while nothing runs
    grace_seconds: float = 20.0  # that running packs have to leave a checkpoint when they are ordered to
    clock: Callable[[], float] = time.monotonic


class Ended(BaseException):
    """Leaves Tune's loop; no `except Exception` of Tune catches it."""


class NotSaved:
    """Nothing of the object is pickled: Tune pickles its parts into the experiment's folder, which is never read."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class TrialErrors(logging.Handler):
    """Keeps the exception of Tune's latest message about a Tune trial that ended with an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.latest: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.latest = record.exc_info[1]

    @property
    def cause(self) -> BaseException | None:
        """The exception without what Ray wraps it in."""
        return self.latest.cause if isinstance(self.latest, RayTaskError) else self.latest

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take over the errors that Tune logs, and show them nowhere else meanwhile."""
        logger = logging.getLogger("ray.tune")
        before = logger.level, logger.propagate
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.level, logger.propagate = before


@dataclasses.dataclass
class _Pack:
    """What the driver knows of a pack, from its first worker on."""

    news: tuple[Any, float] = (None, 0.0)  # the latest, and when the driver heard them
    deaths: int = 0  # of its workers
    silence: str | None = None  # why its worker was ended, if it was for want of progress
    finished: bool = False  # whether a worker came to the end of it


class SweepCallback(NotSaved, tune.Callback):
    """Follows every pack from its start to its end, and leaves Tune's loop when the sweep is to stop."""

    def __init__(
        self,
        job: Job,
        stream: Stream,
        interruption: Interruption,
        orders: Orders,
        errors: TrialErrors,
        patience: Patience = Patience(),
    ):
        """A callback before the first pack."""
        self._patience, self._now = patience, patience.clock
        self._job, self._stream, self._interruption = job, stream, interruption
        self._orders, self._errors = orders, errors
        early_stopping = job.work_kind.early_stopping
        self._rule = None if early_stopping is None else StoppingRule(early_stopping)
        self._events = PackEvents(stream, job.source, job.planned)
        self._packs: defaultdict[str, _Pack] = defaultdict(_Pack)
        self._held: dict[str, list[Work]] = {}  # what the worker of a Tune trial has, by its id
        self._seconds: dict[int, float] = {}  # of the latest pack of a program, by its number
        self._running: set[str] = set()  # ids of Tune trials, as of those that are leaving
        self._leaving: set[str] = set()
        self._asked: set[str] = set()  # ids of packs
        self._deadline: float | None = None
        self._looked_for_nodes = -math.inf
        self._awaited: dict[str, float] | None = None
        self.most_at_once = 0  # packs

    @property
    def launched(self) -> Launched:
        """How the launch has gone so far."""
        return Launched(self._events.losses, self._events.refused)

    @property
    def stopping(self) -> bool:
        """Whether no more packs are to start: after a signal, at a limit, or when nothing can be committed any more."""
        return self._interruption.asked or self._events.refused

    # Called by Tune

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._running.add(trial.trial_id)
        self._awaited = None
        self.most_at_once = max(self.most_at_once, len(self._running))
        self._held[trial.trial_id] = [decoded(trial.config)]
        self._start(self._held[trial.trial_id][0])

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        held = self._held[trial.trial_id]
        for report in result["reports"]:
            self._hear(held[0], report, result)
            if report.done:
                self._end(held.pop(0))
                if held and not result["done"]:
                    self._start(held[0])
        if not (held or result["done"]):
            held += self._short_packs()
            if held:
                actor_of(trial).take.remote(list(map(encoded, held)))
                self._start(held[0])

    def _hear(self, work: Work, report: Report, result: dict[str, Any]) -> None:
        pack_id = work.pack.pack_id
        pack = self._packs[pack_id]
        if report.progress is not None:
            if pack.news[0] != report.progress.news:
                pack.news = (report.progress.news, self._now())
            self._events.progressed(work, report.progress)
            if self._rule is not None and self._rule.stops(report.progress):
                self._orders.stop_early(pack_id)
        if report.printed:
            self._stream.emit(events.PluginPrinted(pack_id, report.printed))
        if report.done:
            self._seconds[self._job.source.program(work.pack)] = report.seconds
            pack.finished |= report.progress is not None and report.progress.phase == "done"
            self._events.done(work, report.trouble, result["node_ip"])

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._ended(trial)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        if (work := self._died_at(trial)) is None:
            return
        pack_id, pack = work.pack.pack_id, self._packs[work.pack.pack_id]
        pack.deaths += 1
        why = pack.silence or _reason(self._errors.cause)
        pack.silence = None
        self._stream.emit(events.WorkerDied(pack_id, named(work), started=True, reason=why))
        rows = self._rows(work)
        self._events.committed(pack_id, rows)
        left = dataclasses.replace(work, pending=tuple(name for name in work.pending if name not in rows))
        self._held[trial.trial_id] = [left]
        trial.set_config(encoded(left))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        error = self._errors.cause
        if not isinstance(error, RayActorError) or error.actor_init_failed:
            why = "unknown reason" if error is None else reason(error)
            if isinstance(error, RayActorError):  # Ray puts a traceback before the exception of a worker
                why = str(error).strip().splitlines()[-1][:400]
            for work in self._ended(trial):
                self._events.lost(work, f"its worker did not start: {why}")
                self._end(work)
            return
        work = self._died_at(trial)
        self._ended(trial)
        if work is None:
            return
        pack_id, pack = work.pack.pack_id, self._packs[work.pack.pack_id]
        pack.deaths += 1
        if pack.deaths <= self._patience.deaths:
            # Tune counts the deaths of a Tune trial, in which other packs may have run.
            why = _reason(error)
            self._stream.emit(events.WorkerDied(pack_id, named(work), started=False, reason=why))
            self._stream.emit(events.PackEnded(pack_id))
            self._job.source.put_back(work)
            return
        message = f"its worker died {pack.deaths} times"
        if isinstance(error, KilledForMemory):
            message += f": {error.WAY_OUT}"
        self._give_up(work, message)
        self._end(work)

    def _ended(self, trial: Trial) -> list[Work]:
        """Forget a Tune trial; returns what its worker had."""
        self._running.discard(trial.trial_id)
        self._leaving.discard(trial.trial_id)
        held = self._held_by(trial)
        del self._held[trial.trial_id]
        return held

    def _held_by(self, trial: Trial) -> list[Work]:
        """What the worker of a Tune trial has; of one that has died while it started, the pack of the trial."""
        return self._held.setdefault(trial.trial_id, [decoded(trial.config)])

    def _died_at(self, trial: Trial) -> Work | None:
        """The pack at which the worker of a Tune trial has died, if it had one: the first that is not committed whole.

        Those after it wait for any worker again.
        """
        self._running.discard(trial.trial_id)
        held = self._held_by(trial)
        while len(held) > 1 and (rows := self._rows(held[0])).keys() >= set(held[0].pending):
            self._events.committed(held[0].pack.pack_id, rows)
            self._packs[held[0].pack.pack_id].finished = True
            self._end(held.pop(0))
            self._start(held[0])
        while len(held) > 1:
            self._job.source.put_back(held.pop())
        return held[0] if held else None

    def _rows(self, work: Work) -> dict[str, Status]:
        """The committed rows of a pack; none if the store cannot be read, and then they are evaluated once more."""
        with contextlib.suppress(OSError, StoreError):
            return self._job.work_kind.committed_rows(self._job.store, work, self._job.source.done)
        return {}

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        self._stream.emit(events.Ticked())
        if not self.stopping:
            for each in trials:
                if each.trial_id in self._running and self._held[each.trial_id]:
                    self._end_if_stuck(each)
            self._tell_if_nodes_are_missing()
            return
        if self._deadline is None:
            # Tune has asked for packs long before they run: giving Tune no more packs is not enough.
            self._deadline = self._now() + self._patience.grace_seconds
            running = [trial for trial in trials if trial.status == Trial.RUNNING]
            self._leaving = {trial.trial_id for trial in running}
            self._asked = {work.pack.pack_id for key in self._leaving for work in self._held.get(key, ())[:1]}
            self._orders.leave()
            limit = self._interruption.limit or ""
            cause = "store refuses" if self._events.refused else "limit" if limit else "interrupted"
            self._stream.emit(events.SweepStopping(cause, len(self._leaving), limit))
        if not self._leaving or self._now() > self._deadline:
            if self._job.work_kind.makes_rows:
                finished = [pack_id for pack_id in self._asked if self._packs[pack_id].finished]
                self._events.left(self._job.store, self._asked, finished)
            raise Ended

    # Packs

    def _short_packs(self) -> list[Work]:
        """Further packs for a worker that has ended short ones: a second of them, or its share of what is left.

        How long a pack of another program takes is not known before one has ended.
        """
        source, works, seconds = self._job.source, [], 0.0
        share = -(-len(source.upcoming()) // max(1, self.most_at_once))
        while len(works) < share and seconds < SHORT and not self.stopping and (work := source.next()) is not None:
            works.append(work)
            seconds += self._seconds.get(source.program(work.pack), SHORT)
        return works

    def _start(self, work: Work) -> None:
        """Take note that a worker is at a pack."""
        pack = self._packs[work.pack.pack_id]
        pack.finished, pack.news = False, (None, self._now())
        if self._deadline is not None:
            self._asked.add(work.pack.pack_id)
        self._events.started(work)

    def _end_if_stuck(self, trial: Trial) -> None:
        """End the worker of a pack that has reported nothing new for too long, which counts as a death."""
        limit, actor = self._job.resources.progress_seconds, actor_of(trial)
        pack = self._packs[self._held[trial.trial_id][0].pack.pack_id]
        if actor is not None and self._now() - pack.news[1] >= limit:
            pack.news = (None, self._now())
            pack.silence = f"ended, as it reported nothing new for {duration(limit)} (resources.progress_seconds)"
            ray.kill(actor)

    def _tell_if_nodes_are_missing(self) -> None:
        """Says once that nothing runs because no node can hold a pack: none has joined yet, or all have left."""
        if self._running or self._awaited or self._now() < self._looked_for_nodes + self._patience.nodes_seconds:
            return
        self._looked_for_nodes = self._now()
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self._awaited = None
        for bundle in self._job.resources.bundles():
            if not any(all(node.get(name, 0.0) >= needed for name, needed in bundle.items()) for node in nodes):
                self._awaited = bundle
                self._stream.emit(events.ResourcesAwaited(bundle))
                return

    def _end(self, work: Work) -> None:
        """Take note that no worker has a pack any more."""
        self._events.ended(work, self._packs[work.pack.pack_id].finished)

    def _give_up(self, work: Work, message: str) -> None:
        trouble: Failed | Lost = Lost(message, of_store=False)
        if self._job.work_kind.makes_rows:
            error = {"kind": "worker died", "message": message, "step": 0}
            try:
                trouble = Failed(commit_failed(self._job.store, self._job.provenance, work, error), message)
            except (OSError, StoreError) as second:
                trouble = Lost(f"{message}; and no row of it: {reason(second)}")
        self._events.done(work, trouble)


def _reason(error: BaseException | None) -> str | None:
    """Why a worker died, and the way out, if that is known."""
    return error.WAY_OUT if isinstance(error, KilledForMemory) else None
