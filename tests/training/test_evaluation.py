"""Votes and metrics against obvious Python."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.training.evaluation import ballot_statistics, evaluate, metric_names, metrics, part_margin, vote_success
from sweeper.trial.contracts import Voting
from tests.trials import coloring_trial

ONLY_ZEROS = Voting(lambda inputs, answers: answers == 0, wrong_answers=8, parts=2)


def _mode(items):
    counts = collections.Counter(items)  # keeps the order in which items were first seen
    return counts.most_common(1)[0][0]


@pytest.mark.parametrize("rule", ["joint", "partwise"])
@pytest.mark.parametrize("group", [1, 3, 5])
def test_votes_equal_counting(rule, group):
    answers = np.random.default_rng(0).integers(0, 3, (20, 11, 2))
    found = jax.jit(lambda ballots: vote_success(ONLY_ZEROS, None, ballots, group, rule))(jnp.asarray(answers))
    for ballots, share in zip(answers, np.asarray(found), strict=True):
        wins = []
        for start in range(0, 11 // group * group, group):
            cast = ballots[start : start + group]
            if rule == "joint":
                wins.append(_mode([tuple(ballot) for ballot in cast]) == (0, 0))
            else:
                wins.append(all(_mode(list(part)) == 0 for part in cast.T))
        assert share == pytest.approx(np.mean(wins))


@pytest.mark.parametrize("baseline", ["Aq_R", "Aq_r0"])
def test_the_names_of_metrics_are_known_before_anything_is_trained(baseline):
    trial = coloring_trial(baseline=baseline)
    model = jax.jit(lambda trial: trial.model.build(trial.task, trial.keys().weights))(trial)
    assert set(metric_names(trial)) == set(evaluate(trial, model)[0])


def test_metrics_of_a_deterministic_model():
    success = np.array([1.0] * 94 + [0.0] * 6, np.float32)
    found = metrics({"success": success, "loss": np.linspace(0, 1, 100, dtype=np.float32)})
    assert found["success"] == pytest.approx(0.94)
    assert found["success_p5"] == 0
    assert found["success_worst5"] == 0
    assert found["failed_inputs"] == pytest.approx(0.06)
    assert found["loss_p95"] == pytest.approx(0.95, abs=1e-3)


def test_the_mean_of_the_worst_does_not_jump_where_the_percentile_does():
    for bad, p5, worst in ((4, 1.0, 0.2), (6, 0.0, 0.0)):
        success = np.array([0.0] * bad + [1.0] * (100 - bad), np.float32)
        found = metrics({"success": success, "loss": success})
        assert found["success_p5"] == p5
        assert found["success_worst5"] == pytest.approx(worst)


def test_margin_and_entropy_of_wrong_answers_equal_counting():
    draw = np.random.default_rng(0)
    answers = draw.integers(0, 2, (6, 12, 2))
    answers[0], answers[1] = 0, 1  # never wrong; always wrong in the same way
    correct = (answers == 0).all(axis=-1)
    found = jax.jit(ballot_statistics)(jnp.asarray(correct), jnp.asarray(answers))
    for index, (cast, right) in enumerate(zip(answers, correct, strict=True)):
        counts = collections.Counter(map(tuple, cast))
        right_count = counts.pop((0, 0), 0)
        shares = np.array(list(counts.values())) / max(1, (~right).sum())
        assert found["wrong_entropy"][index] == pytest.approx(-(shares * np.log2(shares)).sum(), abs=1e-6)
        assert found["margin"][index] == pytest.approx((right_count - max(counts.values(), default=0)) / 12)
    assert found["margin"][0] == 1
    assert found["margin"][1] == -1


def test_of_several_right_answers_only_the_most_frequent_counts_for_the_margin():
    answers = jnp.asarray([[0, 0, 1, 1, 1, 2, 2, 3]])[..., None]  # 0 and 1 are right
    found = jax.jit(ballot_statistics)(answers[..., 0] < 2, answers)
    assert found["margin"][0] == pytest.approx(1 / 8)


def test_the_margin_of_the_weakest_part_equals_counting():
    right = np.random.default_rng(0).random((20, 11, 3)) < [0.4, 0.7, 0.9]
    found = jax.jit(part_margin)(jnp.asarray(right))
    for cast, margin in zip(right, np.asarray(found), strict=True):
        assert margin == pytest.approx(min((sum(part) - sum(~part)) / 11 for part in cast.T), abs=1e-6)


@pytest.mark.parametrize("seeds", [7, 13, 30, 100])
def test_a_perfect_margin_is_no_more_than_one(seeds):
    """In single precision 7 / 7 can be more than 1, and no bound on votes is defined beyond."""
    right = jnp.ones((2, seeds, 3), bool)
    assert jax.jit(part_margin)(right).max() <= 1
    assert jax.jit(ballot_statistics)(right[..., 0], jnp.zeros((2, seeds, 1), int))["margin"].max() <= 1


def test_margins_of_parts_are_measured_where_parts_are_voted_on():
    recall = coloring_trial(task={"name": "recall", "keys": 2, "value_bits": 2})
    columns = evaluate(recall, jax.jit(lambda trial: trial.model.build(trial.task, trial.keys().weights))(recall))
    assert columns[0]["part_margin_p5"] == pytest.approx(np.percentile(columns[1]["part_margin"], 5))
    # Whole answers are right no more often than their weakest part.
    assert (2 * columns[1]["success"] - 1 <= columns[1]["part_margin"] + 1e-6).all()
    assert "part_margin" not in metric_names(coloring_trial())


def test_the_entropy_of_wrong_answers_is_averaged_over_inputs_that_have_some():
    columns = {"success": np.array([1, 0.5, 0.0], np.float32), "wrong_entropy": np.array([0, 1, 2], np.float32)}
    assert metrics(columns)["wrong_entropy"] == pytest.approx(1.5)
    assert "wrong_entropy" not in metrics({name: column[:1] for name, column in columns.items()})
