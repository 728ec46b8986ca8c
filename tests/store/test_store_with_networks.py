"""A store that commit 9134a5c wrote, the first with networks and evaluations: five trials, three of them compacted."""

import shutil
from pathlib import Path

import pytest

from sweeper.analysis import sql
from sweeper.store import compaction
from sweeper.store.compaction import compact
from sweeper.store.networks import NoNetworkError, stored_weights
from sweeper.store.store import Store

WRITTEN = Path(__file__).parent / "fixtures" / "store_with_networks"


@pytest.fixture
def store(tmp_path):
    """A copy, as reading may set files aside."""
    return Store.open(shutil.copytree(WRITTEN, tmp_path / "store"))


def contents(store):
    seeds = {row["trial_id"]: row["seed"] for row in store.trials().to_pylist()}
    networks = {}
    for entry in store.entries():
        try:
            networks[seeds[entry.seal.trial_id]] = stored_weights(store, entry)["weight"].tolist()
        except NoNetworkError:
            networks[seeds[entry.seal.trial_id]] = None
    statuses = {seeds[trial_id]: status for trial_id, status in store.committed().items()}
    columns = 'seed, "evaluation.seeds" as seeds, votes, success, majority_20'
    evaluated = sql.table(f"select {columns} from evaluations order by seed", store)
    return statuses, networks, evaluated.to_pylist()


CONTENTS = (
    {0: "finished", 1: "stopped", 2: "finished", 3: "finished", 4: "failed"},
    {0: [0.0] * 4, 1: [1.0] * 4, 2: [2.0] * 4, 3: [3.0] * 4, 4: None},
    [
        {"seed": 0, "seeds": 40, "votes": [20], "success": 0.0, "majority_20": 0.5},
        {"seed": 3, "seeds": 40, "votes": [20], "success": 0.1875, "majority_20": 0.5},
    ],
)


def test_rows_networks_and_evaluations_are_read(store):
    assert contents(store) == CONTENTS
    assert store.verify("curves") == store.verify("outcomes") == store.verify("networks") == []


def test_it_can_be_compacted_further(store, monkeypatch):
    monkeypatch.setattr(compaction, "TOGETHER", 1)
    assert compact(store).trials == 1
    assert contents(store) == CONTENTS
