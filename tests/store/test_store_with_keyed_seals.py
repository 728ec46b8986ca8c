"""A store that commit d477aa2 wrote, the first with keyed seals: five trials, three of them compacted."""

import shutil
from pathlib import Path

import pytest

from sweeper.store import compaction
from sweeper.store.compaction import compact
from sweeper.store.networks import NoNetworkError, stored_weights
from sweeper.store.store import Store

WRITTEN = Path(__file__).parent / "fixtures" / "store_keyed_seals"


@pytest.fixture
def store(tmp_path):
    """A copy, as reading may set files aside."""
    return Store.open(shutil.copytree(WRITTEN, tmp_path / "store"))


def contents(store):
    curves = dict(zip(*(store.curves()[name].to_pylist() for name in ("trial_id", "value")), strict=True))
    kept = store.outcomes()["trial_id"].to_pylist()
    return sorted(
        (row["seed"], row["status"], row["success"], curves.get(row["trial_id"]), kept.count(row["trial_id"]))
        for row in store.trials().to_pylist()
    )


CONTENTS = [
    (0, "finished", 0.0, 0.0, 3),
    (1, "stopped", 0.125, 1.0, 3),
    (2, "finished", 0.25, 2.0, 3),
    (3, "finished", 0.375, 3.0, 3),
    (4, "failed", None, 0.1, 0),
]


def test_rows_curves_and_outcomes_are_read(store):
    assert len(store.committed()) == 5
    assert contents(store) == CONTENTS
    assert store.verify("curves") == store.verify("outcomes") == []
    (record,) = store.sweeps()
    assert set(record.trial_ids) == set(store.committed())


def test_its_trials_say_that_they_have_no_network(store):
    assert store.verify("networks") == []
    for entry in store.entries():
        with pytest.raises(NoNetworkError, match="older program" if entry.seal.status != "failed" else "failed"):
            stored_weights(store, entry)


def test_it_can_be_compacted_further(store, monkeypatch):
    monkeypatch.setattr(compaction, "TOGETHER", 1)
    assert compact(store).trials == 1
    assert contents(store) == CONTENTS
