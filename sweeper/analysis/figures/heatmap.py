"""Heat maps: a histogram over inputs for every value of a column, side by side, one map a series.

The colour is the share of inputs, averaged over training seeds, on a logarithmic scale; white is less than its lowest
value. A value of the column for which a series has no trial is hatched, so that it cannot be taken for an empty one.
"""

from dataclasses import dataclass

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.colors import LogNorm

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import per_seed, selection, style
from sweeper.analysis.results import Results
from sweeper.space.panels import HeatmapPanel, MapSeries

CELL = 0.2
"""Width of a column, in inches."""
MAP = (1.5, 2.05)
"""Least width and height of a map."""
GAP = 0.22
COLORBAR = 0.82
"""Width of the colour bar with its gap and its labels."""


@dataclass(frozen=True)
class Map:
    """One map: for every value of the column the shares of inputs in each bin, for each training seed."""

    label: str
    shares: dict[float | str, dict[int, np.ndarray]]


Content = selection.Content[Map]


def gather(panel: HeatmapPanel, results: Results) -> Content:
    """The maps of a panel, with a note for every series that has none."""

    def drawn(index: int, one: MapSeries, rows: pd.DataFrame) -> Map:
        x = selection.column(rows, panel.x.column)
        return Map(one.label, _columns(panel, results, rows, x, one.metric or panel.metric or ""))

    return selection.gathered(panel, panel.series, MapSeries, results, drawn, [panel.x.column])


def _columns(
    panel: HeatmapPanel, results: Results, rows: pd.DataFrame, x: str, metric: str
) -> dict[float | str, dict[int, np.ndarray]]:
    columns, reason = {}, selection.NoData(f"no trial has a value of '{x}'")
    for value, group in rows.groupby(x):
        try:
            columns[value] = per_seed.shares(results, group, metric, panel.bins)
        except selection.NoData as caught:
            reason = caught
    if not columns:
        raise reason
    return columns


def compare(panel: HeatmapPanel, content: Content) -> list[Comparison]:
    """Nothing: colours of a published map cannot be read off to any useful precision."""
    return []


# --------------------------------------------------------------------------------------------------------------------
# Drawing
# --------------------------------------------------------------------------------------------------------------------


def _values(content: Content) -> list[float | str]:
    """The columns that all maps have, in order."""
    return sorted({value for one in content.series for value in one.shares}, key=lambda v: (isinstance(v, str), v))


def _ticks(content: Content) -> list[str]:
    return [value if isinstance(value, str) else style.number(value) for value in _values(content)]


def _map_width(content: Content) -> float:
    longest = max(len(style.plain(tick)) for tick in _ticks(content))
    return max(MAP[0], len(_values(content)) * max(CELL, (longest + 0.8) * style.CHARACTER * 7.5))


def width(panel: HeatmapPanel, content: Content) -> float:
    """Width of the panel in inches."""
    maps = len(content.series)
    return style.LEFT + maps * _map_width(content) + (maps - 1) * GAP + COLORBAR


def frame(panel: HeatmapPanel, content: Content) -> style.Frame:
    return style.frame(
        width(panel, content),
        panel.name,
        panel.title,
        count_lines=2,
        axes=MAP[1],
        footer=_footer(panel, content),
    )


def paint(panel: HeatmapPanel, content: Content, region: style.Region, look: style.Look) -> None:
    """Draw the panel into its region of a figure."""
    norm = LogNorm(panel.lowest, 1)
    colors = matplotlib.colormaps["viridis_r"].with_extremes(under="white", bad="white")
    map_width = _map_width(content)
    edges = np.linspace(0, 100, panel.bins + 1)
    values = _values(content)
    columns = np.arange(len(values) + 1)
    left = style.LEFT
    axes = mesh = None
    for position, one in enumerate(content.series):
        axes = region.axes("axes", left=left, right=region.width - left - map_width)
        shares = np.array(
            [
                np.mean(list(one.shares[value].values()), axis=0) if value in one.shares else np.zeros(panel.bins)
                for value in values
            ]
        )
        mesh = axes.pcolormesh(columns, edges, shares.T, norm=norm, cmap=colors, rasterized=True)
        for index, value in enumerate(values):
            if value not in one.shares:
                axes.axvspan(index, index + 1, facecolor="#f2f2f2", edgecolor="#b5b5b5", hatch="////", linewidth=0)
            count = len(one.shares.get(value, ()))
            axes.annotate(
                str(count),
                (index + 0.5, 1),
                (0, 3),
                xycoords=axes.get_xaxis_transform(),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=style.SMALL,
                color=style.FAINT,
            )
        if position == 0:
            axes.annotate(
                "seeds",
                (0, 1),
                (-3, 3),
                xycoords="axes fraction",
                textcoords="offset points",
                ha="right",
                va="bottom",
                fontsize=style.SMALL,
                color=style.FAINT,
            )
        axes.annotate(
            one.label,
            (0.5, 1),
            (0, 12),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8.5,
        )
        axes.set_yticks([0, 20, 40, 60, 80, 100], None if position == 0 else [""] * 6)
        if position == 0:
            region.label_values(axes, panel.label)
        axes.set_xticks(columns[:-1] + 0.5, _ticks(content))
        axes.set_xlabel(panel.x.label or panel.x.column)
        axes.spines[["top", "right"]].set_visible(True)
        left += map_width + GAP
    if axes is not None and mesh is not None:
        bar = region.axes("axes", left=left - GAP + 0.12, right=region.width - left + GAP - 0.22)
        axes.figure.colorbar(mesh, cax=bar).set_label("Fraction of inputs", fontsize=8)
        bar.minorticks_off()
    region.title(panel.name, panel.title)
    region.footer(_footer(panel, content))


def legend(panel: HeatmapPanel, content: Content, look: style.Look) -> list[tuple[str, Artist]]:
    """Nothing: the colour bar says what the colours mean."""
    return []


def _footer(panel: HeatmapPanel, content: Content) -> str:
    parts = [f"Bins of {style.number(100 / panel.bins)} %", "above: training seeds averaged in each column"]
    parts.append(f"white: less than {style.number(panel.lowest)}")
    if any(value not in one.shares for one in content.series for value in _values(content)):
        parts.append("hatched: no trial")
    parts.extend(content.remarks())
    return "; ".join(parts) + "."
