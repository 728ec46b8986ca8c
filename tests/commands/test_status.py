"""The status command tells how far each sweep is, and why trials failed."""

import pytest
from typer.testing import CliRunner

from sweeper import status
from sweeper.store.store import Store, SweepRecord
from sweeper.trial.trial_spec import trial_id
from tests.results import PROVENANCE, failure, result
from tests.trials import coloring_trial

COUNTED = ("finished", "stopped", "failed", "pending")
IDS = [trial_id(coloring_trial(seed=seed)) for seed in range(6)]


def record(name, ids, **origin):
    provenance = PROVENANCE.model_copy(update=origin)
    return SweepRecord(name=name, text="", overrides=(), trial_ids=tuple(ids), provenance=provenance)


@pytest.fixture
def results(tmp_path):
    filled = Store.open(tmp_path / "results")
    filled.record_sweep(record("quick", IDS[:1]))
    filled.record_sweep(record("quick", IDS[:5], captured="2026-02-03T04:05:06+00:00", dirty=True))
    filled.record_sweep(record("other", IDS[:1], commit=None, dirty=None))
    filled.commit(result())
    filled.commit(result({"seed": 1}, status="stopped"))
    filled.commit(failure({"seed": 2}))
    filled.commit(failure({"seed": 3}, kind="crash", message="[bold]odd[/bold]\nsecond line"))
    filled.commit(result({"seed": 5}))
    return filled


def shown(url):
    return CliRunner().invoke(status.app, ["--results", url])


def test_each_sweep_is_as_far_as_its_latest_start(results):
    done = shown(results.url)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["sweep", "planned", *COUNTED, "starts", "last", "start", "commit"]
    assert lines[1].split() == ["other", "1", "1", "0", "0", "0", "1", PROVENANCE.captured, "unknown"]
    commit = PROVENANCE.commit[:10]
    assert lines[2].split() == ["quick", *"511212", "2026-02-03T04:05:06+00:00", commit, "+", "changes"]


def test_failures_are_counted_by_reason(results):
    results.commit(failure({"seed": 4}))
    lines = shown(results.url).stdout.splitlines()
    assert "quick: 2 failed: divergence: divergence at step 7" in lines
    assert "quick: 1 failed: crash: [bold]odd[/bold]" in lines
    assert "1 committed trial is not, or no longer, planned by a sweep" in lines


def test_an_empty_store_and_none_at_all(tmp_path):
    assert "empty" in shown(str(tmp_path)).stdout
    absent = shown(str(tmp_path / "nowhere"))
    assert absent.exit_code == 2
    assert "there is no results store" in absent.stderr
