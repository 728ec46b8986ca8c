"""A store that the first version wrote stays readable (`fixtures/store_v1`, five trials of three tasks)."""

import json
import shutil
from pathlib import Path

import pytest

from sweeper.analysis import sql
from sweeper.store import compaction, store
from sweeper.store.compaction import compact
from sweeper.store.store import Store, StoreError
from sweeper.trial.trial_spec import TrialSpec

WRITTEN = Path(__file__).parent / "fixtures" / "store_v1"

ROWS = {
    "0ca322ebf7b2e3f309e9": ("coloring", "finished", 0.1388888917863369, 2, 12),
    "282c6b057eefb04edcda": ("gridworld", "finished", 0.1, 8, 5),
    "3fd360c760a09949614f": ("recall", "finished", 0.03146701467145855, 2, 1536),
    "5f07e9161624434bb025": ("coloring", "failed", None, 2, 0),
    "9215221b0e0e42ebd5c0": ("coloring", "finished", 0.0972222238779068, 2, 12),
}
"""Task, status, success, points of curves and rows of outcomes of every trial."""


@pytest.fixture
def first(tmp_path):
    """A copy, as reading may set files aside."""
    return Store.open(shutil.copytree(WRITTEN, tmp_path / "store"))


def contents(first):
    curves, outcomes = (table["trial_id"].to_pylist() for table in (first.curves(), first.outcomes()))
    return {
        row["trial_id"]: (
            row["task"], row["status"], row["success"], curves.count(row["trial_id"]), outcomes.count(row["trial_id"]),
        )
        for row in first.trials().to_pylist()
    }  # fmt: skip


def test_rows_curves_and_outcomes_are_read(first):
    assert contents(first) == ROWS
    assert first.committed() == {key: row[1] for key, row in ROWS.items()}
    for row in first.trials().to_pylist():
        assert row["schema_version"] == 1
        assert TrialSpec.model_validate(json.loads(row["spec"])).task.name == row["task"]
    failed = first.trials(["5f07e9161624434bb025"]).to_pylist()[0]
    assert (failed["error_kind"], failed["error_step"], failed["steps_done"]) == ("divergence", 7, 250)


def test_nothing_of_its_sweep_is_left_to_do(first):
    (record,) = first.sweeps()
    assert record.name == "first"
    assert set(record.trial_ids) == set(first.committed())


def test_it_can_be_asked_in_sql(first):
    frame = sql.frame(
        "select trials.task, count(*) as n from trials join outcomes using (trial_id) group by 1 order by 1", first
    )
    assert frame.to_dict("list") == {"task": ["coloring", "gridworld", "recall"], "n": [24, 5, 1536]}


def test_it_can_be_compacted(first, monkeypatch):
    monkeypatch.setattr(compaction, "TOGETHER", 2)
    assert compact(first).trials == 2
    assert contents(first) == ROWS


def test_a_program_older_than_its_store_refuses_it_in_one_sentence(first, monkeypatch):
    """The other direction: a store of a later version, read by this program."""
    monkeypatch.setattr("sweeper.store.seal.SCHEMA_VERSION", 0)
    for ask in (first.committed, first.trials, first.curves):
        with pytest.raises(StoreError, match=r"has schema version 1, this program knows up to 0: update it"):
            ask()
    assert store.SCHEMA_VERSION == 1
