"""A panel says which numbers of the store to draw, against what, split by what; it says nothing of how to draw.

Panels are declared in the search space that makes their data, so a new task brings its figures in its YAML. Everything
that belongs to one paper is data here: labels, colours, published reference values and where these were read. The
package `sweeper.analysis.figures` knows the kinds and no paper.

A series is one curve, one histogram or one map. It takes the trials whose columns equal `where` (the panel's and its
own; a list means any of its values). A column is one of the store's `trials` table (`q`, `baseline`, `success`), an
entry of the trial by its dotted path (`task.vertices`), or the last part of such a path where that is unambiguous
(`vertices`). Instead of listing its series a panel may `split` by a column: one series for every value found.

Invariants:
    - Records are frozen and refuse unknown keys, so a misspelt option is an error of the search space, not a figure
      that silently differs.
    - Every published value names a series and a metric that its own panel draws.
    - The kind is the key `kind`; a new kind is one more record in `Panel` and one more module of
      `sweeper.analysis.figures`.
    - `cost` is an abbreviation: reading `Panels` writes it out as curves, so nothing else knows of it.
"""

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

T = TypeVar("T")

Color = Literal["red", "blue", "purple", "green", "teal", "lime", "orange", "black"]
"""Names of a palette's colours; a palette gives each name its shade (`sweeper.analysis.figures.style`)."""


def _infinity(value: Any) -> Any:
    return math.inf if value == "inf" else value


def _not_zero(value: float) -> float:
    if value == 0:
        raise ValueError("nothing can be measured in units of 0")
    return value


def _rising(limits: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
    low, high = limits
    if low is not None and high is not None and not low < high:
        raise ValueError(f"{low} must be below {high}")
    return limits


def _column_shorthand(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


# The YAML reader makes lists; in strict mode a tuple would refuse them.
_Tuple = Annotated[tuple[T, ...], Field(strict=False)]
_Value = Annotated[str | bool | int | float, BeforeValidator(_infinity)]
_Number = Annotated[float, BeforeValidator(_infinity)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Name = Annotated[str, Field(min_length=1)]
_Seed = Annotated[int, Field(ge=0)]
_FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$"
_FileName = Annotated[str, Field(pattern=_FILE_NAME, max_length=80)]

_Unit = Annotated[_Finite, AfterValidator(_not_zero)]
_Limits = Annotated[tuple[_Finite | None, _Finite | None], Field(strict=False), AfterValidator(_rising)]

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
    seconds, -1 a reward of a cost. `limits` are in the unit that is drawn; the data decide an end that is None.
    """

    label: str = ""
    scale: Literal["linear", "log"] = "linear"
    percent: bool = False
    unit: _Unit = 1.0
    limits: _Limits | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "ValueAxis":
        if self.percent and self.unit != 1:
            raise ValueError("percent or unit: give at most one")
        if self.unit < 0 and self.scale == "log":
            raise ValueError("unit: negative numbers have no place on a logarithmic scale")
        return self

    @property
    def factor(self) -> float:
        """What a number of the store is multiplied by to be drawn."""
        return 100.0 if self.percent else 1 / self.unit


# --------------------------------------------------------------------------------------------------------------------
# Series and published values
# --------------------------------------------------------------------------------------------------------------------


class Best(_Declaration):
    """Which of many settings is drawn: that of the highest or lowest `metric`, a column, in the mean over seeds.

    A setting is all that trials have in common but for the training seed. Settings compete for each value of the
    horizontal axis by themselves.
    """

    metric: _Name
    mode: Literal["max", "min"] = "max"


class Yardstick(_Declaration):
    """A horizontal line at an exact value of the task that the panel's trials train: `value` is its name there.

    `unit` is the exact number that is drawn as 1; left out, it is the unit of the vertical axis.
    """

    value: _Name
    label: _Name
    color: Color = "black"
    unit: _Unit | None = None


class CurveSeries(_Declaration):
    """One colour of a curve or history panel: the average as a solid line, the bad tail as a dashed one.

    `metric` and `tail` are columns of `trials`, or names of training curves; left out, they are the panel's. At least
    one of the two must be known.
    """

    label: _Name
    color: Color | None = None
    where: Where = {}
    best: Best | None = None
    metric: _Name | None = None
    tail: _Name | None = None


class HistogramSeries(_Declaration):
    """One histogram over inputs of `metric`, a column of `outcomes` between 0 and 1 (the panel's if left out)."""

    label: _Name
    color: Color | None = None
    where: Where = {}
    best: Best | None = None
    metric: _Name | None = None


class CostSeries(_Declaration):
    """One colour of a cost panel."""

    label: _Name
    color: Color | None = None
    where: Where = {}


class MapSeries(_Declaration):
    """One map of a heat map or cell panel, or the boards of one training: without colours of its own."""

    label: _Name
    where: Where = {}
    best: Best | None = None
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


class _Lines(_Declaration):
    """What a curve and a history panel share: averages and bad tails, with a band over the training seeds."""

    name: _FileName
    title: str = ""
    figure: _FileName | None = None
    y: ValueAxis = ValueAxis()
    metric: _Name | None = None
    tail: _Name | None = None
    where: Where = {}
    best: Best | None = None
    series: _Tuple[CurveSeries] = ()
    split: _Name | None = None
    band: Literal["range", "std"] = "range"
    yardsticks: _Tuple[Yardstick] = ()
    published: _Tuple[PublishedCurve] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "_Lines":
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


class CurvePanel(_Lines):
    """Averages and bad tails against a column."""

    kind: Literal["curve"]
    x: Annotated[Axis, BeforeValidator(_column_shorthand)]


class HistoryPanel(_Lines):
    """Training curves: averages and bad tails on the training batches against the step; `x` is the axis' label."""

    kind: Literal["history"]
    x: str = "Step"


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
    best: Best | None = None
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
    best: Best | None = None
    series: _Tuple[MapSeries] = ()
    split: _Name | None = None
    bins: Annotated[int, Field(ge=1, le=1000)] = 25
    lowest: Annotated[float, Field(gt=0, lt=1)] = 1e-3

    @model_validator(mode="after")
    def _consistent(self) -> "HeatmapPanel":
        _check_series(self.series, self.split, self.metric)
        return self


class _Grid(_Declaration):
    """What panels share whose inputs are cells of a grid: counted from 0 row by row from below, each from the left.

    `rows` and `columns` are columns of the trials that say how large the grid is. Input 0 is the cell `first`. One
    training is drawn, as a mean over several would blur what each of them does: that of the training seed `seed`, or
    the lowest one there is.
    """

    name: _FileName
    title: str = ""
    figure: _FileName | None = None
    rows: _Name
    columns: _Name
    first: Annotated[int, Field(ge=0)] = 0
    metric: _Name
    where: Where = {}
    best: Best | None = None
    seed: _Seed | None = None
    series: _Tuple[MapSeries] = ()
    split: _Name | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "_Grid":
        _check_series(self.series, self.split, self.metric)
        return self


class CellsPanel(_Grid):
    """An outcome of every input as the colour of its cell, one map a series."""

    kind: Literal["cells"]
    label: str = ""
    limits: _Limits = (None, None)


class BoardPanel(_Grid):
    """Two walks of an agent to the cell `target` (row and column from 1), one board for each of several seeds r.

    `metric` is the beginning of the outcomes `<metric>_<r>_<step>`, which hold the cell reached by a step, and a
    negative number after the last. A walk ends on the target, or after as many steps as the column `longest` says.
    `unit` is the number of steps that is written as 1 above a board.
    """

    kind: Literal["board"]
    metric: _Name = "path"
    target: Annotated[tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]], Field(strict=False)]
    longest: _Name
    boards: Annotated[int, Field(ge=1, le=10)] = 3
    unit: _Unit = 1.0


Panel = Annotated[
    CurvePanel | HistoryPanel | HistogramPanel | HeatmapPanel | CellsPanel | BoardPanel, Field(discriminator="kind")
]

_COSTS = (
    ("wall time", "wall_seconds", "Wall time (min)", 60.0, ""),
    ("speed", "steps_per_second", "Steps per second", 1.0, ""),
    ("compile time", "compile_seconds", "Compile time (s)", 1.0, "0 if compiled before"),
    ("memory", "peak_memory_bytes", "Peak memory (MiB)", 2.0**20, "on a GPU earlier trials included"),
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
        tuple[
            Annotated[
                CurvePanel | HistoryPanel | HistogramPanel | HeatmapPanel | CellsPanel | BoardPanel | CostPanel,
                Field(discriminator="kind"),
            ],
            ...,
        ],
        Field(strict=False),
        AfterValidator(_written_out),
        AfterValidator(_names_differ),
    ]
"""The type of `panels:` in a search space."""
