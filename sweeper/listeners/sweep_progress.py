"""How far a sweep is, counted from its events.

The time left is the seconds that workers still need, shared by the workers that run now. The steps of a program cost
what those of this start have cost so far, and before the first what earlier rows say. Programs of which neither is
known make the time left unknown: their steps may cost a thousand times as much as others. Evaluation is taken to need
time in proportion. Packs whose steps are slow may be the last, so the time left is never less than what a running pack
needs at its own rate.
"""

import collections
import dataclasses
import math
import time
from collections.abc import Callable
from typing import NamedTuple

from sweeper import events
from sweeper.events import Event, PackPlaced, PackProgressed, PackStarted, Program, SweepPlanned
from sweeper.messages import counted, duration, speed

STILL = 60.0  # seconds without news of a pack from which on people are told for how long there were none


@dataclasses.dataclass(frozen=True)
class RunningPack:
    """A pack that a worker has."""

    started: PackStarted  # its latest start
    trials: int  # number of trials at its first start
    moved: float  # when the clock of the progress last saw something new of the pack
    progress: PackProgressed  # its latest progress since then; it is `waiting` before the first
    node: str | None = None  # where its worker is; None before the first report of the worker
    trained_from: tuple[float, int] | None = None  # when its worker was first heard to train, and `steps_done` then

    @property
    def steps_done(self) -> int:
        """Training steps of all its trials together; those committed by an earlier worker count in full."""
        pending = len(self.started.pending)
        return self.progress.step * pending + self.started.steps * (self.trials - pending)

    @property
    def unfinished(self) -> int:
        """Number of trials that the worker has and has not committed."""
        return sum(trial_id not in self.progress.rows for trial_id in self.started.pending)

    @property
    def seconds_left(self) -> float:
        """Seconds that its training still needs at its own rate; 0 while the rate is unknown."""
        rate = self.progress.steps_per_second
        return (self.started.steps - self.progress.step) * len(self.started.pending) / rate if rate else 0.0


class _Cost(NamedTuple):
    """What a start has spent on steps so far."""

    steps: int = 0
    seconds: float = 0.0  # of workers


class SweepProgress:
    """Counts of a sweep: the `plan`, and the running `packs` by id."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.plan = SweepPlanned("", trials=0, done=0, failed=0, programs={})
        self.packs: dict[str, RunningPack] = {}
        self._rows: collections.Counter[events.Status] = collections.Counter()
        self._clock, self._begun = clock, clock()
        self._ended_steps: collections.Counter[int] = collections.Counter()  # of packs that have ended, by program
        self._ended_costs: collections.defaultdict[int, _Cost] = collections.defaultdict(_Cost)
        self._has_trained = False
        self._awaits_nodes = False
        self._doing, self._doing_since = "", clock()

    def hear(self, event: Event) -> None:
        match event:
            case SweepPlanned():
                self.plan = event
            case events.ResourcesAwaited():
                self._awaits_nodes = True
            case PackStarted():
                self._awaits_nodes = False
                earlier = self.packs.get(event.pack_id)
                if earlier is not None:
                    self._end(earlier)
                trials = len(event.pending) if earlier is None else earlier.trials
                waiting = PackProgressed(
                    event.pack_id, "waiting", 0, event.steps, len(event.pending), {}, math.nan, steps_per_second=0.0
                )
                self.packs[event.pack_id] = RunningPack(event, trials, self._clock(), waiting)
            case PackProgressed() if event.pack_id in self.packs:
                pack = self.packs[event.pack_id]
                moved = pack.moved if pack.progress.news == event.news else self._clock()
                pack = dataclasses.replace(pack, progress=event, moved=moved)
                if pack.trained_from is None and event.phase not in ("waiting", "compiling"):
                    # Steps that a checkpoint brought along have cost this start no time.
                    pack = dataclasses.replace(pack, trained_from=(self._clock(), pack.steps_done))
                    self._has_trained = True
                self.packs[event.pack_id] = pack
            case PackPlaced() if event.pack_id in self.packs:
                self.packs[event.pack_id] = dataclasses.replace(self.packs[event.pack_id], node=event.node)
            case events.TrialCommitted():
                self._rows[event.status] += 1
            case events.PackEnded() if event.pack_id in self.packs:
                pack = self.packs.pop(event.pack_id)
                self._ended_steps[pack.started.program] += pack.steps_done
                self._end(pack)
            case _:
                pass
        if (doing := self._done_now()) != self._doing:
            self._doing, self._doing_since = doing, self._clock()

    def _done_now(self) -> str:
        phases = {pack.progress.phase for pack in self.packs.values()}
        if "training" in phases or self._awaits_nodes or (not phases and self._has_trained):
            return ""
        if phases & {"evaluating", "done"}:
            return f"evaluating {counted(self.running, 'trial')}" if self.running else ""
        if not phases:
            return "waiting for a worker"
        if "compiling" not in phases:
            return "workers start and import"
        compiling = {pack.started.program for pack in self.packs.values() if pack.progress.phase != "waiting"}
        known = max(len(self.plan.programs), *compiling)
        return f"compiling {', '.join(map(str, sorted(compiling)))} of {counted(known, 'program')}"

    @property
    def doing(self) -> str:
        """What is done while no pack trains, with its seconds; empty while one does, or nothing is to be done."""
        if not self._doing:
            return ""
        return f"{self._doing} for {duration(self._clock() - self._doing_since)}"

    @property
    def done(self) -> int:
        """Number of trials with a row that is not failed, those of earlier starts included."""
        return self.plan.done + self._rows["finished"] + self._rows["stopped"]

    @property
    def failed(self) -> int:
        return self.plan.failed + self._rows["failed"]

    @property
    def running(self) -> int:
        """Number of trials that a worker has and has not committed."""
        return sum(pack.unfinished for pack in self.packs.values())

    @property
    def lanes(self) -> int:
        """Number of trials that are trained at once, in all running packs."""
        return sum(pack.progress.lanes for pack in self.packs.values())

    @property
    def steps_per_second(self) -> float:
        """Training steps a second of all lanes that are in training now."""
        latest = [pack.progress for pack in self.packs.values()]
        return sum((progress.steps_per_second for progress in latest if progress.phase == "training"), 0.0)

    def still(self, pack: RunningPack) -> float:
        """Seconds since the last news of a running pack; 0 as long as these are fewer than `STILL`."""
        seconds = self._clock() - pack.moved
        return seconds if seconds >= STILL else 0.0

    @property
    def seconds_left(self) -> float | None:
        """An estimate; None before this start has trained anything, and while a program has steps of unknown cost."""
        if not self._has_trained:
            return None
        packs = list(self.packs.values())
        seconds = 0.0
        for number, program in self.plan.programs.items():
            own = sum(pack.steps_done for pack in packs if pack.started.program == number)
            left = program.steps - self._ended_steps[number] - own
            each = self._step_seconds(program)
            if left > 0 and each is None:
                return None
            seconds += max(left, 0) * (each or 0.0)
        slowest = max((pack.seconds_left for pack in packs), default=0.0)
        return max(slowest, seconds / max(1, len(packs)))

    def _step_seconds(self, program: Program) -> float | None:
        """Seconds of one worker for a step: of this start, else of earlier rows; None if neither is known."""
        running = (self._cost(pack) for pack in self.packs.values() if self._alike(pack) == program.alike)
        steps, seconds = map(sum, zip(self._ended_costs[program.alike], *running, strict=True))
        return seconds / steps if steps > 0 and seconds > 0 else program.step_seconds

    def _alike(self, pack: RunningPack) -> int:
        number = pack.started.program
        return self.plan.programs[number].alike if number in self.plan.programs else number

    def _cost(self, pack: RunningPack) -> _Cost:
        """What the latest worker of a pack has spent on its steps so far."""
        if pack.trained_from is None:
            return _Cost()
        at, had = pack.trained_from
        return _Cost(pack.steps_done - had, self._clock() - at)

    def _end(self, pack: RunningPack) -> None:
        """Take note that the latest worker of a pack has ended."""
        before, last = self._ended_costs[self._alike(pack)], self._cost(pack)
        self._ended_costs[self._alike(pack)] = _Cost(before.steps + last.steps, before.seconds + last.seconds)

    def line(self) -> str:
        left = self.seconds_left
        still = min(map(self.still, self.packs.values()), default=0.0)
        ending = f"{duration(left)} left" if left else "time left unknown"
        if self._awaits_nodes:
            ending = "waiting for a node"
        elif still:
            ending = f"nothing new for {duration(still)}"
        counts = f"{self.done:,}/{self.plan.trials:,} done · {self.running:,} running · {self.failed:,} failed"
        rate = f"{counted(self.lanes, 'lane')} · {speed(self.steps_per_second)}"
        return f"{counts} · {self.doing or rate} · {duration(self._clock() - self._begun)} so far · {ending}"
