"""A snapshot makes reading fast, and whatever happens to it costs time and no trial."""

import itertools
import os
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeper.store import committed_trials, seal, snapshots
from sweeper.store.files import StoreError
from sweeper.store.seal import SnapshotSeal
from sweeper.store.store import Store
from sweeper.store.trial_file import trial_file
from sweeper.trial.trial_spec import trial_id
from tests.damage import DAMAGES, flipped
from tests.power_cuts import power_cuts
from tests.results import failure, outcomes, result


@pytest.fixture(autouse=True)
def snapshots_of_few_trials(monkeypatch):
    """Snapshots are looked at whatever the number of trials, and written when a test asks."""
    monkeypatch.setattr(committed_trials, "SOME", 0)
    monkeypatch.setattr(committed_trials, "FEW", 0)


def fill(results, seeds=range(7)):
    """Commits trials, a failed one and one without curves and outcomes; their ids, sorted."""
    ids = []
    for seed in seeds:
        done = result({"seed": seed}, curves=[(1, "train_loss", float(seed))], outcomes=outcomes(4))
        if seed % 7 == 5:
            done = failure({"seed": seed})
        if seed % 7 == 6:
            done = result({"seed": seed}, curves=[], outcomes=None)
        results.commit(done)
        ids.append(trial_id(done.trial))
    return sorted(ids)


def facts(results):
    """Everything that a store says."""
    curves = results.curves().sort_by([("trial_id", "ascending"), ("step", "ascending")])
    per_input = results.outcomes().sort_by([("trial_id", "ascending"), ("input", "ascending")])
    return results.committed(), results.seals(), results.trials().to_pylist(), curves.to_pylist(), per_input.to_pylist()


def only(results):
    """The one snapshot."""
    (name,) = results.listing("snapshots")
    return name


@pytest.fixture
def compacted(tmp_path):
    """A store on a disk whose trials have one snapshot, and what it says."""
    results = Store.open(tmp_path / "a")
    fill(results)
    before = facts(results)
    results.compact()
    return results, before


@pytest.fixture
def decoded(monkeypatch):
    """The files of trials whose rows are decoded."""
    names, tail_of = [], committed_trials.tail_of

    def noted(files, name):
        names.append(name)
        return tail_of(files, name)

    monkeypatch.setattr(committed_trials, "tail_of", noted)
    return names


def test_what_has_a_snapshot_reads_as_before_and_is_not_opened(results, decoded):
    ids = fill(results)
    before = facts(results)
    assert results.compact() == 7
    decoded.clear()
    assert facts(results) == before
    assert decoded == []
    assert [results.trials([key])["trial_id"].to_pylist() for key in ids] == [[key] for key in ids]
    assert results.curves(ids[:2]).num_rows <= 2
    assert decoded == []
    fill(results, [9])
    assert results.trials().num_rows == 8
    assert len(decoded) == 1
    assert results.compact() == 1
    assert results.compact() == 0


def test_a_trial_without_a_snapshot_and_one_with_an_old_one_are_decoded(results, decoded):
    fill(results, range(5, 12))
    results.compact()
    key = trial_id(failure({"seed": 5}).trial)
    results.commit(result({"seed": 5}, metrics={"success": 0.25}))
    gone = trial_id(result({"seed": 7}).trial)
    results.delete(next(name for name in results.listing("trials") if gone in name))
    decoded.clear()
    assert results.committed()[key] == "finished"
    assert results.trials([key])["success"].to_pylist() == [0.25]
    assert gone not in results.committed()
    assert set(decoded) == {results.seals()[key].name}
    assert results.compact() == 1
    assert facts(results)[0][key] == "finished"


def test_a_reading_of_many_files_leaves_a_snapshot(results, monkeypatch):
    monkeypatch.setattr(committed_trials, "ENOUGH", 7)
    fill(results, range(6))
    results.trials()
    assert results.listing("snapshots") == []
    fill(results)
    results.committed(), results.committed()
    assert len(results.listing("snapshots")) == 1


def test_a_store_that_cannot_be_written_is_read_without(tmp_path, monkeypatch):
    results = Store.open(tmp_path)
    monkeypatch.setattr(committed_trials, "ENOUGH", 3)
    fill(results)

    def refused(relative, data, keep=None):
        raise StoreError("Read-only file system")

    monkeypatch.setattr(results.files, "write", refused)
    assert results.trials().num_rows == 7
    with pytest.raises(StoreError, match="Read-only"):
        results.compact()


def test_small_snapshots_are_joined_and_large_ones_are_left(tmp_path):
    results = Store.open(tmp_path)
    sizes = []
    for seed in range(64):
        fill(results, [100 + seed])
        results.compact()
        counts = [pq.read_metadata(tmp_path / name).num_rows for name in results.listing("snapshots")]
        assert sum(counts) == seed + 1
        sizes.append(len(counts))
    assert max(sizes) <= 6, "their number grows with the logarithm"
    assert results.trials().num_rows == 64


def test_a_snapshot_most_of_whose_trials_are_gone_is_written_anew(tmp_path):
    results = Store.open(tmp_path)
    fill(results, range(20))
    results.compact()
    large = only(results)
    for name in results.listing("trials")[:11]:
        results.delete(name)
    fill(results, [50])
    results.compact()
    assert only(results) != large
    assert pq.read_metadata(tmp_path / only(results)).num_rows == 10


# Which file a row is of


def test_files_of_other_times_are_known_by_their_digest(compacted, tmp_path, decoded):
    _, before = compacted
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copyfile)
    decoded.clear()
    assert facts(Store.open(tmp_path / "b")) == before
    assert decoded == []


def test_a_file_that_was_replaced_within_a_tick_of_the_clock_is_noticed(tmp_path):
    """Same size, same time: only the digest differs."""
    results = Store.open(tmp_path)
    # Checksums of pages are numbers of one to five bytes, so that few values give files of one size.
    values = {}
    for value in np.linspace(0, 1, 99):
        values.setdefault(len(trial_file(result(metrics={"success": value}))[1]), []).append(value)
    first, second = max(values.values(), key=len)[:2]
    results.commit(result(metrics={"success": first}))
    results.compact()
    (path,) = Path(results.root, "trials").rglob("*.parquet")
    state = path.stat()
    path.unlink()
    results.commit(result(metrics={"success": second}))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert path.stat().st_size == state.st_size
    assert results.trials()["success"].to_pylist() == [second]


def test_times_decide_once_the_clock_has_ticked(tmp_path, monkeypatch):
    results = Store.open(tmp_path)
    fill(results)
    paths = sorted(Path(results.root, "trials").rglob("*.parquet"))
    for path in paths[:-1]:
        os.utime(path, ns=(1, path.stat().st_mtime_ns - 2 * snapshots.TICK))
    results.compact()
    asked, tail_of = [], snapshots.tail_of
    monkeypatch.setattr(snapshots, "tail_of", lambda files, name: asked.append(name) or tail_of(files, name))
    results.committed()
    assert len([name for name in asked if name.startswith("trials/")]) == 1, "the newest"


# Damage

SPOILT = DAMAGES | {"deleted": None, "flipped in a page": lambda data: flipped(data, 200, 2)}


def spoil(results, damage):
    name = only(results)
    change = SPOILT[damage]
    data = results.read_bytes(name)
    results.delete(name)
    if change is not None:
        results.write_bytes(name, change(data))


@pytest.mark.parametrize("damage", SPOILT)
def test_a_damaged_snapshot_costs_no_trial(results, damage):
    fill(results)
    before = facts(results)
    results.compact()
    spoil(results, damage)
    assert facts(results) == before
    assert results.verify() == []
    assert results.compact() == 7, "it is written anew"
    assert facts(results) == before
    assert len(results.listing("snapshots")) == 1


@pytest.mark.parametrize("damage", SPOILT)
@pytest.mark.parametrize("moment", range(4))
def test_a_snapshot_that_is_damaged_during_a_read_costs_no_trial(compacted, damage, moment, monkeypatch):
    results, before = compacted
    name, operations = only(results), itertools.count()

    def spoilt_before(operation):
        def run(*arguments, **options):
            if next(operations) == moment and results.listing("snapshots"):
                path, change = Path(results.root, name), SPOILT[damage]
                data = path.read_bytes()
                path.unlink()
                if change is not None:
                    path.write_bytes(change(data))
            return operation(*arguments, **options)

        return run

    monkeypatch.setattr(snapshots, "tail_of", spoilt_before(snapshots.tail_of))
    monkeypatch.setattr(results.files, "opened", spoilt_before(results.files.opened))
    monkeypatch.setattr(snapshots._Snapshot, "rows", spoilt_before(snapshots._Snapshot.rows))
    assert facts(results) == before


def test_every_flipped_bit_of_a_snapshot_costs_time_alone(tmp_path):
    results = Store.open(tmp_path)
    fill(results, range(3))
    before = facts(results)
    results.compact()
    path = tmp_path / only(results)
    whole = path.read_bytes()
    for position in range(0, len(whole), 331):
        path.write_bytes(flipped(whole, position, position % 8))
        assert facts(results) == before, position


def lying(results, **columns):
    """A well sealed snapshot with other values."""
    path = Path(results.root, only(results))
    table = pq.ParquetFile(path).read().replace_schema_metadata(None)
    for name, value in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(
            place, table.schema.field(place), pa.array([value] * table.num_rows, table.schema.field(place).type)
        )
    path.write_bytes(seal.sealed(table, SnapshotSeal(), {"compression": "zstd"}, None))


@pytest.mark.parametrize(
    "columns",
    [{"trial_id": "f" * 20}, {"task": "recall"}, {"spec": "{"}, {"spec": '{"task":{"name":"recall"}}'}, {"spec": None},
     {"extra_metrics": "3"}, {"extra_metrics": '{"a":' * 100_000}],
)  # fmt: skip
def test_a_hostile_snapshot_harms_only_itself(compacted, columns, caplog):
    results, before = compacted
    lying(results, **columns)
    assert results.trials().to_pylist() == before[2]
    assert "is not used" in caplog.text
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_a_snapshot_of_a_newer_program_is_not_used_and_not_touched(tmp_path, monkeypatch):
    results = Store.open(tmp_path)
    fill(results)
    before = facts(results)
    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "SnapshotSeal", lambda: SnapshotSeal(schema_version=2))
        results.compact()
    newer = only(results)
    assert facts(results) == before
    results.compact()
    assert newer in results.listing("snapshots")


def test_a_small_snapshot_that_expands_to_gigabytes_is_not_decoded(tmp_path, monkeypatch, caplog):
    results = Store.open(tmp_path)
    fill(results)
    before = facts(results)
    monkeypatch.setattr(snapshots, "DECODED_LIMIT", 10_000)
    results.compact()
    assert facts(results) == before
    assert "is not used" in caplog.text


def test_a_damaged_trial_behind_a_snapshot_is_found_by_verify(compacted):
    results, before = compacted
    ids = sorted(before[0])
    path = next(path for path in Path(results.root).rglob(f"trials/**/{ids[0]}.parquet"))
    state, data = path.stat(), path.read_bytes()
    path.write_bytes(flipped(data, 3000))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert results.verify() == [ids[0]]
    assert sorted(results.committed()) == ids[1:]


# Crashes and company


@pytest.mark.slow
def test_a_crash_before_and_after_every_operation_loses_and_doubles_nothing(tmp_path):
    for folder, cut in power_cuts(tmp_path, least=4):  # one write, one deletion
        results = Store.open(folder)
        fill(results, range(2))
        results.compact()
        fill(results)
        before = facts(results)
        cut(results.compact)
        assert facts(results) == before, folder
        results.compact()
        assert facts(results) == before, folder


@pytest.mark.slow
def test_readers_writers_and_other_compactions_go_on_meanwhile(results):
    """Every read beside two compactors shows every trial that was committed before it began, once."""
    committed = set(fill(results, range(7)))
    done, wrong, turn = threading.Event(), [], threading.Semaphore(0)

    def write():
        for seed in range(100, 130):
            if seed % 3 == 0:
                turn.acquire()
            committed.update(fill(results, [seed]))

    def compact():
        while not done.is_set():
            results.compact()

    workers = [threading.Thread(target=work) for work in (write, compact, compact)]
    for worker in workers:
        worker.start()
    for _ in range(10):
        turn.release()
        expected = set(committed)
        for trial_ids in (results.committed(), results.trials()["trial_id"].to_pylist()):
            if expected - set(trial_ids) or len(trial_ids) != len(set(trial_ids)):
                wrong.append((expected - set(trial_ids), len(trial_ids)))
    done.set()
    for worker in workers:
        worker.join()
    assert not wrong
    results.compact()
    assert results.trials().num_rows == 37


def test_a_trial_that_is_deleted_beside_a_compaction_stays_deleted(tmp_path, monkeypatch):
    results = Store.open(tmp_path)
    ids = fill(results)
    write = results.files.write

    def deleted_meanwhile(relative, data, keep=None):
        for name in results.listing("trials"):
            if ids[0] in name:
                results.delete(name)
        return write(relative, data, keep)

    monkeypatch.setattr(results.files, "write", deleted_meanwhile)
    results.compact()
    assert sorted(results.committed()) == ids[1:]
    assert results.trials()["trial_id"].to_pylist() == ids[1:]


def test_a_file_that_is_replaced_beside_a_compaction_is_not_taken_for_the_old_one(tmp_path, monkeypatch):
    """Between the listing and the reading, and between the reading and the writing."""
    results = Store.open(tmp_path)
    fill(results, [5])
    key = trial_id(failure({"seed": 5}).trial)
    steps = iter(["stopped", "finished"])
    tail_of, write = committed_trials.tail_of, results.files.write

    def better():
        status = next(steps, None)
        if status is not None:
            time.sleep(0.01)
            assert results.commit(result({"seed": 5}, status=status, metrics={"success": len(status) / 10}))

    def replaced_before(files, name):
        better()
        return tail_of(files, name)

    def replaced_then(relative, data, keep=None):
        if relative.startswith("snapshots/"):
            better()
        return write(relative, data, keep)

    monkeypatch.setattr(committed_trials, "tail_of", replaced_before)
    monkeypatch.setattr(results.files, "write", replaced_then)
    results.compact()
    assert results.committed() == {key: "finished"}
    assert results.trials()["success"].to_pylist() == [0.8]


def test_a_snapshot_has_the_types_of_its_trials(tmp_path):
    results = Store.open(tmp_path)
    results.commit(result({"objective": {"q": "inf", "m": 2}}, metrics={"success": np.float32(0.5), "loss": np.nan}))
    before = results.trials()
    results.compact()
    assert results.trials().schema == before.schema
    assert str(results.trials().to_pylist()) == str(before.to_pylist())
    assert pq.read_schema(tmp_path / only(results)).remove_metadata() == snapshots.COLUMNS
