"""A file of a trial that is damaged costs itself: its trial is pending, and all others are read."""

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeper.analysis import sql
from sweeper.store import schema, seal, trial_file
from sweeper.store.store import NoNetworkError, StoreError
from sweeper.trial.trial import trial_id
from tests.damage import DAMAGES, flipped
from tests.results import outcomes, result
from tests.store.meanwhile import before_next

FINISHED, OTHER = trial_id(result().trial), trial_id(result({"seed": 1}).trial)
NAME = schema.trial_file_name("coloring", "Aq_R", FINISHED)


def file(store, name=FINISHED):
    return Path(store.root, NAME).with_name(f"{name}.parquet")


def place(store, data):
    """Make these bytes the file of the finished trial."""
    file(store).parent.mkdir(parents=True, exist_ok=True)
    file(store).write_bytes(data)


def told(caplog, what=FINISHED):
    """The one warning that names a trial, which must not command a terminal."""
    (line,) = [text for record in caplog.records if what in (text := record.getMessage())]
    assert line.isprintable()
    return line


def resealed(data, change, **changes):
    """A file of the changed table, with a seal for it as that of the finished trial."""
    table = pq.ParquetFile(pa.py_buffer(data)).read().replace_schema_metadata(None)
    made = dataclasses.replace(trial_file.trial_file(result())[0], **changes)
    return seal.sealed(change(table), made, {"compression": "zstd", "write_statistics": False})


# Damage

SPOILT = DAMAGES | {
    "flipped in the row": lambda data: flipped(data, 1800, 2),
    "that of another trial": lambda data: trial_file.trial_file(result({"seed": 1}))[1],
    "a seal that is no JSON": lambda data: data.replace(b'{"kind":"trial"', b'{"kind":"trial}'),
    "an unknown column": lambda data: data.replace(b"error_kind", b"error_kinc"),
    "a missing column": lambda data: resealed(data, lambda table: table.drop_columns(["programs"])),
    "a column of another type": lambda data: resealed(
        data, lambda table: table.set_column(table.column_names.index("steps"), "steps", pa.array(["3"]))
    ),
}


@pytest.mark.parametrize("damage", SPOILT)
def test_a_damaged_trial_is_set_aside_and_its_trial_is_pending(local, damage, caplog):
    local.commit(result())
    local.commit(result({"seed": 1}))
    place(local, SPOILT[damage](file(local).read_bytes()))
    assert local.trials()["trial_id"].to_pylist() == [OTHER], "the other rows stay readable"
    assert told(caplog)
    assert local.committed() == {OTHER: "finished"}
    assert local.read_bytes(f"quarantine/{NAME}") is not None
    caplog.clear()
    assert local.commit(result())
    assert local.committed() == {FINISHED: "finished", OTHER: "finished"}
    assert not caplog.records


def everything(store):
    outcomes = store.outcomes().to_pylist()
    networks = [store.network(seal) for seal in store.seals().values()]
    return store.trials().to_pylist(), store.curves().to_pylist(), outcomes, networks


@pytest.mark.slow
def test_no_flipped_bit_of_a_trial_gives_another_value(local):
    """A few bits of a file mean nothing, such as those of its first four bytes."""
    local.commit(result())
    whole, before, harmless = file(local).read_bytes(), everything(local), 0
    stride = 41  # longer than a column, so that it comes to all parts of columns
    for position in range(0, len(whole), stride):
        place(local, flipped(whole, position, position % 8))
        if local.verify() == [FINISHED]:
            assert local.committed() == {}, position
        else:
            harmless += 1
            assert everything(local) == before, position
    assert harmless < len(whole) / stride / 2
    place(local, whole)
    assert local.committed() == {FINISHED: "finished"}


@pytest.mark.parametrize("read", ["outcomes", "network", "sql"])
def test_damage_in_a_large_column_costs_its_own_trial_when_it_is_read(local, read, caplog):
    local.commit(result(outcomes=outcomes(5000)))
    local.commit(result({"seed": 1}, outcomes=outcomes(5000)))
    place(local, flipped(file(local).read_bytes(), 90 if read == "network" else 5000, 2))
    assert local.committed() == {FINISHED: "finished", OTHER: "finished"}
    if read == "outcomes":
        assert set(local.outcomes()["trial_id"].to_pylist()) == {OTHER}
    elif read == "sql":
        counts = sql.table("select trial_id, count(success) as n from outcomes group by all", local).to_pylist()
        assert counts == [{"trial_id": OTHER, "n": 5000}]
    else:
        with pytest.raises(NoNetworkError):
            local.weights(local.seals()[FINISHED])
    assert NAME in caplog.text
    assert local.committed() == {OTHER: "finished"}
    assert local.commit(result())
    assert local.verify() == []


def test_a_file_that_is_replaced_while_it_is_read_is_not_taken_for_damaged(local):
    """As if parts of two files had been read."""
    local.commit(result(status="stopped"))
    whole = file(local).read_bytes()
    place(local, flipped(whole, 1800, 2))
    before_next(local.files, "read", lambda: place(local, whole))
    assert local.trials()["status"].to_pylist() == ["stopped"]
    assert local.listing("quarantine") == []


def test_a_disk_in_trouble_is_not_taken_for_a_damaged_file(local, monkeypatch):
    """A network disk whose server is away gives no bytes, to whoever asks."""
    local.commit(result())

    def stale(path):
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", stale)
        with pytest.raises(StoreError, match="Stale"):
            local.verify()
    assert local.committed() == {FINISHED: "finished"}


# What is in a file


def test_a_seal_is_json_in_the_footer_of_plain_parquet_with_page_checksums(local):
    local.commit(result())
    (of_file,) = local.seals().values()
    assert json.loads(pq.read_metadata(file(local)).metadata[b"sweeper"]) == {
        "kind": "trial", "schema_version": 1, "trial_id": FINISHED, "task": "coloring", "baseline": "Aq_R",
        "status": "finished", "steps": 300, "fingerprint": of_file.fingerprint, "outcomes": ["success", "loss"],
        "network": of_file.network,
    }  # fmt: skip

    data = file(local).read_bytes()
    whole = pq.ParquetFile(pa.py_buffer(data), page_checksum_verification=True).read()
    assert whole.schema.remove_metadata() == schema.TRIAL_FILE
    assert "task" not in whole.column_names, "hive partitions must not be repeated inside"
    with pytest.raises((OSError, pa.ArrowInvalid)):
        pq.ParquetFile(pa.py_buffer(flipped(data, 60)), page_checksum_verification=True).read()


def test_a_newer_store_is_refused_and_not_touched(local):
    whole = trial_file.trial_file(result())[1]
    newer = resealed(whole, lambda table: table.append_column("mood", pa.array(["good"])), schema_version=2)
    place(local, newer)
    for ask in (local.committed, local.trials, lambda: local.curves([FINISHED]), lambda: local.commit(result())):
        with pytest.raises(StoreError, match=FINISHED):
            ask()
    assert file(local).read_bytes() == newer
