"""Sweeps in trackers, read back by the trackers' own tools; a second export adds what is new."""

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sweeper.commands import export
from sweeper.store.store import Store
from sweeper.trackers import runs
from sweeper.trial import plugins
from sweeper.trial.trial_spec import trial_id
from tests.processes import python, refusal
from tests.results import PROVENANCE, STARTED, failure, record, result
from tests.tiny_sweeps import SPACE

pytestmark = pytest.mark.slow  # imports of the trackers take seconds

METRICS = {"success": 0.75, "success_worst5": 0.25, "votes_10": 0.9, "train_loss": 0.1}
QS = (1.0, 3.0, 10.0)


def trial(number: int) -> dict:
    return {"objective": {"q": QS[number], "m": 2}}


IDS = [trial_id(result(trial(number)).trial) for number in range(3)]


@pytest.fixture
def store(tmp_path):
    """A sweep of three trials: a finished one, a failed one, and one that is pending."""
    store = Store.open(tmp_path / "results")
    store.record_sweep(record("cycles", IDS, SPACE))
    store.commit(result(trial(0), metrics=METRICS))
    store.commit(failure(trial(1)))
    return store


def exported(store: Store, destination: object, to: str, code: int = 0) -> str:
    done = CliRunner().invoke(export.app, [str(destination), "--to", to, "--results", store.url])
    assert done.exit_code == code, done.output
    return done.output.replace(str(destination), "…")


def grown(store: Store, destination: object, to: str) -> None:
    """Export twice, then after a pending trial was stopped and the failed one was run again, then once more."""
    assert exported(store, destination, to) == "2 runs of 1 sweep added to …\n"
    assert exported(store, destination, to) == "0 runs of 1 sweep added to …, 2 were there already\n"
    store.commit(result(trial(1), metrics=METRICS | {"success_worst5": 0.5}))
    store.commit(result(trial(2), metrics=METRICS, status="stopped"))
    assert exported(store, destination, to).startswith("2 runs" if to != "optuna" else "3 runs")
    assert exported(store, destination, to).endswith("0 runs of 1 sweep added to …, 3 were there already\n")


def sweep_of(store: Store, trial_ids, text: str = SPACE) -> runs.Sweep:
    sweep = runs.sweep_of(store, record("cycles", trial_ids, text))
    assert sweep is not None
    return sweep


def study_of(journal: Path):
    from optuna import load_study
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return load_study(study_name="cycles", storage=JournalStorage(JournalFileBackend(str(journal))))


def test_a_metric_called_like_an_entry_has_the_name_of_its_column(store):
    store.commit(result({"seed": 9}, metrics=METRICS | {"seeds": 7.0}))
    (run,) = sweep_of(store, [trial_id(result({"seed": 9}).trial)]).runs
    assert run.metrics["metrics.seeds"] == 7.0
    assert "seeds" not in run.metrics


def test_what_is_not_finite_is_text_or_left_out(store):
    points = [(100, "train_loss", math.nan), (200, "train_loss", 0.1), (300, "train_loss", math.inf)]
    diverged = result({"objective": {"q": "inf", "m": 2}}, metrics=METRICS | {"success": math.nan}, curves=points)
    store.commit(diverged)
    (run,) = runs.with_curves(store, sweep_of(store, [trial_id(diverged.trial)]).runs)
    assert run.entries["objective.q"] == "inf"
    assert "success" not in run.metrics
    assert run.metrics["votes_10"] == 0.9
    assert run.curves == {"train_loss": [(200, 0.1)]}


def test_rows_of_other_versions_are_no_runs(store, monkeypatch):
    monkeypatch.setattr(plugins.load("task", "coloring"), "VERSION", 99)
    assert runs.sweep_of(store, store.sweeps()[0]) is None


def test_mlflow_reads_its_runs(store, tmp_path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    grown(store, uri, "mlflow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow's own code
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name("cycles")
        assert experiment is not None
        runs = {run.data.tags["sweeper.trial_id"]: run for run in client.search_runs([experiment.experiment_id])}
        assert sorted(runs) == sorted(IDS)
        run = runs[IDS[0]]
        points = client.get_metric_history(run.info.run_id, "train_loss")
    assert [runs[each].info.status for each in IDS] == ["FINISHED", "FINISHED", "KILLED"]
    assert (run.info.start_time, run.info.end_time) == (STARTED.timestamp() * 1000, STARTED.timestamp() * 1000 + 2500)
    assert run.data.params["objective.q"] == "1.0"
    assert run.data.metrics["votes_10"] == 0.9
    assert [(point.step, point.value) for point in points] == [(100, 0.2), (200, 0.1)]
    assert run.data.tags["sweeper.commit"] == PROVENANCE.commit


def test_a_run_that_a_killed_export_left_half_written_is_written_again(store, tmp_path, monkeypatch):
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_batch", killed)
        assert CliRunner().invoke(export.app, [uri, "--to", "mlflow", "--results", store.url]).exit_code != 0
    assert exported(store, uri, "mlflow") == "2 runs of 1 sweep added to …\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = MlflowClient(tracking_uri=uri)
        assert len(client.search_runs([client.get_experiment_by_name("cycles").experiment_id])) == 2  # pyright: ignore


def test_what_mlflow_cannot_reach_is_one_sentence_at_once(store, tmp_path, monkeypatch):
    from mlflow import MlflowClient

    def refused(uri: str) -> str:
        return refusal(export.app, uri, "--to", "mlflow", "--results", store.url)

    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("an export waits without a word"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        told = refused(f"http://me:secret@127.0.0.1:{closed.getsockname()[1]}")
    assert "MLflow: no server answers at 127.0.0.1:" in told
    assert "secret" not in told
    (tmp_path / "text.db").write_text("no database " * 100)
    assert "file is not a database" in refused(f"sqlite:///{tmp_path}/text.db")
    assert "unable to open database file" in refused(f"sqlite:///{tmp_path}")
    assert "File exists" in refused(f"sqlite:///{tmp_path}/text.db/x.db")
    monkeypatch.setitem(sys.modules, "pymysql", None)
    assert "pymysql is not installed, which" in refused("mysql+pymysql://me:secret@127.0.0.1/runs")
    assert "sqlalchemy.dialects:mysql.none" in refused("mysql+none://127.0.0.1/runs")
    assert "invalid literal" in refused("postgresql://host:port/runs")

    uri = f"sqlite:///{tmp_path / 'new' / 'mlflow.db'}"
    exported(store, uri, "mlflow")
    client = MlflowClient(tracking_uri=uri)
    client.delete_experiment(client.get_experiment_by_name("cycles").experiment_id)  # pyright: ignore
    assert "'cycles' was deleted; `mlflow experiments restore --experiment-id 1` brings it back" in refused(uri)
    client.restore_experiment("1")
    assert exported(store, uri, "mlflow").endswith("2 were there already\n")


def test_tensorboard_reads_its_events(store, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    grown(store, tmp_path / "logs", "tensorboard")
    folders = sorted((tmp_path / "logs" / "cycles").iterdir())
    assert {folder.name[-8:]: folder.name[:-9] for folder in folders} == {
        key[:8]: f"coloring_transformer_Aq_R_q={q}" for key, q in zip(IDS, QS, strict=True)
    }
    assert all(len(list(folder.iterdir())) == 1 for folder in folders)
    (first,) = (folder for folder in folders if folder.name.endswith(IDS[0][:8]))
    events = EventAccumulator(str(first))
    events.Reload()
    assert [(point.step, round(point.value, 6)) for point in events.Scalars("train_loss")] == [(100, 0.2), (200, 0.1)]
    (success,) = events.Scalars("success_worst5")
    assert (success.step, success.value) == (250, 0.25)
    assert success.wall_time == pytest.approx(STARTED.timestamp() + 2.5)
    session = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"objective.q" in session

    # The same rows make the same bytes.
    again = tmp_path / "again"
    exported(store, again, "tensorboard")
    for file in (tmp_path / "logs").rglob("events*"):
        assert file.read_bytes() == (again / file.relative_to(tmp_path / "logs")).read_bytes()


def test_optuna_opens_the_journal(store, tmp_path):
    journal = tmp_path / "journal.log"
    grown(store, journal, "optuna")
    study = study_of(journal)
    assert study.best_trial.user_attrs["trial_id"] == IDS[1]
    assert (study.best_value, study.best_params) == (0.5, {"objective.q": 3.0})
    assert study.metric_names == ["success_worst5"]
    assert study.best_trial.intermediate_values == {100: 0.2, 200: 0.1}
    states = {each.user_attrs["trial_id"]: each.state.name for each in study.get_trials()}
    assert states == dict(zip(IDS, ("COMPLETE", "COMPLETE", "PRUNED"), strict=True))


@pytest.mark.parametrize("end", [0, 5, 11, 60, "after a line", "within the last", "zeros", "half a line more"])
def test_a_journal_that_was_cut_off_is_carried_on(store, tmp_path, end):
    journal = tmp_path / "journal.log"
    exported(store, journal, "optuna")
    whole = journal.read_bytes()
    cut = {
        "after a line": whole[: whole.rindex(b"\n", 0, -1) + 1], "within the last": whole[:-1],
        "zeros": whole[:-20] + bytes(20), "half a line more": whole[:-20] + b"\n",
    }  # fmt: skip
    journal.write_bytes(cut[end] if isinstance(end, str) else whole[:end])
    assert "added" in exported(store, journal, "optuna")
    assert exported(store, journal, "optuna").endswith("2 were there already\n")
    assert sorted(each.user_attrs["trial_id"] for each in study_of(journal).get_trials()) == sorted(IDS[:2])


def test_a_journal_that_another_writer_cuts_off_meanwhile_is_carried_on(store, tmp_path):
    from sweeper.trackers import to_optuna

    journal = tmp_path / "journal.log"
    tracker = to_optuna.tracker(str(journal))
    runs.export(store, tracker)
    with journal.open("ab") as file:
        file.write(b'{"op_code":4,"work')
    store.commit(result(trial(2), metrics=METRICS))
    assert runs.export(store, tracker)[0] == 3  # the range of q is wider now, and the study is written anew
    assert runs.export(store, to_optuna.tracker(str(journal)))[1] == 3


@pytest.mark.parametrize("content", [b"hello", b"hello\n", b"[1, 2]\n", b'{"op_code":0}\n{"op_code"\n{"op_code":1}\n'])
def test_what_is_no_journal_stays_as_it_is(store, tmp_path, content):
    journal = tmp_path / "notes.txt"
    journal.write_bytes(content)
    assert "name another file" in exported(store, journal, "optuna", code=2)
    assert journal.read_bytes() == content


def test_a_parameter_that_some_trials_lack_is_a_range_and_true_is_not_one(store, tmp_path):
    import optuna

    sweep = sweep_of(store, IDS)
    (first, second), path = sweep.runs[:2], str(tmp_path / "journal.log")
    values = [{"width": 4, "mixed": 1, "lists": (1,)}, {"mixed": True, "lists": "(1,)"}, {"width": 8, "mixed": 0.5}]
    made = [replace(first, trial_id=str(number), entries=entries) for number, entries in enumerate(values)]

    def exported_again(made: list[runs.Run], kept: int) -> list[optuna.trial.FrozenTrial]:
        tracker = runs.tracker("optuna", path)
        present = tracker.present(replace(sweep, runs=tuple(made), varying=("width", "mixed", "lists")))
        assert len(present) == kept
        for run in made:
            if run.trial_id not in present:
                tracker.add(run)
        return optuna.load_study(study_name="cycles", storage=tracker._storage).get_trials()  # pyright: ignore

    assert len(exported_again(made, kept=0)) == 3
    trials = exported_again(made, kept=3)
    assert [trial.params for trial in trials] == [
        {"width": 4, "mixed": "1", "lists": "[1]"}, {"mixed": "true", "lists": '"(1,)"'}, {"width": 8, "mixed": "0.5"},
    ]  # fmt: skip
    assert trials[0].distributions["width"] == optuna.distributions.IntDistribution(4, 8)
    assert len(trials[0].distributions["mixed"].choices) == 3  # pyright: ignore
    exported_again([*made, replace(second, entries={"width": 6})], kept=3)  # a trial with fewer parameters fits
    exported_again([*made, replace(second, entries={"width": 16})], kept=0)  # a wider range does not


def test_a_study_is_minimised_where_the_sweep_is(store, tmp_path):
    text = SPACE + "search: {method: random, trials: 3, metric: loss, mode: min}\n"
    journal = tmp_path / "journal.log"
    runs.tracker("optuna", str(journal)).present(sweep_of(store, IDS, text))
    assert study_of(journal).direction.name == "MINIMIZE"


def test_wandb_has_offline_runs_to_synchronise(store, tmp_path):
    from sweeper.trackers.to_wandb import records_of

    exported(store, tmp_path / "offline", "wandb")
    (failed,) = (tmp_path / "offline" / "cycles" / "wandb").glob(f"offline-run-*-{IDS[1]}")
    (left,) = (record.exit for record in records_of(failed / f"run-{IDS[1]}.wandb") if record.HasField("exit"))
    assert left.exit_code == 1
    shutil.rmtree(tmp_path / "offline")
    grown(store, tmp_path / "offline", "wandb")
    folders = sorted((tmp_path / "offline" / "cycles" / "wandb").glob("offline-run-*"))
    assert sorted(folder.name.rpartition("-")[2] for folder in folders) == sorted(IDS)
    (folder,) = (folder for folder in folders if folder.name.endswith(IDS[0]))
    listed = python("-m", "wandb", "sync", "--dry-run", *folders, check=True, WANDB_ERROR_REPORTING="false")
    assert all(folder.name in listed.stdout + listed.stderr for folder in folders)

    records = records_of(folder / f"run-{IDS[0]}.wandb")
    (run,) = (record.run for record in records if record.HasField("run"))
    assert (run.run_id, run.project, list(run.tags)) == (IDS[0], "cycles", ["finished"])
    assert run.display_name.startswith("coloring transformer Aq_R q=1")
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["objective.q"] == 1.0
    history = [
        {(item.key or item.nested_key[0]): json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    assert [(point["_step"], point["train_loss"]) for point in history] == [(100, 0.2), (200, 0.1)]
    summary = {
        (item.key or item.nested_key[0]): json.loads(item.value_json)
        for record in records
        if record.HasField("summary")
        for item in record.summary.update
    }
    assert summary["success_worst5"] == 0.25


def test_a_run_of_wandb_for_which_there_is_no_room_is_not_taken_for_whole(store, tmp_path):
    points = [(step, "train_loss", 1 / step) for step in range(1, 300)]
    store.commit(result(trial(2), metrics=METRICS, curves=points))
    command = [sys.executable, "-m", "sweeper.export", str(tmp_path / "offline"), "--to", "wandb"]
    command += ["--results", store.url]
    limited = subprocess.run(
        ["bash", "-c", 'ulimit -f 30; exec "$@"', "-", *command],
        capture_output=True, text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert (limited.returncode, limited.stderr.count("\n")) == (2, 1)
    assert "was not written to its end" in limited.stderr
    assert " added to …" in exported(store, tmp_path / "offline", "wandb")
    assert exported(store, tmp_path / "offline", "wandb").endswith("3 were there already\n")


def test_a_watched_store_is_exported_again_and_again_until_ctrl_c(store, tmp_path, monkeypatch):
    waits = []

    def slept(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            store.commit(result(trial(2), metrics=METRICS))
        if len(waits) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(export.time, "sleep", slept)
    arguments = [str(tmp_path / "logs"), "--to", "tensorboard", "--results", store.url, "--watch", "30"]
    done = CliRunner().invoke(export.app, arguments)
    assert (done.exit_code, waits) == (130, [30.0] * 4)
    assert [line.split(" added")[0] for line in done.output.splitlines()] == ["2 runs of 1 sweep", "1 run of 1 sweep"]


def test_what_cannot_be_is_one_sentence(store, tmp_path, monkeypatch):
    def refused(*arguments: str) -> str:
        return refusal(export.app, *arguments, "--results", store.url)

    assert "must be a file" in refused(str(tmp_path), "--to", "optuna")
    assert "--view is for files" in refused("logs", "--to", "tensorboard", "--view", "curves")
    assert "are for trackers" in refused(str(tmp_path / "x.csv"), "--sweep", "cycles")
    assert "must end in .csv" in refused(str(tmp_path / "x.parquet"), "--to", "csv")
    assert "no sweep 'maze'" in refused("logs", "--to", "tensorboard", "--sweep", "maze")
    assert "MLflow" in refused(str(tmp_path / "mlruns"), "--to", "mlflow")
    monkeypatch.setitem(sys.modules, "sweeper.trackers.to_wandb", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "wandb"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "sweeper.trackers.to_wandb")
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert refused("offline", "--to", "wandb").startswith("wandb is not installed: pip install '.[wandb]'")


def test_no_tracker_is_imported_before_it_is_asked_for():
    names = "mlflow optuna_dashboard tensorboard tensorboardX wandb"
    code = f"import sys, sweeper.__main__, sweeper.trackers.runs; print(set({names.split()}) & set(sys.modules))"
    assert python("-c", code, check=True).stdout == "set()\n"
