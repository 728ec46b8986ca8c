"""The fields that panels of all kinds share (`sweeper.panels.kinds` has the kinds)."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from sweeper.panels.axes import Declaration, Name
from sweeper.panels.series import Best, CostSeries, Series, Where
from sweeper.trial.field_types import ListOf

FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$"
_FileName = Annotated[str, Field(pattern=FILE_NAME, max_length=80)]


MetricSource = Literal["column", "votes", "curve", "outcome", "walk"]
"""Where values of a metric come from: columns of trials, training curves, or outcomes of inputs. Names of vote columns
end with the number of votes; names of walk columns end with two numbers, of the seed r and of the step."""


class Panel(Declaration):
    """The fields of all kinds.

    Panels with the same `figure` are also drawn side by side. `metric` is drawn of every series that names no other.
    """

    SOURCE: ClassVar[MetricSource] = "outcome"
    """Where the metrics of the kind come from."""

    COLUMNS: ClassVar[tuple[str, ...]] = ()
    """The fields of the kind that name columns of the trials."""

    CURVES: ClassVar[tuple[str, ...]] = ()
    """The axes of the kind on which values of training curves may lie."""

    kind: str
    name: _FileName
    title: str = ""
    figure: _FileName | None = None
    metric: Name | None = None
    where: Where = Field(default={})
    best: Best | None = None
    series: ListOf[Series] = ()
    split: Name | None = None

    @model_validator(mode="after")
    def _has_series(self) -> "Panel":
        check_series(self.series, self.split)
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


class Published(Panel):
    """A panel with published numbers, each of which belongs to a series by its label."""

    published: ListOf[Any] = ()

    @model_validator(mode="after")
    def _has_published_series(self) -> "Published":
        labels = [series.label for series in self.series]
        for reference in self.published:
            if labels and reference.series not in labels:
                raise ValueError(f"published: there is no series '{reference.series}' (known: {', '.join(labels)})")
        return self


def check_series(series: tuple[Series | CostSeries, ...], split: str | None) -> None:
    """Refuse series beside a split, neither of the two, and labels that are used twice.

    Raises:
        ValueError: the message is for the author of the search space.
    """
    if bool(series) == bool(split):
        raise ValueError("series or split: give exactly one")
    labels = [part.label for part in series]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"series: the label '{label}' is used twice")
