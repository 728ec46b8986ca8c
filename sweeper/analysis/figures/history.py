"""Histories: training curves against the step, averages solid and tails dashed, one colour a series.

A line is the mean over training seeds, its band their spread; unlike the final metrics of a trial, a training curve is
measured on the batches of its own training.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sweeper.analysis.figures import lines, per_seed
from sweeper.analysis.figures.lines import Line, LineSeries
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results
from sweeper.panels.kinds import HistoryPanel

MARKERS = 7
"""Markers along a line, where the palette tells series apart by them."""


class Histories(lines.Lines[HistoryPanel]):
    """Lines against the training step."""

    NAME = "Training curves"

    @classmethod
    def values(cls, panel: HistoryPanel, results: Results, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        return per_seed.curve(results, rows, metric)

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        (ax,) = axes
        for series in self.content.series:
            for line in series.lines:
                self._paint_line(ax, series, line, look)
        self.paint_references(ax, look, float)
        self.dress(ax, self.panel.x)
        ax.locator_params(axis="x", nbins=6)
        if self.panel.y.limits:
            ax.set_ylim(*self.panel.y.limits)

    def _paint_line(self, ax: Axes, series: LineSeries, line: Line, look: Look) -> None:
        points = line.points()
        shade, x = look.shade(series.color, series.index), points.index.to_numpy(float)
        if points["count"].max() > 1:
            low, high = self.spread(points)
            ax.fill_between(x, low, high, color=shade, alpha=0.1 if line.tail else 0.18, linewidth=0, zorder=2)
        # Lines that coincide must not hide each other's markers.
        every = max(1, len(x) // MARKERS)
        apart = series.index * every // 3 % every, every
        self.paint_means(ax, x, line, shade, linewidth=1.2, marker=_marker(series, look), markevery=apart)

    def handle(self, series: LineSeries, look: Look, **line: Any) -> Line2D:
        shade = look.shade(series.color, series.index)
        return Line2D([], [], color=shade, marker=_marker(series, look), markersize=3.6, linewidth=1.4, **line)

    def against(self) -> str:
        return "against the step"

    def remarks(self) -> list[str]:
        seeds, several = self.seeds_remark()
        parts = [seeds, f"band: {self.spread_name()}"] if several else [seeds]
        return [*parts, "on training batches", *self.content.remarks()]


def _marker(series: LineSeries, look: Look) -> str:
    return look.marker(series.index) if len(look.markers) > 1 else ""
