"""A snapshot makes reading fast, and whatever happens to it costs time and no trial."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeper.store import committed_trials, seal, snapshots
from sweeper.store.committed_trials import Reading
from sweeper.store.files import StoreError
from sweeper.store.schema import TRIALS
from sweeper.store.seal import SnapshotSeal
from sweeper.store.store import Store
from sweeper.store.trial_file import trial_file
from sweeper.trial.trial import trial_id
from tests.damage import DAMAGES, flipped
from tests.power_cuts import power_cuts
from tests.results import failure, outcomes, result
from tests.store.meanwhile import before_next


def opened(folder, enough=500):
    """A store that looks at snapshots whatever the number of trials."""
    return Store.open(folder, reading=Reading(few=0, some=0, enough=enough))


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


def only(store):
    """The one snapshot."""
    (name,) = store.listing("snapshots")
    return name


@pytest.fixture(scope="module")
def compacted_folder(tmp_path_factory):
    """The folder of a store whose trials have one snapshot, and what the store said before it had one."""
    store = opened(tmp_path_factory.mktemp("compacted") / "store")
    fill(store)
    before = facts(store)
    store.compact()
    return store.root, before


@pytest.fixture
def compacted(compacted_folder, tmp_path):
    """A store whose trials have one snapshot, which a test may change, and what it says."""
    folder, before = compacted_folder
    return opened(shutil.copytree(folder, tmp_path / "compacted")), before


@pytest.fixture
def decoded(monkeypatch):
    """The files of trials whose rows are decoded."""
    names, tail_of = [], committed_trials.tail_of
    monkeypatch.setattr(committed_trials, "tail_of", lambda files, name: names.append(name) or tail_of(files, name))
    return names


def test_what_has_a_snapshot_reads_as_before_and_is_not_decoded(compacted, decoded, tmp_path):
    store, before = compacted
    ids = sorted(before[0])
    assert facts(store) == before
    shutil.copytree(store.root, tmp_path / "b", copy_function=shutil.copyfile)
    assert facts(opened(tmp_path / "b")) == before, "files of other times are known by their digest"
    assert [store.trials([key])["trial_id"].to_pylist() for key in ids] == [[key] for key in ids]
    assert store.curves(ids[:2]).num_rows <= 2
    assert decoded == []
    fill(store, [9])
    assert store.trials().num_rows == 8
    assert len(decoded) == 1
    assert store.compact() == 1
    assert store.compact() == 0


def test_a_trial_without_a_snapshot_and_one_with_an_old_one_are_decoded(tmp_path, decoded):
    store = opened(tmp_path)
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
    assert facts(store)[0][key] == "finished"


def test_a_reading_of_many_files_leaves_a_snapshot_unless_the_store_cannot_be_written(tmp_path, monkeypatch):
    store = opened(tmp_path, enough=7)
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
    assert only(store)


def test_small_snapshots_are_joined_and_large_ones_are_left(tmp_path):
    store, sizes = opened(tmp_path), []
    for seed in range(16):
        store.commit(result({"seed": seed}, curves=[], outcomes=None, network=None))
        store.compact()
        counts = [pq.read_metadata(tmp_path / name).num_rows for name in store.listing("snapshots")]
        assert sum(counts) == seed + 1
        sizes.append(len(counts))
    assert 1 < max(sizes) <= 3, "their number grows with the logarithm"
    assert store.trials().num_rows == 16


def test_a_snapshot_most_of_whose_trials_are_gone_is_written_anew(compacted):
    store, _ = compacted
    large = only(store)
    for name in store.listing("trials")[:4]:
        store.delete(name)
    fill(store, [50])
    store.compact()
    assert only(store) != large
    assert pq.read_metadata(Path(store.root, only(store))).num_rows == 4


def test_a_snapshot_has_the_types_of_its_trials(tmp_path):
    store = opened(tmp_path)
    store.commit(result({"objective": {"q": "inf", "m": 2}}, metrics={"success": np.float32(0.5), "loss": np.nan}))
    before = store.trials()
    store.compact()
    assert store.trials().schema == before.schema
    assert str(store.trials().to_pylist()) == str(before.to_pylist())
    assert pq.read_schema(tmp_path / only(store)).remove_metadata() == snapshots.COLUMNS


# Which file a row is of


def test_a_file_that_was_replaced_within_a_tick_of_the_clock_is_noticed(tmp_path):
    """Same size, same time: only the digest differs."""
    store = opened(tmp_path)
    # Checksums of pages are numbers of one to five bytes, so that few values give files of one size.
    values = {}
    for value in np.linspace(0, 1, 99):
        same = values.setdefault(len(trial_file(result(metrics={"success": value}))[1]), [])
        same.append(value)
        if len(same) == 2:
            break
    first, second = same
    store.commit(result(metrics={"success": first}))
    store.compact()
    (path,) = Path(store.root, "trials").rglob("*.parquet")
    state = path.stat()
    path.unlink()
    store.commit(result(metrics={"success": second}))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert path.stat().st_size == state.st_size
    assert store.trials()["success"].to_pylist() == [second]


def test_times_decide_once_the_clock_has_ticked(tmp_path, monkeypatch):
    store = opened(tmp_path)
    fill(store)
    paths = sorted(Path(store.root, "trials").rglob("*.parquet"))
    for path in paths[:-1]:
        os.utime(path, ns=(1, path.stat().st_mtime_ns - 2 * snapshots.TICK))
    store.compact()
    asked, read_end = [], store.files.read_end
    monkeypatch.setattr(store.files, "read_end", lambda name, count: asked.append(name) or read_end(name, count))
    store.committed()
    assert [name for name in asked if name.startswith("trials/")] == [str(paths[-1].relative_to(tmp_path))], (
        "the newest"
    )


# Damage

SPOILT = DAMAGES | {"deleted": None, "flipped in a page": lambda data: flipped(data, 200, 2)}


def spoil(store, name, damage):
    path, change = Path(store.root, name), SPOILT[damage]
    data = path.read_bytes()
    path.unlink()
    if change is not None:
        path.write_bytes(change(data))


@pytest.mark.parametrize("damage", SPOILT)
def test_a_snapshot_that_is_damaged_before_or_during_a_read_costs_no_trial(compacted, damage, monkeypatch):
    """Before its tail is read, before it is opened, before any file is compared, and before its rows are read."""
    store, before = compacted
    name, whole = only(store), store.read_bytes(only(store))

    def spoilt_before(operation, moments):
        def run(*arguments, **options):
            if next(moments, None) == 0:
                spoil(store, name, damage)
            return operation(*arguments, **options)

        return run

    for moment in range(4 + len(before[0])):
        Path(store.root, name).write_bytes(whole)
        moments = iter(range(moment, -1, -1))
        with monkeypatch.context() as patch:
            patch.setattr(snapshots, "tail_of", spoilt_before(snapshots.tail_of, moments))
            patch.setattr(store.files, "opened", spoilt_before(store.files.opened, moments))
            for step in ("current", "rows"):
                patch.setattr(snapshots._Snapshot, step, spoilt_before(getattr(snapshots._Snapshot, step), moments))
            assert store.trials().to_pylist() == before[2], moment
        assert next(moments, None) is None, "it was damaged"
    assert facts(store) == before
    assert store.verify() == []
    assert store.compact() == 7, "it is written anew"
    assert store.trials().to_pylist() == before[2]
    assert len(store.listing("snapshots")) == 1


def test_every_flipped_bit_of_a_snapshot_costs_time_alone(tmp_path):
    store = opened(tmp_path)
    fill(store, range(2))
    columns = [*TRIALS.names, "curves"]
    rows = committed_trials.read(store.files, columns)
    store.compact()
    path = tmp_path / only(store)
    whole = path.read_bytes()
    for position in range(0, len(whole), 331):
        path.write_bytes(flipped(whole, position, position % 8))
        assert committed_trials.read(store.files, columns) == rows, position


def lying(store, seal_of_it=SnapshotSeal(), **columns):
    """Put a well sealed snapshot with other values in the place of the one snapshot."""
    path = Path(store.root, only(store))
    table = pq.ParquetFile(path).read().replace_schema_metadata(None)
    for name, value in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(
            place, table.schema.field(place), pa.array([value] * table.num_rows, table.schema.field(place).type)
        )
    path.write_bytes(seal.sealed(table, seal_of_it, {"compression": "zstd"}, None))


@pytest.mark.parametrize(
    "columns",
    [{"trial_id": "f" * 20}, {"task": "recall"}, {"spec": "{"}, {"spec": '{"task":{"name":"recall"}}'}, {"spec": None},
     {"extra_metrics": "3"}, {"extra_metrics": '{"a":' * 100_000}],
)  # fmt: skip
def test_a_hostile_snapshot_harms_only_itself(compacted, columns, caplog):
    store, before = compacted
    lying(store, **columns)
    assert store.trials().to_pylist() == before[2]
    assert only(store) in caplog.text
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_a_snapshot_of_a_newer_program_is_not_used_and_not_touched(compacted, caplog):
    store, before = compacted
    lying(store, SnapshotSeal(schema_version=2), success=0.125)
    newer = only(store)
    assert store.trials().to_pylist() == before[2]
    assert newer in caplog.text
    store.compact()
    assert newer in store.listing("snapshots")


def test_a_small_snapshot_that_expands_to_gigabytes_is_not_decoded(compacted, caplog):
    store, _ = compacted
    listed = store.files.listing("trials")
    assert snapshots.covered(store.files, listed, ["status"])[0] == listed.keys()
    assert not caplog.records
    assert snapshots.covered(store.files, listed, ["status"], largest=10_000) == (set(), [])
    assert only(store) in caplog.text


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


def test_a_crash_before_and_after_every_operation_loses_and_doubles_nothing(compacted, tmp_path):
    prepared, _ = compacted
    fill(prepared, range(20, 24))
    before = prepared.trials()
    for folder, cut in power_cuts(tmp_path, least=4):  # one write, one deletion
        store = opened(shutil.copytree(prepared.root, folder))
        cut(store.compact)
        assert store.trials() == before, folder
        store.compact()
        assert store.trials() == before, folder


def test_compactions_beside_a_compaction_and_beside_a_read_lose_and_double_nothing(tmp_path):
    """One before a snapshot is written, and one between the listing of trials and that of snapshots."""
    store, other = opened(tmp_path), opened(tmp_path)
    ids = fill(store)

    def compacted_meanwhile(*seeds):
        ids.extend(fill(other, seeds))
        assert other.compact() == len(ids)

    before_next(store.files, "write", lambda: compacted_meanwhile(8))
    store.compact()
    assert len(store.listing("snapshots")) == 2
    assert store.trials()["trial_id"].to_pylist() == sorted(ids)
    for name in store.listing("snapshots"):
        store.delete(name)
    before, listing = sorted(ids), store.files.listing
    before_next(store.files, "listing", lambda: before_next(store.files, "listing", lambda: compacted_meanwhile(9)))
    assert store.trials()["trial_id"].to_pylist() == before
    assert store.files.listing == listing
    assert store.trials()["trial_id"].to_pylist() == sorted(ids)


def test_a_trial_that_is_deleted_beside_a_compaction_stays_deleted(tmp_path):
    store = opened(tmp_path)
    first, *others = fill(store)
    name = store.seals()[first].name
    before_next(store.files, "write", lambda: store.delete(name))
    store.compact()
    assert name not in store.listing("trials")
    assert sorted(store.committed()) == store.trials()["trial_id"].to_pylist() == others


def test_a_file_that_is_replaced_beside_a_compaction_is_not_taken_for_the_old_one(tmp_path):
    """Between the listing and the reading, and between the reading and the writing."""
    store = opened(tmp_path)
    (key,) = fill(store, [5])

    def better(status, success):
        time.sleep(0.01)  # a tick of the clock of most file systems
        assert opened(tmp_path).commit(result({"seed": 5}, status=status, metrics={"success": success}))

    before_next(store.files, "read_end", lambda: better("stopped", 0.7))
    before_next(store.files, "write", lambda: better("finished", 0.8))
    assert store.compact() == 1
    assert store.committed() == {key: "finished"}
    assert store.trials()["success"].to_pylist() == [0.8]
