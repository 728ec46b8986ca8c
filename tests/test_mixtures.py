"""Mixtures of trained networks: their shares, their errors, and the table of a store."""

import itertools

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import sweeper
from docs import mixtures
from sweeper.store.store import Store
from tasks import recall
from tests.trials import coloring_trial

SPACE = """
name: mixtures_coloring
trial:
  task: {name: coloring, vertices: 5}
  model: {name: transformer, blocks: 1, width: 4, key_size: 4}
  objective: {q: 3, m: 2}
  optimizer: {warmup_steps: 10}
  steps: 300
  batch_size: 8
variants:
  - {baseline: Aq_r0, seed: {seeds: 3}}
  - {baseline: Aq_R, seed: {seeds: 2}}
"""


def test_the_best_shares_are_those_of_the_least_success():
    # 1 and 2 lose an input each, 3 is right on a third of everything and not needed.
    success = np.array([[1, 0, 0.3], [0, 0.5, 0.3], [1, 1, 0.3]])
    np.testing.assert_allclose(mixtures.best_shares(success), [1 / 3, 2 / 3, 0], atol=1e-9)
    many = np.random.default_rng(0).random((5000, 8))
    shares = mixtures.best_shares(many)
    assert shares.sum() == pytest.approx(1)
    # The least success is concave in the shares: a best one is one from which no step to a network is better.
    least = (many @ shares).min()
    assert all((many @ (0.99 * shares + 0.01 * one)).min() <= least + 1e-9 for one in np.eye(8))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_error_of_an_average_is_that_over_trainings(size):
    values = np.array([0.5, 0.7, 0.9, 0.6])
    mean, error = mixtures.over_trainings(lambda chosen: values[chosen].mean(keepdims=True), 4, size, 100)
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(values.std(ddof=1) / 2)


def test_the_error_of_a_tail_is_that_over_groups_of_trainings():
    random = np.random.default_rng(0)
    groups = (random.random((60, 20, 1000)) < 0.8 + 0.1 * random.standard_normal((60, 20, 1))).astype(np.float32)

    def tail(group):
        return lambda chosen: np.quantile(group[chosen].mean(axis=0, keepdims=True), 0.05, axis=1)

    errors = [mixtures.over_trainings(tail(group), 20, 20, 100, resampled=True)[1][0] for group in groups]
    of_groups = np.std([tail(group)(range(20)) for group in groups])
    assert np.mean(errors) == pytest.approx(of_groups, rel=0.35)
    assert of_groups / 2 < min(errors) < max(errors) < 2 * of_groups  # the jackknife's are from 0 to several times

    def average(chosen):
        return groups[0, chosen].mean(keepdims=True)

    _, error = mixtures.over_trainings(average, 20, 20, 2000, resampled=True)
    assert error == pytest.approx(groups[0].mean(axis=1).std(ddof=1) / np.sqrt(20), rel=0.05)


def test_a_permutation_of_keys_asks_for_the_same_value():
    inputs = recall.Task(keys=6).evaluation_inputs()
    permuted = mixtures._renamed(inputs)
    assert (permuted.query[: len(inputs.query)] != inputs.query).any()
    asked, of_permuted = (np.take_along_axis(some.values, some.query[:, None], 1) for some in (inputs, permuted))
    assert (np.tile(asked, (mixtures.SEEDS, 1)) == of_permuted).all()
    assert (np.tile(np.sort(inputs.values), (mixtures.SEEDS, 1)) == np.sort(permuted.values)).all()


def test_with_all_names_of_its_vertices_a_cycle_has_the_average_of_all_cycles():
    trial = coloring_trial(baseline="Aq_r0")
    network, cycles = trial.initial_network(), trial.task.evaluation_inputs()
    seeds = trial.task.sample_seeds(trial.keys().fixed_seed, 1)
    renamed = jnp.array(list(itertools.permutations(range(5))))[:, cycles[7]]
    of_cycles, of_names = (trial.task.outcomes(network, some, seeds).loss for some in (cycles, renamed))
    assert of_cycles.std() > 1e-5
    assert float(of_names.mean()) == pytest.approx(float(of_cycles.mean()), rel=1e-5)


@pytest.mark.slow
def test_the_table_has_the_trainings_of_a_store(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    results = tmp_path / "results"
    trials = sweeper.train(sweeper.plan(path, results), in_process=True, on_event=lambda event: None).trials
    frame = pd.DataFrame(mixtures.rows(Store.existing(results)))
    sizes = frame.groupby("mixture of").K.agg(list).to_dict()
    assert sizes == {"A_r0": [1, 2, 3], mixtures.PERMUTED: [1], "A^q_R": [1, 2]}
    means = trials[trials.baseline == "Aq_r0"].success.mean()
    deterministic = frame[frame["mixture of"] == "A_r0"]
    for success in deterministic.success:  # equal shares
        assert success[0] == pytest.approx(means)
    # On all inputs the best shares are at least as good for the worst one as equal shares are.
    pairs = zip(deterministic["best shares: worst input"], deterministic["worst input"], strict=True)
    assert all(best[0] >= equal[0] - 1e-6 for best, equal in pairs)
    assert [row["30 votes"][0] for _, row in deterministic.iterrows() if row.K == 1] == [pytest.approx(means)]
    permuted = frame[frame["mixture of"] == mixtures.PERMUTED]
    assert [worst[0] for worst in permuted["worst input"]] == [pytest.approx(means)]
    assert "± " in mixtures.table(frame).to_string()
    mixtures.figure(frame).savefig(tmp_path / "mixtures.png")
