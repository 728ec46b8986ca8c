"""Notes and tags last, are changed one after the other, and go where their sweeps and trials go, also under crashes."""

import os
import shutil

import pytest

from sweeper.store.annotations import (
    EARLIER,
    FOLDER,
    Annotations,
    Subject,
    annotate,
    read_annotations,
    remove_annotations,
    remove_notes,
    remove_tags,
)
from sweeper.store.copying import copy, rename_sweep
from sweeper.store.deletion import delete, of_status, of_sweep
from sweeper.store.store import Store, StoreError
from tests.filled_stores import IDS
from tests.power_cuts import power_cuts
from tests.results import record
from tests.store.meanwhile import before_next
from tests.store.test_store_0_1_0 import FIXTURE

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


def test_sweeps_and_trials_have_the_union_of_what_was_written(local):
    assert said(annotated(local)) == EVERYTHING
    annotate(local.files, of_trials(2), tags=["keep"])
    assert said(Store.open(local.url)) == EVERYTHING


def test_what_is_taken_away_stays_on_others(local):
    annotated(local)
    remove_tags(local.files, of_trials(1, 2, 5), ["stuck", "best"])
    assert said(local) == EVERYTHING | {1: "keep", 2: "keep"}
    holding = [name for name in local.listing(FOLDER) if IDS[0].encode() in local.read_bytes(name)]
    assert len(holding) == 3, "its tags and its note: nothing piles up"
    remove_notes(local.files, of_trials(4), ["look here"])
    remove_notes(local.files, QUICK, ["too short"])
    assert said(local) == {"quick": "first", "other": "second", 0: "keep stuck look here", 1: "keep", 2: "keep"}
    remove_annotations(local.files, of_trials(*range(5)))
    assert said(local) == {"quick": "first", "other": "second"}
    assert len(local.listing(FOLDER)) == 2


def test_two_changes_at_once_are_one_after_the_other(local):
    """Between the reading and the replacement of the one comes the other."""
    other = Store.open(annotated(local).url)

    def meanwhile():
        remove_tags(other.files, of_trials(0), ["keep"])
        remove_tags(other.files, of_trials(1), ["stuck"])
        annotate(other.files, QUICK, note="meanwhile")

    before_next(local.files, "write", meanwhile)
    remove_tags(local.files, of_trials(0), ["stuck"])
    assert said(local) == EVERYTHING | {"quick": "first too short meanwhile", 0: "look here", 1: "best keep"}


def test_notes_are_in_the_order_of_their_writing(local):
    for text in ("one", "two", "three"):
        annotate(local.files, of_trials(0), note=text)
    assert read_annotations(local.files).trials[IDS[0]].texts == ["one", "two", "three"]


BROKEN = [b"", b"[]", b"{}", b'{"schema_version": 1, "annotations": [{"sweep": "quick"}]}', b"[" * 200_000, b"\xff"]


@pytest.mark.parametrize("name", [EARLIER, f"{FOLDER}/{'0' * 20}.json"], ids=["earlier", "own"])
@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_is_left_out_loudly_and_never_written_over(local, caplog, data, name):
    local.write_bytes(name, data)
    local.record_sweep(record("quick"))
    annotate(local.files, QUICK, tags=["first"])
    assert said(local) == {"quick": "first"}
    (line,) = [record.getMessage() for record in caplog.records]
    assert name in line
    assert line.isprintable()
    with pytest.raises(StoreError, match=name):
        remove_tags(local.files, QUICK, ["first"])
    assert local.read_bytes(name) == data


@pytest.mark.parametrize("name", [EARLIER, f"{FOLDER}/{'0' * 20}.json"], ids=["earlier", "own"])
def test_a_file_of_200_gigabytes_is_left_out_as_a_broken_one_is(local, caplog, name):
    local.write_bytes(name, b"")
    os.truncate(local.files.path(name), 200 * 2**30)
    local.record_sweep(record("quick"))
    annotate(local.files, QUICK, tags=["first"])
    assert said(local) == {"quick": "first"}
    (line,) = [record.getMessage() for record in caplog.records]
    assert name in line
    with pytest.raises(StoreError, match=name):
        remove_tags(local.files, QUICK, ["first"])


def test_notes_of_an_earlier_store_are_taken_away_and_moved(tmp_path):
    store = Store.open(shutil.copytree(FIXTURE, tmp_path / "store"))
    sweeps, trials = read_annotations(store.files)
    assert (sweeps["quick"].texts, {each.tags for each in trials.values()}) == (["the first"], {("keep",)})
    rename_sweep(store.files, "quick", "best")
    remove_tags(store.files, Subject(trial_ids=frozenset(list(trials)[:1])), ["keep"])
    assert read_annotations(store.files) == ({"best": sweeps["quick"]}, dict(list(trials.items())[1:]))
    remove_tags(store.files, Subject(trial_ids=frozenset(trials)), ["keep"])
    assert store.read_bytes(EARLIER) is None, "nothing is left in it"


def test_a_newer_file_is_not_misread(local):
    local.write_bytes(EARLIER, b'{"schema_version": 99}')
    with pytest.raises(StoreError, match=EARLIER):
        read_annotations(local.files)


def test_a_crash_at_every_operation_loses_no_tag_of_others(tmp_path):
    for folder, cut in power_cuts(tmp_path, least=2):
        store = annotated(Store.open(folder))
        cut(remove_tags, store.files, of_trials(1), ["stuck", "best"])
        now = said(store)
        assert now.pop(1) in ("best keep stuck", "keep stuck", "best keep", "keep"), folder
        assert now == {name: text for name, text in EVERYTHING.items() if name != 1}, folder
        remove_tags(store.files, of_trials(1), ["stuck", "best"])
        assert said(store) == EVERYTHING | {1: "keep"}


# With their sweeps and trials


def test_a_deletion_takes_what_its_trials_had(source):
    annotated(source)
    source.compact()
    delete(source, of_status(source, "failed"))
    assert said(source) == {name: text for name, text in EVERYTHING.items() if name != 4}
    delete(source, of_sweep(source, "quick"))
    assert said(source) == {"other": "second", 1: "best keep stuck", 2: "keep stuck"}


def test_a_copy_has_those_of_its_sweeps_and_trials(source, local):
    annotated(source)
    copy(source, local, ["quick"])
    annotate(local.files, Subject("quick"), note="mine")
    part = {"quick": "first too short mine", 0: "keep stuck look here", 1: "best keep stuck", 4: "look here"}
    assert said(local) == part
    copy(source, local)
    assert said(local) == EVERYTHING | {"quick": "first too short mine"}
    assert read_annotations(local.files).trials == read_annotations(source.files).trials
    assert Annotations(("keep", "stuck"), ()) in read_annotations(source.files).trials.values()
