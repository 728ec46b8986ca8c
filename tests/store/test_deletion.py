"""A deletion takes what it names and nothing else, also under crashes and beside snapshots."""

import shutil

import pytest

from sweeper.store.annotations import Subject, annotate, read_annotations
from sweeper.store.committed_trials import Reading
from sweeper.store.deletion import delete, of_no_sweep, of_status, of_sweep
from sweeper.store.store import Store, StoreError
from sweeper.store.sweep_records import start_files
from sweeper.trial.trial import trial_id
from tests.filled_stores import IDS, contents, evaluate, sound
from tests.power_cuts import power_cuts
from tests.results import failure, record, result

# `source`: quick has planned 0, 1 and 4 (failed), other 1, 2 and 3; 5 belongs to no sweep.
OWN, OTHERS = {IDS[0], IDS[4]}, {IDS[1], IDS[2], IDS[3], IDS[5]}


def traces(store, trial_ids):
    """Files that name one of these trials."""
    files = [*store.listing("trials"), *store.listing("evaluations")]
    return [path for path in files if any(key in path for key in trial_ids)]


def test_a_sweep_goes_with_its_own_trials(source):
    before = contents(source, OTHERS)
    chosen = of_sweep(source, "quick")
    assert (chosen.trials, chosen.shared) == ({IDS[0]: "finished", IDS[4]: "failed"}, 1)
    assert chosen.size == sum(len(source.read_bytes(path)) for path in traces(source, OWN)) > 0
    assert delete(source, chosen) == 0
    assert source.committed().keys() == OTHERS
    assert contents(source, OTHERS) == before
    assert traces(source, OWN) == []
    assert source.listing("sweeps") == source.listing("sweeps/other")
    with pytest.raises(StoreError, match=r"'quick'.*other"):
        of_sweep(source, "quick")
    delete(source, of_sweep(source, "other"))
    assert source.committed().keys() == {IDS[5]}, "the last of two sweeps takes what they shared"


def test_a_trial_that_is_committed_meanwhile_keeps_its_files(source):
    late = result({"seed": 6})
    source.record_sweep(record("late", [trial_id(late.trial)]))
    chosen = of_sweep(source, "late")
    source.commit(late)
    before = contents(source)
    delete(source, chosen)
    assert contents(source) == before
    assert sound(source)


def test_failed_trials_go_and_records_stay(source):
    source.commit(failure({"seed": 7}))
    delete(source, of_sweep(source, "quick", "failed"))
    assert IDS[4] not in source.committed()
    assert traces(source, [IDS[4]]) == []
    assert len(source.committed()) == 6
    delete(source, of_status(source, "failed"))
    assert set(source.committed().values()) == {"finished"}
    assert [each.name for each in source.sweeps()] == ["other", "quick", "quick"]


@pytest.mark.parametrize("choose", [of_status, lambda store, status: of_sweep(store, "quick", status)])
def test_a_failed_trial_that_finishes_meanwhile_stays(source, choose):
    chosen = choose(source, "failed")
    assert IDS[4] in chosen.trials
    source.commit(result({"seed": 4}))
    delete(source, chosen)
    assert source.committed()[IDS[4]] == "finished"
    assert "failed" not in source.committed().values()


def test_what_no_sweep_plans_any_more_goes(source):
    source.record_sweep(record("quick", [IDS[0]]))
    chosen = of_no_sweep(source)
    assert chosen.trials == {IDS[4]: "failed", IDS[5]: "finished"}
    delete(source, chosen)
    assert source.committed().keys() == {*IDS[:4]}


def test_what_is_deleted_stays_deleted_beside_a_snapshot(source):
    store = Store.open(source.url, reading=Reading(few=0, some=0))
    before = contents(store, OTHERS)
    assert store.compact() == 6
    delete(store, of_sweep(store, "quick"))
    store.compact()
    assert store.committed().keys() == OTHERS
    assert contents(store, OTHERS) == before
    assert sound(store)


def test_evaluations_that_a_killed_deletion_has_left_go_with_the_next(source):
    evaluate(source, seed=2)
    source.delete(source.seals()[IDS[2]].name)
    assert delete(source, of_status(source, "failed")) == 1
    assert traces(source, [IDS[2]]) == []
    assert len(source.listing("evaluations")) == 1
    evaluate(source, seed=1)
    delete(source, of_sweep(source, "quick"))
    assert len(source.listing("evaluations")) == 1, "of a trial that stays"


@pytest.mark.parametrize(
    "choose",
    [
        pytest.param(lambda store: of_sweep(store, "quick"), marks=pytest.mark.slow),
        pytest.param(of_no_sweep, marks=pytest.mark.long),
    ],
    ids=["sweep", "unplanned"],
)
def test_a_crash_at_every_operation_takes_nothing_else(tmp_path, source, choose):
    source.record_sweep(record("quick", [*IDS[:2], IDS[5]]))
    source.record_sweep(record("quick", [*IDS[:2]]))
    annotate(source.files, Subject(trial_ids=frozenset(IDS)), note="seen")
    source.compact()
    chosen = choose(source)
    left = sorted(set(source.committed()) - chosen.trials.keys())
    before = contents(source, left)
    for folder, cut in power_cuts(tmp_path, least=4):
        store = Store.open(shutil.copytree(source.root, folder))
        ended = cut(delete, store, chosen)
        assert contents(store, left) == before, folder
        assert set(left) <= read_annotations(store.files).trials.keys() <= store.committed().keys(), folder
        if not ended and (chosen.sweep is None or start_files(store.files, "quick")):
            delete(store, choose(store))
        assert sorted(store.committed()) == left, folder
        assert traces(store, chosen.trials) == [], folder


@pytest.mark.parametrize("choose", [lambda store: of_sweep(store, "quick"), of_no_sweep], ids=["sweep", "unplanned"])
def test_nothing_is_deleted_while_a_record_cannot_be_read(source, choose):
    """Nobody knows which trials it planned."""
    (start,) = start_files(source.files, "other")
    source.write_bytes(start, b"{}")
    with pytest.raises(StoreError, match=start):
        choose(source)
    assert of_status(source, "failed").trials
