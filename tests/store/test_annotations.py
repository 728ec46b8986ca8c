"""Notes and tags last, are changed one after the other, and go where their sweeps and trials go, also under crashes."""

import pytest

from sweeper.store.annotations import (
    FILE,
    Annotations,
    Subject,
    annotate,
    read_annotations,
    remove_annotations,
    remove_notes,
    remove_tags,
)
from sweeper.store.copying import copy
from sweeper.store.deletion import delete, of_status, of_sweep
from sweeper.store.store import Store, StoreError
from tests.filled_stores import IDS, filled
from tests.power_cuts import power_cuts
from tests.results import record

QUICK = Subject("quick")


def of_trials(*numbers):
    return Subject(trial_ids=frozenset(IDS[number] for number in numbers))


def annotated(store):
    """Tags on both sweeps, on trials 0 to 2 together and on trial 1 alone; notes on quick and on trials 0 and 4."""
    for name in {"quick", "other"} - {each.name for each in store.sweeps()}:
        store.record_sweep(record(name, IDS[:1]))
    annotate(store.files, QUICK, tags=["first"])
    annotate(store.files, Subject("other"), tags=["second"])
    annotate(store.files, QUICK, note="too short")
    annotate(store.files, of_trials(0, 1, 2), tags=["keep", "stuck"])
    annotate(store.files, of_trials(1), tags=["best"])
    annotate(store.files, of_trials(0, 4), note="look here")
    return store


def said(store):
    """Tags and notes of sweeps by name, and of trials by number."""
    sweeps, trials = read_annotations(store.files)
    every = sweeps | {IDS.index(trial_id): value for trial_id, value in trials.items()}
    return {name: " ".join([*value.tags, *value.texts]) for name, value in every.items()}


EVERYTHING = {
    "quick": "first too short", "other": "second", 0: "keep stuck look here", 1: "best keep stuck", 2: "keep stuck",
    4: "look here",
}  # fmt: skip


def test_sweeps_and_trials_have_the_union_of_what_was_written(results):
    assert said(annotated(results)) == EVERYTHING
    annotate(results.files, of_trials(2), tags=["keep"])
    assert said(results) == EVERYTHING
    assert said(Store.open(results.url)) == EVERYTHING


def test_what_is_taken_away_stays_on_others(results):
    annotated(results)
    remove_tags(results.files, of_trials(1, 2, 5), ["stuck", "best"])
    assert said(results) == EVERYTHING | {1: "keep", 2: "keep"}
    assert results.read_bytes(FILE).count(IDS[0].encode()) == 2, "its tags and its note: nothing piles up"
    remove_notes(results.files, of_trials(4), ["look here"])
    remove_notes(results.files, QUICK, ["too short"])
    assert said(results) == {"quick": "first", "other": "second", 0: "keep stuck look here", 1: "keep", 2: "keep"}
    remove_annotations(results.files, of_trials(*range(5)))
    assert said(results) == {"quick": "first", "other": "second"}


def test_two_changes_at_once_are_one_after_the_other(results, monkeypatch):
    """Between the reading and the replacement of the one comes the other."""
    annotated(results)
    other, read = Store.open(results.url), results.files.read

    def changed_meanwhile(relative):
        data = read(relative)
        monkeypatch.undo()
        remove_tags(other.files, of_trials(0), ["keep"])
        annotate(other.files, QUICK, note="meanwhile")
        return data

    monkeypatch.setattr(results.files, "read", changed_meanwhile)
    remove_tags(results.files, of_trials(0), ["stuck"])
    assert said(results) == EVERYTHING | {"quick": "first too short meanwhile", 0: "look here"}


def test_notes_are_in_the_order_of_their_writing(tmp_path):
    store = Store.open(tmp_path)
    for text in ("one", "two", "three"):
        annotate(store.files, of_trials(0), note=text)
    assert read_annotations(store.files).trials[IDS[0]].texts == ["one", "two", "three"]


BROKEN = [b"", b"[]", b"{}", b'{"schema_version": 1, "annotations": [{"sweep": "quick"}]}', b"[" * 200_000, b"\xff"]


@pytest.mark.parametrize("data", BROKEN)
def test_a_broken_file_is_left_out_loudly_and_never_written_over(tmp_path, caplog, data):
    store = Store.open(tmp_path)
    store.write_bytes(FILE, data)
    assert said(store) == {}
    assert f"'{FILE}' is left out" in caplog.text
    assert caplog.records[0].getMessage().isprintable()
    with pytest.raises(StoreError, match="mend or remove it first"):
        annotate(store.files, QUICK, tags=["first"])
    assert store.read_bytes(FILE) == data


def test_a_huge_file_is_not_decoded_and_a_newer_one_is_not_misread(tmp_path, monkeypatch):
    store = Store.open(tmp_path)
    annotate(store.files, of_trials(0), tags=["first"])
    with monkeypatch.context() as patch:
        patch.setattr("sweeper.store.annotations.LARGEST_FILE", 10)
        assert said(store) == {}
    store.write_bytes(FILE, b'{"schema_version": 99}')
    with pytest.raises(StoreError, match="schema version 99"):
        read_annotations(store.files)


def test_a_crash_at_every_operation_loses_no_tag_of_others(tmp_path):
    for folder, cut in power_cuts(tmp_path, least=2):
        store = annotated(Store.open(folder))
        cut(remove_tags, store.files, of_trials(1), ["stuck", "best"])
        now = said(store)
        assert now.pop(1) in ("best keep stuck", "keep"), folder
        assert now == {name: text for name, text in EVERYTHING.items() if name != 1}, folder
        remove_tags(store.files, of_trials(1), ["stuck", "best"])
        assert said(store) == EVERYTHING | {1: "keep"}


# With their sweeps and trials


def test_a_deletion_takes_what_its_trials_had(tmp_path):
    store = annotated(filled(tmp_path))
    store.compact()
    delete(store, of_status(store, ["failed"]))
    assert said(store) == {name: text for name, text in EVERYTHING.items() if name != 4}
    delete(store, of_sweep(store, "quick"))
    assert said(store) == {"other": "second", 1: "best keep stuck", 2: "keep stuck"}


def test_a_copy_has_those_of_its_sweeps_and_trials(tmp_path):
    source, target = annotated(filled(tmp_path / "source")), Store.open(tmp_path / "target")
    copy(source, target, ["quick"])
    annotate(target.files, Subject("quick"), note="mine")
    part = {"quick": "first too short mine", 0: "keep stuck look here", 1: "best keep stuck", 4: "look here"}
    assert said(target) == part
    copy(source, target)
    assert said(target) == EVERYTHING | {"quick": "first too short mine"}
    assert read_annotations(target.files).trials == read_annotations(source.files).trials
    assert Annotations(("keep", "stuck"), ()) in read_annotations(source.files).trials.values()
