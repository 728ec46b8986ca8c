"""Packs on a real cluster: what they raise, when they are stopped, who ends them, and the waves in which they run."""

from typing import Any, NamedTuple

import pytest
from ray.tune.error import TuneError
from ray.tune.search import Searcher

from sweeper import events
from sweeper.launch import tune_callback, tune_driver
from sweeper.launch.job import SHORT, Launched, LaunchError, Training
from sweeper.launch.tune_driver import Waves
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.space.early_stopping import EarlyStopping
from sweeper.space.resources import Resources
from sweeper.store.store import Store
from sweeper.trial.experiment_trial import ExperimentTrial
from sweeper.trial.trial import trial_id
from tests.heard import Heard
from tests.launch.bad_task import bad_trial
from tests.launch.launches import launched
from tests.launch.workers import Worker, ended, whole
from tests.projects import in_project
from tests.trials import coloring_trial

pytestmark = pytest.mark.slow

EVOLVING = {"name": "pgpe", "population": 4}


RATES = [{"warmup_steps": 0, "learning_rate": rate} for rate in (1e-2, 1e-9)]
RAISED = {
    "open": "FileNotFoundError", "own": "Own", "mute": "Mute",
}  # fmt: skip


class Swept(NamedTuple):
    done: Launched
    heard: Heard
    store: Store
    good: TrialSpec
    behind: TrialSpec
    raising: list[TrialSpec]

    def row(self, trial: TrialSpec) -> dict[str, Any]:
        return next(row for row in self.store.trials().to_pylist() if row["trial_id"] == trial_id(trial))


@pytest.fixture(scope="module")
def swept(cluster, tmp_path_factory) -> Swept:
    """Packs that one worker runs: one that sets a mark, those that raise, and one that falls behind the mark."""
    folder = tmp_path_factory.mktemp("results")
    with in_project(cluster.project):
        good, behind = (bad_trial("well", optimizer=rate, steps=2000) for rate in RATES)
        raising = [bad_trial(does) for does in RAISED]
        stopping = EarlyStopping(metric="loss", mode="min", every=100, grace_steps=200, reduction_factor=2)
        done, heard = launched(folder, [good, *raising, behind], work_kind=Training(stopping))
        return Swept(done, heard, Store.open(folder), good, behind, raising)


def test_whatever_a_task_raises_is_a_failure_of_its_trial_and_of_no_other(swept):
    assert (swept.done.losses, swept.done.refused) == ([], False)
    rows = {trial.task.does: swept.row(trial) for trial in swept.raising}
    assert {row["status"] for row in rows.values()} == {"failed"}
    assert {does: row["error_kind"] for does, row in rows.items()} == RAISED
    assert all("(tasks/bad.py, line " in row["error_message"] for row in rows.values())
    assert "/nowhere/doors.json" in rows["open"]["error_message"]
    assert "TypeError" in rows["mute"]["error_message"], "its message cannot be made"
    assert rows["own"]["error_message"].startswith(r"several lines:; \udcffthe reason")
    assert swept.row(swept.good)["status"] == "finished"


def test_a_pack_that_falls_behind_is_stopped_and_evaluated(swept):
    row = swept.row(swept.behind)
    assert row["status"] == "stopped"
    assert 200 <= row["steps_done"] < 2000
    assert row["success"] is not None


def test_what_a_task_prints_is_told_and_nothing_but_rows_is_left(swept):
    assert {line for event in swept.heard.all(events.PluginPrinted) for line in event.lines} == {"a task speaks"}
    assert not swept.store.listing("checkpoints")


def test_the_numbers_of_a_worker_are_those_of_this_process(swept, bad, tmp_path):
    here = Store.open(tmp_path)
    ended(Worker(whole(swept.good), tmp_path))
    (row,) = here.trials().to_pylist()
    for name in ("train_loss", "loss", "sampled", "extra_metrics"):
        assert swept.row(swept.good)[name] == row[name]
    there, ours = (store.seals()[trial_id(swept.good)].network for store in (swept.store, here))
    assert there == ours


@pytest.mark.long  # compiles in two processes
def test_so_are_those_of_an_experiment(bad, tmp_path):
    fields = {"name": "classification", "points": 200, "width": 8, "optimizer": {"name": "adam", "warmup_steps": 0}}
    trial = ExperimentTrial.model_validate({"experiment": fields, "steps": 20, "seed": 0, "evaluate_every": 10})
    launched(tmp_path / "there", [trial])
    ended(Worker(whole(trial), tmp_path / "here"))
    there, here = (Store.open(tmp_path / name) for name in ("there", "here"))
    assert there.trials()["extra_metrics"].to_pylist() == here.trials()["extra_metrics"].to_pylist() != [None]
    assert there.curves()["value"].to_pylist() == here.curves()["value"].to_pylist()
    assert there.seals()[trial_id(trial)].network == here.seals()[trial_id(trial)].network


@pytest.mark.long  # waits for four workers without news
def test_workers_without_news_are_ended_until_the_pack_has_failed(bad, cluster, tmp_path):
    stuck = bad_trial("hang")
    _, heard = launched(tmp_path, [stuck], resources=Resources(progress_seconds=10.0))
    assert all("resources.progress_seconds" in died.reason for died in heard.all(events.WorkerDied))
    assert len(list(cluster.hung.iterdir())) == 4
    assert Store.open(tmp_path).committed() == {trial_id(stuck): "failed"}


@pytest.mark.long
def test_what_a_task_raises_in_a_process_of_its_population_is_a_failure(bad, tmp_path):
    launched(tmp_path, [bad_trial("open", optimizer=EVOLVING)], resources=Resources(population_workers=1))
    (row,) = Store.open(tmp_path).trials().to_pylist()
    assert (row["status"], row["error_kind"]) == ("failed", "FileNotFoundError")
    assert "(tasks/bad.py, line " in row["error_message"]


def _seeds(count: int) -> list[Any]:
    return [coloring_trial(seed=seed) for seed in range(count)]


class Drained:
    """Stands for Tune: takes all work of a wave, and runs none."""

    def __init__(self, worker: Any, tune_config: Any, run_config: Any):
        self.queue = tune_config.search_alg

    def fit(self) -> None:
        while self.queue.suggest("") is not Searcher.FINISHED:
            pass


@pytest.mark.parametrize(("raised", "ends_with"), [(TuneError("no"), LaunchError), (RuntimeError("no"), RuntimeError)])
def test_what_ends_tune_ends_the_launch(cluster, monkeypatch, tmp_path, raised, ends_with):
    class Failing(Drained):
        def fit(self) -> None:
            raise raised

    monkeypatch.setattr(tune_driver.tune, "Tuner", Failing)
    with pytest.raises(RuntimeError, match="no") as ended:
        launched(tmp_path, _seeds(1))
    assert type(ended.value) is ends_with


@pytest.mark.parametrize(("short", "least", "most"), [(SHORT, 1, 1), pytest.param(0.0, 3, 7, marks=pytest.mark.long)])
def test_short_packs_share_tune_trials_and_a_list_of_others_runs_in_waves(
    cluster, monkeypatch, tmp_path, short, least, most
):
    """Packs that have nothing to do: workers ask for more, or else waves of five to ten after a first of three."""
    monkeypatch.setattr(tune_callback, "SHORT", short)
    scratch, begun = tune_driver.scratch, []
    monkeypatch.setattr(tune_driver, "scratch", lambda: begun.append(None) or scratch())
    trials = _seeds(30)
    done, heard = launched(tmp_path, trials, idle=True, concurrency=2, waves=Waves(packs=3, of_a_worker=5))
    assert not done.losses
    ends = [event.pack_id for event in heard.all(events.PackEnded)]
    assert len(ends) == len(set(ends)) == 30
    assert least <= len(begun) <= most
