"""A trial of an experiment: the experiment, so many steps, and a training seed."""

from typing import Annotated, Any, ClassVar, NamedTuple

import jax
from jaxtyping import PRNGKeyArray
from pydantic import Field, SerializeAsAny

from sweeper.trial.experiment_contract import Experiment
from sweeper.trial.field_types import Count, Steps
from sweeper.trial.kinds import DECLARED, Declared
from sweeper.trial.record import Traced
from sweeper.trial.start_from import AnyStart
from sweeper.trial.trial import Folder, Trial, plugin_record


class ExperimentTrial(Trial):
    """One training of an experiment, and its evaluation."""

    DECLARED: ClassVar[Declared] = DECLARED

    experiment: SerializeAsAny[Annotated[Experiment, plugin_record("experiment")]]
    steps: Steps
    # Steps from one point of a training curve to the next; None for about 200 points of a training
    curve_every: Count | None = None
    # Steps between evaluations while the trial trains, whose metrics are curves too; None for one at the end alone
    evaluate_every: Count | None = None
    start_from: AnyStart = None
    seed: Traced[Annotated[int, Field(ge=0, lt=2**31)]] = 0

    @classmethod
    def traits(cls, part: Experiment) -> dict[str, Any]:
        return {"metrics": dict(part.metrics)}

    @property
    def folder(self) -> Folder:
        return Folder(self.experiment.name, "experiment")

    @property
    def words(self) -> str:
        fields = [f"{name}={value}" for name, value in self.experiment if name != "name"]
        return " ".join([self.experiment.name, *fields, f"seed={self.seed}"])

    @property
    def columns(self) -> dict[str, Any]:
        return {"task_version": type(self.experiment).VERSION}  # the column `task` has the name of the experiment

    @property
    def lanes_together(self) -> bool:
        return self.experiment.lanes_together

    def keys(self) -> "ExperimentKeys":
        """The independent random streams of the trial, all from its training seed."""
        return ExperimentKeys(*jax.random.split(jax.random.key(self.seed), len(ExperimentKeys._fields)))


class ExperimentKeys(NamedTuple):
    """Keys of the random streams of a trial of an experiment."""

    start: PRNGKeyArray
    training: PRNGKeyArray  # into which the step is folded
    evaluation: PRNGKeyArray
