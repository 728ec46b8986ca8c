"""A metric's name is made from its record, and gives the record back."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.trial.metrics import Metric, metric_named

STATISTICS = ("mean", "percentile", "pooled", "worst", "heldout", "staged", "worst5", "error")
ENDINGS = ("worst", "heldout", "staged", "pooled", "se")
PARTS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)
WORDS = (PARTS | st.tuples(PARTS, PARTS).map("_".join)).filter(lambda word: word.rpartition("_")[2] not in ENDINGS)


@pytest.mark.slow
@given(WORDS, st.sampled_from(STATISTICS), st.none() | st.integers(0, 1000), st.booleans())
def test_a_name_gives_its_metric_back(quantity, statistic, number, high_is_good):
    metric = Metric(quantity, statistic, number, high_is_good)
    own = Metric(quantity, number=number, high_is_good=high_is_good)
    assert metric_named(metric.name, {own.name: own}) == metric
    assert metric_named(metric.name).name == metric.name, "also where the quantity is not known"


def test_who_measures_says_which_values_are_good():
    cost = Metric("cost", high_is_good=False)
    assert cost.tail.name == "cost_p95"
    assert metric_named("cost_worst", {"cost": cost}).over_inputs(np.array([1.0, 3.0, 2.0])) == 3
    assert metric_named("cost_worst").over_inputs(np.array([1.0, 3.0, 2.0])) == 1


@pytest.mark.parametrize("high_is_good", [True, False])
def test_the_held_out_worst_input_has_no_bias(high_is_good):
    """Against all draws of two seeds from three: an input's values by each seed are its row."""
    metric = Metric("accuracy", "heldout", high_is_good=high_is_good)
    values = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    true, worst = values.mean(axis=1), Metric("accuracy", "worst", high_is_good=high_is_good)
    drawn, naive, promised = [], [], []
    for first, second in itertools.product(range(3), repeat=2):
        drawn.append(metric.held_out(values[:, [first, second]].T))
        naive.append(worst.over_inputs(values[:, [first, second]].mean(axis=1)))
        limit = values[:, first].min() if high_is_good else values[:, first].max()
        promised.append(true[values[:, first] == limit].mean())
    assert np.mean(drawn) == pytest.approx(np.mean(promised))  # the true value of the inputs that seem the worst
    sign = 1 if high_is_good else -1
    assert sign * np.mean(naive) < sign * worst.over_inputs(true) <= sign * np.mean(drawn)


@pytest.mark.parametrize(
    ("name", "jumps"),
    [("success_p5", True), ("success_worst", True), ("success", False), ("success_worst5", False), ("loss_p95", False)],
)
def test_a_tail_of_0_and_1_has_no_mean(name, jumps):
    metric = metric_named(name)
    assert metric.has_no_mean(0.0, 1.0) == jumps
    assert not metric.has_no_mean(0.0, 0.5)
