"""Types of the fields that several records of a trial share."""

from typing import Annotated, Literal

from pydantic import Field

Count = Annotated[int, Field(ge=1)]

Positive = Annotated[float, Field(gt=0)]

NotNegative = Annotated[float, Field(ge=0)]

Share = Annotated[float, Field(ge=0, lt=1)]

Schedule = Literal["cosine", "linear"]
"""How a rate or a deviation falls from its first value to its last (`sweeper.training.schedules`)."""
