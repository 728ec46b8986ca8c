"""The metrics of learned algorithms: what the names of `sweeper.trial.metrics` do not tell about them.

    success  success_p5  success_worst  success_worst_heldout  failed_inputs  majority_30_p5  votes_30_se  loss_p95

The number in a name is that of the votes.
"""

from collections.abc import Mapping

from sweeper.trial import metrics
from sweeper.trial.metrics import Metric

SUCCESS = Metric("success")
LOSS = Metric("loss", high_is_good=False)
FAILED_INPUTS = Metric("failed_inputs", high_is_good=False)  # the share of inputs of success 0

_LOW_IS_GOOD = ("loss", "best_seed_loss", "variance", "wrong_entropy", "train_loss", "failed_inputs")
_QUANTITIES = {name: Metric(name, high_is_good=False) for name in _LOW_IS_GOOD}
"""Quantities of the protocol whose low values are the good ones; a task says it of its own."""


def metric_named(name: str, own: Mapping[str, Metric] = {}) -> Metric:
    """The metric of a column or a curve, of votes also without their number; `own` are the quantities of a task."""
    return LOSS.tail if name == "tail_loss" else metrics.metric_named(name, {**_QUANTITIES, **own})


def is_share(metric: Metric) -> bool:
    """Whether a metric is a share of inputs or of seeds, shown as per cent."""
    return metric.quantity.startswith(("success", "sampled", "majority", "votes", "any_seed", "failed_inputs"))


def estimate_of(vote: str) -> str:
    """The quantity of a vote's estimates: `votes` for `majority`, `votes_tuple` for `majority_tuple`."""
    return f"votes{vote.removeprefix('majority')}" if vote.startswith("majority") else f"votes_{vote}"
