"""The protocol's names give their metrics, and metrics their names."""

import pytest

from sweeper.learned_algorithms.metrics import FAILED_INPUTS, LOSS, SUCCESS, metric_named
from sweeper.trial.metrics import Metric

NAMES = {
    "success": (SUCCESS, "max", False),
    "success_p5": (SUCCESS.tail, "max", True),
    "failed_inputs": (FAILED_INPUTS, "min", False),
    "loss_p95": (LOSS.tail, "min", False),
    "loss_worst": (LOSS._replace(statistic="worst"), "min", False),
    "loss_p95_pooled": (LOSS._replace(statistic="pooled"), "min", False),
    "loss_worst_heldout": (LOSS._replace(statistic="heldout"), "min", False),
    "majority_tuple_30_p5": (Metric("majority_tuple", "percentile", 30), "max", True),
    "votes_30_se": (Metric("votes", "error", 30), "min", False),
    "wrong_entropy": (Metric("wrong_entropy", high_is_good=False), "min", False),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_protocol(name):
    metric, mode, jumps = NAMES[name]
    assert metric_named(name) == metric
    assert metric.name == name
    assert (metric.mode, metric.jumps) == (mode, jumps)
