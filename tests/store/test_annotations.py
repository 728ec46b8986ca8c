"""Notes and tags last, and go where their sweeps and trials go."""

import pytest

from sweeper.store.annotations import FOLDER, annotate, read_annotations, remove_annotations
from sweeper.store.copying import copy
from sweeper.store.deletion import delete, of_sweep
from sweeper.store.store import Store, StoreError
from tests.filled_stores import IDS


def annotated(store):
    """Tags on both sweeps, on trials 0 and 1; notes on quick and on trial 4."""
    annotate(store.files, "quick", tags=["first"])
    annotate(store.files, "other", tags=["second"])
    annotate(store.files, "quick", note="too short")
    for number in range(2):
        annotate(store.files, None, IDS[number], tags=["keep", "stuck"])
    annotate(store.files, None, IDS[4], note="look here")
    return store


def said(store):
    """Tags and notes of sweeps by name, and of trials by number."""
    sweeps, trials = read_annotations(store.files)
    every = sweeps | {IDS.index(trial_id): value for trial_id, value in trials.items()}
    return {name: " ".join([*value.tags, *value.notes]) for name, value in every.items()}


EVERYTHING = {"quick": "first too short", "other": "second", 0: "keep stuck", 1: "keep stuck", 4: "look here"}


def test_sweeps_and_trials_have_what_was_written_until_it_is_taken_away(local):
    assert said(annotated(local)) == EVERYTHING
    annotate(local.files, None, IDS[1], tags=["keep"])
    assert said(Store.open(local.url)) == EVERYTHING
    gone = remove_annotations(local.files, lambda each: each.is_on(None, IDS[1]) and each.tag == "keep")
    assert gone == 2
    assert said(local) == EVERYTHING | {1: "stuck"}


def test_notes_are_in_the_order_of_their_writing(local):
    for text in ("one", "two", "three"):
        annotate(local.files, None, IDS[0], note=text)
    assert read_annotations(local.files).trials[IDS[0]].notes == ("one", "two", "three")


@pytest.mark.parametrize("data", [b"", b'{"schema_version": 1, "note": 3}'])
def test_a_broken_file_is_a_warning(local, caplog, data):
    name = f"{FOLDER}/{'0' * 20}.json"
    local.write_bytes(name, data)
    annotate(local.files, "quick", tags=["first"])
    assert said(local) == {"quick": "first"}
    (line,) = [record.getMessage() for record in caplog.records]
    assert name in line
    assert line.isprintable()
    remove_annotations(local.files, lambda each: True)
    assert local.listing(FOLDER) == [name]


def test_a_newer_file_is_not_misread(local):
    name = f"{FOLDER}/{'0' * 20}.json"
    local.write_bytes(name, b'{"schema_version": 99}')
    with pytest.raises(StoreError, match=name):
        read_annotations(local.files)


@pytest.mark.parametrize("words", [{"note": " "}, {"tags": ["two words"]}, {"tags": ["a,b"]}, {"tags": [""]}])
def test_what_is_no_note_and_no_tag_is_refused(local, words):
    with pytest.raises(StoreError):
        annotate(local.files, "quick", **words)
    assert not local.exists()


def test_a_deletion_takes_what_its_sweep_and_its_trials_had(source):
    delete(annotated(source), of_sweep(source, "quick"))
    assert said(source) == {"other": "second", 1: "keep stuck"}


def test_a_copy_has_those_of_its_sweeps_and_trials(source, local):
    copy(annotated(source), local, ["quick"])
    annotate(local.files, "quick", note="mine")
    part = {"quick": "first too short mine", 0: "keep stuck", 1: "keep stuck", 4: "look here"}
    assert said(local) == part
    copy(source, local)
    assert said(local) == EVERYTHING | part
