"""The store keeps its promises under crashes, damage, races and hostile folders, on disks and in object stores."""

import concurrent.futures
import dataclasses
import errno
import itertools
import json
import math
import os
import pickle
import re
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeper.analysis import sql
from sweeper.store import committed_trials, files, local_files, schema, seal, sweep_records, trial_file
from sweeper.store.files import Retries
from sweeper.store.seal import TrialSeal
from sweeper.store.store import NoNetworkError, Store, StoreError
from sweeper.trial import fingerprint
from sweeper.trial.trial_spec import canonical, trial_id
from tests import results
from tests.damage import DAMAGES, flipped
from tests.results import PROVENANCE, STARTED, WEIGHTS, failure, outcomes, result

FINISHED, OTHER = trial_id(result().trial), trial_id(result({"seed": 1}).trial)
PLACE = "task=coloring/baseline=Aq_R"


def relative(name=FINISHED):
    return f"trials/{PLACE}/{name}.parquet"


def file(results, name=FINISHED):
    return Path(results.root, relative(name))


def overwrite(results, name, change):
    """Change a file's bytes in place, on a disk or in a bucket."""
    results.write_bytes(relative(name), change(results.read_bytes(relative(name))))


def network(results, name=FINISHED):
    return results.weights(results.seals([name])[name])


def same(weights, expected=WEIGHTS):
    return weights.keys() == expected.keys() and all(np.array_equal(weights[name], expected[name]) for name in weights)


# What is committed is read back


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
    assert table.schema == schema.TRIALS
    (row,) = table.to_pylist()
    assert json.loads(row["spec"]) == canonical(done.trial)
    assert math.isnan(row.pop("loss"))
    assert row == row | {
        "trial_id": FINISHED, "status": "finished", "task": "coloring", "baseline": "Aq_R", "model": "transformer",
        "q": 3.0, "m": 2, "seed": 0, "steps": 250, "batch_size": 8, "optimizer": "adam", "learning_rate": 1e-3,
        "success": 0.75, "sampled": None, "steps_done": 250, "wall_seconds": 2.5, "compile_seconds": None,
        "peak_memory_bytes": 100_000_000, "error_kind": None, "error_step": None, "pack_id": "0123456789", "lanes": 2,
        "device": "cpu", "commit": PROVENANCE.commit, "dirty": False, "lock_hash": PROVENANCE.lock_hash,
        "command": PROVENANCE.command, "started": STARTED, "schema_version": schema.SCHEMA_VERSION,
    }  # fmt: skip
    assert json.loads(row["extra_metrics"]) == {"partwise_5": 0.9, "odd": "inf"}
    assert json.loads(row["versions"]) == PROVENANCE.versions


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

    assert results.curves().schema == schema.CURVES
    assert results.curves([OTHER]).to_pylist() == [
        {"trial_id": OTHER, "task": "coloring", "baseline": "Aq_R", "step": 5, "metric": "grad_norm", "value": math.inf}
    ]
    assert results.curves([FINISHED])["value"].to_pylist() == [0.2, 0.1]
    assert results.curves().num_rows == 3
    assert results.curves([]).num_rows == results.curves(["f" * 20]).num_rows == 0

    table = results.outcomes()
    assert table.column_names == [*schema.OUTCOMES.names, "success", "loss", "extra"]
    assert table.num_rows == 15
    assert table["extra"].null_count == 12
    assert results.outcomes([FINISHED])["input"].to_pylist() == list(range(12))
    assert results.outcomes([FINISHED])["success"].to_numpy() == pytest.approx(np.linspace(0, 1, 12))
    assert results.trials([OTHER])["trial_id"].to_pylist() == [OTHER]


@pytest.mark.parametrize(("few", "some"), [(16, 300), (0, 300), (0, 0)])
def test_trials_are_found_by_id_however_many_and_joined_group_by_group(local, monkeypatch, few, some):
    for seed in range(7):
        local.commit(result({"seed": seed}) if seed % 2 else failure({"seed": seed}))
    whole = local.trials()
    for name, value in {"FEW": few, "SOME": some, "JOINED": 2}.items():
        monkeypatch.setattr(committed_trials, name, value)
    ids = whole["trial_id"].to_pylist()
    assert local.trials() == local.trials(ids) == whole
    assert local.trials(ids[1:6]) == whole.slice(1, 5)
    assert set(local.curves(ids[1:6])["trial_id"].to_pylist()) == set(ids[1:6])


def test_a_network_is_read_back(results):
    results.commit(result())
    assert same(network(results))
    (whole,) = results.seals().values()
    assert trial_file.network_digest(results.network(whole)) == whole.network
    results.commit(result({"seed": 1}, network=dict(reversed(WEIGHTS.items()))))
    assert {each.network for each in results.seals().values()} == {whole.network}, "equal networks have equal bytes"


def test_who_has_no_network_is_told_why(results):
    results.commit(result(network=None))
    with pytest.raises(NoNetworkError, match=r"resources\.networks: false"):
        network(results)
    results.commit(failure({"seed": 1}))
    with pytest.raises(NoNetworkError, match="failed"):
        network(results, OTHER)
    results.commit(result({"seed": 2}))
    third = trial_id(result({"seed": 2}).trial)
    before = results.seals()[third]
    results.delete(relative(third))
    with pytest.raises(NoNetworkError, match="damaged, or was replaced"):
        results.weights(before)


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ({f"weight {number}": np.zeros(2**10, np.float32) for number in range(20)}, r"20 tensors .* too large"),
        ({"w": np.zeros(3, ml_dtypes.bfloat16)}, "cannot be kept"),
    ],
    ids=["large", "bfloat16"],
)
def test_a_network_that_could_not_be_read_back_is_refused(local, weights, reason, monkeypatch):
    monkeypatch.setattr(trial_file, "LARGEST_NETWORK", 2**14)
    with pytest.raises(ValueError, match=reason):
        local.commit(result(network=weights))
    assert not local.exists()


def test_outcomes_of_different_lengths_are_refused(local):
    with pytest.raises(ValueError, match="different numbers of inputs"):
        local.commit(result(outcomes=outcomes(12, extra=range(3))))


def test_outcomes_are_compact_and_precise_enough(local):
    random, inputs = np.random.default_rng(0), 181_440
    share = random.binomial(100, 0.86, inputs) / 100
    loss = np.exp(random.normal(-5, 0.5, inputs)).astype(np.float32)
    loss[:3] = [np.nan, np.inf, 0]
    columns = {"success": share, "majority_30": random.binomial(3, 0.99, inputs) / 3, "loss": loss}
    columns |= {"sampled": random.uniform(0, 1, inputs), "variance": random.gamma(3, 0.05, inputs)}
    local.commit(result(outcomes=outcomes(inputs, **columns)))
    assert file(local).stat().st_size < 1.4e6

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


def test_a_store_may_be_moved_linked_and_named_from_where_one_is(local, tmp_path, monkeypatch):
    local.commit(result())
    moved = Path(local.root).rename(tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(moved)
    monkeypatch.chdir(tmp_path)
    for address in (moved, moved.as_uri(), "link", "elsewhere"):
        assert Store.open(address).committed() == {FINISHED: "finished"}
        assert Store.open(address).url == os.path.realpath(moved)
    Store.open("link").commit(result({"seed": 1}))
    assert Store.open(moved).outcomes().num_rows == 24


# Which row stands

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


def test_a_refused_result_changes_nothing(results):
    results.commit(result())
    before = results.read_bytes(relative())
    assert not results.commit(result(curves=[(1, "train_loss", 9.0)], outcomes=outcomes(3)))
    assert not results.commit(failure())
    assert results.read_bytes(relative()) == before


@pytest.mark.parametrize("status", ["stopped", "failed"])
@pytest.mark.parametrize(("steps", "replaces"), [(0, False), (200, False), (300, True)])
def test_a_stopped_run_gives_way_to_a_longer_one_also_if_that_failed(results, status, steps, replaces):
    results.commit(result(status="stopped", timings={"steps_done": 200}))
    error = {"kind": "x", "message": "y", "step": steps} if status == "failed" else None
    assert results.commit(result(status=status, timings={"steps_done": steps}, error=error)) == replaces
    assert results.trials()["steps_done"].to_pylist() == [300 if replaces else 200]


def test_a_new_failure_takes_nothing_of_the_old_attempt(local):
    local.commit(result(status="failed", error={"kind": "x", "message": "y", "step": None}))
    assert local.outcomes().num_rows == 12
    local.commit(failure())
    assert local.outcomes().num_rows == 0


def test_of_racing_writers_the_finished_one_wins_and_its_row_is_whole(local):
    attempts = [failure(message=str(number)) for number in range(8)] + [result()] * 2
    for _ in range(5):
        with concurrent.futures.ThreadPoolExecutor(len(attempts)) as pool:
            list(pool.map(local.commit, attempts))
        assert local.committed() == {FINISHED: "finished"}
        assert local.trials()["success"].to_pylist() == [0.75]
        file(local).unlink()


def test_the_check_and_the_replacement_of_a_file_are_one_step(local, monkeypatch):
    """A finished trial that appears while a failing writer writes must not be lost."""
    fsync, late = os.fsync, []

    def committed_meanwhile(descriptor):
        if not late:
            late.append(True)
            local.commit(result())
        fsync(descriptor)

    monkeypatch.setattr(local_files.os, "fsync", committed_meanwhile)
    assert not local.commit(failure())
    assert local.committed() == {FINISHED: "finished"}


# Crashes and refusals


@pytest.mark.slow
@pytest.mark.parametrize("earlier", [None, "failed"])
def test_a_crash_at_any_moment_of_a_commit_loses_only_that_commit(tmp_path, monkeypatch, earlier):
    """Cut before and after every operation on the disk; nothing cleans up after a power cut."""
    os_unlink = os.unlink
    for moment in itertools.count():
        results = Store.open(tmp_path / str(moment))
        results.commit(result({"seed": 1}))
        if earlier:
            results.commit(failure())
        before = results.committed()
        countdown = itertools.count(moment, -1)

        def cut(countdown=countdown):
            if next(countdown) <= 0:
                raise KeyboardInterrupt

        def guarded(operation, cut=cut):
            def run(*arguments, **options):
                cut()
                value = operation(*arguments, **options)
                if operation is not os_unlink:
                    cut()
                return value

            return run

        with monkeypatch.context() as patch:
            for name in ("open", "fsync", "replace", "mkdir", "unlink"):
                patch.setattr(local_files.os, name, guarded(getattr(os, name)))
            try:
                results.commit(result())
                survived = True
            except KeyboardInterrupt:
                survived = False
        now = results.committed()
        assert now in (before, before | {FINISHED: "finished"})
        assert results.trials().num_rows == len(now)
        assert results.curves([OTHER]).num_rows == 2
        if now.get(FINISHED) == "finished":
            assert results.outcomes([FINISHED]).num_rows == 12
            assert same(network(results))
        results.commit(result())
        assert results.committed() == {OTHER: "finished", FINISHED: "finished"}
        assert results.outcomes().num_rows == 24
        if survived:
            break
    assert moment > 8


def test_leftovers_of_crashes_are_swept_once_nobody_can_own_them(local):
    local.commit(result())
    folder = Path(local.root, ".unfinished")
    old, young, foreign = folder / "x.0", folder / "x.1", file(local).with_name(".keep")
    for path in (old, young, foreign):
        path.write_bytes(b"half")
        past = time.time() - (0 if path == young else 2 * files.LEFTOVER_SECONDS)
        os.utime(path, (past, past))
    local.files.remove_leftovers()
    assert local.committed() == {FINISHED: "finished"}
    assert [path.exists() for path in (old, young, foreign)] == [False, True, True]


def test_a_full_disk_is_one_clear_message_at_once_and_no_damage(tmp_path, monkeypatch):
    local = Store.open(tmp_path / "results", Retries(300.0, lambda _: pytest.fail("waited"), time.monotonic))
    local.commit(result())

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(local_files.os, "fsync", full)
        with pytest.raises(StoreError, match=r"cannot write .*No space left on device"):
            local.commit(result({"seed": 1}))
    assert local.committed() == {FINISHED: "finished"}
    assert os.listdir(Path(local.root, ".unfinished")) == []
    assert local.commit(result({"seed": 1}))


def test_a_store_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "results").write_text("I am no folder")
    with pytest.raises(StoreError, match=r"cannot write .*results"):
        Store.open(tmp_path / "results").commit(result())


# Damage

SPOILT = DAMAGES | {
    "cut in front": lambda data: data[1:],
    "longer in front": lambda data: b"\0" + data,
    "flipped in the row": lambda data: flipped(data, -6000, 2),
}


@pytest.mark.parametrize("damage", SPOILT)
def test_a_damaged_trial_is_set_aside_and_its_trial_is_pending(results, damage, caplog):
    results.commit(result())
    results.commit(result({"seed": 1}))
    overwrite(results, FINISHED, SPOILT[damage])
    assert results.trials()["trial_id"].to_pylist() == [OTHER], "the other rows stay readable"
    assert FINISHED in caplog.text
    assert "quarantine" in caplog.text
    assert results.committed() == {OTHER: "finished"}
    assert results.read_bytes(f"quarantine/{relative()}") is not None
    caplog.clear()
    assert results.commit(result())
    assert results.committed() == {FINISHED: "finished", OTHER: "finished"}
    assert not caplog.records


def test_every_flipped_bit_of_a_trial_is_found(local):
    local.commit(result())
    whole = file(local).read_bytes()
    head = trial_file.parts(whole, relative(), ["status"]) and int(seal._proof(whole)[0])
    for position in range(0, len(whole), 37):
        file(local).write_bytes(flipped(whole, position, position % 8))
        if position < head:  # a start reads the tail; who reads outcomes or the network reads all
            assert local.verify() == [FINISHED], position
        assert local.committed() == {}, position
    file(local).write_bytes(whole)
    assert local.committed() == {FINISHED: "finished"}


@pytest.mark.parametrize("read", ["outcomes", "network", "sql"])
def test_damage_in_the_head_costs_its_own_trial_when_it_is_read(results, read, caplog):
    results.commit(result(outcomes=outcomes(5000)))
    results.commit(result({"seed": 1}, outcomes=outcomes(5000)))
    overwrite(results, FINISHED, lambda data: data[:5000] + bytes([data[5000] ^ 4]) + data[5001:])
    assert results.committed() == {FINISHED: "finished", OTHER: "finished"}
    if read == "outcomes":
        assert set(results.outcomes()["trial_id"].to_pylist()) == {OTHER}
    elif read == "sql":
        counts = sql.table("select trial_id, count(success) as n from outcomes group by all", results).to_pylist()
        assert counts == [{"trial_id": OTHER, "n": 5000}]
    else:
        with pytest.raises(NoNetworkError, match="damaged"):
            network(results)
    assert relative() in caplog.text
    assert results.committed() == {OTHER: "finished"}
    assert results.commit(result())
    assert results.verify() == []


def test_a_start_reads_only_tails(local, monkeypatch):
    for seed in range(3):
        local.commit(result({"seed": seed}, outcomes=outcomes(200_000, loss=np.random.default_rng(0).random(200_000))))
    read, original = [], local.files.read_end
    monkeypatch.setattr(local.files, "read", lambda name: pytest.fail(name))
    monkeypatch.setattr(local.files, "read_end", lambda name, count: read.append(count) or original(name, count))
    assert len(local.seals()) == local.trials().num_rows == 3
    assert local.curves().num_rows == 6
    assert set(read) == {seal.END} < {file(local).stat().st_size, seal.END}


def test_a_tail_that_is_longer_than_most_is_read_as_well(local):
    curve = [(step, f"curve {step % 7}", math.sin(step)) for step in range(20_000)]
    local.commit(result(curves=curve))
    assert file(local).stat().st_size > 2 * seal.END
    assert sorted(local.curves()["value"].to_pylist()) == sorted(value for _, _, value in curve)


def test_a_whole_file_in_the_wrong_place_is_damage(local):
    local.commit(result())
    other = file(local, OTHER)
    other.write_bytes(file(local).read_bytes())
    assert local.committed() == {FINISHED: "finished"}
    assert not other.exists()


SEAL = TrialSeal(
    trial_id=FINISHED, task="coloring", baseline="Aq_R", status="finished", outcomes=("success", "loss"),
    network=trial_file.network_digest(trial_file.network_bytes(WEIGHTS)),
)  # fmt: skip


def resealed(table, **changes):
    """A file of a table with another seal, and the digests that belong to it."""
    return seal.sealed(table, dataclasses.replace(SEAL, **changes), {"compression": "zstd"}, table.column_names[0])


def place(local, data):
    file(local).parent.mkdir(parents=True, exist_ok=True)
    file(local).write_bytes(data)


def test_a_newer_store_is_refused_and_not_touched(local):
    newer = resealed(pa.table({"trial_id": [FINISHED]}), schema_version=2)
    place(local, newer)
    for ask in (local.committed, local.trials, lambda: local.curves([FINISHED]), lambda: local.commit(result())):
        with pytest.raises(StoreError, match="schema version 2"):
            ask()
    assert file(local).read_bytes() == newer


def test_a_seal_is_json_in_the_footer(local):
    local.commit(result())
    value = json.loads(pq.read_metadata(file(local)).metadata[b"sweeper"])
    size, *digests = value.pop("proof").split("-")
    assert value == {
        "kind": "trial", "schema_version": 1, "trial_id": FINISHED, "task": "coloring", "baseline": "Aq_R",
        "status": "finished", "steps": 250, "fingerprint": None, "outcomes": ["success", "loss"],
        "network": trial_file.network_digest(trial_file.network_bytes(WEIGHTS)),
    }  # fmt: skip
    assert 0 < int(size) < file(local).stat().st_size
    assert [len(digest) for digest in digests] == [32, 32]


def test_a_file_without_the_newest_column_is_read_with_nulls(local, monkeypatch):
    local.commit(result())
    newer = pa.schema([*schema.TRIAL_FILE, ("mood", pa.string())])
    monkeypatch.setattr(trial_file, "TRIAL_FILE", newer)
    row = trial_file.decoded(pa.py_buffer(file(local).read_bytes()), local.seals()[FINISHED], ["mood", "q"])
    assert row.to_pylist() == [{"mood": None, "q": 3.0}]


def row_table(**changes):
    """The file of the finished trial as a table, with other values."""
    table = pq.ParquetFile(pa.py_buffer(trial_file.trial_file(result())[1])).read().replace_schema_metadata(None)
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


SEALS = {
    "nested": lambda text: text.replace('"outcomes":["success","loss"]', '"outcomes":' + "[" * 20_000 + "]" * 20_000),
    "no version": lambda text: text.replace('"schema_version":1,', ""),
    "text as version": lambda text: text.replace('"schema_version":1,', '"schema_version":"1",'),
    "truth as version": lambda text: text.replace('"schema_version":1,', '"schema_version":true,'),
    "another kind": lambda text: text.replace('"kind":"trial"', '"kind":"snapshot"'),
    "a path as task": lambda text: text.replace('"task":"coloring"', '"task":"../../x"'),
    "a further key": lambda text: text.replace('"steps":0', '"steps":0,"more":0'),
    "no JSON": lambda text: text.replace('"steps":0', '"steps":'),
}


def with_seal(change):
    text = change(json.dumps(dataclasses.asdict(SEAL), separators=(",", ":")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seal.json, "dumps", lambda *arguments, **options: text)
        return resealed(row_table())


def with_bytes(column):
    table = row_table()
    at = table.schema.get_field_index(column)
    return resealed(table.set_column(at, table.schema.field(at), pa.array([b"{\xff}"]).view(pa.string())))


SENSELESS = {
    **{f"contradicts: {what}": (resealed, row_table(**changes)) for what, changes in CONTRADICTIONS.items()},
    **{f"no utf_8 as {column}": (with_bytes, column) for column in ("device", "command", "error_message", "spec")},
    **{f"seal: {what}": (with_seal, change) for what, change in SEALS.items()},
    **{
        f"another form: {columns}": (lambda columns: resealed(pa.table(columns)), columns)
        for columns in ({"trial_id": [FINISHED] * 2}, {"trial_id": [1]}, {"evil": [FINISHED]}, {"trial_id": [None]})
    },
    **{
        f"proof: {head}": (lambda head: re.sub(rb'"proof":"\d{12}', b'"proof":"' + head, resealed(row_table())), head)
        for head in (b"999999999999", b"-00000000001", b"xxxxxxxxxxxx")
    },
    "expands to gigabytes": (lambda size: resealed(row_table(command="x" * size)), trial_file.ROW_LIMIT + 1),
}


@pytest.mark.parametrize("what", SENSELESS)
def test_a_file_that_makes_no_sense_costs_itself_and_one_line(local, what, caplog):
    local.commit(result({"seed": 1}))
    make, of = SENSELESS[what]
    data = make(of)
    assert len(data) < 300_000
    place(local, data)
    if "utf_8" not in what:  # which only readers of that column see
        assert local.committed() == {OTHER: "finished"}
    assert local.trials()["trial_id"].to_pylist() == [OTHER]
    assert local.committed() == {OTHER: "finished"}
    (line,) = [text for record in caplog.records if FINISHED in (text := record.getMessage())]
    assert line.isprintable()
    assert what != "expands to gigabytes" or "too many for a row" in line


HOSTILE_NETWORKS = {
    "a tensor beyond the end": lambda data: data.replace(b"[2,3]", b"[9,9]"),
    "a header of gigabytes": lambda data: (2**63).to_bytes(8, "little") + data[8:],
    "an unknown type": lambda data: data.replace(b'"F32"', b'"F00"'),
    "a type that numpy lacks": lambda data: data.replace(b'"F32"', b'"BF16"').replace(b"[2,3]", b"[4,3]"),
    "no safetensors": lambda data: b"x" * 100,
}


def with_network(change):
    data = change(trial_file.network_bytes(WEIGHTS))
    return resealed(row_table(network=data), network=trial_file.network_digest(data))


SENSELESS_HEADS = {
    "another network": (resealed, row_table(network=trial_file.network_bytes({"w": np.zeros(3, np.float32)}))),
    "no network": (resealed, row_table(network=None)),
    "other outcomes": (resealed, row_table(outcomes=[("success", [0.5])])),
    "no outcomes": (resealed, row_table(outcomes=None)),
    **{what: (with_network, change) for what, change in HOSTILE_NETWORKS.items()},
}


@pytest.mark.parametrize("what", SENSELESS_HEADS)
def test_a_head_that_makes_no_sense_costs_its_trial_when_it_is_read(local, what, caplog):
    local.commit(result({"seed": 1}))
    make, of = SENSELESS_HEADS[what]
    place(local, make(of))
    assert local.committed() == {FINISHED: "finished", OTHER: "finished"}
    assert local.verify() == [FINISHED]
    (line,) = [text for record in caplog.records if FINISHED in (text := record.getMessage())]
    assert line.isprintable()
    assert local.committed() == {OTHER: "finished"}


def test_a_row_may_have_no_further_metrics(local):
    place(local, resealed(row_table(extra_metrics=None)))
    assert local.committed() == {FINISHED: "finished"}
    assert sql.table("select success from trials", local).to_pylist() == [{"success": 0.75}]


def test_columns_of_a_newer_program_are_left_out(local):
    place(local, resealed(row_table().append_column("mood", pa.array(["good"]))))
    assert local.trials().schema == schema.TRIALS
    assert local.trials()["q"].to_pylist() == [3.0]


@pytest.mark.parametrize("first", ["network", "trial_id"])
def test_small_outcomes_that_expand_to_gigabytes_are_not_decoded(local, first, caplog, monkeypatch):
    """Equal values take next to nothing in a file."""
    monkeypatch.setattr(trial_file, "DETAIL_LIMIT", 2**23)
    numbers = pa.ListArray.from_arrays([0, 2**20], pa.repeat(pa.scalar(0.0, pa.float32()), 2**20))
    bomb = pa.MapArray.from_arrays([0, 1], pa.array(["success"]), numbers).cast(schema.OUTCOMES_COLUMN.type)
    table = row_table()
    table = table.set_column(1, schema.OUTCOMES_COLUMN, bomb)
    names = [first, *(name for name in table.column_names if name != first)]
    data = resealed(table.select(names), outcomes=("success",))
    assert len(data) < 100_000
    place(local, data)
    assert local.outcomes().num_rows == 0
    assert "too many for a trial" in caplog.text


# A folder from a stranger


def test_links_below_the_root_are_neither_read_nor_written_through(local, tmp_path, caplog):
    local.commit(result())
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "secret.parquet"
    secret.write_bytes(file(local).read_bytes())

    file(local, OTHER).symlink_to(secret)
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

    Path(local.root, "trials").rename(outside / "trials")
    Path(local.root, "trials").symlink_to(outside / "trials")
    with pytest.raises(StoreError, match="symbolic link"):
        local.commit(result({"seed": 2}))


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", "a\0b"])
def test_names_that_climb_out_are_refused(results, name):
    for use in (results.read_bytes, results.delete, lambda name: results.write_bytes(name, b"")):
        with pytest.raises(StoreError, match="not the name of a file"):
            use(name)


def test_strange_files_are_ignored_loudly(local, caplog):
    local.commit(result())
    folder = file(local).parent
    names = [
        "'; drop table trials; --.parquet", 'q"uote.parquet', "[bold]x.parquet", "notes.txt", "_SUCCESS",
        "two\nlines.parquet",
    ]  # fmt: skip
    for name in names:
        (folder / name).write_bytes(b"x")
    os.mkfifo(folder / f"{OTHER}.parquet")
    (folder / f"{'a' * 20}.parquet").mkdir()
    assert local.committed() == {FINISHED: "finished"}
    assert local.trials([OTHER]).num_rows == 0
    assert len({text for record in caplog.records if "ignored" in (text := record.getMessage())}) == len(names)
    assert local.curves().num_rows == 2


def test_a_file_of_half_a_terabyte_takes_no_memory(local, caplog):
    """Only holes: the tail is that of a trial, and the seal says so."""
    local.commit(result({"seed": 1}))
    data = re.sub(rb'"proof":"\d{12}', b'"proof":"%012d' % 2**39, resealed(row_table()))
    digits = seal._place(data)[1] - 34
    digest = seal._digest(data[:digits], b"0" * 32, data[digits + 32 :]).encode()
    place(local, b"")
    with file(local).open("r+b") as huge:
        huge.seek(2**39)
        huge.write(data[:digits] + digest + data[digits + 32 :])
    assert local.committed() == {OTHER: "finished"}
    assert "has 549,755," in caplog.text


def test_a_huge_tail_is_not_even_read(local, caplog):
    local.commit(result({"seed": 1}))
    place(local, resealed(row_table(command="é" * 100)))
    with file(local).open("r+b") as huge:
        data = huge.read()
        huge.seek(2**40)
        huge.write(re.sub(rb'"proof":"\d{12}', b'"proof":"000000000000', data))
    assert local.committed() == {OTHER: "finished"}
    assert "bytes, too many" in caplog.text


def test_a_store_that_cannot_be_tidied_is_still_read(local, monkeypatch, caplog):
    local.commit(result())
    overwrite(local, FINISHED, DAMAGES["truncated"])
    local.commit(result({"seed": 1}))

    def refuse(relative, target):
        raise StoreError("cannot move it: Read-only file system")

    monkeypatch.setattr(local.files, "move", refuse)
    assert local.committed() == {OTHER: "finished"}
    assert "Read-only" in caplog.text


# Sweeps and other files


def record(name="quick", ids=("a" * 20, "b" * 20), **origin):
    return results.record(name, ids, overrides=("trial.steps=3",), **origin)


def test_the_history_of_a_sweep_is_kept_in_order_whatever_the_clock_says(results):
    starts = [record(captured=time) for time in ("2030", "1970", "2001")] + [record(ids=())]
    for start in starts:
        results.record_sweep(start)
    results.record_sweep(record("other"))
    assert results.sweeps() == [record("other"), *starts]
    assert len(json.loads(results.read_bytes("sweeps/quick.json"))["plans"]) == 2, "equal plans are stored once"


def test_a_start_that_plans_more_and_more_is_one(results):
    for count in (0, 1, 3):
        results.record_sweep(record(ids=("a" * 20, "b" * 20, "c" * 20)[:count]))
    assert [len(each.trial_ids) for each in results.sweeps()] == [3]
    results.record_sweep(record(ids=("b" * 20,)))
    assert [len(each.trial_ids) for each in results.sweeps()] == [3, 1], "another plan is another start"


def test_two_starts_at_once_are_both_kept(results, monkeypatch):
    """Between the reading and the replacement of the one comes the other."""
    results.record_sweep(record())
    other, read = Store.open(results.url), results.files.read

    def started_meanwhile(relative):
        data = read(relative)
        monkeypatch.undo()
        other.record_sweep(record(captured="2027"))
        return data

    monkeypatch.setattr(results.files, "read", started_meanwhile)
    results.record_sweep(record(captured="2028"))
    assert results.sweeps() == [record(), record(captured="2027"), record(captured="2028")]


def test_a_record_from_before_objectives_were_plug_ins_is_read(local):
    written = record(code=fingerprint.captured())
    local.record_sweep(written)
    entry = json.loads(local.read_bytes("sweeps/quick.json"))
    del entry["starts"][0]["provenance"]["code"]["objectives"]
    local.write_bytes("sweeps/quick.json", json.dumps(entry).encode())
    assert [each.trial_ids for each in local.sweeps()] == [written.trial_ids]


def first_start(entry, **changes):
    return json.dumps(entry | {"starts": [entry["starts"][0] | changes]}).encode()


BROKEN = {
    "cut off": lambda entry: json.dumps(entry).encode()[:-1],
    "nested": lambda entry: b"[" * 200_000,
    "a list": lambda entry: b"[]",
    "a text": lambda entry: b'"x"',
    "not UTF-8": lambda entry: b'{"name":"\xff"}',
    "a plan that is not there": lambda entry: first_start(entry, plan="f" * 20),
    "no plan": lambda entry: first_start(entry, plan=None),
    "another plan": lambda entry: json.dumps(entry | {"plans": {entry["starts"][0]["plan"]: ["a" * 20]}}).encode(),
    "no version": lambda entry: json.dumps({key: entry[key] for key in entry if key != "schema_version"}).encode(),
    "unknown keys": lambda entry: json.dumps(entry | {"x\n\x1b[2J": 1}).encode(),
    "text of another type": lambda entry: first_start(entry, text=3),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_broken_sweep_costs_itself_and_one_line(local, change, caplog):
    local.record_sweep(record())
    local.record_sweep(record("other"))
    broken = BROKEN[change](json.loads(local.read_bytes("sweeps/quick.json")))
    local.write_bytes("sweeps/quick.json", broken)
    assert local.sweeps() == [record("other")]
    (line,) = [text for each in caplog.records if "quick" in (text := each.getMessage())]
    assert line.isprintable()
    local.record_sweep(record())
    assert local.sweeps() == [record("other"), record()], "the next start is not hindered"
    assert local.read_bytes("quarantine/sweeps/quick.json") == broken


def test_a_huge_file_of_a_sweep_is_not_read(local, monkeypatch, caplog):
    local.record_sweep(record())
    monkeypatch.setattr(sweep_records, "LARGEST_FILE", 50)
    assert local.sweeps() == []
    assert "bytes, too many" in caplog.text


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b"])
def test_a_sweep_needs_a_name_that_can_be_a_file(local, name):
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
    data = bytearray(file(local).read_bytes())
    whole = pq.ParquetFile(pa.BufferReader(bytes(data)), page_checksum_verification=True).read()
    assert whole.schema.remove_metadata() == schema.TRIAL_FILE
    assert "task" not in whole.column_names, "hive partitions must not be repeated inside"
    data[60] ^= 1
    with pytest.raises((OSError, pa.ArrowInvalid)):
        pq.ParquetFile(pa.BufferReader(bytes(data)), page_checksum_verification=True).read()


ADDRESSES = {
    "": "a variable that is not set",
    " ": "is not set",
    "file://": "is not set",
    "~nobody-here/x": "a user that",
    "file:///tmp/a%00b": "the character NUL",
    "/tmp/a\0b": "the character NUL",
    "foo://bar/baz": "foo://bar",
    "s3://": "s3:// names no bucket: write s3://bucket/folder",
    "s3:///results": "s3:///results names no bucket: write s3://bucket/folder",
    "s3://?region=x": "s3://?region=x names no bucket: write s3://bucket/folder",
    "s3://bucket/x?region=a&nonsense=1": "s3://bucket/x?region=a&nonsense=1: unknown parameter 'nonsense'",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_means_nothing_is_told_as_it_was_given(address):
    for opened in (Store.open, Store.existing):
        with pytest.raises(StoreError, match=re.escape(ADDRESSES[address])):
            opened(address)


def test_a_folder_of_other_files_is_no_store(tmp_path):
    assert Store.existing(tmp_path).committed() == {}, "an empty folder is an empty store"
    (tmp_path / "notes.txt").touch()
    with pytest.raises(StoreError, match="there is no results store"):
        Store.existing(tmp_path)
    Store.open(tmp_path).commit(result())
    assert len(Store.existing(tmp_path).committed()) == 1
