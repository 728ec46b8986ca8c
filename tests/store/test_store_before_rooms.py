"""A store that commit 4ce9cd4 wrote: eleven real trials of three tasks, some stopped, one failed, four compacted."""

import dataclasses
import shutil
from pathlib import Path

import pytest

import sweeper
from sweeper.analysis import sql
from sweeper.packs.packing import packs
from sweeper.packs.plan import ListedWork, done_statuses, plan
from sweeper.space import search_space
from sweeper.store import compaction, schema
from sweeper.store.compaction import compact
from sweeper.store.sealed_parquet import sealed
from sweeper.store.store import Store

WRITTEN = Path(__file__).parent / "fixtures" / "store_before_rooms"

SUCCESS = {
    "00751ad1b63c3f8493d8": ("coloring", "finished", 0.0),
    "0366994b723ca2748fb1": ("coloring", "finished", 1 / 3),
    "1c87cc891c147fd80b24": ("coloring", "stopped", 1 / 3),
    "3b9d069052b9d2299b8a": ("coloring", "finished", 1 / 3),
    "3ba7d3d60a86fd36a7b4": ("coloring", "stopped", 0.0),
    "80d7d837a0ca7147efac": ("coloring", "failed", None),
    "a0cd65e25e34b1ca0dbe": ("coloring", "finished", 10 / 36),
    "b5ad01b56a566add25ca": ("coloring", "stopped", 2 / 9),
    "bdea33d6fa1dc8951ea8": ("recall", "finished", 0.25),
    "ec8d2e550254d38de68f": ("gridworld", "finished", 0.0),
    "fe56e7106ce967abf6aa": ("coloring", "finished", 1 / 12),
}


@pytest.fixture
def store(tmp_path):
    """A copy, as reading may set files aside."""
    return Store.open(shutil.copytree(WRITTEN, tmp_path / "store"))


def contents(store):
    rows = store.trials().to_pylist()
    return {row["trial_id"]: (row["task"], row["status"], pytest.approx(row["success"])) for row in rows}


def test_rows_curves_and_outcomes_are_read_from_own_and_compacted_files(store):
    assert contents(store) == SUCCESS
    assert store.committed() == {key: row[1] for key, row in SUCCESS.items()}
    curves, outcomes = (set(table["trial_id"].to_pylist()) for table in (store.curves(), store.outcomes()))
    assert curves == set(SUCCESS)
    assert outcomes == {key for key, row in SUCCESS.items() if row[1] != "failed"}


def test_its_sweep_is_done(store, tmp_path):
    """The ids of its trials are today's ids."""
    (record,) = store.sweeps()
    (tmp_path / "second.yaml").write_text(record.text)
    trials = search_space.read(tmp_path / "second.yaml").expand().trials
    assert ListedWork(
        plan(trials, None, store.committed(), done_statuses(early_stopping=True, retry_failed=False))
    ).exhausted
    assert {key for pack in packs(trials, None) for key in pack.trial_ids} == set(SUCCESS) - {"80d7d837a0ca7147efac"}


@pytest.mark.long  # trains
def test_its_interrupted_sweep_goes_on(store, tmp_path, monkeypatch):
    """As if the driver had died before two commits. Three trials are stopped, which this space does not ask for."""
    lost = {"a0cd65e25e34b1ca0dbe", "fe56e7106ce967abf6aa"}
    for key in lost:
        for folder in ("trials", "curves", "outcomes"):
            (store_file,) = (tmp_path / "store" / folder).rglob(f"{key}.parquet")
            store_file.unlink()
    stopped = {key for key, (_, status, _) in SUCCESS.items() if status == "stopped"}
    before = {row["trial_id"]: row for row in store.trials().to_pylist()}
    (record,) = store.sweeps()
    (tmp_path / "second.yaml").write_text(record.text)

    rows = sweeper.train(tmp_path / "second.yaml", tmp_path / "store", in_process=True)

    assert set(rows["trial_id"]) == set(SUCCESS) - {"80d7d837a0ca7147efac"}
    assert set(rows["status"]) == {"finished"}
    after = {row["trial_id"]: row for row in store.trials().to_pylist()}
    assert {key for key in after if after[key] != before.get(key)} == lost | stopped
    assert {key: after[key]["success"] for key in lost} == pytest.approx({key: SUCCESS[key][2] for key in lost})
    monkeypatch.setattr(compaction, "TOGETHER", 2)
    assert compact(store).trials >= 2
    assert {row["trial_id"]: row for row in store.trials().to_pylist()} == after


def test_it_can_be_asked_in_sql(store):
    frame = sql.frame("select task, count(*) as n from trials where final_q = 4 group by all", store)
    assert frame.to_dict("list") == {"task": ["coloring"], "n": [1]}


def test_it_can_be_compacted_further(store, monkeypatch):
    monkeypatch.setattr(compaction, "TOGETHER", 2)
    assert compact(store).trials == 2
    assert contents(store) == SUCCESS


def test_its_rows_take_any_sound_curves_of_their_trial(store):
    """They name no digest. Two drivers may have finished one trial, with curves of other sizes."""
    (entry,) = store.entries(["a0cd65e25e34b1ca0dbe"])
    curves = schema.CURVES.empty_table().drop_columns(["task", "baseline"])
    file = sealed([curves], dataclasses.replace(entry.seal, kind="curves", curves=None, outcomes=None), {})
    store.write_bytes(f"curves/{entry.seal.name}", file.data)
    assert store.committed().keys() == SUCCESS.keys()
    assert store.verify("curves") == []
    assert set(store.curves()["trial_id"].to_pylist()) == set(SUCCESS) - {"a0cd65e25e34b1ca0dbe"}
