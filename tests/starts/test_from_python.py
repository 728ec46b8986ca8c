"""`sweeper.read_space`, `plan`, `train` and `sql`: what they return, and what they say of mistakes."""

import os
import subprocess
import sys

import pytest

import sweeper
from sweeper.packs import pack_run
from sweeper.space.problems import SearchSpaceError
from sweeper.starts.from_python import SweepError
from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.tiny_starts import with_seeds

SHORT = {"trial.steps": 20, "trial.objective.q": {"choice": [1, float("inf")]}}


@pytest.fixture
def space(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_text(with_seeds(1))
    return path


@pytest.mark.slow  # trains
def test_a_sweep_is_planned_trained_in_this_process_and_asked(space, tmp_path, capsys):
    results = tmp_path / "results"
    spec = sweeper.read_space(space, SHORT)
    before = sweeper.plan(spec, results)
    assert str(before) == "space: 2 trials · 1 cell · 2 packs\n  0 done · 2 to run"
    assert (list(before.trials), before.committed) == (list(before.pending), {})
    assert not results.exists()
    assert capsys.readouterr().out == ""

    trials = sweeper.train(spec, results, in_process=True)
    assert sorted(trials["trial_id"]) == sorted(before.trials)
    assert set(trials["status"]) == {"finished"}
    assert trials["command"][0] == f"sweeper.train {space}"
    assert "2 of 2 trials committed" in capsys.readouterr().out
    assert sweeper.sql("select count(*) as n from trials where success is not null", results)["n"].tolist() == [2]
    after = sweeper.plan(spec, results)
    assert (after.pending, set(after.committed.values())) == ((), {"finished"})
    assert [record.name for record in Store.open(results).sweeps()] == ["space"]

    # Nothing is left to run, and the rows of the sweep have not changed.
    assert sweeper.train(spec, results, in_process=True).equals(trials)


@pytest.mark.slow  # trains
def test_ctrl_c_leaves_a_checkpoint_from_which_the_next_call_goes_on(space, tmp_path, monkeypatch):
    spec = sweeper.read_space(space, {"trial.steps": 300})
    advance, begun = pack_run.PackRun.advance, []

    def interrupted(run):
        if run.training.step:
            raise KeyboardInterrupt
        return advance(run)

    def noted(run):
        begun.append(run.training.step)
        return advance(run)

    monkeypatch.setattr(pack_run.PackRun, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweeper.train(spec, tmp_path / "results", in_process=True)
    store = Store.open(tmp_path / "results")
    assert store.listing("checkpoints")
    monkeypatch.setattr(pack_run.PackRun, "advance", noted)
    assert sweeper.train(spec, tmp_path / "results", in_process=True)["status"].tolist() == ["finished"]
    assert begun[0] > 0
    assert not store.listing("checkpoints")


def test_an_exception_of_a_task_passes_through_and_its_trials_stay_pending(space, tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("no such colour")

    from tasks import coloring

    monkeypatch.setattr(coloring.Task, "losses", broken)
    spec = sweeper.read_space(space, {"trial.batch_size": 11})  # this process has compiled no program of that shape
    with pytest.raises(ZeroDivisionError):
        sweeper.train(spec, tmp_path / "results", in_process=True)
    assert len(sweeper.plan(spec, tmp_path / "results").pending) == 1


PROGRAM = """
from pathlib import Path
import sweeper
from sweeper.starts.from_python import SweepError

def refusal(act):
    try:
        act()
    except SweepError as error:
        return str(error)

space = sweeper.read_space("space.yaml", {"trial.task.name": "mine"})  # which loads the task
train = lambda: sweeper.train(space, "results", in_process=True)
Path("lib/util.py").write_text("# A remark.\\nSIZE = 1\\n")
assert refusal(lambda: sweeper.plan(space, "results")) is None
for name in ("lib/util.py", "tasks/doors.json"):
    before = Path(name).read_text()
    Path(name).write_text("SIZE = 2")
    told = refusal(train)
    assert told is not None and told.startswith(f"{name}: changed after this process had loaded the code"), (name, told)
    Path(name).write_text(before)
Path(".edit").touch()  # the task edits its helper while it is traced
told = refusal(train)
assert told is not None and told.startswith("lib/util.py: changed after"), told
"""

EDITED_TASK = """
from pathlib import Path
from typing import Literal

from lib.util import SIZE
from tasks import coloring


class Task(coloring.Task):
    name: Literal["mine"] = "mine"

    def losses(self, model, inputs, seeds):
        if Path(".edit").exists():
            Path("lib/util.py").write_text("SIZE = 5\\n")
        return super().losses(model, inputs, seeds)
"""


@pytest.mark.slow  # trains, in a process of its own
def test_code_that_was_edited_after_it_was_loaded_trains_nothing(tmp_path):
    files = {
        "tasks/mine.py": EDITED_TASK,
        "tasks/doors.json": "2",
        "lib/util.py": "SIZE = 1",
        "space.yaml": with_seeds(1),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = os.environ | {"PYTHONPATH": f"{plugins.ROOT}{os.pathsep}{tmp_path}"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert Store.open(tmp_path / "results").committed() == {}


def test_mistakes_are_one_sentence(space, tmp_path):
    with pytest.raises(SearchSpaceError, match=r"--set trial.stepz=3: .*did you mean 'steps'"):
        sweeper.read_space(space, {"trial.stepz": 3})
    stopping = {"search": {"method": "random", "trials": 2, "early_stopping": {"grace_steps": 10}}}
    with pytest.raises(SweepError, match="needs Ray"):
        sweeper.train(sweeper.read_space(space, stopping), tmp_path / "results", in_process=True)
