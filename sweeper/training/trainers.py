"""Which optimiser is trained by which trainer; a new trainer is a module and a line here."""

from collections.abc import Mapping

from sweeper.training import evolution, gradient
from sweeper.training.trainer import Trainer
from sweeper.trial.trial_spec import PGPE, Adam, TrialSpec

_TRAINERS: Mapping[type, Trainer] = {
    Adam: gradient.TRAINER,
    PGPE: evolution.TRAINER,
}


def trainer_of(trial: TrialSpec) -> Trainer:
    """The trainer of a trial, or of trials stacked along a lane axis."""
    return _TRAINERS[type(trial.optimizer)]
