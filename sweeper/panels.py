"""A panel says which numbers of the store to draw, against what, split by what; it says nothing of how to draw.

Panels are declared in the search space that makes their data, so a new task brings its figures in its YAML. Everything
that belongs to one paper is data here: labels, colours, published reference values and where these were read. The
package `sweeper.figures` knows the kinds and no paper.

A series is one curve, one histogram or one map. It takes the trials whose columns equal `where` (the panel's and its
own; a list means any of its values). A column is one of the store's `trials` table (`q`, `baseline`, `success`), an
entry of the trial by its dotted path (`task.vertices`), or the last part of such a path where that is unambiguous
(`vertices`). Instead of listing its series a panel may `split` by a column: one series for every value found.

Invariants:
    - Records are frozen and refuse unknown keys, so a misspelt option is an error of the search space, not a figure
      that silently differs.
    - Every published value names a series and a metric that its own panel draws.
    - The kind is the key `kind`; a new kind is one more record in `Panel` and one more module of `sweeper.figures`.
    - `cost` is an abbreviation: reading `Panels` writes it out as curves, so nothing else knows of it.
"""

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

T = TypeVar("T")

Color = Literal["red", "blue", "purple", "green", "teal", "lime", "orange", "black"]
"""Names of a palette's colours; a palette gives each name its shade (`sweeper.figures.style`)."""


def _infinity(value: Any) -> Any:
    return math.inf if value == "inf" else value


def _column_shorthand(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


# The YAML reader makes lists; in strict mode a tuple would refuse them.
_Tuple = Annotated[tuple[T, ...], Field(strict=False)]
_Value = Annotated[str | bool | int | float, BeforeValidator(_infinity)]
_Number = Annotated[float, BeforeValidator(_infinity)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Name = Annotated[str, Field(min_length=1)]
_FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$"
_FileName = Annotated[str, Field(pattern=_FILE_NAME, max_length=80)]

Where = dict[_Name, _Value | Annotated[list[_Value], Field(min_length=1)]]
"""Column and the value, or the list of values, that it must have."""


class _Declaration(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


# --------------------------------------------------------------------------------------------------------------------
# Axes
# --------------------------------------------------------------------------------------------------------------------


class Axis(_Declaration):
    """The column on the horizontal axis; in YAML its bare name will do. Infinity gets a place of its own at the end.

    Trials in which the column is empty stand at `empty`, and without it are left out.
    """

    column: _Name
    label: str = ""
    scale: Literal["linear", "log"] = "linear"
    empty: _Finite | None = None


class Categories(_Declaration):
    """A horizontal axis on which the values of the column stand side by side, in order, at equal distances."""

    column: _Name
    label: str = ""


class ValueAxis(_Declaration):
    """The vertical axis.

    `percent` draws a share as per cent. `unit` is the number of the store that is drawn as 1: 60 makes minutes of
    seconds. `limits` are in the unit that is drawn; the data decide an end that is None.
    """

    label: str = ""
    scale: Literal["linear", "log"] = "linear"
    percent: bool = False
    unit: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    limits: Annotated[tuple[_Finite | None, _Finite | None], Field(strict=False)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "ValueAxis":
        if self.percent and self.unit != 1:
            raise ValueError("percent or unit: give at most one")
        low, high = self.limits or (None, None)
        if low is not None and high is not None and not low < high:
            raise ValueError(f"limits: {low} must be below {high}")
        return self

    @property
    def factor(self) -> float:
        """What a number of the store is multiplied by to be drawn."""
        return 100.0 if self.percent else 1 / self.unit


# --------------------------------------------------------------------------------------------------------------------
# Series and published values
# --------------------------------------------------------------------------------------------------------------------


class CurveSeries(_Declaration):
    """One colour of a curve panel: the average as a solid line, the bad tail as a dashed one.

    `metric` and `tail` are columns of `trials`; left out, they are the panel's. At least one of the two must be known.
    """

    label: _Name
    color: Color | None = None
    where: Where = {}
    metric: _Name | None = None
    tail: _Name | None = None


class HistogramSeries(_Declaration):
    """One histogram over inputs of `metric`, a column of `outcomes` between 0 and 1 (the panel's if left out)."""

    label: _Name
    color: Color | None = None
    where: Where = {}
    metric: _Name | None = None


class CostSeries(_Declaration):
    """One colour of a cost panel."""

    label: _Name
    color: Color | None = None
    where: Where = {}


class HeatmapSeries(_Declaration):
    """One map of a heat map panel: a histogram over inputs of `metric` in each column."""

    label: _Name
    where: Where = {}
    metric: _Name | None = None


class PublishedCurve(_Declaration):
    """Published numbers of one metric of one series, by the value on the horizontal axis."""

    series: _Name
    metric: _Name
    source: _Name
    values: Annotated[dict[_Number, _Finite], Field(min_length=1)]


class PublishedHistogram(_Declaration):
    """Published shares of inputs in the bin that holds a success, and the place of the fullest bin; all in 0..1."""

    series: _Name
    source: _Name
    fractions: dict[_Finite, _Finite] = {}
    peak: _Finite | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "PublishedHistogram":
        if not self.fractions and self.peak is None:
            raise ValueError("fractions or peak: at least one is needed")
        return self


# --------------------------------------------------------------------------------------------------------------------
# Kinds
# --------------------------------------------------------------------------------------------------------------------


def _check_series(series: tuple[Any, ...], split: str | None, default: str | None) -> None:
    if bool(series) == bool(split):
        raise ValueError("series or split: give exactly one")
    labels = [one.label for one in series]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"series: the label '{label}' is used twice")
    for one in series:
        if not (default or one.metric):
            raise ValueError(f"series: '{one.label}' has no metric, and the panel gives none")
    if split and not default:
        raise ValueError("metric: a panel with 'split' needs one")


def _check_published(published: tuple[Any, ...], series: tuple[Any, ...]) -> None:
    labels = [one.label for one in series]
    for reference in published:
        if series and reference.series not in labels:
            raise ValueError(f"published: there is no series '{reference.series}' (known: {', '.join(labels)})")


class CurvePanel(_Declaration):
    """Averages and bad tails against a column, with a band over the training seeds."""

    kind: Literal["curve"]
    name: _FileName
    title: str = ""
    figure: _FileName | None = None
    x: Annotated[Axis, BeforeValidator(_column_shorthand)]
    y: ValueAxis = ValueAxis()
    metric: _Name | None = None
    tail: _Name | None = None
    where: Where = {}
    series: _Tuple[CurveSeries] = ()
    split: _Name | None = None
    band: Literal["range", "std"] = "range"
    published: _Tuple[PublishedCurve] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "CurvePanel":
        if self.tail and self.tail == self.metric:
            raise ValueError(f"tail: '{self.tail}' is already the metric")
        _check_series(
            tuple(one.model_copy(update={"metric": one.metric or one.tail}) for one in self.series),
            self.split,
            self.metric or self.tail,
        )
        _check_published(self.published, self.series)
        for reference in self.published:
            for one in self.series:
                drawn = self.metrics(one)
                if one.label == reference.series and reference.metric not in drawn:
                    raise ValueError(
                        f"published: '{one.label}' draws {' and '.join(filter(None, drawn))}, not '{reference.metric}'"
                    )
        return self

    def metrics(self, series: CurveSeries) -> tuple[str | None, str | None]:
        """The columns of the solid and of the dashed line of a series.

        A series that names either of its two lines names them all: `metric: x` alone has no tail, so that the panel's
        tail never stands beside another metric's average.
        """
        if series.metric or series.tail:
            return series.metric, series.tail
        return self.metric, self.tail


class HistogramPanel(_Declaration):
    """Overlaid histograms over inputs: which share of the inputs is solved how often."""

    kind: Literal["histogram"]
    name: _FileName
    title: str = ""
    figure: _FileName | None = None
    label: str = "Success (%)"
    y: ValueAxis = ValueAxis(label="Fraction of inputs")
    metric: _Name | None = None
    where: Where = {}
    series: _Tuple[HistogramSeries] = ()
    split: _Name | None = None
    bins: Annotated[int, Field(ge=1, le=1000)] = 25
    published: _Tuple[PublishedHistogram] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "HistogramPanel":
        _check_series(self.series, self.split, self.metric)
        _check_published(self.published, self.series)
        return self


class HeatmapPanel(_Declaration):
    """A histogram over inputs for every value of a column, its shares as colours on a logarithmic scale."""

    kind: Literal["heatmap"]
    name: _FileName
    title: str = ""
    figure: _FileName | None = None
    x: Annotated[Categories, BeforeValidator(_column_shorthand)]
    label: str = "Success (%)"
    metric: _Name | None = None
    where: Where = {}
    series: _Tuple[HeatmapSeries] = ()
    split: _Name | None = None
    bins: Annotated[int, Field(ge=1, le=1000)] = 25
    lowest: Annotated[float, Field(gt=0, lt=1)] = 1e-3

    @model_validator(mode="after")
    def _consistent(self) -> "HeatmapPanel":
        _check_series(self.series, self.split, self.metric)
        return self


Panel = Annotated[CurvePanel | HistogramPanel | HeatmapPanel, Field(discriminator="kind")]

_COSTS = (
    ("wall time", "wall_seconds", "Wall time (min)", 60.0, ""),
    ("speed", "steps_per_second", "Steps per second", 1.0, ""),
    ("compile time", "compile_seconds", "Compile time (s)", 1.0, "0 if compiled before"),
    ("memory", "peak_memory_bytes", "Peak memory (MiB)", 2.0**20, "earlier trials included"),
)
"""What a cost panel draws: end of the name, column of the store, label and unit of its axis, and what to know of it."""


class CostPanel(_Declaration):
    """What a trial costs against a column, as four curves side by side: time, steps per second, compilation, memory."""

    kind: Literal["cost"]
    name: Annotated[str, Field(pattern=_FILE_NAME, max_length=60)]
    title: str = ""
    x: Annotated[Axis, BeforeValidator(_column_shorthand)]
    where: Where = {}
    series: _Tuple[CostSeries] = ()
    split: _Name | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "CostPanel":
        _check_series(self.series, self.split, "cost")
        return self

    def curves(self) -> tuple[CurvePanel, ...]:
        """The panel written out."""
        series = tuple(CurveSeries(**dict(one)) for one in self.series)
        return tuple(
            CurvePanel(
                kind="curve",
                name=f"{self.name} {what}",
                title="; ".join(filter(None, (self.title, remark))),
                figure=self.name,
                x=self.x,
                y=ValueAxis(label=label, unit=unit, limits=(0.0, None)),
                metric=column,
                where=self.where,
                series=series,
                split=self.split,
            )
            for what, column, label, unit, remark in _COSTS
        )


def _written_out(panels: tuple[Panel | CostPanel, ...]) -> tuple[Panel, ...]:
    return tuple(one for panel in panels for one in (panel.curves() if isinstance(panel, CostPanel) else (panel,)))


def _names_differ(panels: tuple[Panel, ...]) -> tuple[Panel, ...]:
    taken: dict[str, str] = {}
    for panel in panels:
        # Names become file names, and not every file system tells 5a from 5A.
        if (key := panel.name.lower()) in taken:
            raise ValueError(
                f"two panels are called '{panel.name}'" + f" ('{taken[key]}')" * (taken[key] != panel.name)
            )
        taken[key] = panel.name
    return panels


if TYPE_CHECKING:
    Panels = tuple[Panel, ...]
else:
    Panels = Annotated[
        tuple[Annotated[CurvePanel | HistogramPanel | HeatmapPanel | CostPanel, Field(discriminator="kind")], ...],
        Field(strict=False),
        AfterValidator(_written_out),
        AfterValidator(_names_differ),
    ]
"""The type of `panels:` in a search space."""
