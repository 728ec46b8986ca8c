"""The counts of a sweep, under a clock of our own."""

import dataclasses
import math
from typing import Any

import pytest

from sweeper import events
from sweeper.events import PackProgressed
from sweeper.listeners.sweep_progress import SweepProgress

PACK = "0123456789"
TRIALS = ("a", "b", "c", "d")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def progressed(**changes: Any) -> PackProgressed:
    fields = {"phase": "training", "step": 0, "steps": 250, "lanes": 4, "rows": {}, "train_loss": math.nan}
    return PackProgressed(pack_id=PACK, **(fields | {"steps_per_second": 0.0} | changes))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock) -> SweepProgress:
    """Eight trials are planned, and a pack of four has started."""
    progress = SweepProgress(clock)
    progress.hear(events.SweepPlanned("test", trials=8, done=0, failed=0, steps={1: 8 * 250}, programs=1))
    progress.hear(events.PackStarted(PACK, "coloring", TRIALS, 250))
    return progress


def commit(progress: SweepProgress, **statuses: events.Status) -> None:
    for trial_id, status in statuses.items():
        progress.hear(events.TrialCommitted(PACK, trial_id, status))


def test_counts_follow_packs_from_start_to_end(progress):
    assert (progress.done, progress.running, progress.lanes) == (0, 4, 4)
    progress.hear(progressed(steps_per_second=40.0))
    assert progress.steps_per_second == 40.0
    progress.hear(progressed(phase="evaluating", step=250, rows={"a": "finished", "b": "stopped", "c": "failed"}))
    commit(progress, a="finished", b="stopped", c="failed")
    assert (progress.done, progress.failed, progress.running, progress.steps_per_second) == (2, 1, 1, 0.0)
    commit(progress, d="finished")
    progress.hear(events.PackEnded(PACK))
    assert (progress.done, progress.failed, progress.running, progress.lanes) == (3, 1, 0, 0)


def test_time_left_goes_by_the_rate_now(progress, clock):
    assert progress.seconds_left is None
    progress.hear(progressed(phase="compiling"))
    assert progress.seconds_left is None
    clock.now = 30.0
    progress.hear(progressed(step=150, steps_per_second=20.0))
    assert progress.seconds_left == (2 * 4 * 250 - 4 * 150) / 20.0
    assert progress.line().endswith("30 s so far · 70 s left")


def test_trials_whose_pack_has_ended_are_left_out_until_another_pack_has_them(progress, clock):
    clock.now = 40.0
    progress.hear(progressed(step=100, steps_per_second=10.0))
    progress.hear(events.PackEnded(PACK))
    progress.hear(events.PackStarted("other", "coloring", ("d", "e"), 250))
    clock.now += 10.0
    progress.hear(dataclasses.replace(progressed(step=50, steps_per_second=10.0), pack_id="other"))
    assert progress.seconds_left == pytest.approx((8 * 250 - 3 * 250 - 2 * 50) / 10.0)


def test_news_are_another_phase_a_further_step_or_another_row(progress, clock):
    def still() -> float:
        return progress.still(progress.packs[PACK])

    news = [progressed(phase="compiling"), progressed(), progressed(step=1), progressed(step=1, rows={"a": "failed"})]
    for event in news:
        clock.now += 59.0
        assert still() == 0.0
        clock.now += 1.0
        assert still() == 60.0
        progress.hear(event)
        assert still() == 0.0
    clock.now += 60.0
    progress.hear(news[-1])
    assert still() == 60.0
    assert progress.line().endswith("nothing new for 60 s")


def test_before_the_training_the_line_says_what_is_done_instead_and_for_how_long():
    clock = Clock()
    progress = SweepProgress(clock)
    progress.hear(events.SweepPlanned("test", trials=8, done=0, failed=0, steps={1: 2000}, programs=2))
    assert progress.doing == "waiting for a worker for 0 s"
    for number, pack_id in enumerate((PACK, "other"), start=1):
        progress.hear(events.PackStarted(pack_id, "coloring", TRIALS, 250, program=number))
    assert progress.doing == "workers start and import for 0 s"
    progress.hear(progressed(phase="preparing"))
    clock.now = 7.0
    assert progress.doing == "making data and looking for a checkpoint for 7 s"
    compiling = progressed(phase="compiling")
    progress.hear(compiling)
    clock.now = 20.0
    assert progress.doing == "compiling 1 of 2 programs for 13 s"
    assert " compiling 1 of 2 programs for 13 s · 20 s so far" in progress.line()
    progress.hear(progressed())
    assert progress.doing == "", "one trains"


def test_trials_committed_by_a_worker_that_died_count_as_trained(progress, clock):
    clock.now = 1000 / 30
    progress.hear(progressed(step=249, steps_per_second=30.0))
    progress.hear(progressed(phase="evaluating", step=250, rows={"a": "finished"}))
    commit(progress, a="finished")
    progress.hear(events.PackStarted(PACK, "coloring", TRIALS[1:], 250))
    assert (progress.done, progress.running) == (1, 3)
    progress.hear(progressed(phase="compiling", step=200, lanes=3))
    progress.hear(progressed(step=200, lanes=3, steps_per_second=30.0))
    assert progress.seconds_left == pytest.approx((8 * 250 - 250 - 3 * 200) / 30.0)


def test_a_sweep_whose_nodes_have_left_waits_for_a_node():
    progress = SweepProgress()
    progress.hear(events.ResourcesAwaited({"CPU": 1.0}))
    assert progress.line().endswith("waiting for a node")
    progress.hear(events.PackStarted("p", "coloring", ("a",), 250))
    assert progress.line().endswith("time left unknown")
