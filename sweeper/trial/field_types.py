"""Types of the fields that several records of a trial share."""

import math
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

T = TypeVar("T")

# YAML and JSON have lists, which a tuple refuses in strict mode.
ListOf = Annotated[tuple[T, ...], Field(strict=False)]

Count = Annotated[int, Field(ge=1)]

Steps = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""Training steps, which a program counts in int32."""

Positive = Annotated[float, Field(gt=0)]

NotNegative = Annotated[float, Field(ge=0)]

BelowOne = Annotated[float, Field(ge=0, lt=1)]

Schedule = Literal["cosine", "linear"]
"""How a rate or a deviation falls from its first value to its last (`trainer.share_left` of the room `training`)."""


def infinity(value: Any) -> Any:
    """The number that is meant by `inf` or `infinity`, which YAML and JSON read as texts; any other value as it is."""
    return math.inf if value in ("inf", "infinity") else value
