"""Metrics against obvious Python."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

from sweeper.learned_algorithms.evaluation import best_seed, evaluate, metrics, names
from sweeper.learned_algorithms.voting import GROUPS, SIZES, Share
from tests.trials import coloring_trial


@jax.jit
def initial(trial):
    return trial.model.build(trial.task, trial.keys().weights)


def evaluated(**changes):
    trial = coloring_trial(**changes)
    return evaluate(trial, initial(trial))


@pytest.mark.slow
@pytest.mark.parametrize("baseline", ["Aq_R", "Aq_r0"])
def test_the_names_of_metrics_are_known_before_anything_is_trained(baseline):
    assert set(names(coloring_trial(baseline=baseline)).metrics) == set(evaluated(baseline=baseline)[0])


def test_metrics_of_a_deterministic_model():
    success = np.array([1.0] * 94 + [0.0] * 6, np.float32)
    measured = metrics({"success": success, "loss": np.linspace(0, 1, 100, dtype=np.float32)})
    assert measured["success"] == pytest.approx(0.94)
    assert measured["success_p5"] == 0
    assert measured["success_worst5"] == 0
    assert measured["failed_inputs"] == pytest.approx(0.06)
    assert measured["loss_p95"] == pytest.approx(0.95, abs=1e-3)
    assert metrics({"success": success[:94]})["success_worst"] == 1


def test_the_mean_of_the_worst_does_not_jump_where_the_percentile_does():
    for bad, p5, worst in ((4, 1.0, 0.2), (6, 0.0, 0.0)):
        success = np.array([0.0] * bad + [1.0] * (100 - bad), np.float32)
        measured = metrics({"success": success, "loss": success})
        assert measured["success_p5"] == p5
        assert measured["success_worst"] == 0
        assert measured["success_worst5"] == pytest.approx(worst)


@pytest.mark.slow
def test_margins_of_parts_are_measured_where_parts_are_voted_on():
    measured, columns = evaluated(task={"name": "recall", "keys": 2, "value_bits": 2})
    assert measured["part_margin_p5"] == pytest.approx(np.percentile(columns["part_margin"], 5))
    # Whole answers are right no more often than their weakest part.
    assert (2 * columns["success"] - 1 <= columns["part_margin"] + 1e-6).all()
    assert "part_margin" not in names(coloring_trial()).metrics


def test_the_entropy_of_wrong_answers_is_averaged_over_inputs_that_have_some():
    columns = {"success": np.array([1, 0.5, 0.0], np.float32), "wrong_entropy": np.array([0, 1, 2], np.float32)}
    assert metrics(columns)["wrong_entropy"] == pytest.approx(1.5)
    assert "wrong_entropy" not in metrics({name: column[:1] for name, column in columns.items()})


@pytest.mark.parametrize("seeds", [7, 13, 41, 100])
def test_an_input_that_every_seed_solves_has_a_success_of_one(seeds):
    """A mean in single precision may be 0.99999994, and the input would then count among those with a wrong seed."""
    share = jax.jit(Share.of_seeds)(jnp.ones((1, seeds), bool)).values()
    assert share == 1
    columns = {"success": np.append(share, 0.5), "wrong_entropy": np.array([0.0, 2.0])}
    assert metrics(columns)["wrong_entropy"] == 2


@pytest.mark.slow
def test_success_of_votes_is_estimated_beside_the_votes_of_the_paper():
    measured, columns = evaluated(evaluation={"seeds": 40, "votes": [5, 30]})
    estimated = {int(name.removeprefix("votes_")) for name in measured if name.removeprefix("votes_").isdigit()}
    assert estimated == {5, *(size for size in SIZES if 2 * size <= 40)}  # 30 seeds have no second group of 30 among 40
    assert {"majority_5", "majority_30", "votes_5_p5", "votes_5_se"} <= measured.keys()
    assert (measured["votes_1"], measured["votes_1_p5"]) == (measured["success"], measured["success_p5"])
    # What the trial names is stored for every input; the other sizes are for curves over the number of votes.
    assert {name for name in columns if name.startswith("votes")} == {"votes_5"}
    assert set(names(coloring_trial(evaluation={"seeds": 40, "votes": [5, 30]})).outcomes) == set(columns)
    assert len(np.unique(columns["votes_5"])) <= 2 * GROUPS + 1


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_estimate_what_they_can(seeds):
    measured, _ = evaluated(evaluation={"seeds": seeds, "votes": [1]})
    assert ("votes_1_se" in measured) == (seeds > 1)
    assert "votes_3" not in measured
    assert measured["majority_1"] == pytest.approx(measured["success"])


def test_the_best_seed_is_chosen_on_one_half_and_judged_on_the_other():
    random = np.random.default_rng(1)
    correct, loss = random.random((41, 6)) < random.random(6), random.random((41, 6)).astype(np.float32)
    judged = jax.jit(best_seed)(jnp.asarray(correct), jnp.asarray(loss))
    judges = np.sort(np.random.default_rng(0).permutation(41)[20:])
    seed = np.delete(correct, judges, axis=0).sum(axis=0).argmax()
    assert len(judges) == 21
    np.testing.assert_array_equal(judged["best_seed"].values(), correct[judges, seed])
    np.testing.assert_array_equal(judged["best_seed_loss"], loss[judges, seed])


def test_of_equally_right_seeds_the_one_with_the_lowest_loss_is_the_best():
    correct, loss = np.ones((10, 3), bool), np.tile([2.0, 1.0, 3.0], (10, 1))
    judged = jax.jit(best_seed)(jnp.asarray(correct), jnp.asarray(loss))
    np.testing.assert_array_equal(judged["best_seed_loss"], 1)
    assert best_seed(jnp.asarray(correct[:1]), jnp.asarray(loss[:1])) == {}


@pytest.mark.slow
def test_an_exhaustive_evaluation_takes_every_seed_once():
    recall = {"name": "recall", "keys": 2, "value_bits": 2, "seed_bits": 3}
    trial = coloring_trial(task=recall, evaluation={"exhaustive": True, "votes": [3]})
    network = initial(trial)
    measured, columns = evaluate(trial, network)
    seeds = jnp.asarray(list(itertools.product([0.0, 1.0], repeat=3)))
    outcomes = trial.task.outcomes(network, trial.task.evaluation_inputs(), seeds)
    np.testing.assert_allclose(columns["success"], outcomes.correct.mean(axis=1), rtol=1e-6)
    assert measured["success_worst"] == pytest.approx(float(outcomes.correct.mean(axis=1).min()))
    assert measured["loss"] == pytest.approx(float(outcomes.loss.mean()), rel=1e-5)
    assert not {"success_se", "success_worst_heldout"} & measured.keys()  # they are of draws
    assert set(names(trial).metrics) == set(measured)
    # The seed of the training draws nothing here.
    assert evaluate(trial.model_copy(update={"seed": 1}), network)[0] == measured


def test_only_a_task_with_few_seeds_is_evaluated_exhaustively():
    recall = {"name": "recall", "keys": 2, "value_bits": 2, "seed_bits": 3}
    assert coloring_trial(task=recall, evaluation={"exhaustive": True, "votes": [3]}).evaluation.seeds == 8
    assert not coloring_trial(task=recall, baseline="Aq_r0", evaluation={"exhaustive": True}).evaluation.exhaustive
    for task, said in (({"name": "coloring", "vertices": 5}, "coloring"), (recall | {"seed_bits": 30}, "recall")):
        with pytest.raises(ValidationError, match=f"exhaustive .* {said} "):
            coloring_trial(task=task, evaluation={"exhaustive": True})


@pytest.mark.slow
def test_draws_give_an_error_and_a_worst_input_by_other_seeds():
    trial = coloring_trial()
    network = initial(trial)
    measured, _ = evaluate(trial, network)
    task, drawn = trial.task, trial.task.sample_seeds(trial.keys().evaluation, 10)
    correct = np.asarray(task.outcomes(network, task.evaluation_inputs(), drawn).correct, np.float64)
    assert measured["success_se"] == pytest.approx(correct.mean(axis=0).std(ddof=1) / np.sqrt(10), rel=1e-3)
    first, second = correct[:, :5].mean(axis=1), correct[:, 5:].mean(axis=1)
    expected = (second[first == first.min()].mean() + first[second == second.min()].mean()) / 2
    assert measured["success_worst_heldout"] == pytest.approx(expected)
    assert not {"success_se", "success_worst_heldout"} & set(names(coloring_trial(baseline="Aq_r0")).metrics)
