"""Panels are checked when a sweep starts: what no trial of it will have is a mistake with its place."""

from pathlib import Path

import pytest

from sweeper.space.problems import SearchSpaceError
from sweeper.space.search_space import check_panels, read

SPACES = Path(__file__).resolve().parents[2] / "search_spaces"

SPACE = """\
name: checked
trial:
  task: {name: gridworld, height: 2, width: 2, horizon: 3}
  model: {name: transformer, blocks: 1, width: 4, key_size: 2}
  baseline: {choice: [AE_r0, Aq_R]}
  objective: {q: inf, m: 2}
  optimizer: {name: pgpe, population: 4}
  steps: 1
  batch_size: 3
  evaluation: {seeds: 4, votes: []}
  seed: {seeds: 1}
panels:
  - kind: curve
    name: reward against m
    x: m
    metric: reward
    tail: reward_p5
    where: {task: gridworld, task_height: 2, objective.q: inf, device: cpu}
    best: {metric: reward_p5}
    series:
      - {label: all, where: {baseline: Aq_R}, best: {metric: wall_seconds}}
  - {kind: history, name: history, metric: mean_loss, tail: tail_loss, split: baseline}
  - {kind: cells, name: cells, metric: first_visit, rows: task_height, columns: task.width,
     limits: [0, task.horizon], split: q}
  - {kind: board, name: board, rows: task_height, columns: task.width,
     longest: task_horizon, target: [2, 2], split: seed}
  - {kind: heatmap, name: heat, x: baseline, metric: success, split: task}
  - {kind: cost, name: cost, x: optimizer_center_learning_rate, split: m}
  - {kind: scatter, name: early, x: {curve: worst_loss, step: 1}, metric: train_loss, split: m}
  - {kind: scatter, name: final, x: {column: optimizer.initial_std}, metric: reward, split: m}
"""


@pytest.fixture
def space(tmp_path):
    def read_text(text, overrides=()):
        path = tmp_path / "space.yaml"
        path.write_text(text, encoding="utf-8")
        spec = read(path, overrides)
        check_panels(spec)
        return spec

    return read_text


@pytest.mark.slow
def test_panels_that_name_what_their_trials_have_are_read(space):
    assert len(space(SPACE).panels) == 11


MISTAKES = {
    # what is replaced, each time at its first place, by what, and the path of the mistake
    "metric: reward\n": ("metric: rewards\n", "panels[0].metric"),
    "tail: reward_p5": ("tail: majority_30", "panels[0].tail"),
    "x: m\n": ("x: {column: n, label: '$\\frac{1}{$'}\n", "panels[0].x"),
    "task_height: 2, objective": ("height: 2, name: a, objective", "panels[0].where.height"),
    "task: gridworld,": ("task: [gridworld, gridword],", "panels[0].where.task"),
    "best: {metric: reward_p5}": ("best: {metric: regret}", "panels[0].best.metric"),
    "label: all": ("label: $$", "panels[0].series[0].label"),
    "{baseline: Aq_R}": ("{task: recall}", "panels[0].series[0].where.task"),
    "wall_seconds": ("wall_second", "panels[0].series[0].best.metric"),
    "tail_loss": ("bad_loss", "panels[1].tail"),
    "split: baseline": ("split: base", "panels[1].split"),
    "first_visit": ("second_visit", "panels[2].metric"),
    "[0, task.horizon]": ("[0, task_horizons]", "panels[2].limits"),
    "target: [2, 2]": ("target: [2, 2], metric: way", "panels[3].metric"),
    "kind: heatmap": ("kind: heatmap, label: '$x_{$'", "panels[4].label"),
    "x: baseline, metric: success": ("x: baseline, metric: successes", "panels[4].metric"),
    "optimizer_center_learning_rate": ("learning_rates", "panels[5].x"),
    "curve: worst_loss": ("curve: worse_loss", "panels[6].x.curve"),
    "metric: train_loss": ("title: 1$, y: {label: $y_$}, metric: train_los", "panels[6].metric"),
    "optimizer.initial_std": ("initial_std", "panels[7].x"),
}


@pytest.mark.slow
def test_names_and_labels_that_no_trial_has_are_mistakes_with_their_place(space):
    text = SPACE
    for before, (after, _) in MISTAKES.items():
        assert before in text
        text = text.replace(before, after, 1)
    with pytest.raises(SearchSpaceError) as caught:
        space(text)
    further = {"panels[0].x.label", "panels[0].where.name", "panels[6].y.label"}
    assert {problem.path for problem in caught.value.problems} == {path for _, path in MISTAKES.values()} | further
    lines = text.splitlines()
    assert all(f"{problem.path.split('.')[-1]}: " in lines[problem.where - 1] for problem in caught.value.problems)
    messages = {problem.path: problem.message for problem in caught.value.problems}
    assert "'optimizer_initial_std'?" in messages["panels[7].x"]
    assert "'task_height'?" in messages["panels[0].where.height"]


@pytest.mark.slow
def test_a_metric_is_a_curve_with_evaluate_every(space):
    panel = "  - {kind: history, name: ends, metric: reward, split: m}\n"
    with pytest.raises(SearchSpaceError) as caught:
        space(SPACE + panel)
    (problem,) = caught.value.problems
    assert problem.path == "panels[8].metric"
    assert "trial.evaluate_every" in problem.message
    space(SPACE + panel, ["trial.evaluate_every=1"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "label", "right"),
    [
        ("reward_p5", "Reward of the worst 5 %", "5th percentile of reward"),
        ("reward", "Reward on the worst input", "reward"),
    ],
)
def test_a_label_with_our_words_for_another_metric_is_a_mistake(space, metric, label, right):
    def panel(label):
        axes = f"x: wall_seconds, y: {{label: {label}}}"
        return f"  - {{kind: scatter, name: labelled, metric: {metric}, split: m, {axes}}}\n"

    with pytest.raises(SearchSpaceError) as caught:
        space(SPACE + panel(label))
    ((path, message),) = [(problem.path, problem.message) for problem in caught.value.problems]
    assert (path, f"'{right}'" in message) == ("panels[8].y.label", True)
    space(SPACE + panel(right))


@pytest.mark.slow  # traces four evaluations
def test_votes_are_named_without_their_number(space):
    coloring = (
        SPACE[: SPACE.index("  task:")]
        + """\
  task: {name: coloring, vertices: 5}
  model: {name: transformer}
  baseline: Aq_R
  steps: 1
  evaluation: {seeds: 10, votes: [3]}
panels:
  - {kind: votes, name: estimated, split: q}
  - {kind: votes, name: disjoint, metric: majority, tail: majority_p5, split: q}
"""
    )
    assert len(space(coloring).panels) == 2
    wrong = [f"  - {{kind: votes, name: {tail}, tail: {tail}, split: q}}\n" for tail in ("vote_p5", "majority_3_p5")]
    for text, paths in (
        (coloring + "".join(wrong), {"panels[2].tail", "panels[3].tail"}),
        (SPACE + "  - {kind: votes, name: none, split: q}\n", {"panels[8]"}),
    ):
        with pytest.raises(SearchSpaceError) as caught:
            space(text)
        assert {problem.path for problem in caught.value.problems} == paths


@pytest.mark.slow  # traces four evaluations
def test_a_column_may_be_an_entry_of_some_variants_only(space):
    text = (
        SPACE
        + """\
  - {kind: curve, name: annealed, x: objective_final_q, metric: reward, split: baseline}
variants:
  - {}
  - {objective: {final_q: 4}}
"""
    )
    assert len(space(text).panels) == 12
    with pytest.raises(SearchSpaceError, match=r"panels\[8\].x: .*'objective_final_q'"):
        space(text.replace("final_q: 4", "m: 3"))


@pytest.mark.slow
def test_an_override_is_named_as_the_place(space):
    with pytest.raises(SearchSpaceError, match="--set panels"):
        space(SPACE, ["panels[1].metric=loss"])


SHORT = ("coloring_halving", "recall_q", "gridworld_small", "ski_rental")
SHIPPED = [pytest.param(path, marks=[pytest.mark.slow if path.stem in SHORT else pytest.mark.long], id=path.stem)
           for path in sorted(SPACES.glob("*.yaml"))]  # fmt: skip


@pytest.mark.parametrize("path", SHIPPED)
def test_panels_of_shipped_spaces_name_what_their_trials_have(path):
    check_panels(read(path))
