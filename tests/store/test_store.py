"""What is committed to a store is read back, and of two results of one trial the better one stands."""

import concurrent.futures
import itertools
import json
import math
import os
import pickle
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pyarrow.parquet as pq
import pytest

from sweeper.store import schema, trial_file
from sweeper.store.store import NoNetworkError, Store, StoreError
from sweeper.trial import fingerprint
from sweeper.trial.record import canonical
from sweeper.trial.trial import trial_id
from tests.results import PROVENANCE, STARTED, WEIGHTS, failure, outcomes, result

FINISHED, OTHER = trial_id(result().trial), trial_id(result({"seed": 1}).trial)
NAME = schema.trial_file_name("coloring", "Aq_R", FINISHED)


def network(store, name=FINISHED):
    return store.weights(store.seals([name])[name])


# What is committed is read back


def test_an_absent_store_is_empty_and_is_not_made_by_reading(local):
    assert not local.exists()
    assert local.committed() == {}
    assert [table.num_rows for table in (local.trials(), local.curves(), local.outcomes())] == [0, 0, 0]
    assert local.sweeps() == []
    assert not local.exists()


def test_a_row_says_what_was_trained_and_what_came_out(local):
    metrics = {"success": 0.75, "loss": math.nan, "partwise_5": 0.9, "odd": math.inf}
    done = result(metrics=metrics, programs="ab12", data="cd34")
    assert local.commit(done)
    assert local.exists()
    assert local.committed() == {FINISHED: "finished"}
    assert [str(path.relative_to(local.root)) for path in Path(local.root).rglob("*") if path.is_file()] == [NAME]

    table = local.trials()
    assert table.schema == schema.TRIALS
    (row,) = table.to_pylist()
    assert json.loads(row["spec"]) == canonical(done.trial)
    assert row == row | {
        "trial_id": FINISHED, "status": "finished", "task": "coloring", "baseline": "Aq_R", "model": "transformer",
        "q": 3.0, "m": 2, "seed": 0, "steps": 300, "batch_size": 8, "optimizer": "adam", "learning_rate": 1e-3,
        "success": 0.75, "loss": None, "sampled": None, "steps_done": 300, "wall_seconds": 2.5, "compile_seconds": None,
        "peak_memory_bytes": 100_000_000, "error_kind": None, "error_step": None, "pack_id": "0123456789", "lanes": 2,
        "device": "cpu", "commit": PROVENANCE.commit, "dirty": False,
        "command": PROVENANCE.command, "started": STARTED, "schema_version": schema.SCHEMA_VERSION,
        "programs": "ab12", "data": "cd34",
    }  # fmt: skip
    assert json.loads(row["extra_metrics"]) == {"partwise_5": 0.9, "odd": None, "loss": None}
    assert json.loads(row["versions"]) == PROVENANCE.versions


def test_a_failure_is_a_row_too(local):
    local.commit(failure(message='bad "quotes", \n lines and é'))
    (row,) = local.trials().to_pylist()
    assert (row["status"], row["error_kind"], row["error_step"]) == ("failed", "divergence", 7)
    assert row["error_message"] == 'bad "quotes", \n lines and é'
    assert row["success"] is None
    assert local.committed() == {FINISHED: "failed"}


def test_curves_and_outcomes_of_some_or_all_trials(local):
    local.commit(result())
    local.commit(result({"seed": 1}, curves=[(5, "grad_norm", math.inf)], outcomes=outcomes(3, extra=[1, 2, 3])))
    local.commit(result({"seed": 2}, curves=[], outcomes=None))

    assert local.curves().schema == schema.CURVES
    assert local.curves([OTHER]).to_pylist() == [
        {"trial_id": OTHER, "task": "coloring", "baseline": "Aq_R", "step": 5, "metric": "grad_norm", "value": math.inf}
    ]
    assert local.curves([FINISHED])["value"].to_pylist() == [0.2, 0.1]
    assert local.curves().num_rows == 3
    assert local.curves([]).num_rows == local.curves(["f" * 20]).num_rows == 0

    table = local.outcomes()
    assert table.column_names == [*schema.OUTCOMES.names, "success", "loss", "extra"]
    assert table.num_rows == 15
    assert table["extra"].null_count == 12
    assert local.outcomes([FINISHED])["input"].to_pylist() == list(range(12))
    assert local.outcomes([FINISHED])["success"].to_numpy() == pytest.approx(np.linspace(0, 1, 12))
    assert local.trials([OTHER])["trial_id"].to_pylist() == [OTHER]


def test_a_network_is_read_back(local):
    local.commit(result())
    weights = network(local)
    assert weights.keys() == WEIGHTS.keys()
    assert all(np.array_equal(weights[name], WEIGHTS[name]) for name in WEIGHTS)
    (whole,) = local.seals().values()
    assert trial_file.network_digest(local.network(whole)) == whole.network
    local.commit(result({"seed": 1}, network=dict(reversed(WEIGHTS.items()))))
    assert {each.network for each in local.seals().values()} == {whole.network}, "equal networks have equal bytes"


@pytest.mark.parametrize("kind", trial_file.WEIGHT_TYPES.values(), ids=trial_file.WEIGHT_TYPES)
def test_a_network_of_any_type_of_weights_is_read_back(local, kind):
    weights = {"w": np.asarray([[0, 1], [2, 3]]).astype(kind), "b": np.asarray(1, kind)}
    local.commit(result(network=weights))
    read = local.weights(local.seals()[FINISHED])
    for name, values in weights.items():
        assert (read[name].dtype, read[name].shape) == (values.dtype, values.shape)
        assert read[name].tobytes() == values.tobytes()


def test_what_has_no_network_is_an_error_of_its_own(local):
    for done in (result(network=None), failure({"seed": 1}), result({"seed": 2})):
        local.commit(done)
    seals = local.seals()
    gone = trial_id(result({"seed": 2}).trial)
    assert local.network(seals[gone])
    local.delete(seals[gone].name)
    for seal in seals.values():
        with pytest.raises(NoNetworkError):
            local.weights(seal)


LARGE = np.broadcast_to(np.float32(0), (trial_file.LARGEST_NETWORK // 32, 2))  # which takes no memory


SENSELESS = {
    "a large network": {"network": {str(number): LARGE for number in range(5)}},
    "int4": {"network": {"w": np.zeros(3, ml_dtypes.int4)}},
    "outcomes of two lengths": {"outcomes": outcomes(12, extra=range(3))},
}


@pytest.mark.parametrize("changes", SENSELESS.values(), ids=SENSELESS)
def test_what_cannot_be_kept_or_makes_no_sense_is_refused(local, changes):
    with pytest.raises(ValueError):
        local.commit(result(**changes))
    assert not local.exists()


def test_outcomes_are_compact_and_precise_enough(local):
    random, inputs = np.random.default_rng(0), 181_440
    share = random.binomial(100, 0.86, inputs) / 100
    loss = np.exp(random.normal(-5, 0.5, inputs)).astype(np.float32)
    loss[:3] = [np.nan, np.inf, 0]
    columns = {"success": share, "majority_30": random.binomial(3, 0.99, inputs) / 3, "loss": loss}
    columns |= {"sampled": random.uniform(0, 1, inputs), "variance": random.gamma(3, 0.05, inputs)}
    local.commit(result(outcomes=outcomes(inputs, **columns)))
    assert Path(local.root, NAME).stat().st_size < 1.4e6

    table = local.outcomes([FINISHED])
    assert table["success"].to_numpy().tolist() == share.astype(np.float32).tolist(), "shares are kept exactly"
    np.testing.assert_allclose(table["loss"].to_numpy(), loss, rtol=2**-13)


def test_what_is_sent_to_a_worker_survives_the_trip(local):
    local.commit(result())
    there = pickle.loads(pickle.dumps(local))
    assert there.url == local.url == str(local.root)
    assert there.commit(pickle.loads(pickle.dumps(result({"seed": 1}))))
    assert local.committed().keys() == {FINISHED, OTHER}


# Addresses


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


@pytest.mark.parametrize("address", ["", "foo://bar/baz", "s3:///results", "s3://bucket/x?region=a&nonsense=1"])
def test_an_address_that_means_nothing_is_refused_in_words(address):
    for opened in (Store.open, Store.existing):
        with pytest.raises(StoreError, match=re.escape(address.partition("/baz")[0]) or None):
            opened(address)


def test_a_folder_that_is_not_there_is_no_store(tmp_path):
    assert Store.existing(tmp_path).committed() == {}, "an empty folder is an empty store"
    with pytest.raises(StoreError, match="nowhere"):
        Store.existing(tmp_path / "nowhere")


# Which row stands

RANKS = {"failed": 0, "stopped": 1, "finished": 2}


@pytest.mark.parametrize(("first", "second"), list(itertools.product(RANKS, repeat=2)))
def test_only_a_better_row_or_another_failure_replaces_one(local, first, second):
    local.commit(failure() if first == "failed" else result(status=first))
    before = local.read_bytes(NAME)
    replaces = RANKS[second] > RANKS[first] or first == second == "failed"
    changes = {"curves": [(1, "train_loss", 9.0)], "outcomes": outcomes(3)}
    assert local.commit(failure() if second == "failed" else result(status=second, **changes)) == replaces
    assert local.committed() == {FINISHED: second if replaces else first}
    assert local.trials().num_rows == 1
    assert replaces or local.read_bytes(NAME) == before


@pytest.mark.parametrize("status", ["stopped", "failed"])
@pytest.mark.parametrize(("steps", "replaces"), [(0, False), (200, False), (300, True)])
def test_a_stopped_run_gives_way_to_a_longer_one_also_if_that_failed(local, status, steps, replaces):
    local.commit(result(status="stopped", timings={"steps_done": 200}))
    error = {"kind": "x", "message": "y", "step": steps} if status == "failed" else None
    assert local.commit(result(status=status, timings={"steps_done": steps}, error=error)) == replaces
    assert local.trials()["steps_done"].to_pylist() == [300 if replaces else 200]


def test_of_racing_writers_the_finished_one_wins_and_its_row_is_whole(local):
    attempts = [failure(message=str(number)) for number in range(8)] + [result()] * 2
    for _ in range(3):
        with concurrent.futures.ThreadPoolExecutor(len(attempts)) as pool:
            list(pool.map(local.commit, attempts))
        assert local.committed() == {FINISHED: "finished"}
        assert local.trials()["success"].to_pylist() == [0.75]
        local.delete(NAME)


# Rows that other code is to compute again move away whole, and their trials are pending

CODE = fingerprint.captured()
MENDED = CODE.model_copy(update={"always": {}})


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
