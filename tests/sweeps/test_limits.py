"""A start ends at the first limit of its space, leaves checkpoints, and says which limit it was."""

import dataclasses
import functools

import pytest

import sweeper
from sweeper import events
from sweeper.interruption import Interruption
from sweeper.store.store import Store
from sweeper.sweeps import training
from sweeper.sweeps.sweep_plan import unchecked_plan
from sweeper.sweeps.training import LimitsWatch
from sweeper.trial.trial import trial_id
from tests.results import result
from tests.tiny_sweeps import with_seeds

TIMED = events.Ticked()


def space(tmp_path, limits, seeds=3):
    path = tmp_path / "space.yaml"
    path.write_text(f"{with_seeds(seeds)}\nresources: {{lanes: 1}}\nlimits: {limits}\n")
    return path


def watched(tmp_path, limits):
    """A watch over a plan, and what it may end."""
    plan, interruption = unchecked_plan(space(tmp_path, limits), tmp_path / "results"), Interruption()
    return LimitsWatch(plan, interruption), interruption, list(plan.trials.values())


def test_after_so_many_failures_a_start_ends(tmp_path):
    watch, interruption, _ = watched(tmp_path, "{failures: 2}")
    for status, ends in (("failed", False), ("finished", False), ("stopped", False), ("failed", True)):
        watch.hear(events.TrialCommitted("pack", "trial", status))
        assert interruption.asked is ends
    assert interruption.limit.startswith("limits.failures: 2 ")
    watch.hear(TIMED)
    assert interruption.limit.startswith("limits.failures"), "the first limit counts"


@pytest.mark.slow
@pytest.mark.parametrize(("goal", "values"), [("at_least: 0.8", [0.1, 0.75, 0.8]), ("at_most: 0.1", [0.8, 0.11, 0.1])])
def test_at_the_first_finished_trial_that_is_good_enough_a_start_ends(tmp_path, goal, values):
    watch, interruption, trials = watched(tmp_path, f"{{goal: {{metric: success, {goal}}}}}")
    store = Store.open(tmp_path / "results")
    for trial, value in zip(trials, values, strict=True):
        assert not interruption.asked
        row = dataclasses.replace(result(metrics={"success": value}), trial=trial)
        store.commit(row)
        watch.hear(events.TrialCommitted("pack", trial_id(trial), "finished"))
    assert interruption.limit == f"limits.goal: success is {values[-1]}"
    again, ended, _ = watched(tmp_path, f"{{goal: {{metric: success, {goal}}}}}")
    assert (again.goal_reached, ended.asked) == (True, True), "the next start has nothing to do"


@pytest.mark.long  # trains
def test_a_start_that_comes_to_a_limit_ends_and_the_next_one_goes_on(tmp_path, monkeypatch):
    results, now = tmp_path / "results", [0.0]

    def an_hour_passes(event):
        """With the first stride of the first pack."""
        if isinstance(event, events.PackProgressed) and event.step:
            now[0] = 3600.0

    monkeypatch.setattr(training, "LimitsWatch", functools.partial(LimitsWatch, clock=lambda: now[0]))
    spec = sweeper.read_space(space(tmp_path, "{hours: 1}"))
    ended = sweeper.train(sweeper.plan(spec, results), in_process=True, on_event=an_hour_passes)
    assert ended.limit.startswith("limits.hours")
    assert (ended.complete, ended.goal_reached, len(ended.trials)) == (False, False, 0)
    ((reason, left),) = ended.unfinished.items()
    assert (len(left), ended.limit in reason) == (3, True)
    assert "limits.hours" in str(ended)
    assert len(Store.open(results).listing("checkpoints")) == 1

    goal = sweeper.read_space(space(tmp_path, "{goal: {metric: success, at_least: 0}}"))
    result = sweeper.train(sweeper.plan(goal, results), in_process=True)
    assert (result.goal_reached, len(result.trials), len(result.unfinished)) == (True, 1, 1)
    assert not Store.open(results).listing("checkpoints"), "the first trial went on from there"
    assert len(sweeper.train(sweeper.plan(goal, results), in_process=True).trials) == 1
