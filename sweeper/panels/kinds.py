"""Panels: which numbers of the store to draw, against which column, split by which column, without how to draw them.

Panels are declared in the search space that makes their data, so the figures of a new task stand in its YAML.
Everything that belongs to one study is data here: labels, colours, published values and their sources.

The kind is the key `kind`. A new kind is one more record, one more line in `KINDS`, and its drawing in
`sweeper.analysis.figures`; a kind of trial may add kinds of panel of its own (`sweeper.training.kind.Kind.panels`).
`cost` is an abbreviation, which `Panels` replaces with curves when it is read.
"""

from typing import TYPE_CHECKING, Annotated, Literal, Union

from pydantic import AfterValidator, Field

from sweeper.panels.axes import Axis, Categories, Color, ColumnLimits, Declaration, Name, Points, ValueAxis
from sweeper.panels.panel import FileName, GridPanel, LinesPanel, Panel, Published, RowLinesPanel, Split
from sweeper.panels.series import ColoredSeries, CurveSeries, PublishedHistogram, Where
from sweeper.trial.field_types import ListOf
from sweeper.trial.kinds import kinds

_Bins = Annotated[int, Field(ge=1, le=1000)]


class CurvePanel(RowLinesPanel):
    """Averages and tails against a column; `apart` in axes side by side, one for each series."""

    SOURCE = "column"
    COLUMNS = ("x",)

    kind: Literal["curve"]
    x: Axis
    apart: bool = False


class HistoryPanel(LinesPanel):
    """Training curves: averages and tails on the training batches against the step; `x` is the axis' label."""

    SOURCE = "curve"

    kind: Literal["history"]
    x: str = "Step"


class HistogramPanel(Published):
    """Overlaid histograms over inputs of an outcome between 0 and 1, drawn as per cent.

    `bins` is the number of equal bins; left out, the values of a series decide (`sweeper.analysis.figures.histogram`).
    """

    kind: Literal["histogram"]
    label: str = ""
    y: ValueAxis = ValueAxis(label="Fraction of inputs")
    series: ListOf[ColoredSeries] = ()
    bins: _Bins | None = None
    published: ListOf[PublishedHistogram] = ()


class ScatterPanel(Panel):
    """A metric of every single trial against a column, or against the value of a training curve at a step."""

    SOURCE = "column"
    COLUMNS = ("x",)

    kind: Literal["scatter"]
    x: Points
    y: ValueAxis = ValueAxis()
    series: ListOf[ColoredSeries] = ()


class HeatmapPanel(Panel):
    """A histogram over inputs for every value of a column, its shares as colours on a logarithmic scale."""

    COLUMNS = ("x",)

    kind: Literal["heatmap"]
    x: Categories
    label: str = ""
    bins: _Bins | None = None
    lowest: Annotated[float, Field(gt=0, lt=1)] = 1e-3


class CellsPanel(GridPanel):
    """An outcome of every input as the colour of its cell, one map a series.

    An end of `limits` is a number, a column of the trials such as `task_horizon`, or left to the data.
    """

    COLUMNS = ("rows", "columns", "limits")

    kind: Literal["cells"]
    label: str = ""
    limits: ColumnLimits = (None, None)


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
    color: Color | None = None
    where: Where = Field(default={})


class CostPanel(Split):
    """What a trial costs against a column, as four curves side by side: time, steps per second, compilation, memory."""

    kind: Literal["cost"]
    name: Annotated[FileName, Field(max_length=60)]  # the names of the four curves are longer
    x: Axis
    series: ListOf[CostSeries] = ()

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
    CurvePanel, HistoryPanel, HistogramPanel, ScatterPanel, HeatmapPanel, CellsPanel, CostPanel,
    *(panel for kind in kinds() for panel in kind.panels()),
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
