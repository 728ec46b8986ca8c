"""How far a sweep is, counted from its events.

The time left is that of packs that take turns on the workers: what the running ones still need, and then those that
wait, which are taken to be as large as those seen so far; the last of them begins when its worker is free. Steps of a
program cost what they have cost in its packs that have ended, evaluations included, or else what the running ones say.
Steps of programs that have not begun cost what others have cost on average, and their compilation is expected too.
"""

import collections
import dataclasses
import math
import statistics
import time
from collections.abc import Callable

from sweeper import events
from sweeper.events import Event, PackProgressed, PackStarted, SweepPlanned
from sweeper.messages import counted, duration, speed

EARLY = ("waiting", "preparing", "compiling")  # phases before a pack trains
STILL = 60.0  # seconds without news of a pack from which on people are told for how long there were none

PREPARING = "making data and looking for a checkpoint"


@dataclasses.dataclass(frozen=True)
class RunningPack:
    """A pack that a worker has; times are those of the clock of the progress."""

    started: PackStarted  # its latest start
    progress: PackProgressed  # its latest progress since then; it is `waiting` before the first
    begun: float  # when it started
    moved: float  # when something new was last seen of it
    first: int = 0  # step at which it started
    prepared: float | None = None  # when its worker and program were there; None before it trains
    trained: float | None = None  # when its evaluation began; None before

    @property
    def unfinished(self) -> int:
        """Number of trials that the worker has and has not committed."""
        return sum(trial_id not in self.progress.rows for trial_id in self.started.pending)

    @property
    def steps_done(self) -> int:
        """Training steps of all its trials that this worker has done."""
        return (self.progress.step - self.first) * len(self.started.pending)

    def after(self, event: PackProgressed, now: float) -> "RunningPack":
        """The pack at this progress of it."""
        pack = dataclasses.replace(self, progress=event, moved=self.moved if self.progress.news == event.news else now)
        if event.phase in EARLY:
            return dataclasses.replace(pack, first=event.step)
        if self.prepared is None:
            rate, compiled = event.steps_per_second, self.progress.phase in EARLY[1:]
            seconds = pack.steps_done / rate if compiled and rate else 0.0  # of training
            pack = dataclasses.replace(pack, prepared=max(self.begun, now - seconds) if compiled else self.begun)
        if self.trained is None and event.phase == "evaluating" and event.step >= self.started.steps:
            pack = dataclasses.replace(pack, trained=self.moved)
        return pack


@dataclasses.dataclass
class _Spent:
    """What the packs of a program have cost that have ended."""

    seconds: float = 0.0  # without the time before they trained
    steps: int = 0  # of all their trials
    preparation: float = 0.0  # seconds before the first of them trained


class SweepProgress:
    """Counts of a sweep: the `plan`, and the running `packs` by id."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.plan = SweepPlanned("", trials=0, done=0, failed=0, steps={}, programs=0)
        self.packs: dict[str, RunningPack] = {}
        self._rows: collections.Counter[events.Status] = collections.Counter()
        self._clock, self._begun = clock, clock()
        self._taken: dict[str, tuple[int, int]] = {}  # program and steps of the trials that a worker has or had
        self._taken_steps = collections.Counter[int]()  # by program
        self._packs_taken = 0
        self._spent: dict[int, _Spent] = {}  # by program, of those that have begun
        self._workers = 1  # most packs at once
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
                self._take(event)
                waiting = PackProgressed(
                    event.pack_id, "waiting", 0, event.steps, len(event.pending), {}, math.nan, 0.0, node=""
                )
                self.packs[event.pack_id] = RunningPack(event, waiting, begun=self._clock(), moved=self._clock())
                self._spent.setdefault(event.program, _Spent())
            case PackProgressed() if event.pack_id in self.packs:
                self.packs[event.pack_id] = self.packs[event.pack_id].after(event, self._clock())
                self._has_trained |= event.phase not in EARLY
            case events.TrialCommitted():
                self._rows[event.status] += 1
            case events.PackEnded() if event.pack_id in self.packs:
                self._end(self.packs.pop(event.pack_id))
            case _:
                pass
        self._workers = max(self._workers, len(self.packs))
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
        """Number of trials that a worker has and has not committed; at least one for each pack until it has ended."""
        return sum(max(1, pack.unfinished) for pack in self.packs.values())

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
        costs = {program: cost for program in self._spent if (cost := self._cost(program)) is not None}
        if not costs:
            return None
        average = statistics.fmean(costs.values())

        def seconds(program: int, steps: int) -> float:
            return max(0, steps) * costs.get(program, average)

        taken, waiting = 0.0, collections.Counter(self.plan.steps)
        for program, steps in self._taken_steps.items():
            waiting[program if program in waiting else 0] -= steps
            taken += seconds(program, steps)
        left = sum(seconds(program, steps) for program, steps in waiting.items())
        if prepared := [spent.preparation for spent in self._spent.values() if spent.preparation]:
            left += max(0, self.plan.programs - len(self._spent)) * statistics.fmean(prepared)
        own = [self._own_seconds_left(pack, seconds) for pack in self.packs.values()]
        last = min(left, taken / self._packs_taken)  # all workers but one may be idle meanwhile
        return max([(sum(own) + left + last * (self._workers - 1)) / self._workers, *own])

    def _own_seconds_left(self, pack: RunningPack, seconds: Callable[[int, int], float]) -> float:
        """What a running pack still needs; `seconds` tells what steps of a program cost."""
        program, rate, rows = pack.started.program, pack.progress.steps_per_second, len(pack.progress.rows)
        steps = (pack.started.steps - pack.progress.step) * len(pack.started.pending)
        if pack.trained is not None and rows:
            return (self._clock() - pack.trained) / rows * pack.unfinished
        if pack.prepared is None or not rate:
            return seconds(program, steps)
        whole = seconds(program, pack.steps_done + steps) if self._spent[program].steps else 0.0
        return max(0.0, steps / rate, whole - (self._clock() - pack.prepared))

    def _cost(self, program: int) -> float | None:
        """Seconds of a worker for a step of one trial; None while that is unknown."""
        spent = self._spent[program]
        if spent.steps and spent.seconds:
            return spent.seconds / spent.steps
        packs = [pack.progress for pack in self.packs.values() if pack.started.program == program]
        found = [1 / progress.steps_per_second for progress in packs if progress.steps_per_second]
        return statistics.fmean(found) if found else None

    def _take(self, started: PackStarted) -> None:
        self._packs_taken += 1
        for trial_id in started.pending:
            program, steps = self._taken.get(trial_id, (0, 0))
            self._taken_steps[program] -= steps
            self._taken[trial_id] = started.program, started.steps
            self._taken_steps[started.program] += started.steps

    def _end(self, pack: RunningPack) -> None:
        if pack.prepared is None:
            return
        now, spent = self._clock(), self._spent[pack.started.program]
        spent.seconds += now - pack.prepared
        spent.steps += pack.steps_done
        spent.preparation = spent.preparation or pack.prepared - pack.begun

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
