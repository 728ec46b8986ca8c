"""Compaction moves rows and loses none: under crashes, in company, and with damage afterwards."""

import itertools
import os
import signal
import threading
import time
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pytest

from sweeper.analysis import sql
from sweeper.store import committed_rows, compaction, details, local_files
from sweeper.store.compaction import Compaction, compact
from sweeper.store.local_files import LocalFiles
from sweeper.store.store import Store, StoreError
from sweeper.trial.trial_spec import trial_id
from tests.power_cuts import survived
from tests.results import failure, outcomes, result

GROUP = 3


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    monkeypatch.setattr(compaction, "TOGETHER", GROUP)


@pytest.fixture(params=["disk", pytest.param("objects", marks=pytest.mark.slow)])
def results(request, tmp_path):
    """An empty store on a disk, and one in a bucket."""
    if request.param == "disk":
        return Store.open(tmp_path / "results")
    return Store.open(request.getfixturevalue("s3").url(tmp_path.name))


def fill(results, seeds=range(7)):
    """Commits trials; their ids, sorted."""
    ids = []
    for seed in seeds:
        done = result({"seed": seed}, curves=[(1, "train_loss", float(seed))], outcomes=outcomes(4))
        results.commit(done)
        ids.append(trial_id(done.trial))
    return sorted(ids)


def facts(results):
    """Everything that a store says."""
    curves = results.curves().sort_by([("trial_id", "ascending"), ("step", "ascending")])
    per_input = results.outcomes().sort_by([("trial_id", "ascending"), ("input", "ascending")])
    return results.committed(), results.trials().to_pylist(), curves.to_pylist(), per_input.to_pylist()


def names(results, kind="trials"):
    return [name.rpartition("/")[2] for name in results.files.listing(kind)]


def compacted_file(results, kind):
    (name, *_) = [name for name in results.files.listing(kind) if "/compacted-" in name]
    return name


@pytest.mark.slow
def test_what_is_compacted_reads_as_before(results):
    ids = fill(results)
    results.commit(failure({"seed": 99}))
    results.commit(result({"seed": 50}, curves=[], outcomes=None))
    before = facts(results)
    assert compact(results) == Compaction(trials=6, files=2, leftovers=0)
    assert len(names(results)) == len(names(results, "curves")) == 2 + 3
    assert facts(results) == before
    for trial in ids:
        assert results.trials([trial]).num_rows == results.curves([trial]).num_rows == 1
        assert results.outcomes([trial]).num_rows == 4
    some = ids[:2]
    assert sorted(results.curves(some)["trial_id"].to_pylist()) == some
    scanned = results.dataset("curves").to_table(filter=pc.field("trial_id") == ids[3])
    assert scanned["trial_id"].to_pylist() == [ids[3]]
    assert compact(results) == Compaction(0, 0, 0), "less than a group is left alone"
    fill(results, range(7, 12))
    compact(results)
    assert results.trials().num_rows == 9 + 5
    frame = sql.frame("select count(*) as n from trials join curves using (trial_id)", results)
    assert frame["n"].tolist() == [14]


def test_other_tools_read_the_folder_without_doubles(tmp_path):
    results = Store.open(tmp_path)
    ids = fill(results)
    compact(results)
    for kind, count in (("trials", 7), ("curves", 7), ("outcomes", 28)):
        folder = tmp_path / kind
        counts = duckdb.sql(f"select count(*), count(distinct trial_id) from '{folder}/**/*.parquet'").fetchall()
        assert counts == [(count, 7)]
        assert len(pl.read_parquet(folder)) == len(pd.read_parquet(folder)) == count
    assert sorted(pd.read_parquet(tmp_path / "trials")["trial_id"]) == ids
    assert set(pd.read_parquet(tmp_path / "trials")["baseline"]) == {"Aq_R"}


def test_a_better_row_beside_a_compacted_one_counts(results):
    seeds = range(3)
    for seed in seeds:
        results.commit(result({"seed": seed}, status="stopped", metrics={"success": 0.1}))
    compact(results)
    late = result({"seed": 0}, metrics={"success": 0.9}, curves=[(7, "train_loss", 1.0)] * 3)
    assert results.commit(late)
    results.commit(failure({"seed": 1}))
    key = trial_id(late.trial)
    for _ in range(2):
        assert sorted(results.committed().values()) == ["finished", "stopped", "stopped"]
        assert results.trials([key])["success"].to_pylist() == [0.9]
        assert results.curves([key]).num_rows == 3
        assert results.curves().num_rows == 3 + 2 + 2
        compact(results)
    files = 1 if isinstance(results.files, LocalFiles) else 2
    assert len(names(results)) == files, (
        "the failed row beside a compacted one is gone; on a disk each trial is there once"
    )


def test_outcomes_of_a_second_finish_are_not_taken_for_those_of_a_compacted_row(results):
    ids = fill(results, range(3))
    compact(results)
    again = result({"seed": 0}, curves=[(9, "train_loss", 7.0)], outcomes=outcomes(4, success=[0.5] * 4))
    key = trial_id(again.trial)
    assert results.commit(again), "compacted rows are not read before a commit"
    for _ in range(2):
        curves = {row["trial_id"]: row["value"] for row in results.curves().to_pylist()}
        assert curves[key] == 0.0
        assert sorted(set(results.outcomes()["trial_id"].to_pylist())) == sorted(set(ids) - {key})
        assert results.verify("outcomes") == [key]
        compact(results)
    assert results.outcomes([key]).num_rows == 0
    assert len(names(results)) == 1, "the second row has given way"


def test_curves_of_another_run_are_not_compacted(tmp_path):
    results = Store.open(tmp_path)
    ids = fill(results, range(3))
    key = trial_id(result({"seed": 0}).trial)
    (row,) = Path(results.root, "trials").rglob(f"{key}.parquet")
    (curves,) = Path(results.root, "curves").rglob(f"{key}.parquet")
    first = row.read_bytes()
    row.unlink()
    results.commit(result({"seed": 0}, curves=[(1, "train_loss", 7.0)], outcomes=outcomes(4)))
    row.write_bytes(first)
    assert curves.exists()
    assert compact(results).trials == 3
    assert sorted(results.committed()) == ids
    assert sorted(results.curves()["value"].to_pylist()) == [1.0, 2.0]


# --------------------------------------------------------------------------------------------------------------------
# Crashes
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_crash_before_and_after_every_operation_loses_and_doubles_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "LEFTOVER_SECONDS", -1)
    monkeypatch.setattr(local_files.os, "fsync", lambda descriptor: None)  # the power is not really cut
    for moment in itertools.count():
        results = Store.open(tmp_path / str(moment))
        fill(results)
        before = facts(results)
        ended = survived(moment, compact, results)
        assert facts(results) == before, moment
        compact(results)
        assert facts(results) == before, moment
        assert len(names(results)) == len(names(results, "curves")) == 2 + 1, moment
        if ended:
            break
    assert moment == 2 * 2 * (2 + 2 * GROUP), "each of two groups: two writes, and two deletions a trial"


@pytest.mark.slow
def test_a_crash_before_and_after_every_operation_of_parting(tmp_path, monkeypatch):
    """A trial with damaged outcomes leaves its compacted file."""
    monkeypatch.setattr(compaction, "LEFTOVER_SECONDS", -1)
    monkeypatch.setattr(local_files.os, "fsync", lambda descriptor: None)
    for moment in itertools.count():
        results = Store.open(tmp_path / str(moment))
        ids = fill(results, range(4))
        compact(results)
        curves = {row["trial_id"]: row for row in facts(results)[2]}
        damaged = next(name for name in results.files.listing("outcomes") if name[-28:-8] in ids[:3])
        results.write_bytes(damaged, b"")
        left = [trial for trial in ids if trial != damaged[-28:-8]]
        ended = survived(moment, results.committed)
        for _ in range(2):
            assert set(left) <= results.committed().keys()
            assert [curves[trial] for trial in left] == results.curves(left).sort_by("trial_id").to_pylist()
        if ended:
            assert sorted(results.committed()) == left
            break
    assert moment > 10


# --------------------------------------------------------------------------------------------------------------------
# Company
# --------------------------------------------------------------------------------------------------------------------


def test_a_second_compactor_is_refused_and_the_lock_dies_with_its_owner(tmp_path):
    results = Store.open(tmp_path)
    fill(results)
    child = os.fork()
    if child == 0:
        with results.files.exclusively():
            (tmp_path / "held").touch()
            signal.pause()
        os._exit(0)
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    try:
        with pytest.raises(StoreError, match="another process is compacting"):
            compact(results)
        assert results.trials().num_rows == 7
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert compact(results).trials == 6


@pytest.mark.slow
def test_two_compactors_of_a_bucket_lose_nothing(s3, tmp_path, monkeypatch):
    """Nothing can keep them apart: the second has not seen the files of the first, which dies before it deletes."""
    monkeypatch.setattr(compaction, "LEFTOVER_SECONDS", -1)
    results = Store.open(s3.url(tmp_path.name))
    fill(results, range(6))
    before, seen_by_the_second = facts(results), results.entries()
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "retire", lambda *arguments: False)
        compact(results)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "entries", lambda self: seen_by_the_second[1:4])
        assert compact(results).trials == 3
    assert len([name for name in names(results) if name.startswith("compacted-")]) == 3
    assert facts(results) == before
    compact(results)
    assert facts(results) == before
    assert len(names(results)) == len(names(results, "curves")) == 3, "no trial has a file of its own any more"


@pytest.mark.slow
def test_readers_and_writers_go_on_meanwhile(tmp_path):
    """Every read during compactions shows every trial that was committed before it began, once."""
    results = Store.open(tmp_path)
    committed = set(fill(results, range(12)))
    done, wrong, turn = threading.Event(), [], threading.Semaphore(0)

    def write():
        for seed in range(100, 130):
            if seed % 3 == 0:
                turn.acquire()
            committed.update(fill(results, [seed]))

    def move():
        while not done.is_set():
            compact(results)

    workers = [threading.Thread(target=write), threading.Thread(target=move)]
    for worker in workers:
        worker.start()
    for _ in range(10):
        turn.release()
        expected = set(committed)
        for trial_ids in (
            results.committed(),
            results.trials()["trial_id"].to_pylist(),
            results.curves()["trial_id"].to_pylist(),
        ):
            if expected - set(trial_ids) or len(trial_ids) != len(set(trial_ids)):
                wrong.append((expected - set(trial_ids), len(trial_ids)))
    done.set()
    for worker in workers:
        worker.join()
    assert not wrong
    compact(results)
    assert results.trials().num_rows == results.curves().num_rows == 42


@pytest.fixture
def slow_compaction(tmp_path, monkeypatch):
    """A store of 45 trials, of which a group is compacted right after every listing."""
    results = Store.open(tmp_path)
    fill(results, range(45))
    listing, entries = LocalFiles.listing, Store.entries

    def of_one_group(self):
        single = [entry for entry in entries(self) if entry.place is None]
        return [entry for entry in entries(self) if entry not in single[GROUP:]]

    def listed_and_moved(self, folder):
        listed = listing(self, folder)
        if folder == "trials":
            with monkeypatch.context() as patch:
                patch.setattr(LocalFiles, "listing", listing)
                patch.setattr(Store, "entries", of_one_group)
                compact(results)
        return listed

    monkeypatch.setattr(LocalFiles, "listing", listed_and_moved)
    return results


@pytest.mark.slow
def test_a_reader_that_a_long_compaction_overtakes_misses_nothing(slow_compaction):
    assert len(slow_compaction.committed()) == 45


def test_a_reader_that_gives_up_says_so(slow_compaction, monkeypatch):
    monkeypatch.setattr(committed_rows, "ATTEMPTS", 4)
    with pytest.raises(StoreError, match="moved during each of 4 attempts"):
        slow_compaction.committed()


def test_curves_of_rows_that_move_at_every_look_are_given_up(tmp_path, monkeypatch):
    results = Store.open(tmp_path)
    results.commit(result())
    monkeypatch.setattr(details, "present", lambda *looked_for, **how: {})
    with pytest.raises(StoreError, match="moved during each of 100 attempts"):
        results.curves()


# --------------------------------------------------------------------------------------------------------------------
# Damage
# --------------------------------------------------------------------------------------------------------------------

DAMAGES = {
    "emptied": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "flipped": lambda data: data[:60] + bytes([data[60] ^ 4]) + data[61:],
}


@pytest.mark.parametrize("kind", ["trials", "curves"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_compacted_file_costs_its_own_trials(tmp_path, kind, damage, caplog):
    results = Store.open(tmp_path)
    ids = fill(results)
    compact(results)
    name = compacted_file(results, kind)
    results.write_bytes(name, DAMAGES[damage](results.read_bytes(name)))
    assert results.trials().num_rows >= 4
    assert results.curves().num_rows == 4
    left = results.committed()
    assert len(left) == 4
    assert "all trials in it were set aside" in caplog.text
    assert results.read_bytes(f"quarantine/{name}") is not None
    fill(results)
    assert sorted(results.committed()) == ids
    compact(results)
    assert (results.trials().num_rows, results.curves().num_rows, results.outcomes().num_rows) == (7, 7, 28)


def test_every_flipped_bit_of_a_compacted_file_is_found(tmp_path):
    results = Store.open(tmp_path)
    fill(results, range(3))
    compact(results)
    name = compacted_file(results, "trials")
    whole = results.read_bytes(name)
    for position in range(0, len(whole), 211):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        Path(results.root, name).write_bytes(damaged)
        assert results.committed() == {}, position


def test_a_damaged_leftover_does_not_cost_the_compacted_trial(tmp_path, monkeypatch):
    results = Store.open(tmp_path)
    fill(results)
    before = facts(results)
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "retire", lambda *arguments: False)
        compact(results)
    for name in results.files.listing("trials"):
        if "/compacted-" not in name and name[-28:-8] != before[1][-1]["trial_id"]:
            Path(results.root, name).write_bytes(b"")
    assert facts(results) == before


def test_curves_deleted_by_hand_stay_deleted(results):
    fill(results)
    compact(results)
    results.delete(compacted_file(results, "curves"))
    assert len(results.committed()) == 7
    assert results.curves().num_rows == 4


def test_a_newer_compacted_file_is_refused(tmp_path, monkeypatch):
    results = Store.open(tmp_path)
    fill(results)
    monkeypatch.setattr(compaction, "SCHEMA_VERSION", 2)
    compact(results)
    with pytest.raises(StoreError, match="schema version 2"):
        results.committed()
