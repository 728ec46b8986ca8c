"""Learned algorithms: networks that are trained on the losses of inputs and seeds r, and evaluated over both."""

from collections.abc import Mapping
from typing import Any

import jax
from jaxtyping import PyTree

from sweeper.learned_algorithms import evaluation
from sweeper.learned_algorithms.checks import examples, values
from sweeper.learned_algorithms.checks import shapes as by_shapes
from sweeper.learned_algorithms.metrics import SUCCESS
from sweeper.learned_algorithms.trainers import trainer_by_optimizer
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.training.kind import Checks, Keep, Kind, Names, Results, Traced
from sweeper.training.trainer import Trainer
from sweeper.trial import plugins


class LearnedAlgorithms(Kind[TrialSpec]):
    """Trials of a task and a model."""

    record = TrialSpec
    goal = SUCCESS.tail.name

    def trainer(self, trial: TrialSpec) -> Trainer[Any]:
        return trainer_by_optimizer(trial)

    def evaluate(self, trial: TrialSpec, network: PyTree, step: int) -> Results:
        return Results(*evaluation.evaluate(trial, network), evaluation.program(trial, network).digest)

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
        }

    def trace_programs(self, trial: TrialSpec, traced: Traced) -> None:
        values.trace_programs(trial, traced)

    def examples(self, kind: plugins.Kind, name: str) -> list[TrialSpec]:
        return examples.examples(kind, name)


KIND = LearnedAlgorithms()
