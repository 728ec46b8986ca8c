"""Trials as runs of any tracker, and exports that make no sense."""

import math
import sys

import pytest

from sweeper.trackers import runs
from sweeper.trial import plugins
from sweeper.trial.trial import trial_id
from tests.processes import python, refusal
from tests.results import result
from tests.trackers.exports import METRICS, sweep_of

pytestmark = pytest.mark.slow  # imports of the trackers take seconds


def test_what_is_not_finite_is_text_or_left_out(store):
    points = [(100, "train_loss", math.nan), (200, "train_loss", 0.1), (300, "train_loss", math.inf)]
    diverged = result({"objective": {"q": "inf", "m": 2}}, metrics=METRICS | {"success": math.nan}, curves=points)
    store.commit(diverged)
    (run,) = runs.with_curves(store, sweep_of(store, [trial_id(diverged.trial)]).runs)
    assert run.entries["objective.q"] == "inf"
    assert "success" not in run.final
    assert run.final["votes_10"] == 0.9
    assert run.curves == {"train_loss": [(200, 0.1)]}


def test_rows_of_other_versions_are_no_runs(made, monkeypatch):
    monkeypatch.setattr(plugins.load("task", "coloring"), "VERSION", 99)
    assert runs.sweep_of(made, made.sweeps()[0]) is None


def test_a_sweep_or_a_library_that_is_not_there_is_named(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "'maze'" in refusal("export", "logs", "--to", "tensorboard", "--sweep", "maze", "--results", made.url)
    for name in [name for name in sys.modules if name.partition(".")[0] == "wandb"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "sweeper.trackers.to_wandb", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert "pip install '.[wandb]'" in refusal("export", "offline", "--to", "wandb", "--results", made.url)
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_no_tracker_is_imported_before_it_is_asked_for():
    names = "mlflow optuna_dashboard tensorboard tensorboardX wandb"
    code = f"import sys, sweeper.__main__, sweeper.trackers.runs; print(set({names.split()}) & set(sys.modules))"
    assert python("-c", code, check=True).stdout == "set()\n"
