"""A deletion takes a sweep and its own trials and nothing else, also under crashes and beside snapshots."""

import shutil

import pytest

from sweeper.store.annotations import annotate, read_annotations
from sweeper.store.deletion import delete, of_sweep, planned_trials
from sweeper.store.store import Store, StoreError
from sweeper.store.sweep_records import start_files
from tests.filled_stores import IDS, contents, sound
from tests.power_cuts import power_cuts
from tests.results import record

# `source`: quick has planned 0, 1 and 4 (failed), other 1, 2 and 3; 5 belongs to no sweep.
OWN, OTHERS = {IDS[0], IDS[4]}, {IDS[1], IDS[2], IDS[3], IDS[5]}


def traces(store, trial_ids):
    """Files that name one of these trials."""
    files = [*store.listing("trials"), *store.listing("evaluations")]
    return [path for path in files if any(key in path for key in trial_ids)]


def test_a_sweep_goes_with_its_own_trials_also_beside_a_snapshot(source):
    before = contents(source, OTHERS)
    assert source.compact() == 6
    chosen = of_sweep(source, "quick")
    assert (chosen.trials, chosen.shared) == ({IDS[0]: "finished", IDS[4]: "failed"}, 1)
    delete(source, chosen)
    assert source.committed().keys() == OTHERS
    assert contents(source, OTHERS) == before
    assert traces(source, OWN) == []
    assert source.listing("sweeps") == source.listing("sweeps/other")
    assert sound(source)
    with pytest.raises(StoreError, match=r"'quick'.*other"):
        of_sweep(source, "quick")
    delete(source, of_sweep(source, "other"))
    assert source.committed().keys() == {IDS[5]}, "the last of two sweeps takes what they shared"


@pytest.mark.slow
def test_a_crash_at_every_operation_takes_nothing_else_and_is_carried_on(tmp_path, source):
    source.record_sweep(record("quick", [*IDS[:2], IDS[5]]))
    source.record_sweep(record("quick", [*IDS[:2]]))
    for trial_id in IDS:
        annotate(source.files, None, trial_id, note="seen")
    source.compact()
    chosen = of_sweep(source, "quick")
    left = sorted(set(source.committed()) - chosen.trials.keys())
    before = contents(source, left)
    for folder, cut in power_cuts(tmp_path, least=4):
        store = Store.open(shutil.copytree(source.root, folder))
        ended = cut(delete, store, chosen)
        assert contents(store, left) == before, folder
        if not ended and start_files(store.files, "quick"):
            delete(store, of_sweep(store, "quick"))
        assert sorted(store.committed()) == sorted(read_annotations(store.files).trials) == left, folder
        assert traces(store, chosen.trials) == [], folder
        assert [each.name for each in store.sweeps()] == ["other"], folder


def test_nothing_is_deleted_while_a_record_cannot_be_read(source):
    """Nobody knows which trials it planned."""
    (start,) = start_files(source.files, "other")
    source.write_bytes(start, b"{}")
    for ask in (lambda: of_sweep(source, "quick"), lambda: planned_trials(source)):
        with pytest.raises(StoreError, match=start):
            ask()
