"""Scatter: one point a trial, a metric against a column or against an early value of a training curve.

It shows what a mean over training seeds hides: whether trials form groups, and whether one number foretells another.
The legend has the rank correlation of each series (Spearman's, ties share their mean rank).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sweeper.analysis.figures import style
from sweeper.analysis.figures.drawing import Drawing, Note
from sweeper.analysis.figures.selection import NoData, column
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results
from sweeper.learned_algorithms.metrics import equal_but_rounding
from sweeper.messages import counted
from sweeper.panels.axes import Color, PointAxis
from sweeper.panels.kinds import ScatterPanel
from sweeper.panels.series import ColoredSeries

FEWEST = 5  # with fewer points than this a rank correlation says nothing


@dataclass(frozen=True)
class SeriesPoints:
    """The points of a series, one a trial (columns `x` and `y`)."""

    index: int
    label: str
    color: Color | None
    values: pd.DataFrame

    def rank_correlation(self) -> float | None:
        """Spearman's correlation of x and y; None of few points, or where x or y is the same for all but rounding."""
        same = any(equal_but_rounding(values.min(), values.max()) for _, values in self.values.items())
        if same or len(self.values) < FEWEST:
            return None
        return float(self.values["x"].rank().corr(self.values["y"].rank()))


class Scatters(Drawing[ScatterPanel, ColoredSeries, SeriesPoints]):
    """Points of single trials."""

    NAME = "Points"
    SERIES = ColoredSeries

    def __init__(self, panel: ScatterPanel, results: Results) -> None:
        """As of every kind, and with a note on points that a logarithmic axis cannot show."""
        super().__init__(panel, results)
        self.notes += [Note(panel.name, "", remark) for _, remark in self._scales() if remark]

    def drawn(self, results: Results, index: int, series: ColoredSeries, rows: pd.DataFrame) -> SeriesPoints:
        metric, axis = series.metric or self.panel.metric or "", self.panel.x
        x = _numbers(rows, axis.column) if axis.column else _curve_values(results, rows, axis)
        values = pd.DataFrame({"x": x, "y": _numbers(rows, metric)}).dropna()
        if values.empty:
            raise NoData(f"no trial has both '{metric}' and {axis.text()}")
        return SeriesPoints(index, series.label, series.color, values)

    def _drawn(self, points: SeriesPoints) -> tuple[pd.Series, pd.Series]:
        return points.values["x"] * (100 if self.panel.x.percent else 1), points.values["y"] * self.panel.y.factor

    def _scales(self) -> list[tuple[str, str]]:
        """The scales of both axes, and remarks."""
        drawn = [self._drawn(points) for points in self.series]
        x, y = ([value for both in drawn for value in both[place]] for place in (0, 1))
        horizontal = style.scale_for(self.panel.x.scale, x, "the horizontal axis")
        return [horizontal, style.scale_for(self.panel.y.scale, y, "the vertical axis")]

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        (ax,) = axes
        for points in self.series:
            x, y = self._drawn(points)
            shade, marker = look.shade(points.color, points.index), look.marker(points.index)
            style.dots(ax, x, y, shade, marker, 4, alpha=0.6, zorder=3)
        (x_scale, _), (y_scale, _) = self._scales()
        ax.set_xscale(x_scale)
        ax.set_yscale(y_scale)
        for axis in [ax.xaxis] * (x_scale == "log") + [ax.yaxis] * (y_scale == "log"):
            # Losses of one figure span less than a decade, where matplotlib's own labels overlap.
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: style.number(value)))
            axis.set_minor_formatter(NullFormatter())
        ax.set_xlabel(self.panel.x.label or self.panel.x.text() + " (%)" * self.panel.x.percent)
        ax.set_ylabel(self.panel.y.label or (self.panel.metric or "") + " (%)" * self.panel.y.percent)
        ax.grid(True)
        if self.panel.y.limits and y_scale == self.panel.y.scale:
            ax.set_ylim(*self.panel.y.limits)

    def legend(self, look: Look) -> Sequence[tuple[str, Artist]]:
        entries: list[tuple[str, Artist]] = []
        for points in self.series:
            correlation = points.rank_correlation()
            ranks = "" if correlation is None else f", rank correlation {correlation:.2f}"
            shade, marker = look.shade(points.color, points.index), look.marker(points.index)
            handle = Line2D([], [], color=shade, linestyle="none", marker=marker, markersize=4)
            entries.append((f"{points.label} ({counted(len(points.values), 'trial')}{ranks})", handle))
        return entries

    def against(self) -> str:
        return f"against {style.plain(self.panel.x.text())}"

    def remarks(self) -> list[str]:
        lost = [remark for _, remark in self._scales() if remark]
        return ["Each point is a trial", *lost, *self.choice_remarks()]


def _numbers(rows: pd.DataFrame, name: str) -> pd.Series:
    """A column of the trials as numbers."""
    try:
        return rows[column(rows, name)].astype(float)
    except (TypeError, ValueError):
        raise NoData(f"'{name}' is not a number") from None


def _curve_values(results: Results, rows: pd.DataFrame, at: PointAxis) -> pd.Series:
    """The value of a training curve at a step, for each trial: that of its last point up to there."""
    stored = results.curves(rows["trial_id"].tolist())
    points = stored[(stored["metric"] == at.curve) & (stored["step"] <= at.step)].sort_values("step")
    if points.empty:
        raise NoData(f"no trial has {at.text()}")
    last = points.groupby("trial_id")["value"].last()
    return pd.Series(last.reindex(rows["trial_id"]).to_numpy(np.float64), rows.index)
