"""What listeners hear of packs: labels, each choice of lanes and each commit once, and what becomes of packs."""

import dataclasses

import pytest

from sweeper import events
from sweeper.packs.packing import Pack
from sweeper.packs.plan import ListedWork, Work, plan
from sweeper.packs.progress_events import PackEvents, distinguishing, label
from tests.trials import coloring_trial

FAST = {"warmup_steps": 10, "learning_rate": 0.01}
WALK = {"name": "gridworld_imitation", "height": 2, "width": 2, "horizon": 4}
WIDE = {"task": WALK | {"width": 3}, "model": {"name": "transformer", "blocks": 1, "width": 6, "key_size": 4}}


def trials(count=1, **changes):
    return tuple(coloring_trial(seed=seed, **changes) for seed in range(count))


@pytest.mark.parametrize(
    ("planned", "pack", "words"),
    [
        (trials(), trials(), "coloring Aq_R"),
        (trials(5), trials(5), "coloring Aq_R seed=0…4"),
        ((*trials(), *trials(optimizer=FAST)), trials(optimizer=FAST), "coloring Aq_R learning_rate=0.01"),
        ((*trials(), *trials(objective={"name": "cvar", "m": 2})), trials(), "coloring Aq_R objective=q_norm"),
        ((*trials(task=WALK), *trials(**WIDE)), trials(**WIDE), "gridworld_imitation Aq_R task_width=3 model_width=6"),
    ],
)  # fmt: skip
def test_a_label_says_what_varies(planned, pack, words):
    assert label(Pack(pack), distinguishing(planned)) == words


def test_a_label_has_five_entries_at_most():
    wide = trials(2, **WIDE, optimizer=FAST, batch_size=7)
    words = label(Pack(wide), distinguishing((*trials(2, task=WALK), *wide, *trials())))
    assert words.count("=") == 5


REPORT = events.PackProgressed("0123456789", "training", 100, 400, 2, {}, 0.5, 10.0)


def test_reports_come_each_time_and_news_in_them_once():
    heard, source = [], ListedWork(plan({}, None, {}, frozenset()))
    told = PackEvents(events.Stream([heard.append], warn=print), source, lambda: None)
    work = Work(Pack(trials(2)), ())
    ended = dataclasses.replace(REPORT, lanes=1, lanes_reason="one fits", rows={"a": "finished"})
    for report in (REPORT, ended, ended):
        told.progressed(work, report)
    told.committed("0123456789", {"a": "finished", "b": "failed"})
    assert heard == [
        REPORT, ended, events.LanesChosen("0123456789", 1, work.pack.trial_ids, "one fits"),
        events.TrialCommitted("0123456789", "a", "finished"), ended, events.TrialCommitted("0123456789", "b", "failed"),
    ]  # fmt: skip
