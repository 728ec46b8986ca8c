"""Scatter: one point a trial, a metric against a column or against an early value of a training curve.

It shows what a mean over training seeds hides: whether trials form groups, and whether one number foretells another.
The legend has the rank correlation of each series (Spearman's, ties share their mean rank).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sweeper.analysis.figures import style
from sweeper.analysis.figures.drawing import Drawing
from sweeper.analysis.figures.selection import NoData, column
from sweeper.analysis.figures.style import Look
from sweeper.messages import counted
from sweeper.panels.kinds import ScatterPanel
from sweeper.trial.metrics import equal_but_rounding

FEWEST = 5  # with fewer points than this a rank correlation says nothing


class Scatters(Drawing[ScatterPanel]):
    """Points of single trials."""

    NAME = "Points"
    MERGES = False

    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        axis = self.panel.x
        x = _numbers(rows, axis.column) if axis.column else self._curve_values(rows)
        values = rows[["seed", "trial_id"]].assign(x=x, value=_numbers(rows, metric)).dropna()
        if values.empty:
            raise NoData(f"no trial has both '{metric}' and {axis.text()}")
        return values

    def _curve_values(self, rows: pd.DataFrame) -> pd.Series:
        """The value of a training curve at a step, for each trial: that of its last point up to there."""
        axis, stored = self.panel.x, self.results.curves(rows["trial_id"].tolist())
        points = stored[(stored["metric"] == axis.curve) & (stored["step"] <= axis.step)].sort_values("step")
        if points.empty:
            raise NoData(f"no trial has {axis.text()}")
        last = points.groupby("trial_id")["value"].last()
        return pd.Series(last.reindex(rows["trial_id"]).to_numpy(np.float64), rows.index)

    def scales(self) -> list[tuple[str, str]]:
        horizontal = style.scale_for(self.panel.x.scale, self.frame["x"], "the horizontal axis")
        vertical = self.frame["value"].astype(float) * self.panel.y.factor
        return [horizontal, style.scale_for(self.panel.y.scale, vertical, "the vertical axis")]

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        (ax,), looks, panel = axes, self.looks(look), self.panel
        for label in self.labels():
            part = self.part(label)
            x, y = part["x"] * (100 if panel.x.percent else 1), part["value"] * panel.y.factor
            style.dots(ax, x, y, *looks[label], 4, alpha=0.6, zorder=3)
        (x_scale, _), (y_scale, _) = self.scales()
        ax.set_xscale(x_scale)
        ax.set_yscale(y_scale)
        for axis in [ax.xaxis] * (x_scale == "log") + [ax.yaxis] * (y_scale == "log"):
            # Losses of one figure span less than a decade, where matplotlib's own labels overlap.
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: style.number(value)))
            axis.set_minor_formatter(NullFormatter())
        x_label = self.tables.metric(panel.x.column).axis_label(panel.x.percent) if panel.x.column else panel.x.text()
        ax.set_xlabel(panel.x.label or x_label)
        ax.set_ylabel(panel.y.label or self.tables.metric(self.frame["metric"].iloc[0]).axis_label(panel.y.percent))
        ax.grid(True)
        if panel.y.limits and y_scale == panel.y.scale:
            ax.set_ylim(*panel.y.limits)

    def rank_correlation(self, label: str) -> float | None:
        """Spearman's correlation of x and y.

        None of few points, of trials that differ in more than their seed, which would be ranked for all their
        differences together, and where x or y is the same for all but rounding.
        """
        both = self.part(label)[["x", "value"]]
        same = any(equal_but_rounding(values.min(), values.max()) for _, values in both.items())
        return (
            None
            if same or len(both) < FEWEST or label in self.differing
            else float(both["x"].rank().corr(both["value"].rank()))
        )

    def entry(self, label: str) -> str:
        correlation = self.rank_correlation(label)
        ranks = "" if correlation is None else f", rank correlation {correlation:.2f}"
        return f"{label} ({counted(len(self.part(label)), 'trial')}{ranks})"

    def against(self) -> str:
        return f"against {style.plain(self.panel.x.text())}"

    def remarks(self) -> list[str]:
        return ["Each point is a trial", *self.scale_remarks(), *self.choice_remarks()]


def _numbers(rows: pd.DataFrame, name: str) -> pd.Series:
    """A column of the trials as numbers."""
    try:
        return rows[column(rows, name)].astype(float)
    except (TypeError, ValueError):
        raise NoData(f"'{name}' is not a number") from None
