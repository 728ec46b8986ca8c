"""`delete` says what it would delete, deletes with --yes, and refuses what makes no sense or is in use."""

import pytest
from typer.testing import CliRunner

from sweeper.commands import delete
from sweeper.listeners import heartbeats
from sweeper.packs import checkpoint
from sweeper.store import deletion
from tests.filled_stores import IDS, contents, filled
from tests.heartbeats import heartbeat
from tests.processes import refusal

# `filled`: quick has planned 0, 1 and 4 (failed), other 1, 2 and 3; 5 belongs to no sweep.
OTHERS = {IDS[1], IDS[2], IDS[3], IDS[5]}


def run(store, *arguments):
    return CliRunner().invoke(delete.app, [*arguments, "--results", store.url])


def test_the_command_says_what_it_would_delete(tmp_path):
    store = filled(tmp_path / "store")
    before = contents(store)
    done = run(store, "quick")
    assert done.exit_code == 0
    first, second = done.output.splitlines()
    assert first.startswith("2 trials (1 failed, 1 finished) · 0.0 MB · the records of quick · 1 trial that another")
    assert second == "nothing was deleted; --yes deletes"
    assert contents(store) == before
    checkpoint.save(store, "0123456789", [IDS[0]], None, {}, {})
    checkpoint.save(store, "9876543210", [IDS[1]], None, {}, {})
    done = run(store, "quick", "--yes")
    assert done.output.splitlines()[1:] == ["deleted, also 1 checkpoint"]
    assert store.committed().keys() == OTHERS
    assert store.listing("checkpoints") == ["checkpoints/9876543210.ckpt"]
    assert run(store, "--unplanned", "--yes").exit_code == 0
    assert store.committed().keys() == OTHERS - {IDS[5]}


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["quick", "--unplanned"], ["--status", "failed", "--unplanned"], ["quik"],
        ["quick/plans"], ["."], [".."], ["../trials"],
    ],
)  # fmt: skip
def test_a_choice_that_makes_no_sense_deletes_nothing(tmp_path, arguments):
    store = filled(tmp_path / "store")
    files = [store.listing(folder) for folder in ("trials", "sweeps")]
    refusal(delete.app, *arguments, "--yes", "--results", store.url)
    assert [store.listing(folder) for folder in ("trials", "sweeps")] == files


def test_nothing_is_deleted_while_a_driver_runs(tmp_path):
    store = filled(tmp_path / "store")
    heartbeats.write_heartbeat(store.files, "other", heartbeat())
    done = run(store, "quick", "--yes")
    assert done.exit_code == 2
    assert "stop it first (python -m sweeper stop other)" in done.output
    assert len(store.committed()) == 6
    assert run(store, "quick").exit_code == 0, "a dry run is allowed"


def test_a_sweep_that_is_started_meanwhile_is_told(tmp_path, monkeypatch):
    """It may have counted trials as done that are deleted now, and no look can be at the same moment as a deletion."""
    store, delete_all = filled(tmp_path / "store"), deletion.delete

    def slow(store, chosen):
        heartbeats.write_heartbeat(store.files, "other", heartbeat())
        return delete_all(store, chosen)

    monkeypatch.setattr(deletion, "delete", slow)
    done = run(store, "quick", "--yes")
    assert done.exit_code == 0
    assert done.output.endswith("other was started meanwhile: run it again when it has ended\n")
