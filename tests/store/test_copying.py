"""A copy of a sweep equals the sweep, keeps the target's own trials, and survives crashes, damage and strangers."""

import dataclasses
import functools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeper.store.annotations import Subject, annotate, read_annotations
from sweeper.store.committed_trials import Reading
from sweeper.store.copying import Copied, copy
from sweeper.store.seal import TrialSeal, sealed, unsealed
from sweeper.store.store import Store, StoreError
from tests.damage import flipped, lie
from tests.filled_stores import IDS, contents, evaluate, sound
from tests.power_cuts import power_cuts
from tests.results import PROVENANCE, WEIGHTS, failure, outcomes, record, result
from tests.store.meanwhile import before_next


def starts(store, name):
    return [each for each in store.sweeps() if each.name == name]


def states(store):
    """Times of all files of a local store."""
    return {path: path.stat().st_mtime_ns for path in Path(store.root).rglob("*") if path.is_file()}


def test_a_copied_sweep_is_what_it_was(source, local):
    assert copy(source, local, ["quick"]) == Copied(trials=3, present=0, evaluations=1, damaged=[])
    planned = [*IDS[:2], IDS[4]]
    assert local.committed() == {key: source.committed()[key] for key in planned}
    assert contents(local) == contents(source, planned)
    assert local.sweeps() == starts(source, "quick")
    assert sound(local)


def test_without_names_everything_is_copied_and_a_second_copy_changes_nothing(source, local):
    copy(source, local)
    assert contents(local) == contents(source)
    assert local.sweeps() == source.sweeps()
    for kind in ("trials", "sweeps", "evaluations"):
        names = source.listing(kind)
        assert sorted(local.listing(kind)) == sorted(names)
        assert all(local.read_bytes(name) == source.read_bytes(name) for name in names), "byte by byte"
    before = states(local)
    assert copy(source, local) == Copied(trials=0, present=6, evaluations=0, damaged=[])
    assert states(local) == before


def test_what_is_there_stays_unless_the_copy_is_of_a_better_status(source, local):
    local.commit(result(metrics={"success": 0.125}, outcomes=None))
    local.commit(failure({"seed": 1}))
    local.commit(result({"seed": 4}))
    local.commit(result({"seed": 5}, status="stopped", curves=[(7, "train_loss", 9.0)]))
    copy(source, local)
    assert local.trials([IDS[0]])["success"].to_pylist() == [0.125]
    assert local.outcomes([IDS[0]]).num_rows == 0
    assert local.committed() == source.committed() | {IDS[4]: "finished"}
    others = [*IDS[1:4], IDS[5]]
    assert contents(local, others)[:4] == contents(source, others)[:4]
    assert sound(local)


def test_an_evaluation_stays_with_its_network(source, local):
    local.commit(result(network={"layer.weight": WEIGHTS["layer.weight"] + 1}))
    assert copy(source, local).evaluations == 0, "the target has another network of the trial"
    assert local.listing("evaluations") == []
    evaluate(source, seed=1)
    assert copy(source, local).evaluations == 1
    (name,) = local.listing("evaluations")
    local.write_bytes(name, b"damaged")
    assert copy(source, local).evaluations == 1
    assert local.read_bytes(name) == source.read_bytes(name)


def test_a_trial_that_comes_meanwhile_stays(source, local):
    """Between the look at what is there and the copying of the trials."""
    there = Store.open(local.url)
    meanwhile = result(metrics={"success": 0.125}, curves=[(7, "train_loss", 9.0)], outcomes=None)
    before_next(local.files, "write", lambda: there.commit(meanwhile))
    assert copy(source, local).trials == 6
    assert local.trials([IDS[0]])["success"].to_pylist() == [0.125]
    assert local.curves([IDS[0]])["value"].to_pylist() == [9.0]
    assert local.outcomes([IDS[0]]).num_rows == 0
    assert contents(local, [IDS[0]])[3], "its network is there"
    assert contents(local, IDS[1:])[:4] == contents(source, IDS[1:])[:4]


@pytest.mark.parametrize("kept", [["success"], ["extra", "loss"], []])
def test_seals_say_which_outcomes_were_kept(source, local, kept):
    copy(source, local, outcomes=kept)
    assert sound(local)
    columns = tuple(name for name in ("success", "loss", "extra") if name in kept)
    assert {seal.outcomes for seal in local.seals(IDS[:4]).values()} == {columns}
    assert local.outcomes().column_names == ["trial_id", "task", "baseline", "input", *columns]
    assert local.outcomes().num_rows == (20 if kept else 0)
    whole = source.outcomes([IDS[0]]).select(columns)
    assert local.outcomes([IDS[0]]).select(columns).to_pylist() == (whole.to_pylist() if kept else [])
    assert local.trials().to_pylist() == source.trials().to_pylist()
    assert contents(local)[3:] == contents(source)[3:], "networks and evaluations"


def test_outcomes_can_be_kept_by_trial(source, local):
    assert copy(source, local, outcomes={IDS[0]: {"success"}, IDS[1]: {"success", "loss", "extra"}}).trials == 6
    kept = {key: seal.outcomes for key, seal in local.seals(IDS[:3]).items()}
    assert kept == {IDS[0]: ("success",), IDS[1]: ("success", "loss", "extra"), IDS[2]: ()}
    assert sound(local)
    name = source.seals()[IDS[1]].name
    assert local.read_bytes(name) == source.read_bytes(name), "byte by byte"


COMMAND = (
    "python -m sweeper.run /home/ada/space.yaml --results=/scratch/ada/runs --set trial.steps=3 s3://bucket/folder"
)
SHOWN = "python -m sweeper.run space.yaml --results=runs --set trial.steps=3 s3://bucket/folder"


def test_commands_lose_their_folders(tmp_path, local):
    origin = PROVENANCE.model_copy(update={"command": COMMAND})
    source = Store.open(tmp_path / "source")
    for seed in range(2):
        source.commit(result({"seed": seed}, provenance=origin))
    source.record_sweep(record("quick", IDS[:2], command=COMMAND))
    evaluate(source, provenance=origin)
    copy(source, local, hide_folders=True)
    assert local.trials()["command"].to_pylist() == [SHOWN] * 2
    assert [start.provenance.command for start in local.sweeps()] == [SHOWN]
    ((_, evaluation),) = local.evaluations(local.seals())
    assert evaluation["command"].to_pylist() == [SHOWN]
    rest = [name for name in source.trials().column_names if name != "command"]
    assert local.trials().select(rest) == source.trials().select(rest)
    assert sound(local)


def test_what_cannot_be_copied_is_refused_with_the_nearest_name(source, local):
    with pytest.raises(StoreError, match=r"'sucess'.*'success'"):
        copy(source, local, outcomes=["sucess"])
    with pytest.raises(StoreError, match=r"'quik'.*'quick'"):
        copy(source, local, ["quik"])
    with pytest.raises(StoreError):
        copy(source, Store.open(source.url))
    assert not local.exists()


@pytest.mark.parametrize("place", [90, -90], ids=["head", "tail"])
def test_a_damaged_trial_is_left_out_and_costs_no_other(source, local, place):
    name = source.seals()[IDS[1]].name
    Path(source.root, name).write_bytes(flipped(source.read_bytes(name), place))
    done = copy(source, local)
    assert done.damaged == ([IDS[1]] if place > 0 else []), "without a sound tail there is no trial"
    assert set(local.committed()) == set(IDS) - {IDS[1]}
    assert sound(local)
    assert IDS[1] not in source.committed()


@pytest.mark.parametrize("name", ["annotations.json", f"annotations/{'a' * 20}.json"])
@pytest.mark.parametrize("data", [b"{", b"[]", b'{"schema_version": 1, "annotations": [3]}', b"[" * 100_000])
def test_damaged_notes_are_left_out_and_cost_nothing_else(source, local, name, data, caplog):
    annotate(source.files, Subject("quick"), note="look")
    source.write_bytes(name, data)
    assert copy(source, local) == Copied(trials=6, present=0, evaluations=1, damaged=[name])
    assert read_annotations(local.files).sweeps["quick"].texts == ["look"]
    assert name in caplog.text
    assert source.read_bytes(name) == data


@pytest.mark.parametrize("folder", ["annotations", "evaluations", "trials", "sweeps/quick"])
def test_what_a_copy_refuses_it_refuses_before_the_first_write(source, local, folder):
    """A file of a newer program, which nobody but that program can read."""
    annotate(source.files, Subject("quick"), note="look")
    name = source.listing(folder)[0]
    if folder in ("annotations", "sweeps/quick"):
        data = source.read_bytes(name).replace(b'"schema_version": 1', b'"schema_version": 99')
    else:
        file = pa.BufferReader(source.read_bytes(name))
        made = dataclasses.replace(unsealed(file, TrialSeal, name), schema_version=99)
        data = sealed(pq.ParquetFile(file).read().replace_schema_metadata(None), made, {})
    source.write_bytes(name, data)
    with pytest.raises(StoreError, match="99"):
        copy(source, local)
    assert not list(Path(local.root).rglob("*"))


@pytest.mark.parametrize("where", ["source", "target"])
def test_a_copy_reads_files_whatever_a_snapshot_says(source, local, where):
    """A row of a snapshot that says of a failed trial that it finished, and agrees with itself."""
    source, local = (Store.open(store.url, reading=Reading(few=0, some=0, held=0)) for store in (source, local))
    if where == "target":
        copy(source, local)
    liar = source if where == "source" else local
    liar.delete(liar.seals()[IDS[1]].name)
    liar.commit(failure({"seed": 1}))
    lie(liar, IDS[1], status="finished")
    copy(source, local)
    rows, copies = (Store.open(store.url).trials(IDS).to_pylist() for store in (source, local))  # so few by their files
    assert copies == rows


# Sweeps


def test_starts_are_copied_again_and_those_that_the_target_alone_has_stay(source, local):
    copy(source, local, ["quick"])
    source.record_sweep(record("quick", IDS[:4]))
    assert copy(source, local, ["quick"]).trials == 2
    assert local.sweeps() == starts(source, "quick")
    local.record_sweep(record("quick", IDS[:1]))
    before = local.sweeps()
    copy(source, local, ["quick"])
    assert local.sweeps() == before


def test_another_sweep_of_the_name_is_refused_unless_it_plans_the_same(source, local):
    local.record_sweep(record("other", IDS[:1]))
    before = states(local)
    with pytest.raises(StoreError, match="'other'"):
        copy(source, local)
    assert states(local) == before, "nothing was copied"
    local.record_sweep(record("other", reversed(IDS[1:4])))
    assert copy(source, local).trials == 6
    assert [each.trial_ids[0] for each in starts(local, "other")] == [IDS[0], IDS[3]]


# Crashes


@pytest.mark.slow
def test_a_crash_at_every_operation_takes_in_whole_trials_only(tmp_path):
    source = Store.open(tmp_path / "source")
    source.commit(result(outcomes=outcomes(5)))
    source.commit(failure({"seed": 1}))
    source.record_sweep(record("quick", IDS[:2]))
    evaluate(source)
    source.compact()
    whole, of_source = contents(source), functools.cache(lambda *done: contents(source, done)[:4])
    for folder, cut in power_cuts(tmp_path, least=8):  # two trials, an evaluation, and a sweep
        target = Store.open(folder)
        target.commit(failure())
        cut(copy, source, target)
        done = [key for key, status in target.committed().items() if (key, status) != (IDS[0], "failed")]
        assert contents(target, done)[:4] == of_source(*sorted(done)), folder
        copy(source, target)
        assert contents(target) == whole, folder
        assert target.sweeps() == source.sweeps()
