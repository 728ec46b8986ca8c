"""What a dry run says beyond the plan."""

import re
from pathlib import Path

import pytest

from sweeper.packs import trial_timing
from tasks import coloring
from tests.tiny_sweeps import SPACE, start


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    return path


def test_the_cost_of_a_fresh_store_is_timed_on_the_spot(space, monkeypatch, capsys):
    monkeypatch.setattr(trial_timing, "timed", lambda trial: trial_timing.Timing(step=0.1, evaluation=5.0))
    assert start(space, dry_run=True) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [
        "  timing some steps of coloring Aq_R m=2",
        "  cost: about 30 s of one worker (1 trial by steps timed here)",
    ]
    assert not (space.parent / "results").exists()


def test_a_trial_that_cannot_be_timed_costs_no_more_than_the_estimate(space, monkeypatch, capsys):
    def timed(trial):
        raise ValueError("no such colour")

    monkeypatch.setattr(trial_timing, "timed", timed)
    assert start(space, dry_run=True) == 0
    assert "cost: unknown, as a trial cannot be timed: ValueError: no such colour" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["random", "optuna"])
def test_five_settings_that_differ_in_what_is_drawn_are_shown_and_those_left_out_are_counted(
    method, space, monkeypatch, capsys
):
    monkeypatch.setattr(trial_timing, "timed", lambda trial: trial_timing.Timing(step=0.1, evaluation=5.0))
    search = [f"search={{method: {method}, trials: 7}}", "trial.optimizer.learning_rate={log_uniform: [1e-4, 1e-2]}"]
    left_out = ("trial.seed={seeds: 2}", "exclude=[trial.seed == 1, trial.steps < 0]")
    assert start(space, *search, *left_out, dry_run=True) == 0
    printed = capsys.readouterr().out
    examples = [line for line in printed.splitlines() if line.startswith("  for example coloring Aq_R learning_rate=")]
    assert len(set(examples)) == 5
    assert "  7 of 14 settings left out: trial.seed == 1\n  0 of 14 settings left out: trial.steps < 0\n" in printed
    each = ["trial.model.width={each: {linspace: [2, 10, 5]}}", "trial.batch_size={formula: trial.model.width}"]
    assert start(space, *search, *each, dry_run=True) == 0
    assert len(set(re.findall(r"  for example .*(learning_rate=\S+)", capsys.readouterr().out))) == 5


def test_one_trial_is_trained_here_to_debug_it_and_nothing_is_stored(space, monkeypatch, capsys):
    losses = coloring.Task.losses

    def printing(*arguments):
        print("a task speaks")
        return losses(*arguments)

    monkeypatch.setattr(coloring.Task, "losses", printing)
    assert start(space, "trial.batch_size=9", trial="") == 0
    printed = capsys.readouterr().out
    assert "a task speaks" in printed
    assert "step 250 of 250 · loss 0." in printed
    assert printed.splitlines()[-1] == "finished"
    assert start(space, trial="no such id") == 2
    assert "--trial no such id: 0 ids of trials begin so (known: " in capsys.readouterr().err

    def broken(*arguments):
        raise ZeroDivisionError("no such colour")

    monkeypatch.setattr(coloring.Task, "losses", broken)
    with pytest.raises(ZeroDivisionError, match="no such colour"):
        start(space, "trial.batch_size=10", trial="")
    assert not list((space.parent / "results").rglob("*.parquet"))


@pytest.mark.slow  # imports Ray
def test_a_pack_too_large_for_this_machine_is_refused_before_it_is_started(space, monkeypatch, capsys):
    from sweeper.launch import ray_internals

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_internals, "machine_resources", lambda: {"CPU": 2.0, "GPU": 0.0})
    assert start(space, "resources.gpus=1", dry_run=True) == 2
    printed = capsys.readouterr()
    assert printed.err == (
        "resources.gpus: a pack takes 1 GPU, this machine has 0; --set resources.gpus=0 trains on its cores, "
        "--address on a cluster\n"
    )
    assert "0 done · 1 to run" in printed.out
    assert "timing" not in printed.out
