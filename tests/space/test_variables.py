"""Variables: values of a setting that are no entry of its trial, and that formulas use."""

from pathlib import Path

import pytest

from sweeper.space.problems import Problem, SearchSpaceError
from sweeper.space.search_space import of_text
from sweeper.space.sweep_spec import SweepSpec

SPACE = """
variables:
  x: {logspace: [1e-3, 1e-1, 3]}
trial:
  task: {name: coloring, vertices: 5}
  model: {name: transformer, width: 8}
  baseline: Aq_R
  objective: {q: 2, m: 10}
  optimizer: {beta1: {formula: 1 - variables.x}}
  steps: 200
  seed: {seeds: 2}
"""
RANDOM = "search={method: random, trials: 4}"


def space(*overrides: str) -> SweepSpec:
    return of_text(Path("space.yaml"), SPACE, overrides)


def pairs(spec: SweepSpec) -> list[tuple[float, float]]:
    """The variable and the momentum of each trial."""
    found = spec.expand()
    return [
        (found.variables[key]["variables.x"], trial.optimizer.beta1)
        for key, trial in zip(found.trial_ids, found.trials, strict=True)
    ]


def refused(*overrides: str) -> list[Problem]:
    with pytest.raises(SearchSpaceError) as caught:
        space(*overrides)
    return caught.value.problems


def test_a_grid_takes_every_value_and_the_trial_has_the_formulas():
    assert pairs(space()) == [(x, 1 - x) for x in (1e-3, 1e-2, 1e-1) for _ in range(2)]


def test_the_ids_are_those_of_the_same_trials_written_out():
    written = space("variables={}", "trial.optimizer.beta1={choice: [0.999, 0.99, 0.9]}").expand()
    assert space().expand().trial_ids == written.trial_ids
    assert not written.variables


def test_random_draws_are_no_others_when_a_variable_joins():
    rate = "trial.optimizer.learning_rate={log_uniform: [1e-4, 1e-2]}"
    drawn = space("variables.x={log_uniform: [1e-3, 1e-1]}", rate, RANDOM)
    assert len({x for x, _ in pairs(drawn)}) == 4
    assert all(1e-3 <= x <= 1e-1 and beta1 == pytest.approx(1 - x, abs=1e-12) for x, beta1 in pairs(drawn))
    alone = space("variables={}", "trial.optimizer.beta1=0.5", rate, RANDOM)
    assert [each.optimizer.learning_rate for each in alone.expand().trials] == [
        each.optimizer.learning_rate for each in drawn.expand().trials
    ]


def test_a_variable_may_be_a_record_and_a_formula_and_serves_every_variant():
    pair = "variables.pair={choice: [{width: 8, q: {formula: 200 * variables.x}}, {width: 16, q: 4}]}"
    spec = space(
        pair, "trial.model.width={formula: variables.pair.width}", "trial.objective.q={formula: variables.pair.q}",
        "variables.x={choice: [0.01, 0.1]}", "variants=[{}, {steps: 300}]", "trial.seed=0",
    )  # fmt: skip
    found = [(each.model.width, each.objective.q, each.optimizer.beta1, each.steps) for each in spec.expand().trials]
    rows = [(8, 2, 0.99), (16, 4, 0.99), (8, 20, 0.9), (16, 4, 0.9)]
    assert sorted(found) == sorted((*row, steps) for steps in (200, 300) for row in rows)
    assert set(next(iter(spec.expand().variables.values()))) == {
        "variables.x", "variables.pair.width", "variables.pair.q",
    }  # fmt: skip


def test_settings_of_equal_trials_are_one_with_the_first_value():
    spec = space("variables.x={choice: [3, 4, 5]}", "trial.optimizer.beta1={formula: variables.x // 3 / 10}")
    assert spec.expand().summary == "6 settings, 4 equal to others, 2 trials"
    assert {values["variables.x"] for values in spec.expand().variables.values()} == {3}


def test_a_condition_may_name_a_variable():
    assert len(pairs(space("exclude=[variables.x > 0.05]"))) == 4


@pytest.mark.parametrize(
    ("override", "path"),
    [
        ("variables.a-b=3", "variables.a-b"),
        ("variables={int: [1, 2]}", "variables.int"),
        ("variables.x={uniform: [2, 1]}", "variables.x.uniform"),
        ("variables.x={uniform: [1, 2]}", "variables.x"),  # of a grid
        ("variables.x={formula: variables.x}", "variables.x.formula"),
        ("variables.x=-2", "trial.optimizer.beta1.formula"),  # no momentum
        ("trial.steps={formula: variables.z}", "trial.steps.formula"),
    ],
)
def test_a_mistake_is_told_with_its_path(override, path):
    assert path in {problem.path for problem in refused(override)}
