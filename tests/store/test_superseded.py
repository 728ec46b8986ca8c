"""Rows that other code is to compute again move away whole, and their trials are pending."""

import pytest

from sweeper.store import compaction
from sweeper.store.files import StoreError
from sweeper.store.store import Store
from sweeper.store.superseded import supersede
from sweeper.trial import fingerprint
from sweeper.trial.trial_spec import trial_id
from tests.results import PROVENANCE, result

CODE = fingerprint.captured()
MENDED = CODE.model_copy(update={"numerics": "mended"})


def _result(seed: int, code: fingerprint.Code = CODE, **changes):
    return result({"seed": seed}, provenance=PROVENANCE.model_copy(update={"code": code}), **changes)


@pytest.fixture(params=["own files", "compacted"])
def store(request, tmp_path, monkeypatch) -> Store:
    store = Store.open(tmp_path / "results")
    for seed in range(4):
        store.commit(_result(seed))
    if request.param == "compacted":
        monkeypatch.setattr(compaction, "TOGETHER", 4)
        assert compaction.compact(store).trials == 4
    return store


def test_rows_and_seals_bear_the_fingerprint(store):
    expected = CODE.fingerprint(_result(0).trial)
    assert {seal.fingerprint for seal in store.committed_seals().values()} == {expected}
    rows = store.trials().to_pylist()
    assert {row["fingerprint"] for row in rows} == {expected}
    assert {(row["task_version"], row["model_version"], row["numerics_version"]) for row in rows} == {(1, 1, 1)}


def test_superseded_trials_are_pending_and_kept_as_files(store, tmp_path):
    first, *others = (trial_id(_result(seed).trial) for seed in range(4))
    before = store.trials(others)
    supersede(store, [first])
    assert set(store.committed()) == set(others)
    assert store.trials() == before
    assert set(store.curves().column("trial_id").to_pylist()) == set(others)
    folder = tmp_path / "results" / "superseded" / CODE.fingerprint(_result(0).trial)
    kept = sorted(path.relative_to(folder).parts[0] for path in folder.rglob(f"{first}.*"))
    assert kept == ["curves", "networks", "outcomes", "trials"]
    again = _result(0, MENDED, metrics={"success": 0.25})
    assert store.commit(again)
    assert store.trials([first])["success"].to_pylist() == [0.25]
    assert store.committed_seals()[first].fingerprint == MENDED.fingerprint(again.trial)


def test_a_second_supersession_keeps_both(store, tmp_path):
    first = trial_id(_result(0).trial)
    supersede(store, [first])
    store.commit(_result(0, MENDED))
    supersede(store, [first])
    assert len(list((tmp_path / "results" / "superseded").glob(f"*/trials/**/{first}.parquet"))) == 2


def test_nothing_moves_while_the_store_is_compacted(tmp_path, monkeypatch):
    store = Store.open(tmp_path)
    store.commit(_result(0))
    monkeypatch.setattr(compaction, "TOGETHER", 1)
    compaction.compact(store)
    before = store.committed()
    with store.files.exclusively(), pytest.raises(StoreError, match="another process is compacting"):
        supersede(store, before)
    assert store.committed() == before
