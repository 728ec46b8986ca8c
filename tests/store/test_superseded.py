"""Rows that other code is to compute again move away whole, and their trials are pending."""

import pyarrow.parquet as pq
import pytest

from sweeper.store.store import Store
from sweeper.trial import fingerprint
from sweeper.trial.trial_spec import trial_id
from tests.results import PROVENANCE, result

CODE = fingerprint.captured()
MENDED = CODE.model_copy(update={"numerics": "mended"})


def _result(seed: int, code: fingerprint.Code = CODE, **changes):
    return result({"seed": seed}, provenance=PROVENANCE.model_copy(update={"code": code}), **changes)


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store.open(tmp_path / "results")
    for seed in range(4):
        store.commit(_result(seed))
    return store


def test_rows_and_seals_bear_the_fingerprint(store):
    expected = CODE.fingerprint(_result(0).trial)
    assert {seal.fingerprint for seal in store.seals().values()} == {expected}
    rows = store.trials().to_pylist()
    assert {row["fingerprint"] for row in rows} == {expected}
    assert {(row["task_version"], row["model_version"], row["numerics_version"]) for row in rows} == {(1, 1, 1)}


def test_superseded_trials_are_pending_and_kept_as_files(store, tmp_path):
    first, *others = (trial_id(_result(seed).trial) for seed in range(4))
    before = store.trials(others)
    store.supersede([first])
    assert set(store.committed()) == set(others)
    assert store.trials() == before
    assert set(store.curves().column("trial_id").to_pylist()) == set(others)
    folder = tmp_path / "results" / "superseded" / CODE.fingerprint(_result(0).trial)
    assert len(list(folder.rglob(f"trials/**/{first}.parquet"))) == 1
    again = _result(0, MENDED, metrics={"success": 0.25})
    assert store.commit(again)
    assert store.trials([first])["success"].to_pylist() == [0.25]
    assert store.seals()[first].fingerprint == MENDED.fingerprint(again.trial)


@pytest.mark.parametrize("code", [CODE, MENDED], ids=["same code", "other code"])
def test_what_is_superseded_twice_is_kept_twice(store, tmp_path, code):
    first = trial_id(_result(0).trial)
    store.supersede([first])
    store.commit(_result(0, code, metrics={"success": 0.25}))
    store.supersede([first])
    store.commit(_result(0, code, metrics={"success": 0.125}))
    store.supersede([first])
    kept = list((tmp_path / "results" / "superseded").rglob(f"{first}*.parquet"))
    assert sorted(pq.read_table(path)["success"][0].as_py() for path in kept) == [0.125, 0.25, 0.75]
