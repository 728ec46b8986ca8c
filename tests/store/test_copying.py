"""A copy of a sweep equals the sweep, keeps the target's own trials, and survives crashes, damage and strangers."""

from pathlib import Path

import pytest

from sweeper.store import copying, files, trial_file
from sweeper.store.copying import Copied, copy
from sweeper.store.evaluations import evaluations_table, stored_evaluations
from sweeper.store.store import Store, StoreError
from tests.filled_stores import IDS, contents, evaluate, filled, sound
from tests.power_cuts import power_cuts
from tests.results import PROVENANCE, WEIGHTS, failure, record, result


@pytest.fixture
def source(tmp_path):
    return filled(tmp_path / "source")


def states(store):
    """Sizes and times of all files of a local store."""
    return {path: path.stat().st_mtime_ns for path in Path(store.root).rglob("*") if path.is_file()}


def test_a_copied_sweep_is_what_it_was(source, results):
    assert copy(source, results, ["quick"]) == Copied(trials=3, present=0, evaluations=1, damaged=[])
    planned = [*IDS[:2], IDS[4]]
    assert results.committed() == {key: source.committed()[key] for key in planned}
    assert contents(results) == contents(source, planned)
    assert results.sweeps() == [each for each in source.sweeps() if each.name == "quick"]
    assert sound(results)


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


def test_trials_that_are_there_are_left_alone(source, results):
    results.commit(result(metrics={"success": 0.125}, outcomes=None))
    results.commit(result({"seed": 4}))
    copy(source, results)
    assert results.trials([IDS[0]])["success"].to_pylist() == [0.125]
    assert results.outcomes([IDS[0]]).num_rows == 0
    assert results.committed()[IDS[4]] == "finished"
    assert contents(results, IDS[1:4])[0] == contents(source, IDS[1:4])[0]


def test_a_better_row_takes_the_place_of_a_failed_or_stopped_one(source, results):
    results.commit(failure({"seed": 0}))
    results.commit(result({"seed": 5}, status="stopped", curves=[(7, "train_loss", 9.0)]))
    copy(source, results)
    assert results.committed() == source.committed()
    assert contents(results) == contents(source)
    assert sound(results)


def test_an_evaluation_stays_with_its_network(source, results):
    results.commit(result(network={"layer.weight": WEIGHTS["layer.weight"] + 1}))
    assert copy(source, results).evaluations == 0, "the results has another network of the trial"
    assert results.listing("evaluations") == []
    evaluate(source, seed=1)
    assert copy(source, results).evaluations == 1
    (name,) = results.listing("evaluations")
    results.write_bytes(name, b"damaged")
    assert copy(source, results).evaluations == 1
    assert results.read_bytes(name) == source.read_bytes(name)


def test_a_trial_that_comes_meanwhile_stays(source, results, monkeypatch):
    meanwhile = result(metrics={"success": 0.125}, curves=[(7, "train_loss", 9.0)], outcomes=None)

    def threads_after_a_commit(work, items):
        results.commit(meanwhile)
        return files.in_threads(work, items)

    monkeypatch.setattr(copying, "in_threads", threads_after_a_commit)
    copy(source, results)
    assert results.trials([IDS[0]])["success"].to_pylist() == [0.125]
    assert results.curves([IDS[0]])["value"].to_pylist() == [9.0]
    assert results.outcomes([IDS[0]]).num_rows == 0
    assert contents(results, [IDS[0]])[3], "its network is there"
    assert contents(results, IDS[1:])[:4] == contents(source, IDS[1:])[:4]


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


def test_outcomes_that_would_fill_the_memory_are_not_opened(source, local, monkeypatch):
    parts = trial_file.parts
    seals = source.seals()

    def small(*arguments):
        monkeypatch.setattr(trial_file, "DETAIL_LIMIT", 10)
        return parts(*arguments)

    monkeypatch.setattr(trial_file, "parts", small)
    assert copy(source, local, outcomes=["success"]).damaged == sorted(seals)


def test_what_cannot_be_copied_is_one_sentence(source, local):
    with pytest.raises(StoreError, match=r"outcomes called 'sucess'; did you mean 'success'\?; known are: extra, loss"):
        copy(source, local, outcomes=["sucess"])
    with pytest.raises(StoreError, match=r"no sweep 'quik'; did you mean 'quick'\? \(known: other, quick\)"):
        copy(source, local, ["quik"])
    with pytest.raises(StoreError, match="onto itself"):
        copy(source, Store.open(source.url))
    assert not local.exists()


@pytest.mark.parametrize("place", [90, -90], ids=["head", "tail"])
def test_a_damaged_trial_is_left_out_and_costs_no_other(source, local, place):
    name = source.seals()[IDS[1]].name
    data = bytearray(source.read_bytes(name))
    data[place] ^= 1
    Path(source.root, name).write_bytes(data)
    done = copy(source, local)
    assert done.damaged == ([IDS[1]] if place > 0 else []), "without a sound tail there is no trial"
    assert set(local.committed()) == set(IDS) - {IDS[1]}
    assert sound(local)
    assert IDS[1] not in source.committed()


# Sweeps


def test_a_sweep_that_goes_on_is_copied_again(source, results):
    copy(source, results, ["quick"])
    source.record_sweep(record("quick", IDS[:4]))
    assert copy(source, results, ["quick"]).trials == 2
    assert results.sweeps() == [each for each in source.sweeps() if each.name == "quick"]


def test_starts_that_the_target_alone_has_stay(source, results):
    copy(source, results, ["quick"])
    results.record_sweep(record("quick", IDS[:1]))
    before = results.sweeps()
    copy(source, results, ["quick"])
    assert results.sweeps() == before


def test_another_sweep_of_the_name_is_refused_unless_it_plans_the_same(source, local):
    local.record_sweep(record("other", IDS[:1]))
    before = states(local)
    with pytest.raises(StoreError, match="both stores have a sweep 'other'"):
        copy(source, local)
    assert states(local) == before, "nothing was copied"
    local.record_sweep(record("other", reversed(IDS[1:4])))
    assert copy(source, local).trials == 6
    assert [each.trial_ids[0] for each in local.sweeps() if each.name == "other"] == [IDS[0], IDS[3]]


# Crashes


@pytest.mark.slow
def test_a_crash_at_every_operation_takes_in_whole_trials_only(tmp_path, monkeypatch):
    monkeypatch.setattr(copying, "in_threads", lambda work, items: [work(item) for item in items])
    source = filled(tmp_path / "source")
    source.compact()
    whole = contents(source)
    for folder, cut in power_cuts(tmp_path, least=16):
        target = Store.open(folder)
        target.commit(failure({"seed": 0}))
        cut(copy, source, target)
        done = [key for key, status in target.committed().items() if (key, status) != (IDS[0], "failed")]
        assert contents(target, done)[:4] == contents(source, done)[:4], folder
        copy(source, target)
        assert sound(target)
        assert contents(target) == whole, folder
        assert target.sweeps() == source.sweeps()


# What a copy keeps


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
    evaluations = stored_evaluations(local, {key: seal.network for key, seal in local.seals().items()})
    assert evaluations_table(evaluations)["command"].to_pylist() == [SHOWN]
    rest = [name for name in source.trials().column_names if name != "command"]
    assert local.trials().select(rest) == source.trials().select(rest)
    assert sound(local)
