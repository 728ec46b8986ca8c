"""Which optimiser is trained by which trainer; a new trainer is a module and a line here."""

from collections.abc import Mapping
from typing import Any

from sweeper.learned_algorithms import evolution, gradient
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.training.trainer import Trainer

_TRAINERS: Mapping[str, Trainer[Any]] = {
    "policy_gradient": gradient.POLICY_TRAINER,
    "gradient": gradient.TRAINER,
    "evolution": evolution.TRAINER,
}

CURVES = frozenset(name for trainer in _TRAINERS.values() for name in trainer.curves)
"""Names of training curves that a task or an objective cannot have."""


def trainer_by_optimizer(trial: TrialSpec) -> Trainer[Any]:
    """The trainer of a trial, or of trials stacked along a lane axis."""
    return _TRAINERS[trial.optimizer.TRAINER]
