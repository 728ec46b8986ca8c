"""A file of a trial that is damaged, foreign or hostile costs itself: its trial is pending, and all others are read."""

import dataclasses
import functools
import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeper.analysis import sql
from sweeper.store import schema, seal, trial_file
from sweeper.store.seal import DamagedError, TrialSeal
from sweeper.store.store import NoNetworkError, StoreError
from sweeper.trial.record import canonical
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


def test_every_flipped_bit_of_a_trial_is_found(local):
    local.commit(result())
    whole = file(local).read_bytes()
    head = int(json.loads(pq.read_metadata(file(local)).metadata[b"sweeper"])["proof"].partition("-")[0])
    assert 0 < head < len(whole)
    for position in range(0, len(whole), 37):
        place(local, flipped(whole, position, position % 8))
        if position < head:  # a start reads the tail; who reads outcomes or the network reads all
            assert local.verify() == [FINISHED], position
        assert local.committed() == {}, position
    place(local, whole)
    assert local.committed() == {FINISHED: "finished"}


@pytest.mark.parametrize("read", ["outcomes", "network", "sql"])
def test_damage_in_the_head_costs_its_own_trial_when_it_is_read(local, read, caplog):
    local.commit(result(outcomes=outcomes(5000)))
    local.commit(result({"seed": 1}, outcomes=outcomes(5000)))
    place(local, flipped(file(local).read_bytes(), 5000, 2))
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


def test_a_start_reads_only_tails_of_any_length(local, monkeypatch):
    losses = np.random.default_rng(0).random(200_000)
    curve = [(step, f"curve {step % 7}", math.sin(step)) for step in range(20_000)]
    local.commit(result(outcomes=outcomes(200_000, loss=losses)))
    local.commit(result({"seed": 1}, outcomes=outcomes(200_000, loss=losses), curves=curve))
    read, read_end = [], local.files.read_end
    monkeypatch.setattr(local.files, "read", lambda name: pytest.fail(name))
    monkeypatch.setattr(
        local.files, "read_end", lambda name, count: read.append((name, count)) or read_end(name, count)
    )
    assert len(local.seals()) == local.trials().num_rows == 2
    assert sorted(local.curves([OTHER])["value"].to_pylist()) == sorted(value for _, _, value in curve)
    assert {count for name, count in read if name == NAME} == {seal.END} < {file(local).stat().st_size, seal.END}
    assert 2 * seal.END < max(count for _, count in read) < file(local, OTHER).stat().st_size - 200_000


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
    return seal.sealed(table, dataclasses.replace(SEAL, **changes), OPTIONS, table.column_names[0])


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
    size, *digests = value.pop("proof").split("-")
    assert value == {
        "kind": "trial", "schema_version": 1, "trial_id": FINISHED, "task": "coloring", "baseline": "Aq_R",
        "status": "finished", "steps": 300, "fingerprint": None, "outcomes": ["success", "loss"],
        "network": SEAL.network,
    }  # fmt: skip
    assert 0 < int(size) < file(local).stat().st_size
    assert [len(digest) for digest in digests] == [32, 32]

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
    text = change(seal.text_of(SEAL))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seal, "text_of", lambda _: text)
        return resealed(row_table())


def with_bytes(column):
    table = row_table()
    at = table.schema.get_field_index(column)
    return resealed(table.set_column(at, table.schema.field(at), pa.array([b"{\xff}"]).view(pa.string())))


def with_head_size(digits):
    return re.sub(rb'"proof":"\d{12}', b'"proof":"' + digits, resealed(row_table()))


SENSELESS = {
    **{f"contradicts: {what}": lambda c=changes: resealed(row_table(**c)) for what, changes in CONTRADICTIONS.items()},
    **{f"seal: {what}": lambda c=change: with_seal(c) for what, change in SEALS.items()},
    **{f"no utf_8 as {column}": lambda c=column: with_bytes(c) for column in ("device", "spec")},
    **{
        f"another form: {columns}": lambda c=columns: resealed(pa.table(c))
        for columns in ({"trial_id": [FINISHED] * 2}, {"trial_id": [1]}, {"evil": [FINISHED]}, {"trial_id": [None]})
    },
    **{f"proof: {size}": lambda s=size: with_head_size(s) for size in (b"9" * 12, b"-00000000001", b"x" * 12)},
    "expands to gigabytes": lambda: resealed(row_table(command="x" * (trial_file.ROW_LIMIT + 1))),
}
"""What makes files that are well sealed, or nearly, and no file of a trial."""


@pytest.mark.parametrize("what", SENSELESS)
def test_a_file_that_makes_no_sense_costs_itself_and_one_line(local, what, caplog):
    local.commit(result({"seed": 1}))
    data = SENSELESS[what]()
    assert len(data) < 300_000
    place(local, data)
    if "utf_8" not in what:  # which only readers of that column see
        assert local.committed() == {OTHER: "finished"}
    assert local.trials()["trial_id"].to_pylist() == [OTHER]
    assert local.committed() == {OTHER: "finished"}
    line = told(caplog)
    assert what != "expands to gigabytes" or f"{trial_file.ROW_LIMIT:,}"[:4] in line, "and was not decoded"


def test_a_network_may_be_larger_than_a_row(local):
    place(local, resealed(row_table(network=bytes(trial_file.ROW_LIMIT + 1))))
    assert local.trials()["trial_id"].to_pylist() == [FINISHED]


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
    "another network": lambda: resealed(row_table(network=trial_file.network_bytes({"w": np.ones(3)}))),
    "no network": lambda: resealed(row_table(network=None)),
    "other outcomes": lambda: resealed(row_table(outcomes=[("success", [0.5])])),
    "no outcomes": lambda: resealed(row_table(outcomes=None)),
    **{what: lambda c=change: with_network(c) for what, change in HOSTILE_NETWORKS.items()},
}


@pytest.mark.parametrize("what", SENSELESS_HEADS)
def test_a_head_that_makes_no_sense_costs_its_trial_when_it_is_read(local, what, caplog):
    local.commit(result({"seed": 1}))
    place(local, SENSELESS_HEADS[what]())
    assert local.committed() == {FINISHED: "finished", OTHER: "finished"}
    assert local.verify() == [FINISHED]
    assert told(caplog)
    assert local.committed() == {OTHER: "finished"}


@pytest.mark.parametrize("first", ["network", "trial_id"])
def test_small_outcomes_that_expand_to_gigabytes_are_not_decoded(first):
    """Equal values take next to nothing in a file."""
    numbers = pa.ListArray.from_arrays([0, 2**20], pa.repeat(pa.scalar(0.0, pa.float32()), 2**20))
    bomb = pa.MapArray.from_arrays([0, 1], pa.array(["success"]), numbers).cast(schema.OUTCOMES_COLUMN.type)
    table = row_table()
    table = table.set_column(1, schema.OUTCOMES_COLUMN, bomb)
    names = [first, *(name for name in table.column_names if name != first)]
    data = resealed(table.select(names), outcomes=("success",))
    assert len(data) < 100_000
    with pytest.raises(DamagedError):
        trial_file.parts(data, NAME, ["outcomes"], largest=2**23)
    assert trial_file.parts(data, NAME, ["outcomes"], largest=2**24).seal.outcomes == ("success",)


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


def test_a_file_of_half_a_terabyte_takes_no_memory(local, caplog):
    """Only holes: the tail is that of a trial, and the seal says so."""
    local.commit(result({"seed": 1}))
    data = with_head_size(b"%012d" % 2**39)
    digits = data.rindex(b'"}') - 32
    digest = seal._digest(data[:digits], b"0" * 32, data[digits + 32 :]).encode()
    place(local, b"")
    with file(local).open("r+b") as huge:
        huge.seek(2**39)
        huge.write(data[:digits] + digest + data[digits + 32 :])
    assert local.committed() == {OTHER: "finished"}
    assert f"{2**39:,}"[:7] in told(caplog)


def test_a_huge_tail_is_not_even_read(local, monkeypatch):
    local.commit(result({"seed": 1}))
    place(local, b"")
    with file(local).open("r+b") as huge:
        huge.seek(2**40)
        huge.write(with_head_size(b"000000000000"))
    read, read_end = [], local.files.read_end
    monkeypatch.setattr(local.files, "read_end", lambda name, count: read.append(count) or read_end(name, count))
    assert local.committed() == {OTHER: "finished"}
    assert set(read) == {seal.END}
