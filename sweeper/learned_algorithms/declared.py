"""What trials of learned algorithms declare; see `sweeper.trial.kinds`."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sweeper.learned_algorithms.metrics import FAILED_INPUTS, LOSS, SUCCESS, estimate_of, is_share, metric_named
from sweeper.trial.kinds import Declared, Goal, KindTables, Traits
from sweeper.trial.metrics import Metric

if TYPE_CHECKING:
    import pandas as pd

WORST = SUCCESS._replace(statistic="worst5")
"""Unlike a percentile it does not jump."""


class LearnedAlgorithmTables(KindTables):
    """Traits of a task are whether seeds r vote, the quantity whose bad tail is compared, and the quantities that only
    this task measures."""

    def goals(self, traits: Traits | None, measured: Collection[str]) -> Sequence[Goal]:
        """First is what the task's main metric is on bad inputs: of success the mean over the worst 5 % of the inputs,
        of another metric its bad tail."""
        tail = _tail(traits)
        first = WORST if tail == SUCCESS.tail and WORST.name in measured else tail  # old rows have the percentile only
        return [Goal(each.name, each.mode) for each in dict.fromkeys([first, WORST, SUCCESS, LOSS])]

    def of_settings(self, traits: Traits | None, trials: "pd.DataFrame", asked: Sequence[str]) -> list[str]:
        """Where any percentile is 0 or 1, the table has two metrics that do not jump, `success_worst5` and
        `failed_inputs`; where the worst input was searched, that beside the one chosen by half of the seeds r."""
        tail = _tail(traits)
        extreme = tail == SUCCESS.tail and tail.name in trials and trials[tail.name].isin([0, 1]).any()
        steady = [WORST.name, FAILED_INPUTS.name] if extreme else []
        searched = tail._replace(statistic="staged").name
        worst = [tail._replace(statistic="heldout").name, searched] if searched in trials else []
        tails = [tail.quantity, tail.name, *steady, *worst, *_largest_vote(trials)]
        return [*tails, SUCCESS.name, LOSS.name, *asked, *(measure.name for measure in _measures(traits))]

    def of_trials(self, traits: Traits | None, asked: Sequence[str]) -> list[str]:
        votes = ("majority_30", "majority_30_p5")
        every = (SUCCESS.name, SUCCESS.tail.name, WORST.name, FAILED_INPUTS.name, *votes, LOSS.name, LOSS.tail.name)
        return [*every, *asked, *(measure.name for measure in _measures(traits))]

    def meaningless(self, traits: Traits | None) -> Collection[str]:
        return () if traits is None or traits["votes"] else ("evaluation.votes",)

    def is_share(self, metric: str) -> bool:
        return is_share(metric_named(metric))

    def metric(self, name: str) -> Metric:
        return metric_named(name)

    def outcome_label(self, name: str) -> str:
        return "Success" if is_share(metric_named(name)) else super().outcome_label(name)


def _measures(traits: Traits | None) -> list[Metric]:
    return [] if traits is None else [Metric(*each) for each in traits["measures"]]


def _tail(traits: Traits | None) -> Metric:
    """The metric that is compared; of a task that this checkout does not have, that of every task."""
    return SUCCESS.tail if traits is None else Metric(*traits["tail"])


def _largest_vote(trials: "pd.DataFrame") -> list[str]:
    """The metric of the largest vote that all trials took: estimated from all seeds r, or of disjoint groups."""
    metrics = [metric for metric in map(metric_named, map(str, trials)) if metric.number is not None]
    votes = [metric for metric in metrics if (metric.quantity, metric.statistic) == ("majority", "mean")]
    if not votes:
        return []
    most = max(votes, key=lambda metric: metric.number or 0)
    disjoint, estimated = most.name, most._replace(quantity=estimate_of(most.quantity)).name
    everywhere = estimated in trials and bool((trials[estimated].notna() | trials[disjoint].isna()).all())
    return [estimated if everywhere else disjoint]


DECLARED = Declared(
    module="sweeper.learned_algorithms.kind",
    tables=LearnedAlgorithmTables(),
    parts={"task": "task", "model": "model", "objective": "objective", "optimizer": "optimizer"},
    carried={
        "task.name": "task", "model.name": "model", "objective.name": "objective", "objective.q": "q",
        "objective.m": "m", "optimizer.name": "optimizer", "optimizer.learning_rate": "learning_rate",
    },
    leading=("task.name", "model.name", "baseline", "objective.name", "objective.q", "objective.m"),
    label=("task.name", "baseline"),
    unnamed=("model.name",),
    protocol="evaluation",
    columns={
        "model": "string", "q": "double", "m": "int64", "batch_size": "int64", "optimizer": "string",
        "learning_rate": "double", "objective": "string",
        **dict.fromkeys(("task_version", "model_version", "objective_version"), "int64"),
    },
    metrics=(
        "success", "success_p5", "success_worst5", "failed_inputs", "sampled", "sampled_p5", "majority_5",
        "majority_5_p5", "majority_30", "majority_30_p5", "any_seed", "any_seed_p5", "loss", "loss_p95", "variance",
        "train_loss",
    ),
)  # fmt: skip
