"""A renamed sweep has its starts under the new name, also after a crash at any operation."""

import itertools

import pytest

from sweeper.store.annotations import Subject, annotate, read_annotations
from sweeper.store.store import Store, StoreError
from sweeper.store.sweep_records import rename_records
from tests.filled_stores import IDS
from tests.power_cuts import power_cuts
from tests.results import record


def with_sweeps(url):
    store = Store.open(url)
    store.record_sweep(record("quick", IDS[:1]))
    store.record_sweep(record("quick", IDS[:2], captured="2026-06-01T00:00:00+00:00"))
    store.record_sweep(record("quick", IDS[:3], captured="2027-01-01T00:00:00+00:00"))
    store.record_sweep(record("other", IDS[2:]))
    return store


@pytest.fixture
def store(results):
    return with_sweeps(results.url)


def renamed(records, old="quick", new="best"):
    changed = [each.model_copy(update={"name": new}) if each.name == old else each for each in records]
    return sorted(changed, key=lambda each: each.name)


def test_all_starts_are_under_the_new_name_in_their_order(store):
    before = store.sweeps()
    rename_records(store.files, "quick", "best")
    assert store.sweeps() == renamed(before)
    assert store.read_bytes("sweeps/quick.json") is None
    store.record_sweep(record("best", IDS))
    assert [each for each in store.sweeps() if each.name == "best"][-1].trial_ids == tuple(IDS)


@pytest.mark.parametrize("name", ["other", "", "a/b", "..", "ü"])
def test_a_name_that_is_taken_or_none_is_refused(store, name):
    before = store.sweeps()
    with pytest.raises(StoreError):
        rename_records(store.files, "quick", name)
    assert store.sweeps() == before


def test_a_sweep_that_cannot_be_read_is_not_lost(store):
    store.write_bytes("sweeps/quick.json", b"{}")
    with pytest.raises(StoreError, match=r"'sweeps/quick\.json' cannot be read, and would be lost"):
        rename_records(store.files, "quick", "best")
    assert store.listing("sweeps") == ["sweeps/other.json", "sweeps/quick.json"]
    rename_records(store.files, "other", "more")


def quick_begins(store):
    store.record_sweep(record("quick", IDS, captured="2027-02-01T00:00:00+00:00"))
    return lambda: [each.trial_ids for each in store.sweeps() if each.name in ("best", "quick")][-1] == tuple(IDS)


def quick_is_noted(store):
    annotate(store.files, Subject("quick"), note="meanwhile")
    return lambda: read_annotations(store.files).sweeps["best"].texts == ["meanwhile"]


STARTS = [tuple(IDS[:count]) for count in (1, 2, 3, len(IDS))]


def best_begins(store):
    store.record_sweep(record("best", IDS[:1], captured="2027-02-01T00:00:00+00:00"))
    return lambda: tuple(IDS[:1]) in [each.trial_ids for each in store.sweeps() if each.name == "best"]


@pytest.mark.parametrize("write", [quick_begins, quick_is_noted, best_begins])
def test_what_another_process_writes_meanwhile_is_kept_or_refused(tmp_path, monkeypatch, write):
    """Before each operation of a renaming."""
    answers = []
    for moment in itertools.count():
        store = with_sweeps(tmp_path / str(moment))
        other, counter, kept, within = Store.open(store.url), itertools.count(), [], []

        def meanwhile(operation, moment=moment, other=other, counter=counter, kept=kept, within=within):
            def done(*arguments, **options):
                if not within and next(counter) == moment:
                    try:
                        kept.append(write(other))
                    except StoreError:
                        kept.append(lambda: "refused")
                within.append(operation)  # an operation that reads in the middle holds a lock
                try:
                    return operation(*arguments, **options)
                finally:
                    within.pop()

            return done

        for name in ("read", "write", "delete"):
            monkeypatch.setattr(store.files, name, meanwhile(getattr(store.files, name)))
        try:
            rename_records(store.files, "quick", "best")
        except StoreError:
            assert kept.pop()(), moment
            other.record_sweep(record("quick", IDS))
            assert [each.trial_ids for each in other.sweeps() if each.name == "quick"] == STARTS
            kept.append(lambda: "refused")
        if not kept:
            break
        assert kept[0](), moment
        answers.append(kept[0]())
        assert read_annotations(other.files).sweeps.keys() <= {"best"}
    assert set(answers) == {True, "refused"}
    assert len(answers) > 6


def test_a_crash_at_every_operation_keeps_every_start_and_every_note(tmp_path):
    for folder, cut in power_cuts(tmp_path, least=4):
        store = with_sweeps(folder)
        for name in ("quick", "other"):
            annotate(store.files, Subject(name), note=f"of {name}")
        before = store.sweeps()
        latest = {each.trial_ids for each in before[-1:]}
        cut(rename_records, store.files, "quick", "best")
        now = store.sweeps()
        last = {name: [each for each in now if each.name == name][-1:] for name in ("quick", "best")}
        assert any(each and {each[0].trial_ids} == latest for each in last.values()), folder
        assert all({each.trial_ids} == latest for each in last["quick"]), "no earlier start counts meanwhile"
        if store.read_bytes("sweeps/quick.json") is not None:
            rename_records(store.files, "quick", "best")
        assert store.sweeps() == renamed(before), folder
        notes = {name: said.texts for name, said in read_annotations(store.files).sweeps.items()}
        assert notes == {"best": ["of quick"], "other": ["of other"]}, folder
