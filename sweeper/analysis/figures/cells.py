"""Cells: an outcome of every input as the colour of its cell in a grid, one map a series, row 1 at the bottom.

Each map is one training, because a mean over several would blur what each of them does: where one walk never leads and
another always does, the mean shows a cell that both see now and then. A cell without an input is hatched.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from sweeper.analysis.figures import selection, style
from sweeper.analysis.figures.drawing import Drawing
from sweeper.analysis.figures.layout import HEIGHT
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results
from sweeper.messages import counted
from sweeper.panels.kinds import CellsPanel
from sweeper.panels.series import Series

WIDTHS = (0.9, 4.1)
"""Least and largest width in inches of a map, which otherwise follows from its number of cells."""

NUMBERED = 8
"""Largest number of rows and columns whose values are also written into the cells."""


@dataclass(frozen=True)
class Cells:
    """One map: the value of every cell, NaN where there is no input, and the training seed that it is of.

    `limits` are those of the colours, as far as the panel gives them.
    """

    label: str
    values: np.ndarray
    seed: int
    limits: tuple[float | None, float | None]


class CellMaps(Drawing[CellsPanel, Series, Cells]):
    """Outcomes as colours of a grid."""

    NAME = "Maps of cells"
    SERIES = Series

    @classmethod
    def drawn(cls, panel: CellsPanel, results: Results, index: int, series: Series, rows: pd.DataFrame) -> Cells:
        trial = selection.one_training(rows, panel.seed)
        shape = selection.entry(trial, panel.rows), selection.entry(trial, panel.columns)
        metric = series.metric or panel.metric or ""
        values = results.outcomes(str(trial["trial_id"]), metric)
        if values is None:
            raise selection.NoData(f"the outcome '{metric}' of its inputs was not stored")
        if panel.first + len(values) > np.prod(shape):
            raise selection.NoData(
                f"{counted(len(values), 'input')} from cell {panel.first} on do not fit {shape[0]} x {shape[1]}"
            )
        cells = np.full(np.prod(shape), np.nan)
        cells[panel.first : panel.first + len(values)] = values
        low, high = (float(selection.entry(trial, end)) if isinstance(end, str) else end for end in panel.limits)
        return Cells(series.label, cells.reshape(shape), int(trial["seed"]), (low, high))

    def widths(self) -> Sequence[float]:
        return [map_width(cells.values.shape) for cells in self.content.series]

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        drawn = self.content.series
        low = min(np.nanmin(cells.values) if cells.limits[0] is None else cells.limits[0] for cells in drawn)
        high = max(np.nanmax(cells.values) if cells.limits[1] is None else cells.limits[1] for cells in drawn)
        norm = Normalize(low, high, clip=True)
        meshes = [_paint_map(ax, cells, norm) for ax, cells in zip(axes, drawn, strict=True)]
        axes[0].set_ylabel("Row")
        style.color_bar(axes, meshes[0], self.panel.label or self.panel.metric or "")

    def remarks(self) -> list[str]:
        seeds = sorted({cells.seed for cells in self.content.series})
        parts = [f"One training each, training seed {' and '.join(map(str, seeds))}"]
        if any(np.isnan(cells.values).any() for cells in self.content.series):
            parts.append("hatched: no input")
        return [*parts, *self.content.best]


def map_width(shape: tuple[int, ...]) -> float:
    """Width of a map of so many rows and columns, in inches."""
    return float(np.clip(HEIGHT * shape[1] / shape[0], *WIDTHS))


def _paint_map(ax: Axes, cells: Cells, norm: Normalize) -> QuadMesh:
    rows, columns = cells.values.shape
    mesh = ax.pcolormesh(
        np.arange(columns + 1) + 0.5, np.arange(rows + 1) + 0.5, np.ma.masked_invalid(cells.values), norm=norm,
        cmap="Blues", edgecolors="white", linewidth=0.8,
    )  # fmt: skip
    for row, column in np.ndindex(rows, columns):
        value = cells.values[row, column]
        if np.isnan(value):
            ax.add_patch(Rectangle((column + 0.5, row + 0.5), 1, 1, **style.HATCHED))
        elif max(rows, columns) <= NUMBERED:
            shade = "white" if norm(value) > 0.6 else "black"
            text = f"{value:.1f}".removesuffix(".0")
            ax.text(column + 1, row + 1, text, ha="center", va="center", fontsize=style.SMALL, color=shade)
    ax.set_xticks(range(1, columns + 1))
    ax.set_yticks(range(1, rows + 1))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    style.above(ax, cells.label, 0.5, 5, fontsize=9, color="black")
    ax.set_xlabel("Column")
    return mesh
