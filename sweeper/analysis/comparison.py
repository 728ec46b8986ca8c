"""Published numbers beside measured ones."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from sweeper.messages import counted
from sweeper.tables import table

POINTS, PART = 5.0, 0.1
"""A measured number misses its published one by more than so many points if it is in per cent, else by more than this
part of the published one."""


class Comparison(NamedTuple):
    """One published number beside the measured one, in per cent where the panel draws per cent."""

    panel: str
    series: str
    metric: str
    x: float | None  # the value on the horizontal axis
    published: float
    measured: float | None  # the mean over training seeds; None while the store has no such measurement
    seeds: int
    percent: bool
    sweep: str = ""  # or search space, whose panel asks for it
    error: float | None = None  # the standard error of the mean; None of one training seed, and of all seeds together

    @property
    def miss(self) -> bool:
        if self.measured is None:
            return False
        tolerance = POINTS if self.percent else PART * abs(self.published)
        return abs(self.measured - self.published) > tolerance * (1 + 1e-7)  # 80 - 75 may be a little more than 5


def numbers(every: Iterable[Comparison]) -> pd.DataFrame:
    """All published numbers as a table; the measured number is empty where there is none yet."""
    note = (
        "Measured: the mean over training seeds, and its standard error (`_pooled`: a percentile over the inputs of "
        f"all of them together). A miss is further than {POINTS:g} points from the published number, or, where the "
        f"panel draws no per cent, further than {100 * PART:g} % of it."
    )
    columns = ("sweep", "panel", "series", "metric", "x", "published", "measured", "error", "seeds")
    rows = [{name: getattr(one, name) for name in columns} | {"miss": "miss" * one.miss} for one in every]
    formats = {"metric": "code"} | dict.fromkeys(("published", "measured", "error"), "number")
    return table(rows, "Measured against published", note, formats)


def summary(every: Sequence[Comparison]) -> str:
    """Such as "12 published numbers, 10 measured, 3 missed"."""
    measured, missed = sum(one.measured is not None for one in every), sum(one.miss for one in every)
    return f"{counted(len(every), 'published number')}, {measured:,} measured, {missed:,} missed"
