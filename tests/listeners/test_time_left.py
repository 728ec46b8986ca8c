"""The time left, held against what a sweep then takes: sweeps of several kinds as their drivers tell them."""

import dataclasses
import heapq
import math
from collections.abc import Iterable, Iterator

import pytest

from sweeper import events
from sweeper.events import Event, PackProgressed
from sweeper.listeners.sweep_progress import SweepProgress

WITHIN = 1.5


@dataclasses.dataclass(frozen=True)
class Program:
    """What the trials of a program cost, in seconds."""

    compilation: float = 0.0  # in each worker
    step: float = 0.01  # of one trial
    evaluation: float = 0.5  # of one trial


@dataclasses.dataclass(frozen=True)
class Work:
    """A pack as its driver hands it out."""

    program: int
    trials: int = 4
    steps: int = 1000
    first: int = 0  # steps of its checkpoint


Told = tuple[float, Event]


def told(work: list[Work], programs: list[Program], workers: list[float]) -> list[Told]:
    """The events of a sweep with their times, in order; each worker takes so long to start."""
    free = [(0.0, seconds, set[int]()) for seconds in workers]
    every: list[Told] = []
    for number, pack in enumerate(work):
        begin, start, compiled = heapq.heappop(free)
        last = begin
        for last, event in _of_pack(f"{number:04}", pack, programs[pack.program - 1], begin, start, compiled):
            every.append((last, event))
        heapq.heappush(free, (last + (0.05 if last > begin + 1 else 0.0), number * 1e-9, compiled | {pack.program}))
    every.sort(key=lambda each: each[0])
    steps: dict[int, int] = {}
    for pack in work:
        steps[pack.program] = steps.get(pack.program, 0) + pack.trials * pack.steps
    plan = events.SweepPlanned("told", 10**6, done=0, failed=0, steps=steps, programs=len(programs))
    return [(0.0, plan), (0.0, events.SweepStarted(None)), *every]


def _of_pack(
    name: str, pack: Work, program: Program, begin: float, start: float, compiled: Iterable[int]
) -> Iterator[Told]:
    """A pack tells every second how far it is; of a short one there is one report."""
    trials = tuple(f"{name}-{index}" for index in range(pack.trials))
    yield begin, events.PackStarted(name, "", trials, pack.steps, pack.program)

    def progress(phase, step, rows=0, seconds=0.0):
        done = dict.fromkeys(trials[:rows], "finished")
        rate = (step - pack.first) * pack.trials / seconds if seconds else 0.0
        return PackProgressed(name, phase, step, pack.steps, pack.trials, done, math.nan, rate)

    trains = begin + start
    if pack.program not in compiled:
        yield trains, progress("compiling", pack.first)
        trains += program.compilation
    a_step = program.step * pack.trials
    training = (pack.steps - pack.first) * a_step
    ends = trains + training + program.evaluation * pack.trials
    now = trains + 1.0
    while now < ends:
        evaluated = int((now - trains - training) / program.evaluation) if now > trains + training else 0
        step = min(pack.steps, pack.first + int((now - trains) / a_step))
        yield (
            now,
            progress("training" if step < pack.steps else "evaluating", step, evaluated, min(training, now - trains)),
        )
        now += 1.0
    yield ends, progress("done", pack.steps, pack.trials, training)
    yield ends, events.PackEnded(name)


FAST, SLOW = Program(2.0, 0.002, 0.1), Program(4.0, 0.02, 0.3)
SWEEPS = {
    "equal packs, two workers": ([Work(1)] * 20, [Program(5.0)], [4.0, 6.0]),
    "packs of very different cost": ([Work(1), Work(2)] + [Work(1)] * 15 + [Work(2)] * 15, [FAST, SLOW], [4.0, 4.0]),
    "the expensive first": ([Work(2), Work(1)] + [Work(2)] * 15 + [Work(1)] * 15, [FAST, SLOW], [4.0, 4.0]),
    "compilations that cost more than training": (
        [Work(number, 2, 500) for number in range(1, 31)], [Program(15.0, 0.002, 0.1)] * 30, [5.0, 5.0],
    ),
    "a resumed start with most rows done": (
        [Work(1, 4, 1000, 700), Work(1, 2, 1000, 400), Work(1, 1)], [Program(3.0)], [4.0, 5.0],
    ),
    "one pack in this process": ([Work(1, 8, 5000)], [Program(3.0, 0.002, 1.0)], [0.0]),
    "short packs": ([Work(1, 1, 100)] * 2000, [Program(1.0, 0.0005, 0.05)], [4.0, 4.5]),
    "an evaluation that takes a third": ([Work(1, 2)] * 24, [Program(2.0, 0.01, 5.0)], [4.0, 4.0]),
}  # fmt: skip


@pytest.mark.parametrize("kind", SWEEPS)
def test_after_a_tenth_of_the_work_the_time_left_is_right_within_half(kind):
    now = [0.0]
    progress = SweepProgress(lambda: now[0])
    every = told(*SWEEPS[kind])
    end = every[-1][0]
    wrong = {}
    for now[0], event in every:
        progress.hear(event)
        left = end - now[0]
        told_left = progress.seconds_left if end / 10 <= now[0] <= end * 0.7 else None
        if told_left is not None and not left / WITHIN <= told_left <= left * WITHIN:
            wrong[round(now[0] / end, 2)] = (round(told_left, 1), round(left, 1))
        assert not progress.packs or progress.running
    assert not wrong
