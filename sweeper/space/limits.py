"""What ends a start of a sweep before its plan is done; no part of a trial's identity."""

from typing import Annotated

from pydantic import Field, model_validator

from sweeper.trial.field_types import Count
from sweeper.trial.record import Spec


class Goal(Spec):
    """A metric of the evaluation that is good enough once any finished trial has it."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> "Goal":
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("write at_least or at_most, one of the two")
        return self

    def reached(self, value: float) -> bool:
        return value >= self.at_least if self.at_least is not None else value <= (self.at_most or 0.0)


class Limits(Spec):
    """The entries under `limits:`; a start ends at the first that is reached, and leaves checkpoints."""

    hours: Annotated[float, Field(gt=0)] | None = None  # of one start
    failures: Count | None = None  # failed trials of one start
    goal: Goal | None = None
