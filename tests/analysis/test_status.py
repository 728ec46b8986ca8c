"""Every trial of a sweep that is not finished has one reason."""

import pandas as pd
import pytest

from sweeper.analysis.status import MAX_REASONS, unfinished, unfinished_lines
from sweeper.events import TrialsLost
from sweeper.store.store import Store
from tests.results import failure, result

PLANNED = ("a", "b", "c", "d", "e", "f")


def rows(**statuses: str) -> pd.DataFrame:
    table = pd.DataFrame({"trial_id": list(statuses), "status": list(statuses.values())})
    failed = table["status"] == "failed"
    return table.assign(
        error_kind=failed.map({True: "ValueError"}), error_message=failed.map({True: "no"}), error_step=0.0
    )


ROWS = rows(a="finished", b="failed", c="stopped", d="finished")
LOST = (TrialsLost("pack", ("d", "e"), "disk full"),)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_each_trial_has_one_reason(early_stopping):
    """A sweep that stops trials early is done with those that were stopped."""
    done, stopped = (("stopped",), []) if early_stopping else ((), [["c"]])
    ended, refused = (unfinished(PLANNED, ROWS, done, LOST, early) for early in (None, "not run"))
    for reasons in (ended, refused):
        assert (reasons["ValueError: no"], reasons["disk full"]) == (["b"], ["e"])
        assert sorted(reasons.values()) == [["b"], *stopped, ["e"], ["f"]]
    (neither,) = [reason for reason, ids in ended.items() if ids == ["f"]]
    assert neither not in refused, "that nothing could be committed is another reason"


def test_nothing_is_unfinished_when_all_rows_are_there():
    assert unfinished(("a",), rows(a="finished"), (), (), None) == {}
    assert unfinished((), rows(), (), (), None) == {}
    assert unfinished_lines({}, rows()) == []


def test_frequent_reasons_come_first_and_cannot_steer_a_terminal():
    reasons = {f"reason {number}": ["x"] for number in range(MAX_REASONS)} | {"\x1b[2J": ["a", "b", "c"]}
    assert unfinished_lines(reasons, rows())[:2] == [r"3 x \x1b[2J (trial a and 2 more)", "1 x reason 0 (trial x)"]
    assert len(unfinished_lines(reasons, rows())) == MAX_REASONS


def test_failed_trials_are_grouped_whatever_their_step_and_say_what_they_share(tmp_path):
    store = Store.open(tmp_path)
    for seed, q, step in ((0, 3.0, 90), (1, 3.0, 1485), (2, 2.0, 7)):
        reached = {"kind": "non-finite gradient", "message": f"non-finite gradient at step {step}", "step": step}
        store.commit(failure({"objective": {"q": q, "m": 4}, "seed": seed}, **reached))
    store.commit(result({"objective": {"q": 1.0, "m": 4}}))
    frame = store.trials().to_pandas()
    reasons = unfinished(frame["trial_id"], frame, (), (), None)
    (line,) = unfinished_lines(reasons, frame)
    assert line.startswith("3 x non-finite gradient, steps 7 to 1,485 (trial ")
    of_three = list(frame["trial_id"][frame["q"] == 3])
    (line,) = unfinished_lines({"non-finite gradient": of_three}, frame)
    assert line == f"2 x non-finite gradient, steps 90 to 1,485, all q = 3 (trial {of_three[0]} and 1 more)"
