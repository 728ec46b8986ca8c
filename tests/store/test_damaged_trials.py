"""A file of a trial that is damaged, foreign or hostile costs itself: its trial is pending, and all others are read."""

import dataclasses
import functools
import json
import math
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeper.analysis import sql
from sweeper.store import local_files, schema, seal, trial_file
from sweeper.store.seal import DamagedError, TrialSeal
from sweeper.store.store import NoNetworkError, StoreError
from sweeper.trial.trial import trial_id
from tests.damage import DAMAGES, flipped
from tests.results import WEIGHTS, outcomes, result

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


# Damage

SPOILT = DAMAGES | {
    "cut in front": lambda data: data[1:],
    "longer in front": lambda data: b"\0" + data,
    "flipped in the row": lambda data: flipped(data, -6000, 2),
    "that of another trial": lambda data: trial_file.trial_file(result({"seed": 1}))[1],
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
    assert harmless < len(whole) / stride / 20
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


def test_a_reader_reads_the_columns_that_it_wants(local, monkeypatch):
    losses = np.random.default_rng(0).random(200_000)
    curve = [(step, f"curve {step % 7}", math.sin(step)) for step in range(20_000)]
    local.commit(result(outcomes=outcomes(200_000, loss=losses), curves=curve))
    count, readinto = [], local_files._File.readinto
    monkeypatch.setattr(local.files, "read", lambda name: pytest.fail(name))
    monkeypatch.setattr(local_files._File, "readinto", lambda *given: count.append(readinto(*given)) or count[-1])
    assert len(local.seals()) == local.trials().num_rows == 1
    assert sum(count) < 400_000 < file(local).stat().st_size, "no outcomes"
    assert sorted(local.curves([FINISHED])["value"].to_pylist()) == sorted(value for _, _, value in curve)
    assert local.outcomes().num_rows == 200_000


def test_a_store_that_cannot_be_tidied_is_still_read(local, monkeypatch, caplog):
    local.commit(result())
    place(local, DAMAGES["truncated"](file(local).read_bytes()))
    local.commit(result({"seed": 1}))

    def refuse(relative, target):
        raise StoreError("nothing is moved here")

    monkeypatch.setattr(local.files, "move", refuse)
    assert local.committed() == {OTHER: "finished"}
    assert "nothing is moved here" in told(caplog)


# What is in a file

SEAL = TrialSeal(
    trial_id=FINISHED, task="coloring", baseline="Aq_R", status="finished", outcomes=("success", "loss"),
    network=trial_file.network_digest(trial_file.network_bytes(WEIGHTS)),
)  # fmt: skip

OPTIONS = {"compression": "zstd", "write_statistics": False}


def resealed(table, **changes):
    """A file of a table with another seal, and the digests that belong to it."""
    return seal.sealed(table, dataclasses.replace(SEAL, **changes), OPTIONS)


@functools.cache
def whole_table():
    return pq.ParquetFile(pa.py_buffer(trial_file.trial_file(result())[1])).read().replace_schema_metadata(None)


def row_table(**changes):
    """The file of the finished trial as a table, with other values."""
    table = whole_table()
    for name, value in changes.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array([value], table.schema.field(at).type))
    return table


def test_a_seal_is_json_in_the_footer_of_plain_parquet_with_page_checksums(local):
    local.commit(result())
    value = json.loads(pq.read_metadata(file(local)).metadata[b"sweeper"])
    assert len(value.pop("footer")) == 32
    assert value == {
        "kind": "trial", "schema_version": 1, "trial_id": FINISHED, "task": "coloring", "baseline": "Aq_R",
        "status": "finished", "steps": 300, "fingerprint": None, "outcomes": ["success", "loss"],
        "network": SEAL.network,
    }  # fmt: skip

    data = file(local).read_bytes()
    whole = pq.ParquetFile(pa.py_buffer(data), page_checksum_verification=True).read()
    assert whole.schema.remove_metadata() == schema.TRIAL_FILE
    assert "task" not in whole.column_names, "hive partitions must not be repeated inside"
    with pytest.raises((OSError, pa.ArrowInvalid)):
        pq.ParquetFile(pa.py_buffer(flipped(data, 60)), page_checksum_verification=True).read()


def test_a_newer_store_is_refused_and_not_touched(local):
    newer = resealed(pa.table({"trial_id": [FINISHED]}), schema_version=2)
    place(local, newer)
    for ask in (local.committed, local.trials, lambda: local.curves([FINISHED]), lambda: local.commit(result())):
        with pytest.raises(StoreError, match=FINISHED):
            ask()
    assert file(local).read_bytes() == newer


def test_columns_of_a_newer_program_are_left_out_and_missing_ones_are_null(local):
    place(local, resealed(row_table(extra_metrics=None).append_column("mood", pa.array(["good"])).drop_columns(["q"])))
    assert local.trials().schema == schema.TRIALS
    assert local.trials().select(["q", "m", "extra_metrics"]).to_pylist() == [
        {"q": None, "m": 2, "extra_metrics": None}
    ]
    assert sql.table("select success from trials", local).to_pylist() == [{"success": 0.75}]


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
    text = change(seal.text_of(SEAL))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seal, "text_of", lambda _: text)
        return resealed(row_table())


SENSELESS = {
    **{f"seal: {what}": lambda c=change: with_seal(c) for what, change in SEALS.items()},
    "two rows": lambda: resealed(pa.concat_tables([row_table()] * 2)),
    "no row": lambda: resealed(row_table().slice(1)),
}
"""What makes files that are well sealed, or nearly, and no file of a trial."""


@pytest.mark.parametrize("what", SENSELESS)
def test_a_file_that_makes_no_sense_costs_itself_and_one_line(local, what, caplog):
    local.commit(result({"seed": 1}))
    place(local, SENSELESS[what]())
    assert local.committed() == {OTHER: "finished"}
    assert local.trials()["trial_id"].to_pylist() == [OTHER]
    assert told(caplog)


def test_a_small_file_that_expands_to_gigabytes_is_not_decoded():
    data = pa.BufferReader(resealed(row_table(command="x" * 2**23)))
    assert data.size() < 100_000
    with pytest.raises(DamagedError):
        seal.row_of(data, schema.TRIAL_FILE, ["command"], largest=2**23)
    assert seal.row_of(data, schema.TRIAL_FILE, ["command"], largest=2**24)["command"].to_pylist() == ["x" * 2**23]
    assert seal.LARGEST_ROW > trial_file.LARGEST_NETWORK


# A folder from a stranger


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
    assert len({record.getMessage() for record in caplog.records}) == len(names)
    assert all(record.getMessage().isprintable() for record in caplog.records)
    assert local.curves().num_rows == 2


@pytest.mark.parametrize("footer", [None, 2**31 - 1], ids=["a sound footer", "a footer of gigabytes"])
def test_a_file_of_half_a_terabyte_takes_no_memory(local, footer, caplog):
    """Only holes before the last kilobytes."""
    local.commit(result())
    local.commit(result({"seed": 1}))
    data = file(local).read_bytes()
    if footer is not None:
        data = data[:-8] + footer.to_bytes(4, "little") + data[-4:]
    place(local, b"")
    with file(local).open("r+b") as huge:
        huge.seek(2**39)
        huge.write(data)
    assert local.committed() == {OTHER: "finished"}
    assert told(caplog)
