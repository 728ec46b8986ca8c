"""Panels: which numbers of the store to draw, against which column, split by which column, without how to draw them.

Panels are declared in the search space that makes their data, so the figures of a new task stand in its YAML.
Everything that belongs to one paper is data here: labels, colours, published values and their sources. The package
`sweeper.analysis.figures` draws the kinds and knows no paper.

A series is one curve, one histogram or one map. Instead of listing its series a panel may `split` by a column: one
series for every value of the column. Every published value names a series and a metric that its own panel draws.

The kind is the key `kind`. A new kind is one more record, one more line in `KINDS`, and its drawing in
`sweeper.analysis.figures`. `cost` is an abbreviation, which `Panels` replaces with curves when it is read.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union

from pydantic import AfterValidator, Field, model_validator

from sweeper.panels import axes
from sweeper.panels.axes import ColumnAxis, Declaration, Name, Text, Unit, ValueAxis
from sweeper.panels.series import Best, ColoredSeries, CurveSeries, PublishedCurve, PublishedHistogram, Series, Where
from sweeper.trial.field_types import ListOf

_FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$"
_FileName = Annotated[str, Field(pattern=_FILE_NAME, max_length=80)]
_Bins = Annotated[int, Field(ge=1, le=1000)]


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

    kind: str
    name: _FileName
    title: Text = ""
    figure: _FileName | None = None
    metric: Name | None = None
    where: Where = Field(default={})
    best: Best | None = None
    series: ListOf[Series] = ()
    split: Name | None = None

    @model_validator(mode="after")
    def _has_series(self) -> "Panel":
        _check_series(self.series, self.split)
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


def _check_series(series: "tuple[Series | CostSeries, ...]", split: str | None) -> None:
    """Refuse series beside a split, neither of the two, and labels that are used twice."""
    if bool(series) == bool(split):
        raise ValueError("series or split: give exactly one")
    labels = [part.label for part in series]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"series: the label '{label}' is used twice")


class Yardstick(Declaration):
    """A horizontal line at an exact value of the task that the panel's trials train: `value` is its name there.

    `unit` is the exact number that is drawn as 1; by default it is the unit of the vertical axis.
    """

    value: Name
    label: Name
    color: axes.Color = "black"
    unit: Unit | None = None


class LinesPanel(Published):
    """Lines of averages and tails, with a band over the training seeds."""

    y: ValueAxis = ValueAxis()
    tail: Name | None = None
    series: ListOf[CurveSeries] = ()
    band: Literal["range", "std"] = "range"
    yardsticks: ListOf[Yardstick] = ()
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


class RowLinesPanel(LinesPanel):
    """Lines of the rows of trials, or of evaluations of their networks."""

    rows: Literal["trials", "evaluations"] = "trials"

    @property
    def draws_evaluations(self) -> bool:
        return self.rows == "evaluations"


class CurvePanel(RowLinesPanel):
    """Averages and tails against a column; `apart` in axes side by side, one for each series."""

    SOURCE = "column"
    COLUMNS = ("x",)

    kind: Literal["curve"]
    x: ColumnAxis
    apart: bool = False


class HistoryPanel(LinesPanel):
    """Training curves: averages and tails on the training batches against the step; `x` is the axis' label."""

    SOURCE = "curve"

    kind: Literal["history"]
    x: str = "Step"


class VotesPanel(RowLinesPanel):
    """Success against the number of votes k, with the lower bounds of `sweeper.learned_algorithms.vote_bounds`.

    `metric` and `tail` are names of columns without the number k: `votes` for `votes_<k>`, `votes_p5` for
    `votes_<k>_p5`. `x` is the label of the axis.
    """

    SOURCE = "votes"

    kind: Literal["votes"]
    x: str = "Number of votes $k$"
    y: ValueAxis = ValueAxis(label="Success (%)", percent=True, limits=(0.0, 100.0))
    metric: Name = "votes"
    tail: Name | None = "votes_p5"


class HistogramPanel(Published):
    """Overlaid histograms over inputs: which share of the inputs is solved how often.

    `bins` is the number of equal bins; left out, the values of a series decide (`sweeper.analysis.figures.histogram`).
    """

    kind: Literal["histogram"]
    label: str = "Success (%)"
    y: ValueAxis = ValueAxis(label="Fraction of inputs")
    series: ListOf[ColoredSeries] = ()
    bins: _Bins | None = None
    published: ListOf[PublishedHistogram] = ()


class ScatterPanel(Panel):
    """A metric of every single trial against a column, or against the value of a training curve at a step."""

    SOURCE = "column"
    COLUMNS = ("x",)

    kind: Literal["scatter"]
    x: axes.PointAxis
    y: ValueAxis = ValueAxis()
    series: ListOf[ColoredSeries] = ()


class HeatmapPanel(Panel):
    """A histogram over inputs for every value of a column, its shares as colours on a logarithmic scale."""

    COLUMNS = ("x",)

    kind: Literal["heatmap"]
    x: axes.ColumnCategories
    label: str = "Success (%)"
    bins: _Bins | None = None
    lowest: Annotated[float, Field(gt=0, lt=1)] = 1e-3


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


class CellsPanel(GridPanel):
    """An outcome of every input as the colour of its cell, one map a series.

    An end of `limits` is a number, a column of the trials such as `task_horizon`, or left to the data.
    """

    COLUMNS = ("rows", "columns", "limits")

    kind: Literal["cells"]
    label: str = ""
    limits: axes.ColumnLimits = (None, None)


class BoardPanel(GridPanel):
    """Two walks of an agent to the cell `target` (row and column from 1), one board for each of several seeds r.

    `metric` is the beginning of the outcomes `<metric>_<r>_<step>`, which hold the cell reached by a step, and a
    negative number after the last step. A walk ends on the target, or after as many steps as the column `longest` says.
    `unit` is the number of steps that is written as 1 above a board.
    """

    SOURCE = "walk"
    COLUMNS = ("rows", "columns", "longest")

    kind: Literal["board"]
    metric: Name = "path"
    target: Annotated[tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]], Field(strict=False)]
    longest: Name
    boards: Annotated[int, Field(ge=1, le=10)] = 3
    unit: Unit = 1.0


_COSTS = (
    ("wall time", "wall_seconds", "Wall time (min)", 60.0, ""),
    ("speed", "steps_per_second", "Steps per second", 1.0, ""),
    ("compile time", "compile_seconds", "Compile time (s)", 1.0, "0 if compiled before"),
    ("memory", "peak_memory_bytes", "Peak memory (MiB)", 2.0**20, "on a GPU earlier trials included"),
)
"""The curves of a cost panel: end of the name, column of the store, label and unit of its axis, and a remark."""


class CostSeries(Declaration):
    """One colour of a cost panel."""

    label: Name
    color: axes.Color | None = None
    where: Where = Field(default={})


class CostPanel(Declaration):
    """What a trial costs against a column, as four curves side by side: time, steps per second, compilation, memory."""

    kind: Literal["cost"]
    name: Annotated[str, Field(pattern=_FILE_NAME, max_length=60)]
    title: Text = ""
    x: ColumnAxis
    where: Where = Field(default={})
    series: ListOf[CostSeries] = ()
    split: Name | None = None

    @model_validator(mode="after")
    def _has_series(self) -> "CostPanel":
        _check_series(self.series, self.split)
        return self

    def curves(self) -> tuple[CurvePanel, ...]:
        series = tuple(CurveSeries(**dict(part)) for part in self.series)
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


KINDS = (
    CurvePanel, HistoryPanel, VotesPanel, HistogramPanel, ScatterPanel, HeatmapPanel, CellsPanel, BoardPanel, CostPanel,
)  # fmt: skip
"""What may stand under `panels:`."""


def _written_out(declared: tuple[Panel | CostPanel, ...]) -> tuple[Panel, ...]:
    panels = [part for each in declared for part in (each.curves() if isinstance(each, CostPanel) else (each,))]
    taken: dict[str, str] = {}
    for name in (panel.name for panel in panels):
        # Names become file names, and not every file system tells 5a from 5A.
        if other := taken.get(name.lower()):
            raise ValueError(f"two panels are called '{name}'" + f" ('{other}')" * (other != name))
        taken[name.lower()] = name
    return tuple(panels)


if TYPE_CHECKING:
    Panels = tuple[Panel, ...]
else:
    Panels = Annotated[
        ListOf[Annotated[Union[KINDS], Field(discriminator="kind")]],  # noqa: UP007
        AfterValidator(_written_out),
    ]
"""The type of `panels:` in a search space."""
