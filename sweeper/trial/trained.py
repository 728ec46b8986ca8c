"""A field of an experiment whose value is the network of another trial, such as the teacher of a student.

A search space writes it as `start_from` is written: `teacher: {sweep: wide}`, or the id of a trial. A plan finds the
trial, of an experiment, and the field then has its settings: so shapes are known where there is no store. Whoever
trains or evaluates reads the network from the store, as it does for `start_from`, and gives it to every program as a
part of the trial.

Invariant: trials whose fields name different trials of one form share their programs.
"""

from typing import Annotated, Any

from pydantic import SerializeAsAny

from sweeper.trial.experiment_contract import Experiment
from sweeper.trial.experiment_trial import ExperimentTrial
from sweeper.trial.record import BROUGHT, TRACED
from sweeper.trial.start_from import StartFrom
from sweeper.trial.trial import plugin_record

AnyExperiment = SerializeAsAny[Annotated[Experiment, plugin_record("experiment")]]


class Trained(StartFrom):
    """A finished trial of an experiment: its settings, and its network.

    Attributes:
        experiment: The experiment with the fields that the trial had; None until a plan has found the trial.
        steps: The steps that it was trained for.
        kept: Its network as a store keeps it, while programs are traced and run.
    """

    experiment: AnyExperiment | None = None
    steps: int | None = None
    kept: Annotated[None, TRACED, BROUGHT] = None

    @property
    def network(self) -> Any:
        """What the method `network` of the experiment made of the trained state, the same pytree with arrays of JAX."""
        if self.kept is None:
            raise ValueError(
                "the network of another trial reaches init, step and evaluate; data is shared by trials that have "
                "other networks, and elsewhere sweeper.load gives it"
            )
        return self.kept

    @property
    def as_trial(self) -> ExperimentTrial:
        """A trial with a network of the same form."""
        return ExperimentTrial.model_construct(experiment=self.experiment, steps=self.steps)

    def for_programs(self) -> "Trained":
        return self.model_copy(update={"trial": None, "setting": None})

    def __str__(self) -> str:
        return self.trial or f"a trial of {self.sweep}"
