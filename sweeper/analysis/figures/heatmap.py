"""Heat maps: a histogram over inputs for every value of a column, side by side, one map a series.

The colour is the share of inputs, averaged over training seeds, on a logarithmic scale; white is less than its lowest
value. A value of the column for which a series has no trial is hatched, so that it cannot be taken for an empty one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.textpath import TextPath

from sweeper.analysis.figures import selection, style
from sweeper.analysis.figures.drawing import Drawing
from sweeper.analysis.figures.histogram import bins_text, edges_of, shares_by_seed
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results
from sweeper.panels.checks import is_text
from sweeper.panels.kinds import HeatmapPanel
from sweeper.panels.series import Series

COLUMN = 0.2  # least width of a column, in inches
MAP = 1.5  # least width of a map, in inches
MOST_COLUMNS = 60  # most columns of a map; of more values of its column some are shown, evenly spaced


@dataclass(frozen=True)
class Map:
    """One map."""

    label: str
    edges: np.ndarray  # of its bins in 0..1
    shares: dict[float | str, dict[int, np.ndarray]]  # of inputs in each bin, by the column's value and training seed


class HeatMaps(Drawing[HeatmapPanel, Series, Map]):
    """Histograms as colours."""

    NAME = "Heat maps"

    def drawn(self, results: Results, index: int, series: Series, rows: pd.DataFrame) -> Map:
        x = selection.column(rows, self.panel.x.column)
        metric = series.metric or self.panel.metric or ""
        edges = edges_of(results, rows, metric, self.panel.bins)
        columns, reason = {}, selection.NoData(f"no trial has a value of '{x}'")
        for value, group in rows.groupby(x):
            try:
                columns[value] = shares_by_seed(results, group, metric, edges)
            except selection.NoData as caught:
                reason = caught
        if not columns:
            raise reason
        return Map(series.label, edges, columns)

    def _values(self) -> list[float | str]:
        """The columns that all maps have, in order."""
        values = self._every_value()
        shown = np.linspace(0, len(values) - 1, min(len(values), MOST_COLUMNS)).round().astype(int)
        return [values[place] for place in shown]

    def _every_value(self) -> list[float | str]:
        values = {value for part in self.series for value in part.shares}
        return sorted(values, key=lambda value: (isinstance(value, str), value))

    def _ticks(self) -> list[str]:
        return [value if isinstance(value, str) else style.number(value) for value in self._values()]

    def widths(self) -> Sequence[float]:
        size = style.RC["xtick.labelsize"]
        ticks = [tick if is_text(tick) else tick.replace("$", r"\$") for tick in self._ticks()]
        longest = max(TextPath((0, 0), tick, size).get_extents().width for tick in ticks)
        return [max(MAP, len(self._ticks()) * max(COLUMN, (longest + size / 2) / 72))] * len(self.series)

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        meshes = [self._paint_map(ax, part) for ax, part in zip(axes, self.series, strict=True)]
        for ax, part in zip(axes, self.series, strict=True):
            style.above(ax, part.label, 0.5, 12, fontsize=9, color="black")
            ax.tick_params(labelleft=ax is axes[0])
        style.above(axes[0], "seeds", 0, 3, -3, ha="right")
        axes[0].set_ylabel(self.panel.label)
        style.color_bar(axes, meshes[0], "Fraction of inputs")

    def _paint_map(self, ax: Axes, part: Map) -> QuadMesh:
        values, empty = self._values(), {0: np.zeros(len(part.edges) - 1)}
        shares = [np.mean(list(part.shares.get(value, empty).values()), axis=0) for value in values]
        columns = np.arange(len(values) + 1)
        norm = LogNorm(self.panel.lowest, 1)
        cmap = matplotlib.colormaps["viridis_r"].with_extremes(under="white", bad="white")
        mesh = ax.pcolormesh(columns, 100 * part.edges, np.transpose(shares), norm=norm, cmap=cmap, rasterized=True)
        for index, value in enumerate(values):
            if value not in part.shares:
                ax.axvspan(index, index + 1, **style.HATCHED)
            style.count_above(ax, len(part.shares.get(value, ())), index + 0.5, 3)
        ax.set_xticks(columns[:-1] + 0.5, self._ticks())
        ax.set_yticks([0, 20, 40, 60, 80, 100])
        ax.set_xlabel(self.panel.x.label or self.panel.x.column)
        ax.spines[["top", "right"]].set_visible(True)
        return mesh

    def remarks(self) -> list[str]:
        parts = list(dict.fromkeys(bins_text(part.edges) for part in self.series))
        parts.append("above: training seeds averaged in each column")
        parts.append(f"white: less than {style.number(self.panel.lowest)}")
        if any(value not in part.shares for part in self.series for value in self._values()):
            parts.append("hatched: no trial")
        if (count := len(self._every_value())) > MOST_COLUMNS:
            parts.append(f"{MOST_COLUMNS} of {count:,} columns")
        return [parts[0][0].upper() + parts[0][1:], *parts[1:], *self.choice_remarks()]
