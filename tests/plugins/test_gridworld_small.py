"""The small grid world from its space to its figures, with real Ray and its population on workers."""

import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.store.store import Store
from sweeper.trial import plugins
from tasks.gridworld import Task

pytestmark = pytest.mark.long

GENERATIONS = 4


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid") / "results"
    smaller = (f"trial.steps={GENERATIONS}", "trial.optimizer.population=16", "trial.seed=0", "trial.baseline=Aq_R")
    settings = (*smaller, "resources.population_workers=2")
    run = ["run", "search_spaces/gridworld_small.yaml", "--address", "local"]
    done = _command(*run, "--results", str(folder), *(part for setting in settings for part in ("--set", setting)))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def _command(module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", f"sweeper.{module}", *arguments]
    return subprocess.run(command, cwd=plugins.ROOT, capture_output=True, text=True, check=False)


def test_a_trial_is_a_row_with_its_distance_from_the_exact_value(results):
    [row] = Store.open(results).trials().to_pylist()
    assert (row["status"], row["task"], row["steps_done"]) == ("finished", "gridworld", GENERATIONS)
    [metrics] = Store.open(results).trials().column("extra_metrics").to_pylist()
    assert '"exploitability"' in metrics
    curves = Store.open(results).curves().to_pylist()
    assert {point["metric"] for point in curves} >= {"train_loss", "mean_loss", "tail_loss", "worst_loss"}
    assert max(point["step"] for point in curves) == GENERATIONS
    assert Store.open(results).outcomes().num_rows == Task(height=3, width=3).grid.cells - 1


def test_its_panels_are_drawn_from_the_store(results, tmp_path):
    space = "search_spaces/gridworld_small.yaml"
    done = _command("report", "--results", str(results), "--space", space, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"6C.png", "7A.png", "7C.png"} <= {path.name for path in tmp_path.rglob("*.png")}
