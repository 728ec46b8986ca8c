"""Panels are checked when a sweep starts: what no trial of it will have is a mistake with its place."""

from pathlib import Path

import pytest

from sweeper.space.problems import SearchSpaceError
from sweeper.space.search_space import check_panels, read

pytestmark = pytest.mark.slow

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
    where: {task: gridworld, height: 2, objective.q: inf, device: cpu}
    best: {metric: reward_p5}
    series:
      - {label: all, where: {baseline: Aq_R}, best: {metric: wall_seconds}}
  - {kind: history, name: history, metric: mean_loss, tail: tail_loss, split: baseline}
  - {kind: cells, name: cells, metric: first_visit, rows: height, columns: task.width, limits: [0, horizon], split: q}
  - {kind: board, name: board, rows: height, columns: task.width, longest: horizon, target: [2, 2], split: seed}
  - {kind: heatmap, name: heat, x: baseline, metric: success, split: task}
  - {kind: cost, name: cost, x: center_learning_rate, split: m}
  - {kind: scatter, name: early, x: {curve: worst_loss, step: 1}, metric: train_loss, split: m}
  - {kind: scatter, name: final, x: {column: initial_std}, metric: reward, split: m}
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


def test_panels_that_name_what_their_trials_have_are_read(space):
    assert len(space(SPACE).panels) == 11


@pytest.mark.parametrize(
    ("before", "after", "path", "message"),
    [
        ("metric: reward\n", "metric: rewards\n", "panels[0].metric", "unknown column 'rewards'; did you mean"),
        ("tail: reward_p5", "tail: reward_p6", "panels[0].tail", "did you mean 'reward_p5'?"),
        ("tail: reward_p5", "tail: majority_30", "panels[0].tail", "unknown column 'majority_30'"),
        ("x: m\n", "x: n\n", "panels[0].x", "unknown column 'n'"),
        ("height: 2, objective", "hight: 2, objective", "panels[0].where.hight", "did you mean 'height'?"),
        ("height: 2, objective", "name: a, objective", "panels[0].where.name", "could be model.name or optimizer.name"),
        ("task: gridworld,", "task: [gridworld, gridword],", "panels[0].where.task", "has the task 'gridword'"),
        ("{baseline: Aq_R}", "{task: recall}", "panels[0].series[0].where.task", "(known: gridworld)"),
        ("best: {metric: reward_p5}", "best: {metric: regret}", "panels[0].best.metric", "unknown column 'regret'"),
        ("wall_seconds", "wall_second", "panels[0].series[0].best.metric", "did you mean 'wall_seconds'?"),
        ("tail_loss", "bad_loss", "panels[1].tail", "unknown training curve 'bad_loss'"),
        ("split: baseline", "split: base", "panels[1].split", "did you mean 'baseline'?"),
        ("first_visit", "second_visit", "panels[2].metric", "unknown outcome 'second_visit'"),
        ("[0, horizon]", "[0, horizons]", "panels[2].limits", "did you mean 'horizon'?"),
        ("target: [2, 2]", "target: [2, 2], metric: way", "panels[3].metric", "unknown outcome 'way'"),
        ("x: baseline, metric: success", "x: baseline, metric: successes", "panels[4].metric", "outcome 'successes'"),
        ("center_learning_rate", "learning_rates", "panels[5].x", "did you mean"),
        ("curve: worst_loss", "curve: worse_loss", "panels[6].x.curve", "unknown training curve 'worse_loss'"),
        ("metric: train_loss", "metric: train_los", "panels[6].metric", "did you mean 'train_loss'?"),
        ("x: m\n", "x: {column: m, label: '$\\frac{1}{$'}\n", "panels[0].x.label", "no valid formula between its $"),
        ("label: all", "label: $$", "panels[0].series[0].label", "no valid formula"),
        ("kind: heatmap", "kind: heatmap, label: '$x_{$'", "panels[4].label", "no valid formula"),
        ("kind: scatter", "kind: scatter, title: 1$, y: {label: $y_$}", "panels[6].y.label", "no valid formula"),
        ("initial_std", "initial_sdt", "panels[7].x", "did you mean 'initial_std'?"),
    ],
)  # fmt: skip
def test_names_that_no_trial_has_are_mistakes_with_their_place(space, before, after, path, message):
    assert before in SPACE
    with pytest.raises(SearchSpaceError) as caught:
        space(SPACE.replace(before, after, 1))
    (problem,) = caught.value.problems
    assert problem.path == path
    assert message in problem.message
    assert problem.where == SPACE[: SPACE.index(before)].count("\n") + 1


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
    for tail, message in (("majority_3_p5", "did you mean 'majority_p5'?"), ("vote_p5", "did you mean 'votes_p5'?")):
        with pytest.raises(SearchSpaceError) as caught:
            space(coloring.replace("tail: majority_p5", f"tail: {tail}"))
        assert message in str(caught.value)
    with pytest.raises(SearchSpaceError, match="unknown votes 'votes'"):
        space(SPACE + "  - {kind: votes, name: none, split: q}\n")


def test_a_column_may_be_an_entry_of_some_variants_only(space):
    text = (
        SPACE
        + """\
  - {kind: curve, name: annealed, x: final_q, metric: reward, split: baseline}
variants:
  - {}
  - {objective: {final_q: 4}}
"""
    )
    assert len(space(text).panels) == 12
    with pytest.raises(SearchSpaceError, match="unknown column 'final_q'"):
        space(text.replace("final_q: 4", "m: 3"))


def test_an_override_is_named_as_the_place(space):
    with pytest.raises(SearchSpaceError, match="--set panels"):
        space(SPACE, ["panels[1].metric=loss"])


@pytest.mark.parametrize("path", sorted(SPACES.glob("*.yaml")), ids=lambda path: path.stem)
def test_panels_of_shipped_spaces_name_what_their_trials_have(path):
    check_panels(read(path))
