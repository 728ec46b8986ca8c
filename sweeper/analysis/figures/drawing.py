"""The interface of a kind of panel.

A kind is one subclass of `Drawing`. It chooses the numbers of a panel, says how wide its axes are, paints them, and
explains them in a legend and in remarks. It knows nothing of other panels, of the canvas, or of any task or paper:
`sweeper.analysis.figures.layout` puts drawings side by side, with titles, legends and footers.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from matplotlib.artist import Artist
from matplotlib.axes import Axes

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures.selection import Content
from sweeper.analysis.figures.style import Look, plain
from sweeper.analysis.results import Results
from sweeper.space.panel import Panel

WIDTH = 2.75
"""Width of axes in inches, unless a kind gives another."""

PanelT = TypeVar("PanelT", bound=Panel)
SeriesT = TypeVar("SeriesT")


@dataclass(frozen=True)
class Drawing(abc.ABC, Generic[PanelT, SeriesT]):
    """One panel with the numbers that it shows.

    Attributes:
        panel: What the search space declares.
        content: The series that have data, and notes on the others.
    """

    panel: PanelT
    content: Content[SeriesT]

    NAME: ClassVar[str]
    """The name of the kind in prose, in the plural."""

    @classmethod
    @abc.abstractmethod
    def of(cls, panel: PanelT, results: Results) -> "Drawing":
        """The panel with its numbers taken from the results; a note for every series that has none."""

    def widths(self) -> Sequence[float]:
        """Width in inches of each of the axes; their height is `layout.HEIGHT`."""
        return [WIDTH]

    @abc.abstractmethod
    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        """Draw into axes of these widths, from left to right."""

    @abc.abstractmethod
    def remarks(self) -> list[str]:
        """Remarks for the footer of the figure, in half-sentences."""

    def legend(self, look: Look) -> Sequence[tuple[str, Artist]]:
        """Labels and handles of what is drawn; none where the drawing explains itself."""
        return []

    def shared_legend(self) -> object:
        """Neighbouring panels of one kind share a legend if this value is equal. A panel with None has its own."""
        return None

    def compare(self) -> list[Comparison]:
        """Every published value beside the measured number; none for kinds without published values."""
        return []

    def against(self) -> str:
        """The horizontal axis, in words."""
        return "over inputs"

    def alternative(self) -> str:
        """A description of the figure for readers who cannot see it."""
        panel = self.panel
        metrics = dict.fromkeys(
            metric
            for part in (panel, *panel.series)
            for metric in (part.metric, getattr(part, "tail", None))
            if metric is not None
        )  # fmt: skip
        labels = ", ".join(series.label for series in panel.series)
        series = f"one for every value of {panel.split}" if panel.split else labels
        title = f" ({panel.title})" if panel.title else ""
        text = f"{self.NAME} {panel.name}{title}: {', '.join(metrics)} {self.against()}; series: {series}."
        return plain(text)
