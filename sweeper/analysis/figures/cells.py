"""Cells: an outcome of every input as the colour of its cell in a grid, one map a series, row 1 at the bottom.

Each map is one training, because a mean over several would blur what each of them does: where one walk never leads and
another always does, the mean shows a cell that both see now and then. A cell without an input is hatched.
"""

from dataclasses import dataclass

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import selection, style
from sweeper.analysis.results import Results
from sweeper.space.panels import CellsPanel, MapSeries

HEIGHT = 2.05
"""Height of the axes, in inches."""
WIDTHS = (0.9, 4.1)
"""Least and largest width of a map, which otherwise follows from its number of cells."""
GAP = 0.3
COLORBAR = 0.82
"""Width of the colour bar with its gap and its labels."""
NUMBERED = 8
"""Largest number of rows and columns whose values are also written into the cells."""


@dataclass(frozen=True)
class Cells:
    """One map: the value of every cell, NaN where there is no input, and the training seed that it is of."""

    label: str
    values: np.ndarray
    seed: int


Content = selection.Content[Cells]


def gather(panel: CellsPanel, results: Results) -> Content:
    """The maps of a panel, with a note for every series that has none."""

    def drawn(index: int, one: MapSeries, rows: pd.DataFrame) -> Cells:
        trial = selection.one_training(rows, panel.seed)
        shape = selection.entry(trial, panel.rows), selection.entry(trial, panel.columns)
        metric = one.metric or panel.metric
        values = results.outcomes(str(trial["trial_id"]), metric)
        if values is None:
            raise selection.NoData(f"the outcome '{metric}' of its inputs was not stored")
        if panel.first + len(values) > np.prod(shape):
            raise selection.NoData(
                f"{len(values)} inputs from cell {panel.first} on do not fit {shape[0]} x {shape[1]}"
            )
        cells = np.full(np.prod(shape), np.nan)
        cells[panel.first : panel.first + len(values)] = values
        return Cells(one.label, cells.reshape(shape), int(trial["seed"]))

    return selection.gathered(panel, panel.series, MapSeries, results, drawn)


def compare(panel: CellsPanel, content: Content) -> list[Comparison]:
    """Nothing: colours of a published map cannot be read off to any useful precision."""
    return []


# --------------------------------------------------------------------------------------------------------------------
# Drawing
# --------------------------------------------------------------------------------------------------------------------


def map_width(shape: tuple[int, ...]) -> float:
    """Width of a map of so many rows and columns, in inches."""
    return float(np.clip(HEIGHT * shape[1] / shape[0], *WIDTHS))


def width(panel: CellsPanel, content: Content) -> float:
    """Width of the panel in inches."""
    maps = sum(map_width(one.values.shape) + GAP for one in content.series)
    return style.LEFT - GAP + maps + COLORBAR


def frame(panel: CellsPanel, content: Content) -> style.Frame:
    return style.frame(
        width(panel, content),
        panel.name,
        panel.title,
        count_lines=2,
        axes=HEIGHT,
        footer=_footer(content),
    )


def paint(panel: CellsPanel, content: Content, region: style.Region, look: style.Look) -> None:
    """Draw the panel into its region of a figure."""
    low, high = panel.limits
    seen = np.concatenate([one.values.ravel() for one in content.series])
    norm = Normalize(np.nanmin(seen) if low is None else low, np.nanmax(seen) if high is None else high, clip=True)
    colors = matplotlib.colormaps["Blues"]
    left, mesh = style.LEFT, None
    for position, one in enumerate(content.series):
        room = map_width(one.values.shape)
        axes = region.axes("axes", left=left, right=region.width - left - room)
        rows, columns = one.values.shape
        mesh = axes.pcolormesh(
            np.arange(columns + 1) + 0.5, np.arange(rows + 1) + 0.5, np.ma.masked_invalid(one.values), norm=norm,
            cmap=colors, edgecolors="white", linewidth=0.8,
        )  # fmt: skip
        axes.set_aspect("equal")
        for row, column in np.ndindex(rows, columns):
            value = one.values[row, column]
            if np.isnan(value):
                corner = (column + 0.5, row + 0.5)
                axes.add_patch(
                    Rectangle(corner, 1, 1, facecolor="#f2f2f2", edgecolor="#b5b5b5", hatch="////", linewidth=0)
                )
            elif max(rows, columns) <= NUMBERED:
                shade = "white" if norm(value) > 0.6 else "black"
                text = f"{value:.1f}".removesuffix(".0")
                axes.text(column + 1, row + 1, text, ha="center", va="center", fontsize=style.SMALL, color=shade)
        axes.set_xticks(range(1, columns + 1))
        axes.set_yticks(range(1, rows + 1))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.annotate(
            one.label,
            (0.5, 1),
            (0, 5),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8.5,
        )
        axes.set_xlabel("Column")
        if position == 0:
            region.label_values(axes, "Row")
        left += room + GAP
    if mesh is not None:
        bar = region.axes("axes", left=left - GAP + 0.14, right=region.width - left + GAP - 0.24)
        label = panel.label or panel.metric
        region.figure.colorbar(mesh, cax=bar).set_label(label, fontsize=8)
        bar.minorticks_off()
    region.title(panel.name, panel.title)
    region.footer(_footer(content))


def legend(panel: CellsPanel, content: Content, look: style.Look) -> list[tuple[str, Artist]]:
    """Nothing: the colour bar says what the colours mean."""
    return []


def _footer(content: Content) -> str:
    seeds = sorted({one.seed for one in content.series})
    parts = [f"One training each, training seed {' and '.join(map(str, seeds))}"]
    if any(np.isnan(one.values).any() for one in content.series):
        parts.append("hatched: no input")
    return "; ".join([*parts, *content.best]) + "."
