"""Rows that other code is to compute again move away whole, and their trials are pending."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sweeper.trial import fingerprint
from sweeper.trial.trial_spec import trial_id
from tests.results import PROVENANCE, result

CODE = fingerprint.captured()
MENDED = CODE.model_copy(update={"numerics": "mended"})


def computed(seed, code=CODE, **changes):
    return result({"seed": seed}, provenance=PROVENANCE.model_copy(update={"code": code}), **changes)


FIRST, *OTHERS = (trial_id(computed(seed).trial) for seed in range(3))


@pytest.fixture
def store(local):
    for seed in range(3):
        local.commit(computed(seed))
    return local


def kept(store, folder=""):
    """Successes in the files of the first trial that were set aside."""
    paths = Path(store.root, "superseded", folder).rglob(f"{FIRST}*.parquet")
    return sorted(pq.read_table(path)["success"][0].as_py() for path in paths)


def test_rows_and_seals_bear_the_fingerprint(store):
    expected = CODE.fingerprint(computed(0).trial)
    assert {seal.fingerprint for seal in store.seals().values()} == {expected}
    for row in store.trials().to_pylist():
        assert row["fingerprint"] == expected
        assert (row["task_version"], row["model_version"], row["numerics_version"]) == (1, 1, 1)


def test_superseded_trials_are_pending_and_kept_as_files(store):
    before = store.trials(OTHERS)
    store.supersede([FIRST])
    assert store.trials() == before
    assert set(store.curves()["trial_id"].to_pylist()) == set(OTHERS)
    assert kept(store, CODE.fingerprint(computed(0).trial)) == [0.75]
    again = computed(0, MENDED, metrics={"success": 0.25})
    assert store.commit(again)
    assert store.trials([FIRST])["success"].to_pylist() == [0.25]
    assert store.seals()[FIRST].fingerprint == MENDED.fingerprint(again.trial)


@pytest.mark.parametrize("code", [CODE, MENDED], ids=["same code", "other code"])
def test_what_is_superseded_twice_is_kept_twice(store, code):
    for success in (0.25, 0.125):
        store.supersede([FIRST])
        store.commit(computed(0, code, metrics={"success": success}))
    store.supersede([FIRST])
    assert kept(store) == [0.125, 0.25, 0.75]
