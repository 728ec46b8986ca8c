"""Learned algorithms: networks that are trained on the losses of inputs and seeds r, and evaluated over both."""

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
from jaxtyping import PyTree

from sweeper.learned_algorithms import evaluation
from sweeper.learned_algorithms.trainers import trainer_by_optimizer
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.training.kind import Kind, Names, Results
from sweeper.training.trainer import Trainer


class LearnedAlgorithms(Kind[TrialSpec]):
    """Trials of a task and a model."""

    record = TrialSpec
    columns: ClassVar[Mapping[str, str]] = {
        "model": "string", "q": "double", "m": "int64", "batch_size": "int64", "optimizer": "string",
        "learning_rate": "double", "objective": "string",
        **dict.fromkeys(("task_version", "model_version", "objective_version"), "int64"),
    }  # fmt: skip
    metrics = (
        "success", "success_p5", "success_worst5", "failed_inputs", "sampled", "sampled_p5", "majority_5",
        "majority_5_p5", "majority_30", "majority_30_p5", "any_seed", "any_seed_p5", "loss", "loss_p95", "variance",
        "train_loss",
    )  # fmt: skip

    def trainer(self, trial: TrialSpec) -> Trainer[Any]:
        return trainer_by_optimizer(trial)

    def evaluate(self, trial: TrialSpec, network: PyTree, step: int) -> Results:
        return Results(*evaluation.evaluate(trial, network))

    def final(self, curves: Mapping[str, float]) -> dict[str, float]:
        return {"train_loss": curves["train_loss"]}

    def kept(self, trial: TrialSpec, network: PyTree) -> PyTree:
        return network

    def built(self, trial: TrialSpec) -> PyTree:
        return jax.eval_shape(lambda: trial.model.build(trial.task, trial.keys().weights))

    def names(self, trial: TrialSpec) -> Names:
        return Names(*evaluation.names(trial))

    def directions(self, trial: TrialSpec) -> Mapping[str, bool]:
        return {measure.name: measure.mode == "max" for measure in trial.task.abilities().measures}


KIND = LearnedAlgorithms()
