"""The small grid world from its space to its figures, with real Ray and its population on workers."""

from pathlib import Path

import pytest

from sweeper.store.store import Store
from tasks.gridworld import Task
from tests.processes import python

pytestmark = [pytest.mark.long, pytest.mark.exhaustive]

GENERATIONS = 4


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid") / "results"
    smaller = (f"trial.steps={GENERATIONS}", "trial.optimizer.population=16", "trial.seed=0", "trial.baseline=Aq_R")
    settings = (f"--set={setting}" for setting in (*smaller, "resources.population_workers=2"))
    run = ("-m", "sweeper.run", "search_spaces/gridworld_small.yaml", "--address", "local", "--results", folder)
    done = python(*run, *settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


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
    done = python("-m", "sweeper.report", "--results", results, "--space", space, "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"6C.png", "7A.png", "7C.png"} <= {path.name for path in tmp_path.rglob("*.png")}
