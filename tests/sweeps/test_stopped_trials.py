"""What a start says of trials that were stopped early, and whether it runs them."""

from pathlib import Path

import pytest

from sweeper.store.store import Store
from tests.results import result
from tests.tiny_sweeps import TIMINGS, start, with_seeds


@pytest.fixture
def halved(tmp_path: Path) -> Path:
    """A space of eight trials, of which four are finished with success 1 and four were stopped with success 0."""
    space = tmp_path / "halved.yaml"
    space.write_text(with_seeds(8))
    store = Store.open(tmp_path / "results")
    for seed in range(8):
        success = float(seed < 4)
        metrics = {"success": success, "success_p5": success, "loss": 0.5}
        status = "finished" if seed < 4 else "stopped"
        store.commit(result({"seed": seed}, status=status, metrics=metrics, timings=TIMINGS))
    return space


@pytest.mark.slow
def test_a_sweep_without_early_stopping_runs_stopped_trials_to_the_end(halved, capsys):
    assert start(halved, dry_run=True) == 0
    assert "  4 done · 4 stopped · 4 to run" in capsys.readouterr().out


@pytest.mark.slow
def test_a_sweep_with_early_stopping_counts_stopped_trials_and_averages_them_apart(halved, capsys):
    assert start(halved, "search={early_stopping: {grace_steps: 100}}") == 0
    said = capsys.readouterr().out
    assert "  4 done · 4 stopped · 0 to run" in said
    assert "8 of 8 trials committed, 4 of them stopped early" in said
    rows = [line.replace(" ± ", "±").split() for line in said.splitlines() if line.startswith("    4")]
    assert [row[:3] for row in rows] == [["4", "finished", "1±0"], ["4", "stopped", "0±0"]]
