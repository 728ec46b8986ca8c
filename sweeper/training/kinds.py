"""How a trial is trained and evaluated: by its kind."""

import functools
from typing import Any

from sweeper.training.kind import Kind
from sweeper.training.trainer import Trainer
from sweeper.trial.kinds import kinds
from sweeper.trial.trial import Trial


def kind_of(trial: Trial) -> Kind[Any]:
    """The kind of a trial."""
    return _with_record(type(trial))


@functools.cache
def _with_record(record: type[Trial]) -> Kind[Any]:
    return next(kind for kind in kinds() if kind.record is record)


def trainer_of(trial: Trial) -> Trainer[Any]:
    """The trainer of a trial, or of trials stacked along a lane axis."""
    return kind_of(trial).trainer(trial)
