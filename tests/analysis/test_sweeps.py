"""Every trial of a sweep that is not finished has one reason."""

import pandas as pd
import pytest

from sweeper.analysis.sweeps import MAX_REASONS, unfinished, unfinished_lines
from sweeper.events import TrialsLost

PLANNED = ("a", "b", "c", "d", "e", "f")


def rows(**statuses: str) -> pd.DataFrame:
    table = pd.DataFrame({"trial_id": list(statuses), "status": list(statuses.values())})
    failed = table["status"] == "failed"
    return table.assign(error_kind=failed.map({True: "ValueError"}), error_message=failed.map({True: "no"}))


ROWS = rows(a="finished", b="failed", c="stopped", d="finished")
LOST = (TrialsLost("pack", ("d", "e"), "disk full"),)
EARLY = "stopped early by another sweep, and not run to the end"


@pytest.mark.parametrize("early_stopping", [False, True])
def test_each_trial_has_one_reason(early_stopping):
    """A sweep that stops trials early is done with those that were stopped."""
    done, stopped = (("stopped",), {}) if early_stopping else ((), {EARLY: ["c"]})
    reasons = {"ValueError: no": ["b"], "disk full": ["e"]} | stopped
    ended = reasons | {"no row, although its worker reported the end": ["f"]}
    assert unfinished(PLANNED, ROWS, done, LOST, refused=False) == ended
    refused = reasons | {"not run, as nothing could be committed any more": ["f"]}
    assert unfinished(PLANNED, ROWS, done, LOST, refused=True) == refused


def test_nothing_is_unfinished_when_all_rows_are_there():
    assert unfinished(("a",), rows(a="finished"), (), (), refused=False) == {}
    assert unfinished((), rows(), (), (), refused=False) == {}
    assert unfinished_lines({}) == []


def test_frequent_reasons_come_first_and_cannot_steer_a_terminal():
    reasons = {f"reason {number}": ["x"] for number in range(MAX_REASONS)} | {"\x1b[2J": ["a", "b", "c"]}
    assert unfinished_lines(reasons)[:2] == [r"3 x \x1b[2J (trial a and 2 more)", "1 x reason 0 (trial x)"]
    assert len(unfinished_lines(reasons)) == MAX_REASONS
