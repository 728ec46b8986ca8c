"""What all kinds of panel share, and what kinds of lines and of grids share.

A series is one curve, one histogram or one map. Instead of listing its series a panel may `split` by a column: one
series for every value of the column. Every published value names a series and a metric that its own panel draws.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from sweeper.messages import instead
from sweeper.panels.axes import Color, Declaration, Finite, Name, Text, ValueAxis
from sweeper.panels.series import Best, CurveSeries, PublishedCurve, Series, Where
from sweeper.trial.field_types import ListOf

LONGEST = 80  # characters of a name
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$", max_length=LONGEST)]


class Panel(Declaration):
    """An entry under `panels:`, with the fields of all kinds. It lists its series, or a column splits the trials.

    Panels with the same `figure` are also drawn side by side. `metric` is drawn of every series that names no other.
    """

    SOURCE: ClassVar[str] = "outcome"
    """Where the metrics of the kind come from: "column", "curve" or "outcome"; a kind of trial may have others."""

    kind: str
    name: FileName
    title: Text = ""
    figure: FileName | None = None
    metric: Name | None = None
    where: Where = Field(default={})
    best: Best | None = None
    series: ListOf[Series] = ()
    split: Name | None = None

    @model_validator(mode="after")
    def _has_series(self) -> Self:
        if bool(self.series) == bool(self.split):
            raise ValueError("series or split: give exactly one")
        labels = [part.label for part in self.series]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"series: the label '{label}' is used twice")
        return self

    @model_validator(mode="after")
    def _has_metrics(self) -> Self:
        for series in self.series:
            if not any(self.metrics(series)):
                raise ValueError(f"series: '{series.label}' has no metric, and the panel gives none")
        if self.split and not any(self.metrics(None)):
            raise ValueError("metric: a panel with 'split' needs one")
        return self

    @property
    def draws_evaluations(self) -> bool:
        """Whether the rows are those of evaluations of stored networks; else they are those of trials."""
        return False

    def metrics(self, series: Series | None) -> tuple[str | None, ...]:
        """The metrics drawn of a series, or of each series into which the panel is split."""
        return ((series and series.metric) or self.metric,)


class RowsPanel(Panel):
    """Numbers of the rows of trials, or of evaluations of their networks."""

    rows: Literal["trials", "evaluations"] = "trials"

    @property
    def draws_evaluations(self) -> bool:
        return self.rows == "evaluations"


class Published(Panel):
    """A panel with published numbers, each of which belongs to a series by its label."""

    published: ListOf[Any] = ()

    @model_validator(mode="after")
    def _has_published_series(self) -> "Published":
        labels = [series.label for series in self.series]
        for name in (reference.series for reference in self.published):
            if labels and name not in labels:
                raise ValueError(f"published: there is no series '{name}'{instead(name, labels)}")
        return self


class HorizontalLine(Declaration):
    """A horizontal line at a known number, such as the best that is possible, in the unit that is drawn."""

    at: Finite
    label: Name
    color: Color = "black"


class LinesPanel(Published):
    """Lines of averages and tails, with a band over the training seeds."""

    y: ValueAxis = ValueAxis()
    tail: Name | None = None
    series: ListOf[CurveSeries] = ()
    band: Literal["range", "std"] = "range"
    lines: ListOf[HorizontalLine] = ()
    published: ListOf[PublishedCurve] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "LinesPanel":
        if self.tail and self.tail == self.metric:
            raise ValueError(f"tail: '{self.tail}' is already the metric")
        for reference in self.published:
            for series in self.series or (None,):
                drawn = self.metrics(series)
                if (series is None or series.label == reference.series) and reference.metric not in drawn:
                    names = " and ".join(filter(None, drawn))
                    raise ValueError(f"published: '{reference.series}' draws {names}, not '{reference.metric}'")
        return self

    def metrics(self, series: Series | None) -> tuple[str | None, str | None]:
        """The columns of the solid and of the dashed line of a series.

        A series that names one of its two lines does not take the other from the panel: `metric: x` alone has no tail,
        so that the panel's tail never stands beside another metric's average.
        """
        if isinstance(series, CurveSeries) and (series.metric or series.tail):
            return series.metric, series.tail
        return self.metric, self.tail


class RowLinesPanel(LinesPanel, RowsPanel):
    """Lines of such rows."""


class GridPanel(Panel):
    """Inputs as cells of a grid.

    Cells are counted from 0, row by row from below, each row from the left. `rows` and `columns` are columns of the
    trials that give the size of the grid. Input 0 is the cell `first`. Only the training with the training seed `seed`
    is drawn, by default the lowest, because a mean over several trainings would blur all of them.
    """

    rows: Name
    columns: Name
    first: Annotated[int, Field(ge=0)] = 0
    seed: Annotated[int, Field(ge=0)] | None = None
