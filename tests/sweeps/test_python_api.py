"""`sweeper.read_space`, `plan`, `train` and `sql`: what they return and emit, and what they say of mistakes."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

import sweeper
from sweeper import events
from sweeper.__main__ import app
from sweeper.commands import run
from sweeper.listeners import heartbeats
from sweeper.packs import conformance, halving, pack_run
from sweeper.packs.rehearsal import Rehearsal
from sweeper.store.store import Store
from sweeper.sweeps import in_process, training
from sweeper.trial import plugins
from tests.heard import Heard
from tests.heartbeats import DEAD, ELSEWHERE, heartbeat, until
from tests.processes import python
from tests.results import PROVENANCE, result
from tests.tiny_sweeps import with_seeds


@pytest.fixture
def space(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_text(with_seeds(1))
    return path


@pytest.mark.slow  # trains
def test_a_sweep_is_planned_trained_in_this_process_and_asked(space, tmp_path, capsys):
    results = tmp_path / "results"
    spec = sweeper.read_space(space, {"trial.steps": 20, "trial.objective.q": {"choice": [1, 3]}})
    before = sweeper.plan(spec, results)
    assert str(before) == "space: 2 trials · 1 cell · 2 packs\n  0 done · 2 to run"
    assert (list(before.trials), before.committed) == (list(before.pending), {})
    assert (before.changes, before.remarks, before.other_code) == (None, [], None)
    assert not results.exists()

    heard, files = [], Store.open(results).files
    for sweep, of in (("space", ELSEWHERE), ("space", DEAD), ("another", ELSEWHERE)):
        heartbeats.write_heartbeat(files, sweep, heartbeat(**of))
    result = sweeper.train(before, in_process=True, on_event=heard.append)
    kinds = [type(event).__name__ for event in heard]
    assert (kinds[0], kinds.count("TrialCommitted"), kinds[-1]) == ("SweepPlanned", 2, "SweepEnded")
    another = (
        f"space also runs on far (process {os.getpid()}), which trains the same trials; Ctrl-C here leaves them to it\n"
    )
    assert capsys.readouterr() == ("", another)
    for driver in heartbeats.drivers(files):
        heartbeats.remove_heartbeat(files, driver.sweep, driver.heartbeat.driver)
    assert (result.complete, result.unfinished) == (True, {})
    assert str(result).startswith("coloring · transformer · Aq_R · 20 steps · finished\n")
    assert str(result).endswith("\n2 of 2 trials committed")
    trials = result.trials
    assert sorted(trials["trial_id"]) == sorted(before.trials)
    assert set(trials["status"]) == {"finished"}
    assert trials["command"][0] == "sweeper.train space.yaml"
    assert sweeper.sql("select count(*) as n from trials where success is not null", results)["n"].tolist() == [2]
    after = sweeper.plan(spec, results)
    assert (after.pending, set(after.committed.values())) == ([], {"finished"})
    assert [record.name for record in Store.open(results).sweeps()] == ["space"]

    # Nothing is left to run, and the rows of the sweep have not changed; a plan may be trained again. A driver that
    # died after its last commit is forgotten: nobody needs to carry on.
    heartbeats.write_heartbeat(Store.open(results).files, "space", heartbeat(**DEAD))
    assert all(sweeper.train(plan, in_process=True).trials.equals(trials) for plan in (after, before))
    assert heartbeats.drivers(Store.open(results).files) == []


ADVANCE = pack_run.PackRun.advance


def interrupted(run):
    """As `advance`, with Ctrl-C once a step is trained."""
    if run.training.step:
        signal.raise_signal(signal.SIGINT)
    return ADVANCE(run)


@pytest.mark.slow  # trains
def test_a_plan_looks_again_at_a_store_that_has_changed(space, tmp_path):
    """What another call has committed meanwhile is neither trained nor superseded again."""
    spec, results = sweeper.read_space(space, {"trial.steps": 20}), tmp_path / "results"
    first, second = (sweeper.plan(spec, results, recompute_other_code=True) for _ in range(2))
    row = sweeper.train(first, in_process=True).trials
    heard = []
    assert sweeper.train(second, in_process=True, on_event=heard.append).trials.equals(row)
    assert not any(isinstance(event, events.PackStarted) for event in heard)

    store = Store.open(results)
    (seal,) = store.seals().values()
    other = PROVENANCE
    store.supersede([seal.trial_id])
    store.commit(result({"steps": 20}, provenance=other))
    third, fourth = (sweeper.plan(spec, results, recompute_other_code=True) for _ in range(2))
    assert third.superseded == fourth.superseded == [seal.trial_id]
    with pytest.raises(sweeper.SweepError), ThreadPoolExecutor() as pool:
        pool.submit(sweeper.train, third, address="local").result()
    assert len(store.listing("superseded")) == 1, "nothing was done"
    assert sweeper.train(third, in_process=True).trials["fingerprint"][0] == seal.fingerprint
    assert sweeper.train(fourth, in_process=True).complete
    assert len(store.listing("superseded")) == 2
    files = len(os.listdir("/proc/self/fd"))
    sweeper.train(fourth, in_process=True)
    assert len(os.listdir("/proc/self/fd")) <= files


@pytest.mark.slow  # trains
def test_other_commands_see_a_training_in_this_process(space, tmp_path, monkeypatch):
    """Nothing is deleted beside it, and it stops when it is asked to."""
    spec, results = sweeper.read_space(space, {"trial.steps": 100_000}), str(tmp_path / "results")
    store, advance = Store.open(results), pack_run.PackRun.advance
    answers, stopped = [], []
    monkeypatch.setattr(heartbeats, "SECONDS", 0.01)
    monkeypatch.setattr(heartbeats, "LOOK_SECONDS", 0.01)

    def said(*words):
        return CliRunner().invoke(app, [*words, "--results", results])

    asking = threading.Thread(target=lambda: stopped.append(run.stop_drivers(store, "space")))

    def watched(run):
        if not answers:
            until(lambda: store.listing("drivers"))
            answers.extend([said("delete", "space", "--yes"), said("status")])
            asking.start()
        return advance(run)

    monkeypatch.setattr(pack_run.PackRun, "advance", watched)
    with pytest.raises(KeyboardInterrupt):
        sweeper.train(sweeper.plan(spec, results), in_process=True)
    asking.join()
    deleted, shown = answers
    assert (deleted.exit_code, stopped) == (2, [0])
    assert all("space" in answer.output for answer in answers)
    assert "running" in shown.output
    assert store.listing("checkpoints")
    assert not store.listing("drivers")


@pytest.mark.slow  # trains
def test_a_sweep_that_grows_after_an_interruption_goes_on_and_what_no_sweep_plans_is_removed(
    space, tmp_path, monkeypatch
):
    results, begun = tmp_path / "results", {}

    def noted(run):
        begun.setdefault(tuple(trial.seed for trial in run.pack.trials), run.training.step)
        return ADVANCE(run)

    def train(changes, seeds, by):
        monkeypatch.setattr(pack_run.PackRun, "advance", by)
        spec = sweeper.read_space(space, changes | {"trial.seed": {"seeds": seeds}})
        return sweeper.train(sweeper.plan(spec, results), in_process=True)

    abandoned, sweep = {"trial.objective.q": 7}, {"trial.objective.q": 3}
    for changes in (abandoned, sweep):
        with pytest.raises(KeyboardInterrupt):
            train(changes, 1, interrupted)
    assert len(Store.open(results).listing("checkpoints")) == 2
    result = train(sweep, 2, noted)
    assert set(result.trials["status"]) == {"finished"}
    assert begun == {(0,): 200, (1,): 0}  # the stride in which the signal came is kept
    assert not Store.open(results).listing("checkpoints")
    assert result.vain_checkpoints == 1
    assert "1 checkpoint" in str(result)


@pytest.mark.slow  # trains
def test_a_search_without_winner_is_not_called_committed(space, tmp_path, monkeypatch):
    """Every trial has a row, of a sweep that has compared them earlier."""
    for step, complete in ((100, True), (200, False)):
        search = {"method": "halving", "starts": 2, "rungs": [{"steps": step, "keep": 1}]}
        spec = sweeper.read_space(space, {"trial.steps": 300, "search": search})
        result = sweeper.train(sweeper.plan(spec, tmp_path / "results"), in_process=True)
        assert (result.complete, "2 of 2 trials committed" in str(result)) == (complete, complete)
        monkeypatch.setattr(halving, "MOST_TIMES", 0)  # as if all work were lost


@pytest.mark.slow  # trains
@pytest.mark.parametrize("by", [{}, pytest.param({"metric": "success", "mode": "max"}, marks=pytest.mark.long)])
def test_a_pack_that_falls_behind_is_stopped_also_without_ray(space, tmp_path, by):
    rates = {"choice": [1e-2, 1e-7]}
    changes = {"trial.steps": 1000, "trial.optimizer": {"learning_rate": rates, "warmup_steps": 0}}
    early_stopping = {"grace_steps": 300, "reduction_factor": 2, **by, **({"every": 100} if by else {})}
    spec = sweeper.read_space(space, changes | {"search": {"early_stopping": early_stopping}})
    result = sweeper.train(sweeper.plan(spec, tmp_path / "results"), in_process=True)
    rows = result.trials.sort_values("learning_rate")
    assert [(row.status, row.steps_done) for row in rows.itertuples()] == [("stopped", 300), ("finished", 1000)]


@pytest.mark.slow
def test_what_a_task_raises_is_a_failed_row_and_the_other_packs_go_on(space, coloring_like, tmp_path, monkeypatch):
    coloring_like("broken", in_trace="raise ZeroDivisionError('no such colour')")
    task = {"variants": [{"task": {"name": "broken"}}, {"task": {"name": "coloring"}}], "trial.steps": 20}
    spec = sweeper.read_space(space, task)
    with pytest.raises(sweeper.UserError, match=r"sample_inputs.* ZeroDivisionError: no such colour"):
        sweeper.plan(spec, tmp_path / "results")
    for check in ("check_shapes", "probe"):  # which do not see everything
        monkeypatch.setattr(conformance, check, lambda *_: Rehearsal())
    result = sweeper.train(sweeper.plan(spec, tmp_path / "results"), in_process=True)
    assert result.trials["status"].value_counts().to_dict() == {"failed": 1, "finished": 1}
    (told,) = result.unfinished
    assert told.startswith("ZeroDivisionError: no such colour (tasks/broken.py, line ")


@pytest.mark.slow  # plans
def test_a_single_pack_for_one_core_needs_no_cluster(space, tmp_path, monkeypatch):
    def alone(**changes):
        return training._needs_no_cluster(sweeper.plan(sweeper.read_space(space, changes), tmp_path / "results"))

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    halving = {"method": "halving", "starts": 2, "rungs": [{"steps": 100, "keep": 1}]}
    assert alone()
    for path, value in (("gpus", 1), ("cpus", 2), ("population_workers", 2), ("progress_seconds", 60)):
        assert not alone(**{f"resources.{path}": value})
    assert not alone(**{"trial.objective.q": {"choice": [1, 3]}}), "two packs"
    assert not alone(search=halving)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert not alone()


@pytest.mark.slow  # trains
def test_cores_that_a_long_single_pack_leaves_idle_are_told_once(space, tmp_path, monkeypatch):
    monkeypatch.setattr(in_process, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    heard = Heard()
    for changes in ({"trial.seed": {"seeds": 4}}, {"trial.seed": {"seeds": 6}, "resources.lanes": 1}):
        spec = sweeper.read_space(space, changes)
        sweeper.train(sweeper.plan(spec, tmp_path / "results"), in_process=True, on_event=heard.hear)
    (idle,) = heard.all(events.CoresIdle)
    assert (idle.cores, idle.lanes) == (3, 2)


PROGRAM = """
from pathlib import Path

import sweeper

def refusal(act):
    try:
        act()
    except sweeper.OtherCodeError as error:
        return str(error)

space = sweeper.read_space("space.yaml", {"trial.task.name": "mine"})  # which loads the task
train = lambda: sweeper.train(sweeper.plan(space, "results"), in_process=True)
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

DOORS = "doors.json"


class Task(coloring.Task):
    name: Literal["mine"] = "mine"

    def losses(self, model, inputs, seeds):
        if Path(".edit").exists():
            Path("lib/util.py").write_text("SIZE = 5\\n")
        return super().losses(model, inputs, seeds)
"""


@pytest.mark.long  # trains, in a process of its own
def test_code_that_was_edited_after_it_was_loaded_trains_nothing(tmp_path):
    files = {
        "tasks/mine.py": EDITED_TASK, "tasks/doors.json": "2", "lib/util.py": "SIZE = 1", "space.yaml": with_seeds(1),
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = python("-c", PROGRAM, cwd=tmp_path, PYTHONPATH=f"{plugins.ROOT}{os.pathsep}{tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert Store.open(tmp_path / "results").committed() == {}
