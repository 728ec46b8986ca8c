"""A snapshot makes reading fast, and whatever happens to it costs time and no trial."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sweeper.store import committed_trials, seal, snapshots
from sweeper.store.files import StoreError
from sweeper.store.schema import SNAPSHOT_FILE
from sweeper.store.seal import SnapshotSeal
from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests.damage import DAMAGES, flipped
from tests.results import failure, outcomes, result
from tests.store.meanwhile import before_next


def fill(store, seeds=range(7)):
    """Commits trials, a failed one and one without curves and outcomes; their ids, sorted."""
    ids = []
    for seed in seeds:
        done = result({"seed": seed}, curves=[(1, "train_loss", float(seed))], outcomes=outcomes(4))
        if seed % 7 == 5:
            done = failure({"seed": seed})
        if seed % 7 == 6:
            done = result({"seed": seed}, curves=[], outcomes=None)
        store.commit(done)
        ids.append(trial_id(done.trial))
    return sorted(ids)


def facts(store):
    """Everything that a store says of trials."""
    curves = store.curves().sort_by([("trial_id", "ascending"), ("step", "ascending")])
    per_input = store.outcomes().sort_by([("trial_id", "ascending"), ("input", "ascending")])
    return store.committed(), store.seals(), store.trials().to_pylist(), curves.to_pylist(), per_input.to_pylist()


def copied(store):
    """Number of trials in the snapshot."""
    assert store.listing("snapshots") == [SNAPSHOT_FILE]
    return pq.read_metadata(Path(store.root, SNAPSHOT_FILE)).num_rows


@pytest.fixture(scope="module")
def compacted_folder(tmp_path_factory):
    """The folder of a store whose trials are in its snapshot, and what the store said before it had one."""
    store = Store.open(tmp_path_factory.mktemp("compacted") / "store")
    fill(store)
    before = facts(store)
    store.compact()
    return store.root, before


@pytest.fixture
def compacted(compacted_folder, tmp_path):
    """A store whose trials are in the snapshot, which a test may change, and what it says."""
    folder, before = compacted_folder
    store = Store.open(shutil.copytree(folder, tmp_path / "compacted"))
    store.compact()  # copies are other files
    return store, before


@pytest.fixture
def decoded(monkeypatch):
    """The files of trials whose rows are decoded."""
    names, row_in = [], committed_trials.row_in
    monkeypatch.setattr(
        committed_trials, "row_in", lambda files, name, columns: names.append(name) or row_in(files, name, columns)
    )
    return names


def test_what_is_in_the_snapshot_reads_as_before_and_is_not_decoded(compacted, decoded):
    store, before = compacted
    ids = sorted(before[0])
    assert (store.committed(), store.seals(), store.trials().to_pylist()) == before[:3]
    assert [store.trials([key])["trial_id"].to_pylist() for key in ids] == [[key] for key in ids]
    assert store.curves(ids[:2]).num_rows <= 2
    assert decoded == []
    assert facts(store) == before
    decoded.clear()
    fill(store, [9])
    assert store.trials().num_rows == 8
    assert len(decoded) == 1
    assert store.compact() == 1
    assert store.compact() == 0


def test_copies_of_files_are_decoded_once(compacted, decoded, tmp_path, monkeypatch):
    """Git and cp keep neither times nor the numbers of files."""
    store, before = compacted
    decoded.clear()
    monkeypatch.setattr(committed_trials, "ENOUGH", 7)
    there = Store.open(shutil.copytree(store.root, tmp_path / "b"))
    assert there.trials().to_pylist() == before[2]
    assert len(set(decoded)) == 7
    decoded.clear()
    assert there.trials().to_pylist() == before[2]
    assert decoded == []


def test_a_trial_without_a_snapshot_and_one_with_an_old_one_are_decoded(tmp_path, decoded):
    store = Store.open(tmp_path)
    fill(store, range(5, 12))
    assert store.compact() == 7
    key, gone = trial_id(failure({"seed": 5}).trial), trial_id(result({"seed": 7}).trial)
    store.commit(result({"seed": 5}, metrics={"success": 0.25}))
    store.delete(store.seals()[gone].name)
    decoded.clear()
    assert store.committed()[key] == "finished"
    assert store.trials([key])["success"].to_pylist() == [0.25]
    assert gone not in store.committed()
    assert set(decoded) == {store.seals()[key].name}
    assert store.compact() == 1
    assert copied(store) == 6
    assert facts(store)[0][key] == "finished"


def test_a_reading_of_many_files_leaves_a_snapshot_unless_the_store_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(committed_trials, "ENOUGH", 7)
    store = Store.open(tmp_path)
    fill(store, range(6))
    store.trials()
    assert store.listing("snapshots") == []
    fill(store)
    with monkeypatch.context() as patch:

        def refused(relative, data, keep=None):
            raise StoreError("Read-only file system")

        patch.setattr(store.files, "write", refused)
        assert store.trials().num_rows == 7
        with pytest.raises(StoreError):
            store.compact()
    store.committed(), store.committed()
    assert copied(store) == 7


def test_a_snapshot_has_the_types_of_its_trials(tmp_path):
    store = Store.open(tmp_path)
    store.commit(result({"objective": {"q": "inf", "m": 2}}, metrics={"success": np.float32(0.5), "loss": np.nan}))
    before = store.trials()
    store.compact()
    assert store.trials().schema == before.schema
    assert str(store.trials().to_pylist()) == str(before.to_pylist())
    assert pq.read_schema(tmp_path / SNAPSHOT_FILE).remove_metadata() == snapshots.COLUMNS


# Damage

SPOILT = DAMAGES | {"deleted": None, "flipped in a page": lambda data: flipped(data, 200, 2)}


@pytest.mark.parametrize("damage", SPOILT)
def test_a_damaged_snapshot_costs_no_trial(compacted, damage):
    store, before = compacted
    path, change = Path(store.root, SNAPSHOT_FILE), SPOILT[damage]
    data = path.read_bytes()
    path.unlink()
    if change is not None:
        path.write_bytes(change(data))
    assert store.trials().to_pylist() == before[2]
    assert facts(store) == before
    assert store.verify() == []
    assert store.compact() == 7, "it is written anew"
    assert facts(store) == before


def test_a_snapshot_of_a_newer_program_is_not_used(compacted, caplog):
    store, before = compacted
    path = Path(store.root, SNAPSHOT_FILE)
    table = pq.ParquetFile(path).read().replace_schema_metadata(None)
    path.write_bytes(seal.sealed(table, SnapshotSeal(schema_version=2), {"compression": "zstd"}))
    assert store.trials().to_pylist() == before[2]
    assert SNAPSHOT_FILE in caplog.text


def test_a_damaged_trial_behind_a_snapshot_is_found_by_verify(compacted):
    store, before = compacted
    first, *others = sorted(before[0])
    path = Path(store.root, before[1][first].name)
    state, data = path.stat(), path.read_bytes()
    path.write_bytes(flipped(data, 3000))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert store.verify() == [first]
    assert sorted(store.committed()) == others


# Crashes and company


def test_compactions_beside_a_compaction_and_beside_a_read_lose_and_double_nothing(tmp_path):
    """One before a snapshot is written, and one between the listing of trials and the reading of the snapshot."""
    store, other = Store.open(tmp_path), Store.open(tmp_path)
    ids = fill(store)

    def compacted_meanwhile(*seeds):
        ids.extend(fill(other, seeds))
        other.compact()
        assert copied(store) == len(ids)

    before_next(store.files, "write", lambda: compacted_meanwhile(8))
    store.compact()
    assert copied(store) == 7, "the last one wins"
    assert store.trials()["trial_id"].to_pylist() == sorted(ids)
    before = sorted(ids)
    before_next(store.files, "parsed", lambda: compacted_meanwhile(9))
    assert store.trials()["trial_id"].to_pylist() == before
    assert store.trials()["trial_id"].to_pylist() == sorted(ids)


def test_a_file_that_is_replaced_beside_a_compaction_is_not_taken_for_the_old_one(tmp_path):
    """Between the listing and the reading, and between the reading and the writing."""
    store = Store.open(tmp_path)
    (key,) = fill(store, [5])

    def better(status, success):
        time.sleep(0.01)  # a tick of the clock of most file systems
        assert Store.open(tmp_path).commit(result({"seed": 5}, status=status, metrics={"success": success}))

    before_next(store.files, "parsed", lambda: better("stopped", 0.7))
    before_next(store.files, "write", lambda: better("finished", 0.8))
    assert store.compact() == 1
    assert store.committed() == {key: "finished"}
    assert store.trials()["success"].to_pylist() == [0.8]
