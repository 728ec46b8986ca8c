"""Offline runs of Weights & Biases, read by its own program and in its own records; its server is far away."""

import json
import os
import subprocess
import sys

import pytest

from tests.processes import complaints, python
from tests.results import result
from tests.trackers.exports import IDS, METRICS, exported, trial

pytestmark = pytest.mark.slow  # W&B starts a service for each run


def records(folder):
    """What an offline run holds, each record with its kind."""
    from sweeper.trackers.to_wandb import records_of

    (file,) = folder.glob("run-*.wandb")
    return [(record.WhichOneof("record_type"), record) for record in records_of(file)]


def of_kind(folder, kind):
    return [getattr(record, kind) for name, record in records(folder) if name == kind]


def values(items):
    return {(item.key or item.nested_key[0]): json.loads(item.value_json) for item in items}


def test_a_sweep_is_a_project_of_offline_runs(store, tmp_path):
    project = tmp_path / "offline" / "cycles" / "wandb"
    exported(store, tmp_path / "offline", "wandb")
    (failed,) = project.glob(f"offline-run-*-{IDS[1]}")
    assert [left.exit_code for left in of_kind(failed, "exit")] == [1]

    store.commit(result(trial(1), metrics=METRICS))
    store.commit(result(trial(2), metrics=METRICS, status="stopped"))
    assert exported(store, tmp_path / "offline", "wandb") == (2, 1)
    assert exported(store, tmp_path / "offline", "wandb") == (0, 3)
    folders = {folder.name.rpartition("-")[2]: folder for folder in project.glob("offline-run-*")}
    assert sorted(folders) == sorted(IDS)
    folder = folders[IDS[0]]
    (run,) = of_kind(folder, "run")
    assert (run.run_id, run.project, list(run.tags)) == (IDS[0], "cycles", ["finished"])
    assert run.display_name.startswith("coloring transformer Aq_R q=1")
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["objective.q"] == 1.0
    history = [values(record.item) for record in of_kind(folder, "history")]
    assert [(point["_step"], point["train_loss"]) for point in history] == [(100, 0.2), (200, 0.1)]
    summary = [values(record.update) for record in of_kind(folder, "summary")]
    assert {name: value for each in summary for name, value in each.items()}["success_worst5"] == 0.25


@pytest.mark.long
def test_a_run_for_which_there_is_no_room_is_not_taken_for_whole_and_wandb_lists_those_that_are(store, tmp_path):
    points = [(step, "train_loss", 1 / step) for step in range(1, 300)]
    store.commit(result(trial(2), metrics=METRICS, curves=points))
    command = [sys.executable, "-m", "sweeper", "export", str(tmp_path / "offline"), "--to", "wandb"]
    command += ["--results", store.url]
    limited = subprocess.run(
        ["bash", "-c", 'ulimit -f 30; exec "$@"', "-", *command],
        capture_output=True, text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert (limited.returncode, len(complaints(limited.stderr))) == (2, 1)
    assert IDS[2] in limited.stderr
    assert exported(store, tmp_path / "offline", "wandb")[0] > 0
    assert exported(store, tmp_path / "offline", "wandb") == (0, 3)
    folders = [*(tmp_path / "offline" / "cycles" / "wandb").glob("offline-run-*")]
    listed = python("-m", "wandb", "sync", "--dry-run", *folders, check=True, WANDB_ERROR_REPORTING="false")
    assert [folder.name in listed.stdout + listed.stderr for folder in folders] == [True] * 3
