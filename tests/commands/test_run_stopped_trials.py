"""What a start says of trials that were stopped early, and whether it runs them."""

import dataclasses
from pathlib import Path

import pytest

from sweeper import sweep
from sweeper.interruption import Interruption
from sweeper.space import search_space
from sweeper.store.store import Store
from tests.results import result

SPACE = """
name: halved
trial:
  task: {name: coloring, vertices: 5}
  model: {name: transformer, width: 4, key_size: 4}
  baseline: Aq_R
  objective: {q: 3, m: 2}
  optimizer: {warmup_steps: 10}
  steps: 250
  seed: {seeds: 8}
"""
EARLY_STOPPING = "search={early_stopping: {grace_steps: 100}}"


@pytest.fixture
def halved(tmp_path: Path) -> Path:
    """A space of eight trials, of which four are finished with success 1 and four were stopped with success 0."""
    space = tmp_path / "halved.yaml"
    space.write_text(SPACE)
    store = Store.open(tmp_path / "results")
    for number, trial in enumerate(search_space.read(space).expand().trials):
        stopped = number >= 4
        metrics = {"success": float(not stopped), "success_p5": float(not stopped), "loss": 0.5}
        committed = result(status="stopped" if stopped else "finished", metrics=metrics)
        store.commit(dataclasses.replace(committed, trial=trial))
    return space


def start(space: Path, *overrides: str, dry_run: bool = False) -> int:
    options = sweep.Options(
        space=space,
        results=str(space.parent / "results"),
        address=None,
        dry_run=dry_run,
        overrides=overrides,
        retry_failed=False,
        recompute_other_code=False,
        concurrency=None,
        argv=("run",),
    )
    return sweep.start(options, Interruption())


def test_a_sweep_without_early_stopping_runs_stopped_trials_to_the_end(halved, capsys):
    assert start(halved, dry_run=True) == 0
    assert "  4 done · 4 stopped · 4 to run" in capsys.readouterr().out


def test_a_sweep_with_early_stopping_counts_stopped_trials_and_averages_them_apart(halved, capsys):
    assert start(halved, EARLY_STOPPING) == 0
    said = capsys.readouterr().out
    assert "  4 done · 4 stopped · 0 to run" in said
    assert "8 of 8 trials committed, 4 of them stopped early" in said
    rows = [line.replace(" ± ", "±").split() for line in said.splitlines() if line.startswith("    4")]
    assert [row[:3] for row in rows] == [["4", "finished", "1±0"], ["4", "stopped", "0±0"]]
