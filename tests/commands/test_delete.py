"""`delete` says what it would delete, deletes with --yes, and refuses what makes no sense or is in use."""

import pytest

from sweeper.listeners import heartbeats
from sweeper.packs import checkpoint
from sweeper.training.identity import Identity
from tests.filled_stores import IDS, contents
from tests.heartbeats import heartbeat
from tests.processes import refusal, told

# `filled`: quick has planned 0, 1 and 4 (failed), other 1, 2 and 3; 5 belongs to no sweep.
OTHERS = {IDS[1], IDS[2], IDS[3], IDS[5]}


def run(store, *arguments, code=0):
    return told("delete", *arguments, "--results", store.url, code=code).output


def test_the_command_says_what_it_would_delete(store):
    before = contents(store)
    first, _ = run(store, "quick").splitlines()
    assert "quick" in first
    assert "2 trials" in first
    assert contents(store) == before, "nothing is deleted without --yes"
    checkpoint.save(store, "0123456789", [IDS[0]], Identity(None, "", None), {}, {})
    checkpoint.save(store, "9876543210", [IDS[1]], Identity(None, "", None), {}, {})
    run(store, "quick", "--yes")
    assert store.committed().keys() == OTHERS
    assert store.listing("checkpoints") == ["checkpoints/9876543210.ckpt"]


@pytest.mark.parametrize("arguments", [["quik"], ["."], ["../trials"]])
def test_a_choice_that_makes_no_sense_deletes_nothing(store, arguments):
    files = [store.listing(folder) for folder in ("trials", "sweeps")]
    refusal("delete", *arguments, "--yes", "--results", store.url)
    assert [store.listing(folder) for folder in ("trials", "sweeps")] == files


def test_nothing_is_deleted_while_a_driver_runs(store):
    heartbeats.write_heartbeat(store.files, "other", heartbeat())
    assert "python -m sweeper stop other" in run(store, "quick", "--yes", code=2)
    assert len(store.committed()) == 6
    run(store, "quick")  # a dry run is allowed
