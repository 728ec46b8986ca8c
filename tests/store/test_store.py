"""The store keeps its promises under crashes, damage, races and hostile folders, on disks and in object stores."""

import concurrent.futures
import dataclasses
import errno
import hashlib
import itertools
import json
import logging
import math
import os
import pickle
import re
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sweeper.analysis import sql
from sweeper.store import (
    committed_rows,
    decoded_size,
    details,
    files,
    local_files,
    schema,
    sealed_parquet,
    store,
    sweep_records,
    trials_table,
)
from sweeper.store.networks import stored_weights
from sweeper.store.rows import ENCODINGS, trial_table
from sweeper.store.seal import CompactedSeal, Member, Seal
from sweeper.store.sealed_network import network_digest
from sweeper.store.store import Store, StoreError, SweepRecord
from sweeper.trial import fingerprint
from sweeper.trial.trial_spec import canonical, trial_id
from tests.results import PROVENANCE, STARTED, WEIGHTS, failure, outcomes, result

FINISHED, OTHER = trial_id(result().trial), trial_id(result({"seed": 1}).trial)
PLACE = "task=coloring/baseline=Aq_R"


class PowerCut(BaseException):
    pass


@pytest.fixture
def local(tmp_path):
    return Store.open(tmp_path / "results")


@pytest.fixture(params=["disk", pytest.param("objects", marks=pytest.mark.slow)])
def results(request, tmp_path):
    """An empty store on a disk, and one in a bucket."""
    if request.param == "disk":
        return Store.open(tmp_path / "results")
    return Store.open(request.getfixturevalue("s3").url(tmp_path.name))


def file(results, kind, name=FINISHED):
    return Path(results.root, kind, PLACE, f"{name}.parquet")


def overwrite(results, kind, name, change):
    """Change a file's bytes in place, on a disk or in a bucket."""
    relative = f"{kind}/{PLACE}/{name}.parquet"
    results.write_bytes(relative, change(results.read_bytes(relative)))


# --------------------------------------------------------------------------------------------------------------------
# What is committed is read back
# --------------------------------------------------------------------------------------------------------------------


def test_an_absent_store_is_empty_and_is_not_made_by_reading(results):
    assert not results.exists()
    assert results.committed() == {}
    assert results.trials().num_rows == 0
    assert results.curves().num_rows == 0
    assert results.outcomes().num_rows == 0
    assert results.sweeps() == []
    assert not results.exists()


def test_a_row_says_what_was_trained_and_what_came_out(results):
    done = result(metrics={"success": 0.75, "loss": math.nan, "partwise_5": 0.9, "odd": math.inf})
    assert results.commit(done)
    assert results.exists()
    assert results.committed() == {FINISHED: "finished"}

    table = results.trials()
    assert table.schema == store.TRIALS
    (row,) = table.to_pylist()
    assert json.loads(row["spec"]) == canonical(done.trial)
    assert math.isnan(row.pop("loss"))
    assert row == row | {
        "trial_id": FINISHED, "status": "finished", "task": "coloring", "baseline": "Aq_R", "model": "transformer",
        "q": 3.0, "m": 2, "seed": 0, "steps": 250, "batch_size": 8, "optimizer": "adam", "learning_rate": 1e-3,
        "success": 0.75, "sampled": None, "steps_done": 250, "wall_seconds": 2.5, "compile_seconds": None,
        "peak_memory_bytes": 100_000_000, "error_kind": None, "error_step": None, "pack_id": "0123456789", "lanes": 2,
        "device": "cpu", "commit": PROVENANCE.commit, "dirty": False, "lock_hash": PROVENANCE.lock_hash,
        "command": PROVENANCE.command, "started": STARTED, "schema_version": store.SCHEMA_VERSION,
    }  # fmt: skip
    assert json.loads(row["extra_metrics"]) == {"partwise_5": 0.9, "odd": "inf"}
    assert json.loads(row["versions"]) == PROVENANCE.versions


def test_q_may_be_infinite(results):
    results.commit(result({"objective": {"q": "inf", "m": 2}}))
    assert results.trials()["q"].to_pylist() == [math.inf]


def test_a_failure_is_a_row_too(results):
    results.commit(failure(message='bad "quotes", \n lines and é'))
    (row,) = results.trials().to_pylist()
    assert (row["status"], row["error_kind"], row["error_step"]) == ("failed", "divergence", 7)
    assert row["error_message"] == 'bad "quotes", \n lines and é'
    assert row["success"] is None
    assert results.committed() == {FINISHED: "failed"}


def test_curves_and_outcomes_of_some_or_all_trials(results):
    results.commit(result())
    results.commit(result({"seed": 1}, curves=[(5, "grad_norm", math.inf)], outcomes=outcomes(3, extra=[1, 2, 3])))
    results.commit(result({"seed": 2}, curves=[], outcomes=None))

    assert results.curves().schema == store.CURVES
    assert results.curves([OTHER]).to_pylist() == [
        {"trial_id": OTHER, "task": "coloring", "baseline": "Aq_R", "step": 5, "metric": "grad_norm", "value": math.inf}
    ]
    assert results.curves([FINISHED])["value"].to_pylist() == [0.2, 0.1]
    assert results.curves().num_rows == 3
    assert results.curves([]).num_rows == results.curves(["f" * 20]).num_rows == 0

    table = results.outcomes()
    assert table.column_names == [*store.OUTCOMES.names, "success", "loss", "extra"]
    assert table.num_rows == 15
    assert table["extra"].null_count == 12
    assert results.outcomes([FINISHED])["input"].to_pylist() == list(range(12))
    assert results.outcomes([FINISHED])["success"].to_numpy() == pytest.approx(np.linspace(0, 1, 12))
    assert results.trials([OTHER])["trial_id"].to_pylist() == [OTHER]


def test_many_trials_are_found_by_id_as_few_are(local):
    ids = []
    for seed in range(committed_rows.FEW + 4):
        done = result({"seed": seed}, outcomes=None)
        local.commit(done)
        ids.append(trial_id(done.trial))
    wanted = ids[: committed_rows.FEW + 2]
    assert local.trials(wanted)["trial_id"].to_pylist() == sorted(wanted)
    assert local.curves(wanted).num_rows == 2 * len(wanted)
    assert local.trials()["trial_id"].to_pylist() == sorted(ids)


def test_rows_are_joined_group_by_group(local, monkeypatch, caplog):
    for seed in range(7):
        local.commit(result({"seed": seed}) if seed % 2 else failure({"seed": seed}))
    whole = local.trials()
    monkeypatch.setattr(trials_table, "JOINED", 2)
    assert local.trials() == whole
    damaged = local.listing("trials")[3]
    path = Path(local.root, damaged)
    seal = sealed_parquet.unsealed(path.read_bytes(), "trials")
    row = pq.ParquetFile(path).read().replace_schema_metadata(None)
    words = row.set_column(row.column_names.index("seed"), "seed", pa.array(["0"]))  # the seal does not look there
    path.write_bytes(sealed_parquet.sealed([words], seal, ENCODINGS["trials"](words)).data)
    left = local.trials()
    assert left.num_rows == 6
    assert left == whole.filter(pc.is_in(whole["trial_id"], left["trial_id"].combine_chunks()))
    assert "has columns of other types" in caplog.text


def test_other_tools_read_the_folder(local):
    local.commit(result())
    local.commit(result({"baseline": "AE_r0"}))
    trials = Path(local.root, "trials")
    from_duckdb = duckdb.sql(
        f"select task, baseline, success from '{trials}/**/*.parquet' order by baseline"
    ).fetchall()
    assert from_duckdb == [("coloring", "AE_r0", 0.75), ("coloring", "Aq_R", 0.75)]
    frame = pd.read_parquet(trials)
    assert set(frame["baseline"]) == {"AE_r0", "Aq_R"}
    assert set(frame.columns) == set(store.TRIALS.names)
    assert set(pl.read_parquet(trials)["baseline"]) == {"AE_r0", "Aq_R"}
    assert pl.scan_parquet(trials).filter(pl.col("baseline") == "Aq_R").select("q").collect().item() == 3.0
    for kind, rows in (("curves", 4), ("outcomes", 24)):
        assert len(pd.read_parquet(Path(local.root, kind))) == rows
        assert len(pl.read_parquet(Path(local.root, kind))) == rows
        assert duckdb.sql(f"select count(*) from '{local.root}/{kind}/**/*.parquet'").fetchall() == [(rows,)]


def test_a_dataset_opens_only_the_files_a_filter_needs(local):
    local.commit(result())
    local.commit(result({"seed": 1}))
    dataset = local.dataset("curves")
    file(local, "curves", OTHER).unlink()
    assert dataset.to_table(filter=pc.field("trial_id") == FINISHED).num_rows == 2


def test_outcomes_are_compact_and_precise_enough(local):
    random, inputs = np.random.default_rng(0), 181_440
    share = random.binomial(100, 0.86, inputs) / 100
    loss = np.exp(random.normal(-5, 0.5, inputs)).astype(np.float32)
    loss[:3] = [np.nan, np.inf, 0]
    columns = {"success": share, "majority_30": random.binomial(3, 0.99, inputs) / 3, "loss": loss}
    columns |= {"sampled": random.uniform(0, 1, inputs), "variance": random.gamma(3, 0.05, inputs)}
    local.commit(result(outcomes=outcomes(inputs, **columns)))
    assert file(local, "outcomes").stat().st_size < 1.3e6

    table = local.outcomes([FINISHED])
    assert table["success"].to_numpy().tolist() == share.astype(np.float32).tolist(), "shares are kept exactly"
    np.testing.assert_allclose(table["loss"].to_numpy(), loss, rtol=2**-13)


def test_results_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="naps"):
        result(timings={"naps": 1.0})
    with pytest.raises(ValueError, match="if and only if"):
        result(status="failed")
    with pytest.raises(ValueError, match="if and only if"):
        result(error={"kind": "x", "message": "y", "step": None})


def test_what_is_sent_to_a_worker_survives_the_trip(local):
    local.commit(result())
    there = pickle.loads(pickle.dumps(local))
    assert there.url == local.url == str(local.root)
    assert there.commit(pickle.loads(pickle.dumps(result({"seed": 1}))))
    assert local.committed().keys() == {FINISHED, OTHER}


def test_a_store_may_be_moved(local, tmp_path):
    local.commit(result())
    moved = Path(local.root).rename(tmp_path / "elsewhere")
    assert Store.open(moved).committed() == {FINISHED: "finished"}
    assert Store.open(moved.as_uri()).outcomes().num_rows == 12


def test_relative_addresses_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Store.open("results").url == os.path.realpath(tmp_path / "results")


# --------------------------------------------------------------------------------------------------------------------
# Which row stands
# --------------------------------------------------------------------------------------------------------------------

RANKS = {"failed": 0, "stopped": 1, "finished": 2}


def with_status(status, **changes):
    return failure(**changes) if status == "failed" else result(status=status, **changes)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(RANKS, repeat=2)))
def test_only_a_better_row_or_another_failure_replaces_one(results, first, second):
    results.commit(with_status(first))
    replaces = RANKS[second] > RANKS[first] or first == second == "failed"
    assert results.commit(with_status(second)) == replaces
    assert results.committed() == {FINISHED: second if replaces else first}
    assert results.trials().num_rows == 1


def test_a_refused_row_leaves_curves_and_outcomes_alone(results):
    results.commit(result())
    results.commit(result(curves=[(1, "train_loss", 9.0)], outcomes=outcomes(3)))
    results.commit(failure())
    assert results.curves().num_rows == 2
    assert results.outcomes().num_rows == 12


def test_a_new_failure_takes_nothing_of_the_old_attempt(local):
    local.commit(result(status="failed", error={"kind": "x", "message": "y", "step": None}))
    assert local.outcomes().num_rows == 12
    local.commit(failure())
    assert local.outcomes().num_rows == 0
    assert not file(local, "outcomes").exists()


def test_of_racing_writers_the_finished_one_wins_and_its_row_is_whole(local):
    attempts = [failure(message=str(number)) for number in range(8)] + [result()] * 2
    for _ in range(5):
        with concurrent.futures.ThreadPoolExecutor(len(attempts)) as pool:
            list(pool.map(local.commit, attempts))
        assert local.committed() == {FINISHED: "finished"}
        assert local.trials()["success"].to_pylist() == [0.75]
        file(local, "trials").unlink()


def test_the_check_and_the_replacement_of_a_row_are_one_step(local, monkeypatch):
    """A finished row that appears after a failing writer first looked must not be lost."""
    monkeypatch.setattr(local.files, "read", lambda relative: None)
    late = failure()
    local.commit(result())
    monkeypatch.undo()
    first_look, looked = local.files.read, []

    def read(relative):
        looked.append(relative)
        return None if len(looked) == 1 else first_look(relative)

    monkeypatch.setattr(local.files, "read", read)
    assert not local.commit(late)
    monkeypatch.undo()
    assert local.committed() == {FINISHED: "finished"}


# --------------------------------------------------------------------------------------------------------------------
# Two runs of one trial
# --------------------------------------------------------------------------------------------------------------------


def other_run():
    """The same trial with other numbers, in files of the same sizes."""
    return result(curves=[(100, "train_loss", 0.3), (200, "train_loss", 0.4)], outcomes=outcomes(success=[0.5] * 12))


def give_back(local, row):
    """Put a row beside the details that lie in its place, as if it were younger than they."""
    file(local, "trials").write_bytes(row)
    later = time.time_ns() + 10**9
    os.utime(file(local, "trials"), ns=(later, later))


@pytest.mark.parametrize("ids", [(), ([FINISHED],)])
def test_curves_and_outcomes_of_another_run_are_not_taken_for_its_own(local, ids):
    local.commit(result())
    row = file(local, "trials").read_bytes()
    file(local, "trials").unlink()
    local.commit(other_run())
    give_back(local, row)
    assert local.committed() == {FINISHED: "finished"}
    assert local.curves(*ids).num_rows == local.outcomes(*ids).num_rows == 0
    for kind in ("curves", "outcomes"):
        assert local.verify(kind) == [FINISHED]
    assert local.committed() == {FINISHED: "finished"}, "the row is as good as before"


@pytest.mark.parametrize("kind", ["curves", "outcomes"])
def test_old_files_of_another_run_are_set_aside_by_a_start(local, kind, caplog):
    local.commit(result())
    row = file(local, "trials").read_bytes()
    file(local, "trials").unlink()
    local.commit(result(curves=[(5, "train_loss", 0.5)], outcomes=outcomes(3)))
    file(local, "trials").write_bytes(row)
    assert local.committed() == {FINISHED: "finished"}
    assert file(local, kind).exists(), "its row may be about to come"
    past = time.time() - 2 * files.LEFTOVER_SECONDS
    os.utime(file(local, kind), (past, past))
    assert local.committed() == {FINISHED: "finished"}
    assert not file(local, kind).exists()
    assert f"{kind}/{PLACE}/{FINISHED}.parquet" in caplog.text
    assert local.read_bytes(f"quarantine/{kind}/{PLACE}/{FINISHED}.parquet") is not None


def test_whoever_publishes_the_row_has_its_own_curves_and_outcomes(results, monkeypatch):
    """Another run writes over them in the last moment, and dies before its row."""
    write = results.files.write

    def interrupted(relative, data, keep=None):
        if relative.startswith("trials/"):
            monkeypatch.setattr(results.files, "write", dying)
            with pytest.raises(PowerCut):
                results.commit(other_run())
            monkeypatch.setattr(results.files, "write", write)
        return write(relative, data, keep)

    def dying(relative, data, keep=None):
        if relative.startswith("trials/"):
            raise PowerCut
        return write(relative, data, keep)

    monkeypatch.setattr(results.files, "write", interrupted)
    assert results.commit(result())
    assert results.curves()["value"].to_pylist() == [0.2, 0.1]
    assert results.outcomes()["loss"].to_numpy() == pytest.approx(outcomes()["loss"].to_numpy())
    assert results.verify("curves") == results.verify("outcomes") == []


@pytest.mark.parametrize("late", [result(), other_run()], ids=["of the same bits", "of other bits"])
def test_whoever_is_refused_takes_back_what_is_not_the_rows(local, monkeypatch, late):
    """A run that looked before the first row was there writes over the first one's files, and is then refused."""
    local.commit(result())
    read, looked = local.files.read, []

    def looking_too_early(relative):
        looked.append(relative)
        return None if len(looked) == 1 else read(relative)

    monkeypatch.setattr(local.files, "read", looking_too_early)
    assert not local.commit(late)
    monkeypatch.undo()
    same = late == result()
    assert file(local, "curves").exists() == file(local, "outcomes").exists() == same
    assert local.verify("curves") == local.verify("outcomes") == []
    assert (local.curves().num_rows, local.outcomes().num_rows) == ((2, 12) if same else (0, 0))


def test_a_row_that_keeps_no_outcomes_takes_none(local):
    local.commit(result(outcomes=None))
    row = file(local, "trials").read_bytes()
    file(local, "trials").unlink()
    local.commit(other_run())
    give_back(local, row)
    assert local.outcomes().num_rows == local.outcomes([FINISHED]).num_rows == 0


# --------------------------------------------------------------------------------------------------------------------
# Crashes and refusals
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("earlier", [None, "failed"])
def test_a_crash_at_any_moment_of_a_commit_loses_only_that_commit(tmp_path, monkeypatch, earlier):
    """Cut before and after every operation on the disk; nothing cleans up after a power cut."""
    operations = ["open", "fsync", "replace", "mkdir"]
    for moment in itertools.count():
        results = Store.open(tmp_path / str(moment))
        results.commit(result({"seed": 1}))
        if earlier:
            results.commit(failure())
        before = results.committed()
        countdown = itertools.count(moment, -1)

        def cut(countdown=countdown):
            if next(countdown) <= 0:
                raise PowerCut

        def guarded(operation, cut=cut):
            def run(*arguments, **options):
                cut()
                value = operation(*arguments, **options)
                cut()
                return value

            return run

        def unlink(path, cut=cut, operation=os.unlink):
            cut()
            operation(path)

        with monkeypatch.context() as patch:
            for name in operations:
                patch.setattr(local_files.os, name, guarded(getattr(os, name)))
            patch.setattr(local_files.os, "unlink", unlink)
            try:
                results.commit(result())
                survived = True
            except PowerCut:
                survived = False
        now = results.committed()
        assert now in (before, before | {FINISHED: "finished"})
        assert results.trials().num_rows == len(now)
        assert results.curves([OTHER]).num_rows == 2
        if now.get(FINISHED) == "finished":
            assert results.outcomes([FINISHED]).num_rows == 12
            (entry,) = results.entries([FINISHED])
            assert stored_weights(results, entry).keys() == WEIGHTS.keys()
        results.commit(result())
        assert results.committed() == {OTHER: "finished", FINISHED: "finished"}
        assert results.outcomes().num_rows == 24
        if survived:
            break
    assert moment > 20


def test_leftovers_of_crashes_are_swept_once_nobody_can_own_them(local):
    local.commit(result())
    old, young, foreign = (file(local, "trials").with_name(name) for name in
                           (f".x.{'0' * 16}.tmp", f".x.{'1' * 16}.tmp", ".keep"))  # fmt: skip
    for path in (old, young, foreign):
        path.write_bytes(b"half")
        past = time.time() - (0 if path == young else 2 * files.LEFTOVER_SECONDS)
        os.utime(path, (past, past))
    assert local.committed() == {FINISHED: "finished"}
    assert [path.exists() for path in (old, young, foreign)] == [False, True, True]


def test_a_full_disk_is_one_clear_message_and_no_damage(local, monkeypatch):
    local.commit(result())

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(local_files.os, "fsync", full)
        with pytest.raises(StoreError, match=r"cannot write .*No space left on device"):
            local.commit(result({"seed": 1}))
    assert local.committed() == {FINISHED: "finished"}
    assert not [name for _, _, names in os.walk(local.root) for name in names if name.endswith(".tmp")]
    assert local.commit(result({"seed": 1}))


def test_a_store_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "results").write_text("I am no folder")
    with pytest.raises(StoreError, match=r"cannot write .*results"):
        Store.open(tmp_path / "results").commit(result())


@pytest.mark.parametrize("url", ["foo://bar/baz", "s3://", "s3://?region=x"])
def test_addresses_that_make_no_sense_are_refused(url):
    with pytest.raises(StoreError):
        Store.open(url)


@pytest.mark.parametrize("url", ["s3://", "s3:///results", "s3://?region=x", "s3://bucket/x?region=a&nonsense=1"])
def test_a_refused_address_is_shown_as_it_was_given(url):
    with pytest.raises(StoreError, match=re.escape(url) + "[ :]") as caught:
        Store.open(url)
    assert "allow_delayed_open" not in str(caught.value)
    assert ("write s3://bucket/folder" in str(caught.value)) == ("bucket/x" not in url)


# --------------------------------------------------------------------------------------------------------------------
# Damage
# --------------------------------------------------------------------------------------------------------------------

DAMAGES = {
    "emptied": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "cut by a byte": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "flipped": lambda data: data[:40] + bytes([data[40] ^ 4]) + data[41:],
    "flipped in the footer": lambda data: data[:-200] + bytes([data[-200] ^ 1]) + data[-199:],
    "foreign": lambda data: b"PAR1" + b"x" * 100 + b"PAR1",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_row_is_set_aside_and_its_trial_is_pending(results, damage, caplog):
    results.commit(result())
    results.commit(result({"seed": 1}))
    overwrite(results, "trials", FINISHED, DAMAGES[damage])
    assert results.trials()["trial_id"].to_pylist() == [OTHER], "the other rows stay readable"
    assert FINISHED in caplog.text
    assert "quarantine" in caplog.text
    assert results.committed() == {OTHER: "finished"}
    assert results.read_bytes(f"quarantine/trials/{PLACE}/{FINISHED}.parquet") is not None
    caplog.clear()
    assert results.commit(result())
    assert results.committed() == {FINISHED: "finished", OTHER: "finished"}
    assert not caplog.records


def test_every_flipped_bit_of_a_row_is_found(local):
    local.commit(result())
    whole = file(local, "trials").read_bytes()
    for position in range(0, len(whole), 37):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        file(local, "trials").write_bytes(damaged)
        assert local.committed() == {}, position
    file(local, "trials").write_bytes(whole)
    assert local.committed() == {FINISHED: "finished"}


@pytest.mark.parametrize("kind", ["curves", "outcomes"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_curves_and_outcomes_are_found_when_read(results, kind, damage, caplog):
    results.commit(result())
    results.commit(result({"seed": 1}))
    overwrite(results, kind, FINISHED, DAMAGES[damage])
    assert results.verify(kind) == [FINISHED]
    assert f"{kind}/{PLACE}/{FINISHED}" in caplog.text
    assert getattr(results, kind)().num_rows == (2 if kind == "curves" else 12)
    assert results.committed() == {OTHER: "finished"}
    assert results.commit(result())
    assert results.committed() == {FINISHED: "finished", OTHER: "finished"}


@pytest.mark.parametrize("kind", ["curves", "outcomes"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_start_finds_damage_done_since_the_commit(local, kind, damage):
    local.commit(result())
    later = file(local, "trials").stat().st_mtime_ns + 1_000_000
    overwrite(local, kind, FINISHED, DAMAGES[damage])
    os.utime(file(local, kind), ns=(later, later))
    assert local.committed() == {}


@pytest.mark.parametrize("kind", ["curves", "outcomes"])
def test_a_start_finds_lost_bytes_whatever_the_clock_says(results, kind):
    results.commit(result())
    overwrite(results, kind, FINISHED, DAMAGES["truncated"])
    assert results.committed() == {}


def test_a_start_reads_only_rows(local, monkeypatch):
    for seed in range(3):
        local.commit(result({"seed": seed}))
    read = []
    original = local.files.read
    monkeypatch.setattr(local.files, "read", lambda name: read.append(name) or original(name))
    assert len(local.committed()) == 3
    assert [name for name in read if not name.startswith("trials/")] == []


@pytest.mark.parametrize("damage", ["emptied", "truncated", "flipped"])
def test_reading_goes_on_past_a_damaged_file(results, damage):
    results.commit(result(outcomes=outcomes(5000)))
    results.commit(result({"seed": 1}))
    overwrite(results, "outcomes", FINISHED, DAMAGES[damage])
    assert set(results.outcomes()["trial_id"].to_pylist()) == {OTHER}


@pytest.mark.parametrize("kind", ["curves", "outcomes"])
def test_details_deleted_by_hand_cost_nothing_but_themselves(results, kind):
    results.commit(result())
    results.delete(f"{kind}/{PLACE}/{FINISHED}.parquet")
    assert results.committed() == {FINISHED: "finished"}
    assert getattr(results, kind)().num_rows == getattr(results, kind)([FINISHED]).num_rows == 0


def test_details_without_a_row_are_invisible(results):
    results.commit(result())
    results.delete(f"trials/{PLACE}/{FINISHED}.parquet")
    assert results.committed() == {}
    assert results.curves().num_rows == results.outcomes([FINISHED]).num_rows == 0


def test_a_whole_file_in_the_wrong_place_is_damage(local):
    local.commit(result())
    other = file(local, "trials", OTHER)
    other.write_bytes(file(local, "trials").read_bytes())
    assert local.committed() == {FINISHED: "finished"}
    assert not other.exists()


def resealed(table, change):
    """A row with another seal, and the digest that belongs to it."""
    seal = Seal("trials", 1, FINISHED, "coloring", "Aq_R", "finished")
    return sealed_parquet.sealed([table], change(seal), ENCODINGS["trials"](table)).data


def test_a_newer_store_is_refused_and_not_touched(local):
    local.commit(result())
    newer = resealed(pa.table({"trial_id": [FINISHED]}), lambda seal: dataclasses.replace(seal, schema_version=2))
    file(local, "trials").write_bytes(newer)
    for ask in (local.committed, local.trials, lambda: local.curves([FINISHED]), lambda: local.commit(result())):
        with pytest.raises(StoreError, match="schema version 2"):
            ask()
    assert file(local, "trials").read_bytes() == newer


def test_a_seal_is_canonical_json_with_a_version(local):
    local.commit(result())
    (value,) = [
        json.loads(value)
        for key, value in pq.read_metadata(file(local, "trials")).metadata.items()
        if key == b"sweeper"
    ]
    (entry,) = local.entries()
    curves, kept = (sealed_parquet.digest_of(file(local, kind).read_bytes()) for kind in ("curves", "outcomes"))
    network = file(local, "networks").with_suffix(".safetensors").read_bytes()
    assert value == {
        "version": 3, "kind": "trials", "schema_version": 1, "trial_id": FINISHED, "task": "coloring",
        "baseline": "Aq_R", "status": "finished", "outcome_columns": ["success", "loss"],
            "fingerprint": None,
        "curves": {"bytes": file(local, "curves").stat().st_size, "digest": curves},
        "outcomes": {"bytes": file(local, "outcomes").stat().st_size, "digest": kept},
        "networks": {"bytes": len(network), "digest": network_digest(network)},
    }  # fmt: skip
    text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    assert text in entry.data, "one spelling: sorted keys, no spaces"


def test_programs_from_before_keyed_seals_refuse_the_store(local):
    """They read a list whose second entry is the schema version, and know versions up to 1."""
    local.commit(result())
    metadata = pq.read_metadata(file(local, "trials")).metadata
    older = re.fullmatch(rb'\{"digest":"[0-9a-f]{32}","seal":(\[[^{}]*\])\}', metadata[b"digest"])
    assert older is not None
    assert json.loads(older[1])[1] > 1


def test_a_newer_form_of_seal_is_refused_and_not_touched(local, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sealed_parquet, "SEAL_VERSION", 4)
        patch.setattr("sweeper.store.seal.SEAL_VERSION", 4)
        local.commit(result())
    with pytest.raises(StoreError, match="seal version 4"):
        local.committed()
    assert file(local, "trials").exists()


def test_a_row_without_the_newest_columns_is_read_with_nulls(local, monkeypatch):
    local.commit(result())
    newer = pa.schema([*store.TRIALS, ("mood", pa.string())])
    monkeypatch.setattr(trials_table, "TRIALS", newer)
    monkeypatch.setitem(schema.IN_FILE, "trials", pa.schema([*schema.IN_FILE["trials"], ("mood", pa.string())]))
    assert local.trials()["mood"].to_pylist() == [None]
    assert local.trials()["q"].to_pylist() == [3.0]


@pytest.mark.parametrize(
    "table", [pa.table({"trial_id": [FINISHED] * 2}), pa.table({"trial_id": [1]}), pa.table({"evil": [FINISHED]})]
)
def test_a_well_sealed_row_of_another_form_is_set_aside(local, table):
    local.commit(result({"seed": 1}))
    file(local, "trials").write_bytes(resealed(table, lambda seal: seal))
    assert local.trials()["trial_id"].to_pylist() == [OTHER]
    assert local.committed() == {OTHER: "finished"}


def row_table(**changes):
    """The row of the finished trial with other values."""
    table = trial_table(FINISHED, result())
    for name, value in changes.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), pa.array([value], table.schema.field(place).type))
    return table


SPEC = canonical(result().trial)

CONTRADICTIONS = {
    "another trial": {"trial_id": OTHER},
    "another status": {"status": "stopped"},
    "no status": {"status": None},
    "another task": {"spec": json.dumps(SPEC | {"task": {"name": "recall"}})},
    "another baseline": {"spec": json.dumps(SPEC | {"baseline": "AE_r0"})},
    "no specification": {"spec": None},
    "no JSON": {"spec": "{"},
    "a list": {"spec": "[]"},
    "nested": {"spec": "[" * 200_000},
    "metrics that are no JSON": {"extra_metrics": "]"},
    "metrics that are a number": {"extra_metrics": "3"},
    "metrics that are nested": {"extra_metrics": '{"a":' * 200_000},
}


@pytest.mark.parametrize("change", CONTRADICTIONS)
def test_a_row_that_contradicts_its_seal_or_itself_is_damaged(local, change, caplog):
    local.commit(result({"seed": 1}))
    file(local, "trials").write_bytes(resealed(row_table(**CONTRADICTIONS[change]), lambda seal: seal))
    assert local.trials()["trial_id"].to_pylist() == [OTHER]
    assert local.committed() == {OTHER: "finished"}
    assert sum(FINISHED in record.getMessage() for record in caplog.records) == 1, "one line a file"
    assert all("\n" not in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("change", ["another trial", "another status", "another task", "another baseline"])
def test_a_start_finds_rows_that_contradict_their_seal(local, change):
    file(local, "trials").parent.mkdir(parents=True)
    file(local, "trials").write_bytes(resealed(row_table(**CONTRADICTIONS[change]), lambda seal: seal))
    assert local.committed() == {}


def test_a_row_may_have_no_further_metrics(local):
    file(local, "trials").parent.mkdir(parents=True)
    file(local, "trials").write_bytes(resealed(row_table(extra_metrics=None), lambda seal: seal))
    assert local.committed() == {FINISHED: "finished"}
    assert sql.table("select success from trials", local).to_pylist() == [{"success": 0.75}]


def test_columns_of_a_newer_program_are_left_out(local):
    file(local, "trials").parent.mkdir(parents=True)
    newer = row_table().append_column("mood", pa.array(["good"]))
    file(local, "trials").write_bytes(resealed(newer, lambda seal: seal))
    assert local.trials().schema == store.TRIALS
    assert local.trials()["q"].to_pylist() == [3.0]


def sealed_by_hand(data, text, word=b"seal"):
    """A file with another text in the place of the seal's list, and the digest that belongs to it."""
    seal = re.compile(rb'\{"digest":"([0-9a-f]{32})","' + word + rb'":(\["keyed",3\])\}')
    place = seal.search(data)
    assert place is not None
    changed = data[: place.start(2)] + text + data[place.end(2) :]
    footer = int.from_bytes(data[-8:-4], "little") + len(text) - (place.end(2) - place.start(2))
    changed = changed[:-8] + footer.to_bytes(4, "little") + b"PAR1"
    start = place.start(1)
    zeroed = changed[:start] + b"0" * 32 + changed[start + 32 :]
    digest = hashlib.blake2b(zeroed, digest_size=16).hexdigest().encode()
    return changed[:start] + digest + changed[start + 32 :]


@pytest.mark.parametrize(
    "text",
    [b"[" * 200_000 + b"]", b"[]", b'["keyed"]', b'["keyed","2"]', b'["keyed",true]', b'["trials",1,2]', b"[[],1]"],
    ids=["nested", "empty", "no version", "text as version", "truth as version", "too short", "no text"],
)
def test_a_seal_that_makes_no_sense_costs_its_own_file(local, text, caplog):
    local.commit(result())
    local.commit(result({"seed": 1}))
    file(local, "trials").write_bytes(sealed_by_hand(file(local, "trials").read_bytes(), text))
    assert local.committed() == {OTHER: "finished"}
    assert len([record for record in caplog.records if FINISHED in record.getMessage()]) == 1


def test_a_seal_of_a_member_cannot_name_a_file_elsewhere(local):
    seal = CompactedSeal(
        "trials", 1, f"compacted-{'0' * 20}", "coloring", "Aq_R", None,
        (Member("../../../../x", "finished", None, None, ()),),
    )  # fmt: skip
    data = sealed_parquet.sealed([row_table()], seal, {}).data
    local.write_bytes(f"trials/{seal.name}", data)
    assert local.committed() == {}


def bomb(table, column, size):
    """The table with a text of so many bytes, which compresses to next to nothing."""
    place = table.schema.get_field_index(column)
    return table.set_column(place, table.schema.field(place), pa.array(["x" * size]))


def test_a_small_row_that_expands_to_gigabytes_is_not_decoded(local, caplog):
    local.commit(result({"seed": 1}))
    seal = Seal("trials", 1, FINISHED, "coloring", "Aq_R", "finished")
    table = bomb(row_table(), "command", decoded_size.ROWS_LIMIT + 1)
    data = sealed_parquet.sealed([table], seal, {"compression": "zstd", "use_dictionary": False}).data
    assert len(data) < 100_000
    file(local, "trials").write_bytes(data)
    assert local.trials()["trial_id"].to_pylist() == [OTHER]
    assert local.committed() == {OTHER: "finished"}
    assert "too many for rows" in caplog.text


@pytest.mark.parametrize("kind", ["curves", "outcomes"])
def test_small_curves_and_outcomes_that_expand_to_gigabytes_are_left_out(local, kind, monkeypatch, caplog):
    local.commit(result())
    local.commit(result({"seed": 1}, curves=[], outcomes=outcomes(3)))
    size = decoded_size.decoded_bytes(pq.read_metadata(file(local, kind)))
    assert size > 12 * 4 * decoded_size._VALUE if kind == "outcomes" else 2 * 4 * decoded_size._VALUE
    monkeypatch.setattr(details, "DETAIL_LIMIT", size - 1)
    assert set(getattr(local, kind)()["trial_id"].to_pylist()) <= {OTHER}
    assert f"{FINISHED}.parquet' would take {size:,} bytes: left out" in caplog.text
    assert len(local.committed()) == 2


# --------------------------------------------------------------------------------------------------------------------
# A folder from a stranger
# --------------------------------------------------------------------------------------------------------------------


def test_links_below_the_root_are_neither_read_nor_written_through(local, tmp_path, caplog):
    local.commit(result())
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "secret.parquet"
    secret.write_bytes(file(local, "trials").read_bytes())

    file(local, "trials", OTHER).symlink_to(secret)
    Path(local.root, "trials", "task=linked").symlink_to(outside)
    Path(local.root, "checkpoints").symlink_to(outside)
    assert local.committed() == {FINISHED: "finished"}
    assert local.trials([OTHER]).num_rows == 0
    assert "symbolic link" in caplog.text
    assert local.read_bytes("checkpoints/secret.parquet") is None
    with pytest.raises(StoreError, match="symbolic link"):
        local.write_bytes("checkpoints/new", b"x")
    with pytest.raises(StoreError, match="symbolic link"):
        local.write_bytes("checkpoints/deeper/new", b"x")
    local.delete("checkpoints/secret.parquet")
    assert os.listdir(outside) == ["secret.parquet"]

    Path(local.root, "outcomes").rename(outside / "outcomes")
    Path(local.root, "outcomes").symlink_to(outside / "outcomes")
    with pytest.raises(StoreError, match="symbolic link"):
        local.commit(result({"seed": 2}))


def test_the_root_itself_may_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "disk")
    linked = Store.open(tmp_path / "results")
    linked.commit(result())
    assert linked.committed() == {FINISHED: "finished"}


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", "a\0b"])
def test_names_that_climb_out_are_refused(results, name):
    for use in (results.read_bytes, results.delete, lambda name: results.write_bytes(name, b"")):
        with pytest.raises(StoreError, match="not the name of a file"):
            use(name)


def test_strange_files_are_ignored_loudly(local, caplog):
    local.commit(result())
    folder = file(local, "trials").parent
    names = [
        "'; drop table trials; --.parquet",
        'q"uote.parquet',
        "[bold]x.parquet",
        "notes.txt",
        "_SUCCESS",
        "two\nlines.parquet",
    ]
    for name in names:
        (folder / name).write_bytes(b"x")
    os.mkfifo(folder / f"{OTHER}.parquet")
    (folder / f"{'a' * 20}.parquet").mkdir()
    assert local.committed() == {FINISHED: "finished"}
    assert local.trials([OTHER]).num_rows == 0
    assert len({text for record in caplog.records if "ignored" in (text := record.getMessage())}) == len(names)
    assert local.curves().num_rows == 2


def test_a_huge_row_is_not_even_read(local, monkeypatch):
    local.commit(result())
    with file(local, "trials", OTHER).open("wb") as huge:
        huge.truncate(committed_rows.LARGEST_ROW + 1)
    read = []
    original = local.files.read
    monkeypatch.setattr(local.files, "read", lambda name: read.append(name) or original(name))
    assert local.committed() == {FINISHED: "finished"}
    assert not any(OTHER in name for name in read)


def test_a_store_that_cannot_be_tidied_is_still_read(local, monkeypatch, caplog):
    local.commit(result())
    overwrite(local, "trials", FINISHED, DAMAGES["flipped"])
    local.commit(result({"seed": 1}))

    def refuse(relative, target):
        raise StoreError("cannot move it: Read-only file system")

    monkeypatch.setattr(local.files, "move", refuse)
    assert local.committed() == {OTHER: "finished"}
    assert "Read-only" in caplog.text


# --------------------------------------------------------------------------------------------------------------------
# Sweeps and other files
# --------------------------------------------------------------------------------------------------------------------


def record(name="quick", ids=("a" * 20, "b" * 20), captured=PROVENANCE.captured):
    origin = PROVENANCE.model_copy(update={"captured": captured})
    return SweepRecord(name=name, text="trial: {}\n", overrides=("trial.steps=3",), trial_ids=ids, provenance=origin)


def test_the_history_of_a_sweep_is_kept_in_order_whatever_the_clock_says(results):
    starts = [record(captured=time) for time in ("2030", "1970", "2001")] + [record(ids=())]
    for start in starts:
        results.record_sweep(start)
    results.record_sweep(record("other"))
    assert results.sweeps() == [record("other"), *starts]
    plans = [name for name in results.files.listing("sweeps/quick") if "/plans/" in name]
    assert len(plans) == 2, "equal plans are stored once"


def test_a_record_from_before_objectives_were_plug_ins_is_read(local):
    written = record().model_copy(update={"provenance": PROVENANCE.model_copy(update={"code": fingerprint.captured()})})
    local.record_sweep(written)
    (name,) = [name for name in local.listing("sweeps") if name.endswith(".json")]
    entry = json.loads(local.read_bytes(name))
    del entry["provenance"]["code"]["objectives"]
    local.write_bytes(name, json.dumps(entry).encode())
    assert [each.trial_ids for each in local.sweeps()] == [written.trial_ids]


def test_a_damaged_record_is_left_out_loudly(local, caplog):
    local.record_sweep(record())
    local.record_sweep(record("other"))
    local.record_sweep(record("third"))
    (start,) = Path(local.root, "sweeps", "quick").glob("*.json")
    start.write_text("{")
    (plan,) = Path(local.root, "sweeps", "third", "plans").iterdir()
    plan.write_text("changed")
    with caplog.at_level(logging.WARNING):
        assert local.sweeps() == [record("other")]
    assert "quick" in caplog.text
    assert "missing or damaged" in caplog.text


BROKEN = {
    "nested": lambda entry: b"[" * 200_000,
    "a list": lambda entry: b"[]",
    "a text": lambda entry: b'"x"',
    "not UTF-8": lambda entry: b'{"name":"\xff"}',
    "a plan elsewhere": lambda entry: json.dumps(entry | {"plan": "../../../../etc/passwd"}).encode(),
    "a plan with a zero": lambda entry: json.dumps(entry | {"plan": "a\0b"}).encode(),
    "no plan": lambda entry: json.dumps(entry | {"plan": None}).encode(),
    "no version": lambda entry: json.dumps({key: entry[key] for key in entry if key != "schema_version"}).encode(),
    "another name": lambda entry: json.dumps(entry | {"name": "other"}).encode(),
    "unknown keys": lambda entry: json.dumps(entry | {"x\n\x1b[2J": 1}).encode(),
    "text of another type": lambda entry: json.dumps(entry | {"text": 3}).encode(),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_broken_record_costs_itself_and_one_line(local, change, caplog):
    local.record_sweep(record())
    local.record_sweep(record("other"))
    (start,) = Path(local.root, "sweeps", "quick").glob("*.json")
    start.write_bytes(BROKEN[change](json.loads(start.read_text())))
    assert local.sweeps() == [record("other")]
    (line,) = [text for each in caplog.records if "quick" in (text := each.getMessage())]
    assert line.isprintable()


def test_a_huge_record_is_not_read(local, monkeypatch, caplog):
    local.record_sweep(record())
    local.record_sweep(record("other", ids=()))
    monkeypatch.setattr(sweep_records, "LARGEST_RECORD", 50)
    assert local.sweeps() == []
    assert "too many for a record" in caplog.text


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b"])
def test_a_sweep_needs_a_name_that_can_be_a_folder(local, name):
    with pytest.raises(StoreError, match="cannot name a sweep"):
        local.record_sweep(record(name))


def test_other_files_are_written_read_and_deleted(results):
    assert results.read_bytes("checkpoints/x") is None
    results.write_bytes("checkpoints/x", b"one")
    results.write_bytes("checkpoints/x", b"two")
    assert results.read_bytes("checkpoints/x") == b"two"
    results.delete("checkpoints/x")
    results.delete("checkpoints/x")
    assert results.read_bytes("checkpoints/x") is None


def test_files_are_plain_parquet_with_page_checksums(local):
    local.commit(result())
    for kind in ("trials", "curves", "outcomes"):
        data = bytearray(file(local, kind).read_bytes())
        whole = pq.ParquetFile(pa.BufferReader(bytes(data)), page_checksum_verification=True).read()
        assert "task" not in whole.column_names, "hive partitions must not be repeated inside"
        data[60] ^= 1
        with pytest.raises((OSError, pa.ArrowInvalid)):
            pq.ParquetFile(pa.BufferReader(bytes(data)), page_checksum_verification=True).read()
