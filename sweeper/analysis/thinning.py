"""A few of many values, for answers and charts that cannot show all."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def spread_out(values: Sequence[T], most: int) -> list[T]:
    """At most so many of the values, evenly by place, the first and the last included.

    Args:
        values: In the order of the answer.
        most: At least 2.
    """
    if len(values) <= most:
        return list(values)
    return [values[round(place * (len(values) - 1) / (most - 1))] for place in range(most)]
