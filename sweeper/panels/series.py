"""Series of panels: which trials a curve, histogram or map shows, and the published values beside it.

A series takes the trials whose columns equal `where` (the panel's and its own; a list means any of its values). A
column is one of the view `trials`, such as `seed`, `status` or a metric; the column of the entry `task.vertices` is
`task_vertices`, and may be written either way.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sweeper.panels.axes import Color, Declaration, Finite, Name, Number, Value
from sweeper.trial.field_types import ListOf

Where = dict[Name, Value | Annotated[list[Value | ListOf[Value]], Field(min_length=1)]]
"""Column and the value, or the list of values, that it must have; a value may be a list itself."""


class Best(Declaration):
    """Which of many settings is drawn: that of the highest or lowest `metric`, a column, in the mean over seeds.

    A setting is all that trials have in common but for the training seed. Settings compete for each value of the
    horizontal axis by themselves.
    """

    metric: Name
    mode: Literal["max", "min"] = "max"


class Series(Declaration):
    """What a panel draws of one group of trials; without a `metric` a series has the panel's metric."""

    label: Name
    where: Where = Field(default={})
    best: Best | None = None
    metric: Name | None = None


class ColoredSeries(Series):
    """A series with a colour; without one, its place in the panel decides."""

    color: Color | None = None


class CurveSeries(ColoredSeries):
    """One colour of a panel of lines: the average as a solid line, the tail as a dashed one."""

    tail: Name | None = None


class PublishedCurve(Declaration):
    """Published numbers of one metric of one series, by the value on the horizontal axis; `label` is their legend."""

    series: Name
    metric: Name
    source: Name
    label: Name = "published"
    values: Annotated[dict[Number, Finite], Field(min_length=1)]


class PublishedHistogram(Declaration):
    """Published shares of inputs in the bin that holds a value, and the place of the fullest bin; all in 0..1."""

    series: Name
    source: Name
    fractions: dict[Finite, Finite] = Field(default={})
    peak: Finite | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "PublishedHistogram":
        if not self.fractions and self.peak is None:
            raise ValueError("fractions or peak: at least one is needed")
        return self
