"""Which class trains and evaluates the trials of which record; a new kind is a module and a line here."""

from typing import Any

from sweeper.learned_algorithms.kind import LearnedAlgorithms
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.training.experiments import Experiments
from sweeper.training.kind import Kind
from sweeper.training.trainer import Trainer
from sweeper.trial.experiment_trial import ExperimentTrial
from sweeper.trial.trial import Trial

_KINDS: dict[type[Trial], Kind[Any]] = {ExperimentTrial: Experiments(), TrialSpec: LearnedAlgorithms()}


def kind_of(trial: Trial) -> Kind[Any]:
    """How a trial is trained and evaluated."""
    return _KINDS[type(trial)]


def trainer_of(trial: Trial) -> Trainer[Any]:
    """The trainer of a trial, or of trials stacked along a lane axis."""
    return kind_of(trial).trainer(trial)
