"""What a space says of the values of an entry, for those who analyse its settings; imports nothing."""

from typing import Any, NamedTuple


class Scale(NamedTuple):
    """The numbers between which the values of a hole lie."""

    low: float
    high: float
    log: bool = False  # whether they are uniform in their logarithm
    step: float | None = None  # between two values
    whole: bool = False  # whether all are integers


class Varied(NamedTuple):
    """The values of an entry."""

    scale: Scale | None  # of a number that is drawn from a range; None of a choice
    values: tuple[Any, ...] = ()  # those that are listed, in their order
