"""How far a sweep is, counted from its events.

The time left is that of the steps left at the rate of the workers now. Packs whose steps are slow may be the last, so
the time left is never less than what a running pack needs at its own rate.
"""

import collections
import dataclasses
import math
import time
from collections.abc import Callable

from sweeper import events
from sweeper.events import Event, PackPlaced, PackProgressed, PackStarted, SweepPlanned
from sweeper.messages import counted, duration, speed

STILL = 60.0  # seconds without news of a pack from which on people are told for how long there were none

PREPARING = "making data and looking for a checkpoint"


@dataclasses.dataclass(frozen=True)
class RunningPack:
    """A pack that a worker has."""

    started: PackStarted  # its latest start
    moved: float  # when the clock of the progress last saw something new of the pack
    progress: PackProgressed  # its latest progress since then; it is `waiting` before the first
    node: str | None = None  # where its worker is; None before the first report of the worker

    @property
    def unfinished(self) -> int:
        """Number of trials that the worker has and has not committed."""
        return sum(trial_id not in self.progress.rows for trial_id in self.started.pending)

    @property
    def seconds_left(self) -> float:
        """Seconds that its training still needs at its own rate; 0 while the rate is unknown."""
        rate = self.progress.steps_per_second
        return (self.started.steps - self.progress.step) * len(self.started.pending) / rate if rate else 0.0


class SweepProgress:
    """Counts of a sweep: the `plan`, and the running `packs` by id."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.plan = SweepPlanned("", trials=0, done=0, failed=0, steps=0, programs=0)
        self.packs: dict[str, RunningPack] = {}
        self._rows: collections.Counter[events.Status] = collections.Counter()
        self._clock, self._begun = clock, clock()
        # Steps of the trials whose pack has ended, in full: whatever became of them, no worker has them any more.
        self._ended_steps: dict[str, int] = {}
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
                if (earlier := self.packs.get(event.pack_id)) is not None:
                    self._end(earlier)
                for trial_id in event.pending:
                    self._ended_steps.pop(trial_id, None)
                waiting = PackProgressed(
                    event.pack_id, "waiting", 0, event.steps, len(event.pending), {}, math.nan, steps_per_second=0.0
                )
                self.packs[event.pack_id] = RunningPack(event, self._clock(), waiting)
            case PackProgressed() if event.pack_id in self.packs:
                pack = self.packs[event.pack_id]
                moved = pack.moved if pack.progress.news == event.news else self._clock()
                self.packs[event.pack_id] = dataclasses.replace(pack, progress=event, moved=moved)
                self._has_trained |= event.phase not in ("waiting", "preparing", "compiling")
            case PackPlaced() if event.pack_id in self.packs:
                self.packs[event.pack_id] = dataclasses.replace(self.packs[event.pack_id], node=event.node)
            case events.TrialCommitted():
                self._rows[event.status] += 1
            case events.PackEnded() if event.pack_id in self.packs:
                self._end(self.packs.pop(event.pack_id))
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
            return PREPARING if "preparing" in phases else "workers start and import"
        compiling = {pack.started.program for pack in self.packs.values() if pack.progress.phase == "compiling"}
        known = max(self.plan.programs, *compiling)
        return f"compiling {', '.join(map(str, sorted(compiling)))} of {counted(known, 'program')}"

    @property
    def phase(self) -> tuple[str, float]:
        """What is done while no pack trains, and its seconds; empty while one does, or nothing is to be done."""
        return self._doing, self._clock() - self._doing_since

    @property
    def doing(self) -> str:
        """The `phase` in words."""
        doing, seconds = self.phase
        return f"{doing} for {duration(seconds)}" if doing else ""

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
        """An estimate; None while no pack says how fast it is."""
        packs = list(self.packs.values())
        rate = sum(pack.progress.steps_per_second for pack in packs)
        if not rate:
            return None
        running = sum(pack.progress.step * len(pack.started.pending) for pack in packs)
        left = self.plan.steps - sum(self._ended_steps.values()) - running
        return max(left / rate, *(pack.seconds_left for pack in packs))

    def _end(self, pack: RunningPack) -> None:
        self._ended_steps |= dict.fromkeys(pack.started.pending, pack.started.steps)

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
