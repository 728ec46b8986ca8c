import dataclasses
from types import SimpleNamespace

from sweeper import events
from sweeper.packs.progress_events import ProgressEvents

REPORT = events.PackProgressed("0123456789", "training", 100, 400, 2, {}, 0.5, 10.0)


def test_reports_come_each_time_and_news_in_them_once():
    heard = []
    told = ProgressEvents(events.Stream([SimpleNamespace(hear=heard.append)], warn=print))
    ended = dataclasses.replace(REPORT, lanes=1, lanes_reason="one fits", rows={"a": "finished"})
    for report in (REPORT, ended, ended):
        told.tell(report, lambda: ("a", "b"))
    told.tell_commits("0123456789", {"a": "finished", "b": "failed"})
    assert heard == [
        REPORT,
        ended,
        events.LanesChosen("0123456789", 1, ("a", "b"), "one fits"),
        events.TrialCommitted("0123456789", "a", "finished"),
        ended,
        events.TrialCommitted("0123456789", "b", "failed"),
    ]


def test_a_pack_is_asked_for_its_trials_only_when_its_lanes_are_news():
    asked = []

    def trial_ids() -> tuple[str, ...]:
        asked.append(True)
        return ("a",)

    told = ProgressEvents(events.Stream([], warn=print))
    for _ in range(3):
        told.tell(REPORT, trial_ids)
    assert not asked
    for _ in range(3):
        told.tell(dataclasses.replace(REPORT, lanes_reason="two fit"), trial_ids)
    assert asked == [True]
