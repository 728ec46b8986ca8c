"""Panels: which numbers of the store to draw, against which column, split by which column, without how to draw them.

Panels are declared in the search space that makes their data, so the figures of a new task stand in its YAML.
Everything that belongs to one study is data here: labels, colours, published values and their sources.

The kind is the key `kind`. A new kind is one more record, one more line in `KINDS`, and its drawing in
`sweeper.analysis.figures`; a kind of trial may add kinds of panel of its own (`sweeper.training.kind.Kind.panels`).
"""

from typing import TYPE_CHECKING, Annotated, Literal, Union

from pydantic import AfterValidator, Field

from sweeper.panels.axes import Axis, Categories, ColumnLimits, Points, ValueAxis
from sweeper.panels.panel import GridPanel, LinesPanel, Panel, Published, RowLinesPanel, RowsPanel
from sweeper.panels.series import ColoredSeries, PublishedHistogram
from sweeper.trial.field_types import ListOf
from sweeper.trial.kinds import kinds

_Bins = Annotated[int, Field(ge=1, le=1000)]


class CurvePanel(RowLinesPanel):
    """Averages and tails against a column."""

    SOURCE = "column"

    kind: Literal["curve"]
    x: Axis


class HistoryPanel(LinesPanel):
    """Training curves: averages and tails on the training batches against the step.

    `x` is the label of the axis, and `scale` its scale; a logarithmic one has no place for step 0.
    """

    SOURCE = "curve"

    kind: Literal["history"]
    x: str = "Step"
    scale: Literal["linear", "log"] = "linear"


class HistogramPanel(Published):
    """Overlaid histograms over inputs of an outcome between 0 and 1, drawn as per cent, with so many equal bins."""

    kind: Literal["histogram"]
    label: str = ""
    y: ValueAxis = ValueAxis(label="Fraction of inputs")
    series: ListOf[ColoredSeries] = ()
    bins: _Bins = 25
    published: ListOf[PublishedHistogram] = ()


class ScatterPanel(RowsPanel):
    """A metric of every single trial, or evaluation, against a column."""

    SOURCE = "column"

    kind: Literal["scatter"]
    x: Points
    y: ValueAxis = ValueAxis()
    series: ListOf[ColoredSeries] = ()


class HeatmapPanel(Panel):
    """A histogram over inputs for every value of a column, its shares as colours on a logarithmic scale."""

    kind: Literal["heatmap"]
    x: Categories
    label: str = ""
    bins: _Bins = 25
    lowest: Annotated[float, Field(gt=0, lt=1)] = 1e-3


class CellsPanel(GridPanel):
    """An outcome of every input as the colour of its cell, one map a series.

    An end of `limits` is a number, a column of the trials such as `task_horizon`, or left to the data.
    """

    kind: Literal["cells"]
    label: str = ""
    limits: ColumnLimits = (None, None)


KINDS = (
    CurvePanel, HistoryPanel, HistogramPanel, ScatterPanel, HeatmapPanel, CellsPanel,
    *(panel for kind in kinds() for panel in kind.panels()),
)  # fmt: skip
"""What may stand under `panels:`."""


def _named_once(panels: tuple[Panel, ...]) -> tuple[Panel, ...]:
    taken: dict[str, str] = {}
    for name in (panel.name for panel in panels):
        # Names become file names, and not every file system tells 5a from 5A.
        if other := taken.get(name.lower()):
            raise ValueError(f"two panels are called '{name}'" + f" ('{other}')" * (other != name))
        taken[name.lower()] = name
    return panels


if TYPE_CHECKING:
    Panels = tuple[Panel, ...]
else:
    Panels = Annotated[
        ListOf[Annotated[Union[KINDS], Field(discriminator="kind")]],  # noqa: UP007
        AfterValidator(_named_once),
    ]
"""The type of `panels:` in a search space."""
