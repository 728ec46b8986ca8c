"""A copy of a sweep equals the sweep, keeps the target's own trials, and survives crashes and damage."""

from pathlib import Path

import pytest

from sweeper.store.annotations import annotate
from sweeper.store.copying import Copied, copy
from sweeper.store.store import Store, StoreError
from tests.damage import flipped
from tests.filled_stores import IDS, contents, evaluate, sound
from tests.results import WEIGHTS, failure, record, result


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
    assert local.read_bytes(name) == source.read_bytes(name)


@pytest.mark.parametrize(
    ("kept", "columns"),
    [(["succ*"], ("success",)), (["extra", "loss"], ("loss", "extra")), ([], ())],
    ids=["pattern", "names", "none"],
)
def test_seals_say_which_outcomes_were_kept(source, local, kept, columns):
    copy(source, local, outcomes=kept)
    assert sound(local)
    assert {seal.outcomes for seal in local.seals(IDS[:4]).values()} == {columns}
    assert local.outcomes().column_names == ["trial_id", "task", "baseline", "input", *columns]
    assert local.outcomes().num_rows == (20 if kept else 0)
    whole = source.outcomes([IDS[0]]).select(columns)
    assert local.outcomes([IDS[0]]).select(columns).to_pylist() == (whole.to_pylist() if kept else [])
    assert local.trials().to_pylist() == source.trials().to_pylist()
    assert contents(local)[3:] == contents(source)[3:], "networks and evaluations"


def test_what_cannot_be_copied_is_refused_with_the_nearest_name(source, local):
    with pytest.raises(StoreError, match=r"'sucess'.*'success'"):
        copy(source, local, outcomes=["sucess"])
    with pytest.raises(StoreError, match=r"'quik'.*'quick'"):
        copy(source, local, ["quik"])
    with pytest.raises(StoreError):
        copy(source, Store.open(source.url))
    assert not local.exists()


def test_a_damaged_trial_is_left_out_and_costs_no_other(source, local):
    name = source.seals()[IDS[1]].name
    Path(source.root, name).write_bytes(flipped(source.read_bytes(name), 90))
    assert copy(source, local).damaged == [IDS[1]]
    assert set(local.committed()) == set(IDS) - {IDS[1]}
    assert sound(local)
    assert IDS[1] not in source.committed()


def test_what_a_copy_refuses_it_refuses_before_the_first_write(source, local):
    """A file of a newer program, which nobody but that program can read."""
    annotate(source.files, "quick", note="look")
    name = source.listing("sweeps/quick")[0]
    source.write_bytes(name, source.read_bytes(name).replace(b'"schema_version": 1', b'"schema_version": 99'))
    with pytest.raises(StoreError, match="99"):
        copy(source, local)
    assert not list(Path(local.root).rglob("*"))


# Sweeps


def test_starts_are_copied_again(source, local):
    copy(source, local, ["quick"])
    source.record_sweep(record("quick", IDS[:4]))
    assert copy(source, local, ["quick"]).trials == 2
    assert local.sweeps() == starts(source, "quick")


def test_another_sweep_of_the_name_is_refused(source, local):
    local.record_sweep(record("other", IDS[:1]))
    before = states(local)
    with pytest.raises(StoreError, match="'other'"):
        copy(source, local)
    assert states(local) == before, "nothing was copied"
    assert copy(source, local, ["quick"]).trials == 3
