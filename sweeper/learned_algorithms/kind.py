"""Learned algorithms: networks that are trained on the losses of inputs and seeds r, and evaluated over both."""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jaxtyping import PyTree

from sweeper.learned_algorithms import evaluation
from sweeper.learned_algorithms.checks import shapes as by_shapes
from sweeper.learned_algorithms.checks import suite, values
from sweeper.learned_algorithms.contracts import Abilities, Task
from sweeper.learned_algorithms.metrics import (
    FAILED_INPUTS,
    LOSS,
    SUCCESS,
    estimate_of,
    is_share,
    metric_named,
)
from sweeper.learned_algorithms.trainers import trainer_by_optimizer
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.training.kind import Checks, Goal, Keep, Kind, Names, Results, Traced
from sweeper.training.trainer import Trainer
from sweeper.trial import plugins
from sweeper.trial.metrics import Metric

if TYPE_CHECKING:
    import pandas as pd

WORST = SUCCESS._replace(statistic="worst5")
"""Unlike a percentile it does not jump."""


class LearnedAlgorithms(Kind[TrialSpec]):
    """Trials of a task and a model."""

    record = TrialSpec
    goal = SUCCESS.tail.name

    def trainer(self, trial: TrialSpec) -> Trainer[Any]:
        return trainer_by_optimizer(trial)

    def evaluate(self, trial: TrialSpec, network: PyTree, step: int) -> Results:
        return Results(*evaluation.evaluate(trial, network))

    def final(self, curves: Mapping[str, float]) -> dict[str, float]:
        return {"train_loss": curves["train_loss"]}

    def kept(self, trial: TrialSpec, network: PyTree) -> PyTree:
        return network

    def built(self, trial: TrialSpec) -> PyTree:
        return jax.eval_shape(trial.initial_network)

    def names(self, trial: TrialSpec) -> Names:
        return Names(*evaluation.names(trial))

    def directions(self, trial: TrialSpec) -> Mapping[str, bool]:
        return {measure.name: measure.mode == "max" for measure in trial.task.abilities().measures}

    def goals(self, part: Task | None, measured: Collection[str]) -> Sequence[Goal]:
        """First is what the task's main metric is on bad inputs: of success the mean over the worst 5 % of the inputs,
        of another metric its bad tail."""
        tail = _abilities(part).tail_metric
        first = WORST if tail == SUCCESS.tail and WORST.name in measured else tail  # old rows have the percentile only
        return [Goal(each.name, each.mode) for each in dict.fromkeys([first, WORST, SUCCESS, LOSS])]

    def of_settings(self, part: Task | None, trials: "pd.DataFrame", asked: Sequence[str]) -> list[str]:
        """Where any percentile is 0 or 1, the table has two metrics that do not jump, `success_worst5` and
        `failed_inputs`; where the worst input was searched, that beside the one chosen by half of the seeds r."""
        abilities = _abilities(part)
        tail = abilities.tail_metric
        extreme = tail == SUCCESS.tail and tail.name in trials and trials[tail.name].isin([0, 1]).any()
        steady = [WORST.name, FAILED_INPUTS.name] if extreme else []
        searched = tail._replace(statistic="staged").name
        worst = [tail._replace(statistic="heldout").name, searched] if searched in trials else []
        own = [measure.name for measure in abilities.measures]
        tails = [abilities.tail, tail.name, *steady, *worst, *_largest_vote(trials)]
        return [*tails, SUCCESS.name, LOSS.name, *asked, *own]

    def of_trials(self, part: Task | None, asked: Sequence[str]) -> list[str]:
        votes = ("majority_30", "majority_30_p5")
        every = (SUCCESS.name, SUCCESS.tail.name, WORST.name, FAILED_INPUTS.name, *votes, LOSS.name, LOSS.tail.name)
        return [*every, *asked, *(measure.name for measure in _abilities(part).measures)]

    def is_share(self, metric: str) -> bool:
        return is_share(metric_named(metric))

    def advice(self, trials: "pd.DataFrame") -> "Mapping[str, Callable[[], pd.DataFrame]]":
        from sweeper.learned_algorithms import advice  # no training needs pandas

        return {
            advice.SEEDS_TITLE: lambda: advice.seeds_table(trials),
            advice.VOTES_TITLE: lambda: advice.votes_table(trials),
        }

    def metric(self, name: str) -> Metric:
        return metric_named(name)

    def outcome_label(self, name: str) -> str:
        return "Success" if is_share(metric_named(name)) else super().outcome_label(name)

    def exact_values(self, part: Any) -> Mapping[str, float]:
        return {} if part is None else _exact_values(part)

    def panels(self) -> tuple[type, ...]:
        from sweeper.learned_algorithms.figures.panels import BoardPanel, VotesPanel  # no numerics, as `drawings`

        return VotesPanel, BoardPanel

    def drawings(self) -> Mapping[str, type]:
        from sweeper.learned_algorithms.figures.boards import Boards
        from sweeper.learned_algorithms.figures.votes import VoteCurves

        return {"votes": VoteCurves, "board": Boards}

    def checks_by_shapes(self, trial: TrialSpec, keep: Keep) -> Checks:
        task, objective = trial.task.name, trial.objective.name
        return {
            f"{task} with {trial.model.name}": lambda: by_shapes.check_networks(trial, keep),
            f"{objective} on {task}": lambda: by_shapes.check_objective(trial),
        }

    def checks_by_values(self, trial: TrialSpec) -> Checks:
        return {
            f"{trial.task.name} with {trial.model.name}": lambda: values.check_pairs(trial),
            trial.objective.name: lambda: values.check_objective(trial),
        }

    def further_checks(self, trial: TrialSpec) -> Checks:
        return suite.further_checks(trial)

    def trace_programs(self, trial: TrialSpec, traced: Traced) -> None:
        values.trace_programs(trial, traced)

    def examples(self, kind: plugins.Kind, name: str) -> list[TrialSpec]:
        return suite.examples(kind, name)


def _abilities(task: Task | None) -> Abilities:
    """What a task can do; of a task that this checkout does not have, nothing beyond every task."""
    return Abilities() if task is None else task.abilities()


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


@functools.cache  # solving a task may take seconds, and many panels ask for the same task
def _exact_values(task: Task) -> Mapping[str, float]:
    return task.abilities().exact_values()


KIND = LearnedAlgorithms()
