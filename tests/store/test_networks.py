"""Networks lie beside their rows: whole, named by the row, and never in anybody's way."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from sweeper.store import compaction, details, files, networks, sealed_network
from sweeper.store.compaction import compact
from sweeper.store.networks import NoNetworkError
from sweeper.store.seal import Seal, digest_without
from sweeper.store.store import Store, StoreError
from sweeper.trial.trial_spec import trial_id
from tests.results import WEIGHTS, failure, result

FINISHED, OTHER = trial_id(result().trial), trial_id(result({"seed": 1}).trial)
PLACE = "task=coloring/baseline=Aq_R"


@pytest.fixture
def local(tmp_path):
    return Store.open(tmp_path / "results")


@pytest.fixture(params=["disk", pytest.param("objects", marks=pytest.mark.slow)])
def results(request, tmp_path):
    """An empty store on a disk, and one in a bucket."""
    if request.param == "disk":
        return Store.open(tmp_path / "results")
    return Store.open(request.getfixturevalue("s3").url(tmp_path.name))


def relative(name=FINISHED):
    return f"networks/{PLACE}/{name}.safetensors"


def stored(results, name=FINISHED):
    (entry,) = results.entries([name])
    return networks.stored_weights(results, entry)


def same(weights, expected=WEIGHTS):
    return weights.keys() == expected.keys() and all(np.array_equal(weights[name], expected[name]) for name in weights)


def other_run():
    """The same trial with other weights, in a file of the same size."""
    return result(network={name: values + 1 for name, values in WEIGHTS.items()})


def test_a_network_is_read_back_and_other_tools_read_it(results, tmp_path):
    results.commit(result())
    assert same(stored(results))
    data = results.read_bytes(relative())
    assert same(safetensors.numpy.load(data))
    (tmp_path / "x.safetensors").write_bytes(data)
    with safetensors.safe_open(tmp_path / "x.safetensors", "np") as file:
        seal = json.loads(json.loads(file.metadata()["sweeper"])["seal"])
    assert (seal["kind"], seal["trial_id"], seal["version"]) == ("networks", FINISHED, 3)


def test_equal_networks_have_equal_files(local):
    seal = Seal("networks", 1, FINISHED, "coloring", "Aq_R", "finished")
    backwards = dict(reversed(WEIGHTS.items()))
    assert sealed_network.sealed_network(WEIGHTS, seal) == sealed_network.sealed_network(backwards, seal)


def test_who_has_no_network_is_told_why(results):
    results.commit(result(network=None))
    with pytest.raises(NoNetworkError, match=r"resources\.networks: false"):
        stored(results)
    results.commit(failure({"seed": 1}))
    with pytest.raises(NoNetworkError, match="failed"):
        stored(results, OTHER)
    results.commit(result({"seed": 2}))
    results.delete(relative(trial_id(result({"seed": 2}).trial)))
    assert len(results.committed()) == 3, "who deletes a network keeps the trial"
    with pytest.raises(NoNetworkError, match="deleted"):
        stored(results, trial_id(result({"seed": 2}).trial))


def test_a_better_row_without_a_network_takes_the_old_one_away(results):
    results.commit(result(status="stopped"))
    results.commit(result(network=None))
    assert results.read_bytes(relative()) is None


def test_networks_stay_where_they_are_when_their_rows_are_compacted(results, monkeypatch):
    monkeypatch.setattr(compaction, "TOGETHER", 3)
    for seed in range(3):
        results.commit(result({"seed": seed}))
    before = {name: results.read_bytes(name) for name in results.listing("networks")}
    assert compact(results).trials == 3
    assert {name: results.read_bytes(name) for name in results.listing("networks")} == before
    assert same(stored(results))
    assert results.verify("networks") == []
    assert same(stored(results, OTHER))


# --------------------------------------------------------------------------------------------------------------------
# Another run
# --------------------------------------------------------------------------------------------------------------------


def with_a_network_of_another_run(local):
    local.commit(result())
    row = Path(local.root, "trials", PLACE, f"{FINISHED}.parquet")
    first = row.read_bytes()
    row.unlink()
    local.commit(other_run())
    row.write_bytes(first)
    later = time.time_ns() + 10**9
    os.utime(row, ns=(later, later))


def test_a_network_of_another_run_is_not_taken_for_the_rows(local, caplog):
    with_a_network_of_another_run(local)
    with pytest.raises(NoNetworkError, match="another run"):
        stored(local)
    assert local.committed() == {FINISHED: "finished"}
    assert local.verify("networks") == [FINISHED]
    assert relative() in caplog.text


def test_an_old_network_of_another_run_is_set_aside_by_a_start(local):
    with_a_network_of_another_run(local)
    row, network = Path(local.root, "trials", PLACE, f"{FINISHED}.parquet"), Path(local.root, relative())
    past = time.time() - 2 * files.LEFTOVER_SECONDS
    os.utime(row, (past - 10, past - 10))
    os.utime(network, (past, past))
    assert local.committed() == {FINISHED: "finished"}
    assert not network.exists()
    assert local.read_bytes(f"quarantine/{relative()}") is not None


def test_whoever_publishes_the_row_has_its_own_network(results, monkeypatch):
    """Another run writes over it in the last moment, and dies before its row."""
    write = results.files.write

    def interrupted(path, data, keep=None):
        if path.startswith("trials/"):
            foreign = Store(results.files)
            monkeypatch.setattr(results.files, "write", dying)
            with pytest.raises(InterruptedError):
                foreign.commit(other_run())
            monkeypatch.setattr(results.files, "write", write)
        return write(path, data, keep)

    def dying(path, data, keep=None):
        if path.startswith("trials/"):
            raise InterruptedError
        return write(path, data, keep)

    monkeypatch.setattr(results.files, "write", interrupted)
    assert results.commit(result())
    assert same(stored(results))


# --------------------------------------------------------------------------------------------------------------------
# Damage and hostile files
# --------------------------------------------------------------------------------------------------------------------

DAMAGES = {
    "emptied": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "longer": lambda data: data + b"\0",
    "flipped in the weights": lambda data: data[:-3] + bytes([data[-3] ^ 4]) + data[-2:],
    "flipped in the header": lambda data: data[:30] + bytes([data[30] ^ 1]) + data[31:],
    "a header of gigabytes": lambda data: (2**63).to_bytes(8, "little") + data[8:],
    "foreign": lambda data: safetensors.numpy.save(WEIGHTS),
}


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_network_costs_its_own_trial(local, damage, compacted, monkeypatch, caplog):
    local.commit(result())
    local.commit(result({"seed": 1}))
    monkeypatch.setattr(compaction, "TOGETHER", 2)
    if compacted:
        compact(local)
    file = Path(local.root, relative())
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    assert local.verify("networks") == [FINISHED]
    assert relative() in caplog.text
    assert local.read_bytes(f"quarantine/{relative()}") is not None
    assert local.committed() == {OTHER: "finished"}
    assert local.curves().num_rows == 2
    assert same(stored(local, OTHER))
    assert local.commit(result())
    assert same(stored(local))


@pytest.mark.parametrize("noticed_by", ["a start", "a reader"])
def test_damage_done_since_the_commit_is_noticed(local, noticed_by):
    local.commit(result())
    file, row = Path(local.root, relative()), Path(local.root, "trials", PLACE, f"{FINISHED}.parquet")
    file.write_bytes(DAMAGES["flipped in the weights"](file.read_bytes()))
    if noticed_by == "a start":
        later = row.stat().st_mtime_ns + 1_000_000
        os.utime(file, ns=(later, later))
    else:
        os.utime(file, ns=(1, 1))
        with pytest.raises(NoNetworkError, match="damaged"):
            stored(local)
    assert local.committed() == {}


def resealed(weights, change, **fields):
    """A network's file with another header, and the digest that belongs to it."""
    seal = Seal(**{"kind": "networks", "schema_version": 1, "trial_id": FINISHED, "task": "coloring",
                   "baseline": "Aq_R", "status": "finished"} | fields)  # fmt: skip
    data = sealed_network.sealed_network(weights, seal).data
    end = 8 + int.from_bytes(data[:8], "little")
    header = change(data[8:end])
    data = len(header).to_bytes(8, "little") + header + data[end:]
    place = sealed_network._DIGEST.search(data)
    start, stop = place.span(1)
    return data[:start] + digest_without(data, start, stop) + data[stop:]


HOSTILE = {
    "another trial's": lambda: resealed(WEIGHTS, bytes, trial_id=OTHER),
    "another kind": lambda: resealed(WEIGHTS, bytes, kind="curves"),
    "a tensor beyond the end": lambda: resealed(WEIGHTS, lambda header: header.replace(b"[2,3]", b"[9,9]")),
    "a nested header": lambda: resealed(WEIGHTS, lambda header: header.rstrip()[:-1] + b',"x":' + b"[" * 200_000),
    "an unknown type": lambda: resealed(WEIGHTS, lambda header: header.replace(b'"F32"', b'"F00"')),
    "a type that numpy lacks": lambda: resealed(
        WEIGHTS, lambda header: header.replace(b"F32", b"BF16").replace(b"[2,3]", b"[4,3]").replace(b"[3]", b"[6]")
    ),
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_network_costs_itself_and_one_line(local, hostile, caplog):
    local.commit(result())
    local.commit(result({"seed": 1}))
    Path(local.root, relative()).write_bytes(HOSTILE[hostile]())
    assert local.verify("networks") == [FINISHED]
    lines = [record.getMessage() for record in caplog.records if FINISHED in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].isprintable()
    assert local.committed() == {OTHER: "finished"}


def test_a_huge_network_is_not_even_read(local, monkeypatch, caplog):
    local.commit(result())
    monkeypatch.setattr(details, "LARGEST_NETWORK", 100)
    read = []
    original = local.files.read
    monkeypatch.setattr(local.files, "read", lambda name: read.append(name) or original(name))
    assert local.verify("networks") == [FINISHED]
    assert "too many for a network" in caplog.text
    assert relative() not in read


def test_a_network_that_no_reader_would_read_is_refused_before_anything_is_written(local):
    weights = {f"weight {number}": np.zeros(1, np.float32) for number in range(20_000)}
    with pytest.raises(ValueError, match=r"20,000 tensors .* resources\.networks: false"):
        local.commit(result(network=weights))
    assert not local.exists()


def test_a_newer_seal_is_refused(local, monkeypatch):
    local.commit(result())
    monkeypatch.setattr("sweeper.store.seal.SEAL_VERSION", 2)
    with pytest.raises(StoreError, match="seal version 3, this program knows up to 2"):
        local.committed()
