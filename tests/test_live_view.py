"""The board's arithmetic under a clock of our own, and both views of it."""

import dataclasses
import io
import math

from rich.console import Console

from sweeper import live_view
from sweeper.packs import plan
from sweeper.packs.pack_run import Progress
from sweeper.packs.plan import Work
from tests.trials import coloring_trial


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def board_of(seeds: int = 4) -> tuple[live_view.Board, plan.Listed, Clock]:
    trials = [coloring_trial(seed=seed, objective={"q": q, "m": 2}) for q in (2.0, 3.0) for seed in range(seeds)]
    source, clock = (
        plan.Listed(plan.plan(trials, None, {}, plan.done_statuses(early_stopping=False, retry_failed=False))),
        Clock(),
    )
    return live_view.Board(source, done=0, failed=0, clock=clock), source, clock


def fields(pack_id: str, **changes: object) -> dict[str, object]:
    now = Progress(
        pack_id=pack_id, phase="training", step=0, steps=250, lanes=4, committed=0, failed=0, train_loss=math.nan,
        steps_per_second=0.0,
    )  # fmt: skip
    return dataclasses.asdict(now) | changes


def test_counts_follow_packs_from_start_to_end():
    board, source, _ = board_of()
    work = source.next()
    assert work is not None
    board.started(work)
    assert (board.planned, board.done, board.running, board.lanes) == (8, 0, 4, 4)
    board.progress(work.pack.pack_id, fields(work.pack.pack_id, steps_per_second=40.0))
    assert board.steps_per_second == 40.0
    board.progress(work.pack.pack_id, fields(work.pack.pack_id, phase="evaluating", step=250, committed=2, failed=1))
    assert (board.done, board.failed, board.running, board.steps_per_second) == (2, 1, 1, 0.0)
    board.progress(work.pack.pack_id, fields(work.pack.pack_id, phase="done", step=250, committed=3, failed=1))
    board.ended(work.pack.pack_id)
    assert (board.done, board.failed, board.running, board.lanes) == (3, 1, 0, 0)


def test_time_left_goes_by_what_this_start_has_trained():
    board, source, clock = board_of()
    work = source.next()
    assert work is not None
    board.started(work)
    assert board.seconds_left is None
    # A checkpoint brings 100 steps along, which took no time today.
    board.progress(work.pack.pack_id, fields(work.pack.pack_id, step=100))
    clock.now = 30.0
    board.progress(work.pack.pack_id, fields(work.pack.pack_id, step=150))
    assert board.seconds_left == (2 * 4 * 250 - 4 * 150) * 30.0 / (4 * 50)
    assert board.line().endswith("30 s so far · 4 min left")


def test_a_pack_that_starts_again_counts_its_rows_once():
    board, source, _ = board_of()
    work = source.next()
    assert work is not None
    board.started(work)
    board.progress(work.pack.pack_id, fields(work.pack.pack_id, phase="evaluating", committed=1))
    board.started(Work(work.pack, work.pending[1:]))
    assert board.done == 1
    board.progress(work.pack.pack_id, fields(work.pack.pack_id, phase="done", committed=3))
    board.ended(work.pack.pack_id)
    assert board.done == 4


def test_plain_view_prints_a_line_every_ten_seconds():
    board, _, clock = board_of()
    out = io.StringIO()
    view = live_view.PlainView(board, Console(file=out, width=200), clock)
    for clock.now in (1.0, 9.9, 10.0, 11.0, 19.0, 21.0):
        view.tick()
    assert out.getvalue().splitlines() == [
        "0/8 done · 0 running · 0 failed · 0 lanes · 0 steps/s · 10 s so far · time left unknown",
        "0/8 done · 0 running · 0 failed · 0 lanes · 0 steps/s · 21 s so far · time left unknown",
    ]


def test_a_terminal_gets_the_live_view_and_keeps_the_notes():
    board, source, _ = board_of()
    out = io.StringIO()
    with live_view.watch(board, Console(file=out, force_terminal=True, width=120)) as watch:
        work = source.next()
        assert work is not None
        watch.started(work)
        watch.progress(work.pack.pack_id, fields(work.pack.pack_id, step=120, train_loss=0.25))
        watch.note("a note [not markup]")
        watch.tick()
    for text in ("a note [not markup]", "coloring Aq_R q=2 m=2", "training 120", "loss 0.25", "4 running"):
        assert text in out.getvalue()


def test_a_log_gets_plain_lines():
    board, _, _ = board_of()
    out = io.StringIO()
    with live_view.watch(board, Console(file=out, width=40)) as watch:
        watch.note("a note that is longer than the forty columns of this log")
    assert out.getvalue() == "a note that is longer than the forty columns of this log\n"
