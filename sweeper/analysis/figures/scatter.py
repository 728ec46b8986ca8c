"""Scatter: one point a trial, a metric against a column.

It shows what a mean over training seeds hides: whether trials form groups, and whether one number foretells another.
"""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes

from sweeper.analysis.figures import style, ticks
from sweeper.analysis.figures.drawing import Drawing
from sweeper.analysis.figures.selection import NoData, column
from sweeper.analysis.figures.style import Look
from sweeper.messages import counted
from sweeper.panels.kinds import ScatterPanel


class Scatters(Drawing[ScatterPanel]):
    """Points of single trials."""

    MERGES = False

    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        x = self.panel.x.column
        values = rows[["seed", "trial_id"]].assign(x=_numbers(rows, x), value=_numbers(rows, metric)).dropna()
        if values.empty:
            raise NoData(f"no trial has both '{metric}' and '{x}'")
        return values

    def arranged(self, frame: pd.DataFrame) -> pd.DataFrame:
        self.note_hidden("horizontal", self.panel.x.scale, frame["x"])
        self.note_hidden("vertical", self.panel.y.scale, frame["value"] * self.panel.y.factor)
        return frame

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        (ax,), looks, panel = axes, self.looks(look), self.panel
        for label in self.labels():
            part = self.part(label)
            x, y = part["x"] * (100 if panel.x.percent else 1), part["value"] * panel.y.factor
            style.dots(ax, x, y, *looks[label], 4, alpha=0.6, zorder=3)
        ticks.scale(ax, "x", panel.x.scale)
        ticks.scale(ax, "y", panel.y.scale)
        ax.set_xlabel(panel.x.label or self.tables.metric(panel.x.column).axis_label(panel.x.percent))
        ax.set_ylabel(panel.y.label or self.tables.metric(self.frame["metric"].iloc[0]).axis_label(panel.y.percent))
        ax.grid(True)
        if panel.y.limits:
            ax.set_ylim(*panel.y.limits)

    def entry(self, label: str) -> str:
        return f"{label} ({counted(len(self.part(label)), self.panel.rows.removesuffix('s'))})"

    def remarks(self) -> list[str]:
        return [
            f"Each point is {'an evaluation' if self.panel.draws_evaluations else 'a trial'}",
            *self.choice_remarks(),
        ]


def _numbers(rows: pd.DataFrame, name: str) -> pd.Series:
    """A column of the trials as numbers."""
    try:
        return rows[column(rows, name)].astype(float)
    except (TypeError, ValueError):
        raise NoData(f"'{name}' is not a number: `split` by it draws a series for each of its values") from None
