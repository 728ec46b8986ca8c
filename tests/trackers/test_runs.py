"""Trials as runs of any tracker, and exports that are repeated or make no sense."""

import math
import sys

import pytest

from sweeper.commands import stores
from sweeper.trackers import runs
from sweeper.trial import plugins
from sweeper.trial.trial import trial_id
from tests.processes import ctrl_c, python, refusal, told
from tests.results import result
from tests.trackers.exports import METRICS, sweep_of, trial

pytestmark = pytest.mark.slow  # imports of the trackers take seconds


def test_what_is_not_finite_is_text_or_left_out(store):
    points = [(100, "train_loss", math.nan), (200, "train_loss", 0.1), (300, "train_loss", math.inf)]
    diverged = result({"objective": {"q": "inf", "m": 2}}, metrics=METRICS | {"success": math.nan}, curves=points)
    store.commit(diverged)
    (run,) = runs.with_curves(store, sweep_of(store, [trial_id(diverged.trial)]).runs)
    assert run.entries["objective.q"] == "inf"
    assert "success" not in run.metrics
    assert run.metrics["votes_10"] == 0.9
    assert run.curves == {"train_loss": [(200, 0.1)]}


def test_rows_of_other_versions_are_no_runs(made, monkeypatch):
    monkeypatch.setattr(plugins.load("task", "coloring"), "VERSION", 99)
    assert runs.sweep_of(made, made.sweeps()[0]) is None


def test_a_watched_store_is_exported_again_and_again(store, tmp_path, capsys):
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            store.commit(result(trial(2), metrics=METRICS))
        if len(pauses) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stores.to_tracker(store, str(tmp_path / "logs"), "tensorboard", watch=30.0, pause=pause)
    assert pauses == [30.0] * 4
    assert [line.split(" ")[0] for line in capsys.readouterr().out.splitlines()] == ["2", "1"], "runs were added"


def test_ctrl_c_in_a_watch_is_an_exit_code(made, tmp_path):
    logs = tmp_path / "logs"
    with ctrl_c(when=lambda: len([*logs.rglob("events.out.*")]) == 2):  # both runs are written
        told("export", logs, "--to", "tensorboard", "--results", made.url, "--watch", "30", code=130)


@pytest.mark.parametrize(
    ("destination", "to", "options", "named"),
    [
        ("logs", "tensorboard", ["--sweep", "maze"], "'maze'"), ("mlruns", "mlflow", [], "mlruns"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence(made, tmp_path, monkeypatch, destination, to, options, named):
    monkeypatch.chdir(tmp_path)
    assert named in refusal("export", destination, "--to", to, *options, "--results", made.url)
    assert not list(tmp_path.iterdir())


def test_a_tracker_that_is_not_installed_is_named(made, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "wandb"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "sweeper.trackers.to_wandb", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert "pip install '.[wandb]'" in refusal("export", "offline", "--to", "wandb", "--results", made.url)


@pytest.mark.long
def test_no_tracker_is_imported_before_it_is_asked_for():
    names = "mlflow optuna_dashboard tensorboard tensorboardX wandb"
    code = f"import sys, sweeper.__main__, sweeper.trackers.runs; print(set({names.split()}) & set(sys.modules))"
    assert python("-c", code, check=True).stdout == "set()\n"


class Refusing(runs.Tracker):
    """A tracker that refuses some of the runs, by their number."""

    def __init__(self, refused):
        self.refused, self.asked, self.runs = refused, 0, []

    def present(self, sweep):
        return {}

    def add(self, run):
        self.asked += 1
        if self.asked - 1 in self.refused:
            raise runs.ExportError("a name of a metric")
        self.runs.append(run.trial_id)


def test_a_refused_run_costs_that_run_and_three_in_a_row_end_the_export(store):
    whole = Refusing([])
    added, _, _ = runs.export(store, whole)
    one = Refusing([0])
    with pytest.raises(runs.ExportError, match="a name of a metric"):
        runs.export(store, one)
    assert (one.asked, one.runs) == (added, whole.runs[1:])
    gone = Refusing(range(added))
    with pytest.raises(runs.ExportError):
        runs.export(store, gone)
    assert gone.asked == min(added, runs.MOST_IN_A_ROW)
