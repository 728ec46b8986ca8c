"""What a dry run says beyond the plan, and one trial that is trained to debug it."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import sweeper
from sweeper.messages import duration
from sweeper.space import search_space
from sweeper.store.store import Store
from tests.experiments.toy import READS, project
from tests.results import result
from tests.tiny_sweeps import SPACE, start


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    return path


@pytest.mark.slow  # traces in a fresh process
@pytest.mark.parametrize(("lanes", "code"), [(1, 2), (2, 0)], ids=["workers do not have it", "the command has it"])
def test_a_dry_run_refuses_data_that_workers_will_not_have(tmp_path, capsys, lanes, code):
    with project(tmp_path, toy=READS):
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        (tmp_path / ".gitignore").write_text("*.npy\n")
        np.save(tmp_path / "numbers.npy", np.zeros(50, np.float32))
        space = tmp_path / "space.yaml"
        trial = "{experiment: {name: toy, path: numbers.npy}, steps: 2, seed: {seeds: 2}}"
        space.write_text(f"trial: {trial}\nresources: {{lanes: {lanes}}}\n")
        assert start(space, dry_run=True) == code
    said = capsys.readouterr().err
    assert ("numbers.npy" in said) == ("what git ignores" in said) == (code == 2)


@pytest.mark.slow
def test_settings_that_optuna_will_ask_for_cost_as_much_as_those_known_so_far(space):
    timings = {"steps_done": 300.0, "train_seconds": 30.0, "evaluation_seconds": 5.0}
    Store.open(space.parent / "results").commit(result({"seed": 7}, timings=timings))
    written = (
        "search={method: optuna, trials: 40}", "trial.optimizer.learning_rate={log_uniform: [1e-4, 1e-2]}",
        "trial.seed={seeds: 2}",
    )  # fmt: skip
    plan = sweeper.plan(search_space.read(space, written), space.parent / "results")
    assert len(plan.trials) == 16, "of the first eight settings"
    assert plan.cost().startswith(f"about {duration(80 * (300 * 0.1 + 5.0))} ")


@pytest.mark.slow
def test_settings_that_conditions_leave_out_are_counted(space):
    written = (
        "trial.model.width={choice: [2, 4, 6]}",
        "trial.seed={seeds: 2}",
        "exclude=[trial.seed == 1, trial.steps < 0]",
    )
    plan = sweeper.plan(search_space.read(space, written), space.parent / "results")
    assert [re.findall(r"\d+", line)[:2] for line in plan.left_out] == [["3", "6"], ["0", "6"]]
    assert set(plan.left_out) <= set(plan.lines())


@pytest.mark.slow  # trains
def test_one_trial_is_trained_here_to_debug_it_and_nothing_is_stored(space, capsys):
    assert start(space, trial="") == 0
    printed = capsys.readouterr().out
    assert "step 300 of 300 · loss 0." in printed
    assert printed.splitlines()[-1] == "finished"
    assert start(space, trial="no such id") == 2
    assert capsys.readouterr().err.startswith("--trial no such id: ")
    assert not list((space.parent / "results").rglob("*.parquet"))


@pytest.mark.slow
def test_what_the_task_of_one_trial_prints_and_raises_comes_through(space, coloring_like, capsys):
    coloring_like("broken", in_trace="print('a task speaks'); raise ZeroDivisionError('no such colour')")
    with pytest.raises(ZeroDivisionError, match="no such colour"):
        start(space, "trial.task.name=broken", trial="")
    assert "a task speaks" in capsys.readouterr().out
