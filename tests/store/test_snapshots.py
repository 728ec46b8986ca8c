"""A snapshot makes reading fast, and whatever happens to it costs time and no trial."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweeper.store import committed_trials, deletion, seal, snapshots
from sweeper.store.committed_trials import Reading
from sweeper.store.files import StoreError
from sweeper.store.schema import SNAPSHOT_FILE, TRIALS
from sweeper.store.seal import SnapshotSeal
from sweeper.store.store import Store
from sweeper.store.trial_file import trial_file
from sweeper.trial.trial import trial_id
from tests.damage import DAMAGES, flipped, lie
from tests.power_cuts import power_cuts
from tests.results import failure, outcomes, result
from tests.store.meanwhile import before_next


def opened(folder, enough=500, held=0):
    """A store that looks at snapshots whatever the number of trials, and holds some of their rows against files."""
    return Store.open(folder, reading=Reading(few=0, some=0, enough=enough, held=held))


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
    store = opened(tmp_path_factory.mktemp("compacted") / "store")
    fill(store)
    before = facts(store)
    store.compact()
    return store.root, before


@pytest.fixture
def compacted(compacted_folder, tmp_path):
    """A store whose trials are in the snapshot, which a test may change, and what it says."""
    folder, before = compacted_folder
    store = opened(shutil.copytree(folder, tmp_path / "compacted"))
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


def test_copies_of_files_are_decoded_once(compacted, decoded, tmp_path):
    """Git and cp keep neither times nor the numbers of files."""
    store, before = compacted
    decoded.clear()
    there = opened(shutil.copytree(store.root, tmp_path / "b"), enough=7)
    assert there.trials().to_pylist() == before[2]
    assert len(set(decoded)) == 7
    decoded.clear()
    assert there.trials().to_pylist() == before[2]
    assert decoded == []


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
    assert copied(store) == 6
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
    assert copied(store) == 7


def test_a_snapshot_has_the_types_of_its_trials(tmp_path):
    store = opened(tmp_path)
    store.commit(result({"objective": {"q": "inf", "m": 2}}, metrics={"success": np.float32(0.5), "loss": np.nan}))
    before = store.trials()
    store.compact()
    assert store.trials().schema == before.schema
    assert str(store.trials().to_pylist()) == str(before.to_pylist())
    assert pq.read_schema(tmp_path / SNAPSHOT_FILE).remove_metadata() == snapshots.COLUMNS


# Which file a row is of


def test_a_file_that_was_replaced_within_a_tick_of_the_clock_is_noticed(tmp_path):
    """Same size, same time of modification: it is another file."""
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
    os.replace(path, tmp_path / "former")  # so that its number is not used again
    store.commit(result(metrics={"success": second}))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert path.stat().st_size == state.st_size
    assert store.trials()["success"].to_pylist() == [second]


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


@pytest.mark.slow
def test_no_flipped_bit_of_a_snapshot_gives_another_value(tmp_path):
    store = opened(tmp_path)
    fill(store, range(2))
    columns = [*TRIALS.names, "curves"]
    rows = committed_trials.read(store.files, columns)
    store.compact()
    path = tmp_path / SNAPSHOT_FILE
    whole = path.read_bytes()
    for position in range(0, len(whole), 331):
        path.write_bytes(flipped(whole, position, position % 8))
        assert committed_trials.read(store.files, columns) == rows, position


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


@pytest.mark.parametrize("changed", ["file", "seal", "trial_id", "status", "task"])
def test_a_row_that_contradicts_itself_is_read_from_its_file(compacted, changed, caplog):
    """A seal, or a row, of another trial, under a right digest."""
    store, before = compacted
    path = Path(store.root, SNAPSHOT_FILE)
    table = pq.ParquetFile(path).read().replace_schema_metadata(None)
    values = table[changed].to_pylist()
    values[0] = {"status": "stopped", "task": "recall"}.get(changed, values[1])
    column = pa.array(values, table.schema.field(changed).type)
    table = table.set_column(table.column_names.index(changed), changed, column)
    path.write_bytes(seal.sealed(table, SnapshotSeal(), {"compression": "zstd", "write_statistics": False}))
    assert facts(store) == before
    assert "contradicts" in caplog.text or changed == "file"


@st.composite
def lies(draw):
    """A column of a snapshot, and what it says there of each of seven trials: what it says of another, or anything."""
    field = draw(st.sampled_from(list(snapshots.COLUMNS)))
    anything = st.none()
    if pa.types.is_string(field.type):
        anything |= st.text(max_size=5)
    elif pa.types.is_int64(field.type):
        anything |= st.integers(-(2**63), 2**63 - 1)
    elif pa.types.is_float64(field.type):
        anything |= st.floats()
    return field.name, draw(st.lists(st.integers(0, 6) | anything.map(lambda value: [value]), min_size=7, max_size=7))


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lie=lies())
def test_no_snapshot_makes_a_store_say_what_its_files_do_not(compacted_folder, tmp_path_factory, lie):
    folder, before = compacted_folder
    store = opened(shutil.copytree(folder, tmp_path_factory.mktemp("lied") / "store"), held=7)
    store.compact()
    path, (name, said) = Path(store.root, SNAPSHOT_FILE), lie
    table = pq.ParquetFile(path).read().replace_schema_metadata(None)
    at, told = table.column_names.index(name), table[name].to_pylist()
    column = pa.array([each[0] if isinstance(each, list) else told[each] for each in said], table.schema.field(at).type)
    table = table.set_column(at, table.schema.field(at), column)
    path.write_bytes(seal.sealed(table, SnapshotSeal(), {"compression": "zstd", "write_statistics": False}))
    assert facts(store) == before
    assert store.verify() == []
    store.compact()
    assert facts(store) == before


@pytest.mark.slow
def test_verify_holds_a_snapshot_against_the_files(compacted, caplog):
    store, before = compacted
    key = sorted(before[0])[0]
    assert store.verify() == []
    assert copied(store) == 7
    for lied in ({"success": 0.123}, {"status": "stopped"}):
        lie(store, key, **lied)
        assert facts(store) != before
        assert store.verify() == []
        assert key in caplog.text
        assert facts(store) == before
        caplog.clear()


@pytest.mark.parametrize("lied", [{"status": "finished"}, {"steps": 7}, {"success": 0.123}, {"fingerprint": "1-0"}])
def test_a_snapshot_that_agrees_with_itself_and_not_with_the_files_is_not_believed(compacted, lied, caplog):
    store, before = compacted
    key = next(key for key, status in before[0].items() if status == "failed")
    lie(store, key, **lied)
    assert facts(opened(store.root, held=7)) == before
    assert key in caplog.text
    assert store.listing("snapshots") == [], "nor by anybody else"


def test_a_snapshot_with_two_rows_of_a_trial_doubles_nothing(compacted, caplog):
    store, before = compacted
    path = Path(store.root, SNAPSHOT_FILE)
    table = pq.ParquetFile(path).read().replace_schema_metadata(None)
    path.write_bytes(seal.sealed(pa.concat_tables([table, table[:1]]), SnapshotSeal(), {"write_statistics": False}))
    assert facts(store) == before
    assert SNAPSHOT_FILE in caplog.text


def test_a_compaction_does_not_hand_on_what_a_snapshot_says_against_the_files(compacted):
    store, before = compacted
    lie(store, sorted(before[0])[0], status="stopped")
    fill(store, [9])
    opened(store.root, held=7).compact()
    said = store.committed()
    assert said == said | before[0]


def test_a_trial_that_is_found_damaged_behind_a_snapshot_is_no_row(compacted, caplog):
    store, before = compacted
    first, *others = sorted(before[0])
    path = Path(store.root, before[1][first].name)
    state, data = path.stat(), path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert sorted(opened(store.root, held=7).committed()) == others
    assert first in caplog.text
    assert store.listing("snapshots") == [SNAPSHOT_FILE]


def test_a_result_that_is_committed_beside_a_reading_is_no_fault_of_the_snapshot(compacted, caplog):
    store, _ = compacted
    reader = opened(store.root, held=7)
    before_next(reader.files, "opened", lambda: store.commit(result({"seed": 5}, metrics={"success": 0.25})))
    assert len(reader.committed()) == 7
    assert store.listing("snapshots") == [SNAPSHOT_FILE]
    assert SNAPSHOT_FILE not in caplog.text


def test_a_deletion_reads_files_whatever_a_snapshot_says(compacted):
    store, before = compacted
    key = next(key for key, status in before[0].items() if status == "failed")
    lie(store, key, status="finished")
    assert deletion.of_status(store, "failed").trials == {key: "failed"}


@pytest.mark.slow
def test_a_small_snapshot_that_expands_to_gigabytes_is_not_decoded(compacted, caplog):
    store, before = compacted
    path = Path(store.root, SNAPSHOT_FILE)
    table = pq.ParquetFile(path).read().replace_schema_metadata(None)
    at = table.column_names.index("command")
    table = pa.concat_tables([table] * 100)
    table = table.set_column(at, table.schema.field(at), pa.array(["x" * 2**20] * table.num_rows))
    path.write_bytes(seal.sealed(table, SnapshotSeal(), {"compression": "zstd", "write_statistics": False}))
    assert path.stat().st_size < 500_000
    held = pa.total_allocated_bytes()
    assert store.trials().to_pylist() == before[2]
    assert pa.total_allocated_bytes() < held + snapshots.LEAST_BOUND
    assert "expands" in caplog.text


# Crashes and company


@pytest.mark.slow
def test_a_crash_before_and_after_every_operation_loses_and_doubles_nothing(compacted, tmp_path):
    prepared, _ = compacted
    fill(prepared, range(20, 24))
    before = prepared.trials()
    for folder, cut in power_cuts(tmp_path, least=2):  # one write
        store = opened(shutil.copytree(prepared.root, folder))
        cut(store.compact)
        assert store.trials() == before, folder
        store.compact()
        assert store.trials() == before, folder


def test_compactions_beside_a_compaction_and_beside_a_read_lose_and_double_nothing(tmp_path):
    """One before a snapshot is written, and one between the listing of trials and the reading of the snapshot."""
    store, other = opened(tmp_path), opened(tmp_path)
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
    before_next(store.files, "opened", lambda: compacted_meanwhile(9))
    assert store.trials()["trial_id"].to_pylist() == before
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

    before_next(store.files, "opened", lambda: better("stopped", 0.7))
    before_next(store.files, "write", lambda: better("finished", 0.8))
    assert store.compact() == 1
    assert store.committed() == {key: "finished"}
    assert store.trials()["success"].to_pylist() == [0.8]
