"""A deletion takes what it names and nothing else, also under crashes, beside snapshots, and in buckets."""

import pytest

from sweeper.store import committed_trials
from sweeper.store.annotations import Subject, annotate, read_annotations
from sweeper.store.deletion import delete, of_no_sweep, of_status, of_sweep
from sweeper.store.store import StoreError
from sweeper.trial.trial_spec import trial_id
from tests.filled_stores import IDS, contents, evaluate, filled, sound
from tests.power_cuts import power_cuts
from tests.results import failure, record, result

# `filled`: quick has planned 0, 1 and 4 (failed), other 1, 2 and 3; 5 belongs to no sweep.
OWN, OTHERS = {IDS[0], IDS[4]}, {IDS[1], IDS[2], IDS[3], IDS[5]}


@pytest.fixture
def store(results):
    return filled(results.url)


def traces(store, trial_ids):
    """Files that name one of these trials."""
    return [
        path
        for kind in ("trials", "evaluations")
        for path in store.listing(kind)
        if any(key in path for key in trial_ids)
    ]


def test_a_sweep_goes_with_its_own_trials(store):
    before = contents(store, OTHERS)
    chosen = of_sweep(store, "quick")
    assert (chosen.trials, chosen.shared) == ({IDS[0]: "finished", IDS[4]: "failed"}, 1)
    assert chosen.size == sum(len(store.read_bytes(path)) for path in traces(store, OWN)) > 0
    assert delete(store, chosen) == 0
    assert store.committed().keys() == OTHERS
    assert contents(store, OTHERS) == before
    assert traces(store, OWN) == []
    assert {each.name for each in store.sweeps()} == {"other"}
    assert store.listing("sweeps") == ["sweeps/other.json"]
    with pytest.raises(StoreError, match=r"no sweep 'quick' \(known: other\)"):
        of_sweep(store, "quick")
    delete(store, of_sweep(store, "other"))
    assert store.committed().keys() == {IDS[5]}, "the last of two sweeps takes what they shared"


def test_a_trial_that_is_committed_meanwhile_keeps_its_files(store):
    late = result({"seed": 6})
    store.record_sweep(record("late", [trial_id(late.trial)]))
    chosen = of_sweep(store, "late")
    store.commit(late)
    before = contents(store)
    delete(store, chosen)
    assert contents(store) == before
    assert sound(store)


def test_failed_trials_go_and_records_stay(store):
    store.commit(failure({"seed": 7}))
    chosen = of_sweep(store, "quick", ["failed"])
    delete(store, chosen)
    assert IDS[4] not in store.committed()
    assert traces(store, [IDS[4]]) == []
    assert len(store.committed()) == 6
    delete(store, of_status(store, ["failed"]))
    assert set(store.committed().values()) == {"finished"}
    assert [each.name for each in store.sweeps()] == ["other", "quick", "quick"]


@pytest.mark.parametrize("choose", [of_status, lambda store, statuses: of_sweep(store, "quick", statuses)])
def test_a_failed_trial_that_finishes_meanwhile_stays(store, choose):
    chosen = choose(store, ["failed"])
    assert IDS[4] in chosen.trials
    store.commit(result({"seed": 4}))
    assert store.committed()[IDS[4]] == "finished"
    delete(store, chosen)
    assert store.committed()[IDS[4]] == "finished"
    assert "failed" not in store.committed().values()


def test_what_no_sweep_plans_any_more_goes(store):
    store.record_sweep(record("quick", [IDS[0]]))
    chosen = of_no_sweep(store)
    assert chosen.trials == {IDS[4]: "failed", IDS[5]: "finished"}
    delete(store, chosen)
    assert store.committed().keys() == {*IDS[:4]}


def test_what_is_deleted_stays_deleted_beside_a_snapshot(store, monkeypatch):
    monkeypatch.setattr(committed_trials, "FEW", 0)
    monkeypatch.setattr(committed_trials, "SOME", 0)
    before = contents(store, OTHERS)
    assert store.compact() == 6
    delete(store, of_sweep(store, "quick"))
    store.compact()
    assert store.committed().keys() == OTHERS
    assert contents(store, OTHERS) == before
    assert sound(store)


def test_evaluations_that_a_killed_deletion_has_left_go_with_the_next(store):
    evaluate(store, seed=2)
    store.delete(store.seals()[IDS[2]].name)
    assert delete(store, of_status(store, ["failed"])) == 1
    assert traces(store, [IDS[2]]) == []
    assert len(store.listing("evaluations")) == 1
    evaluate(store, seed=1)
    delete(store, of_sweep(store, "quick"))
    assert len(store.listing("evaluations")) == 1, "of a trial that stays"


@pytest.mark.slow
@pytest.mark.parametrize(
    "choose",
    [lambda store: of_sweep(store, "quick"), pytest.param(of_no_sweep, marks=pytest.mark.long)],
    ids=["sweep", "unplanned"],
)
def test_a_crash_at_every_operation_takes_nothing_else(tmp_path, choose):
    for folder, cut in power_cuts(tmp_path, least=4):
        store = filled(folder)
        store.record_sweep(record("quick", [*IDS[:2], IDS[5]]))
        store.record_sweep(record("quick", [*IDS[:2]]))
        annotate(store.files, Subject(trial_ids=frozenset(IDS)), note="seen")
        store.compact()
        chosen = choose(store)
        left = sorted(set(store.committed()) - chosen.trials.keys())
        before = contents(store, left)
        ended = cut(delete, store, chosen)
        assert contents(store, left) == before, folder
        assert set(left) <= read_annotations(store.files).trials.keys() <= store.committed().keys(), folder
        assert sound(store)
        if not ended and (chosen.sweep is None or store.read_bytes("sweeps/quick.json")):
            delete(store, choose(store))
        assert sorted(store.committed()) == left, folder
        assert traces(store, chosen.trials) == [], folder
        assert contents(store, left) == before, folder


@pytest.mark.parametrize("choose", [lambda store: of_sweep(store, "quick"), of_no_sweep], ids=["sweep", "unplanned"])
def test_nothing_is_deleted_while_a_record_cannot_be_read(tmp_path, choose):
    """Nobody knows which trials it planned."""
    store = filled(tmp_path / "store")
    name = "sweeps/other.json"
    store.write_bytes(name, b"{}")
    with pytest.raises(StoreError, match=f"'{name}' cannot be read, so that nobody knows which trials it planned"):
        choose(store)
    assert of_status(store, ["failed"]).trials
