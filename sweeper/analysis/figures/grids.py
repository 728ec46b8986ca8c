"""Inputs as cells of a grid: maps of an outcome, and boards with the walks of an agent; row 1 is at the bottom.

Each map and each board is one training, because a mean over several would blur what each of them does: where one walk
never leads and another always does, the mean shows a cell that both see now and then.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from sweeper.analysis.figures import selection, style
from sweeper.analysis.figures.drawing import Drawing
from sweeper.analysis.figures.layout import HEIGHT
from sweeper.analysis.figures.selection import NoData, mixed
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results
from sweeper.messages import counted
from sweeper.panels.kinds import BoardPanel, CellsPanel
from sweeper.panels.series import Series

WIDTHS = (0.9, 4.1)  # least and largest width in inches of a map, which otherwise follows from its number of cells
NUMBERED = 8  # largest number of rows and columns whose values are also written into the cells


@dataclass(frozen=True)
class Cells:
    """One map."""

    label: str
    values: np.ndarray  # by row and column; NaN where there is no input
    seed: int  # of its training
    limits: tuple[float | None, float | None]  # of the colours, as far as the panel gives them


class CellMaps(Drawing[CellsPanel, Series, Cells]):
    """An outcome of every input as the colour of its cell, one map a series. A cell without an input is hatched."""

    NAME = "Maps of cells"

    def drawn(self, results: Results, index: int, series: Series, rows: pd.DataFrame) -> Cells:
        panel, trial = self.panel, _one_training(rows, self.panel.seed)
        shape = _whole_number(trial, panel.rows), _whole_number(trial, panel.columns)
        metric = series.metric or panel.metric or ""
        values = results.outcomes(str(trial["trial_id"]), metric)
        if values is None:
            raise NoData(f"the outcome '{metric}' of its inputs was not stored")
        if panel.first + len(values) > np.prod(shape):
            inputs = counted(len(values), "input")
            raise NoData(f"{inputs} from cell {panel.first} on do not fit {shape[0]} x {shape[1]}")
        cells = np.full(np.prod(shape), np.nan)
        cells[panel.first : panel.first + len(values)] = values
        low, high = (float(_whole_number(trial, end)) if isinstance(end, str) else end for end in panel.limits)
        return Cells(series.label, cells.reshape(shape), int(trial["seed"]), (low, high))

    def widths(self) -> Sequence[float]:
        return [map_width(cells.values.shape) for cells in self.series]

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        drawn = self.series
        low = min(np.nanmin(cells.values) if cells.limits[0] is None else cells.limits[0] for cells in drawn)
        high = max(np.nanmax(cells.values) if cells.limits[1] is None else cells.limits[1] for cells in drawn)
        norm = Normalize(low, high, clip=True)
        meshes = [_paint_map(ax, cells, norm) for ax, cells in zip(axes, drawn, strict=True)]
        axes[0].set_ylabel("Row")
        style.color_bar(axes, meshes[0], self.panel.label or self.panel.metric or "")

    def remarks(self) -> list[str]:
        seeds = sorted({cells.seed for cells in self.series})
        parts = [f"One training each, training seed {' and '.join(map(str, seeds))}"]
        if any(np.isnan(cells.values).any() for cells in self.series):
            parts.append("hatched: no input")
        return [*parts, *self.best]


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


# Boards

FIRST, SECOND = "#1b2a6b", "#35d0e6"
"""Colours of the two walks: as far apart in lightness as in hue, so that no reader needs the hue."""

TARGET = "#e3000f"


@dataclass(frozen=True)
class Board:
    """One board."""

    label: str
    training_seed: int
    seed: int
    shape: tuple[int, int]
    walks: tuple[np.ndarray, ...]  # the cells (row, column) that each walk visits, its start included
    steps: int  # of both walks


class Boards(Drawing[BoardPanel, Series, tuple[Board, ...]]):
    """Where an agent walks to one target, on one board for each of several seeds r.

    The first walk is a thick dark line, the second a thin bright one on top of it. A black star marks the start, a red
    one the target. Above stands the number of steps of both walks, in the panel's unit, beneath it the seed r.
    """

    NAME = "Boards"

    def drawn(self, results: Results, index: int, series: Series, rows: pd.DataFrame) -> tuple[Board, ...]:
        panel, trial = self.panel, _one_training(rows, self.panel.seed)
        shape = _whole_number(trial, panel.rows), _whole_number(trial, panel.columns)
        longest = _whole_number(trial, panel.longest)
        row, column = panel.target
        target = (row - 1) * shape[1] + column - 1
        if row > shape[0] or column > shape[1] or target < panel.first:
            raise NoData(f"row {row}, column {column} is no input of a grid of {shape[0]} x {shape[1]}")
        name, trial_id = series.metric or panel.metric, str(trial["trial_id"])
        boards = []
        for seed in range(panel.boards):
            cells = _path(results, trial_id, f"{name}_{seed}", target - panel.first)
            if cells is not None:
                walks = tuple(np.stack(np.divmod(walk, shape[1]), 1) for walk in _walks(cells, target, longest))
                boards.append(Board(series.label, int(trial["seed"]), seed, shape, walks, len(cells)))
        if not boards:
            raise NoData(f"no outcome '{name}_0_0' of its inputs was stored")
        return tuple(boards)

    def _boards(self) -> list[Board]:
        return [board for boards in self.series for board in boards]

    def widths(self) -> Sequence[float]:
        return [map_width(board.shape) for board in self._boards()]

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        for ax, board in zip(axes, self._boards(), strict=True):
            _paint_board(ax, board, self.panel.target)
            steps = style.number(board.steps / self.panel.unit)
            text = f"{board.label}\n{steps}" if len(self.series) > 1 else steps
            style.above(ax, text, 0.5, 4, fontsize=9, color="black")
            ax.set_xlabel(f"seed {board.seed}")

    def legend(self, look: Look) -> Sequence[tuple[str, Artist]]:
        star = {"linestyle": "none", "marker": "*", "markersize": 8}
        return [
            ("start", Line2D([], [], color="black", **star)),
            ("target", Line2D([], [], color=TARGET, **star)),
            ("episode 1", Line2D([], [], color=FIRST, linewidth=4.0)),
            ("episode 2", Line2D([], [], color=SECOND, linewidth=1.6)),
        ]

    def remarks(self) -> list[str]:
        seeds = sorted({board.training_seed for board in self._boards()})
        training = f"one training, training seed {' and '.join(map(str, seeds))}"
        return ["Above: steps of both episodes", training, *self.best]


def _path(results: Results, trial_id: str, name: str, position: int) -> np.ndarray | None:
    """The cells reached step by step with one seed; None if they were not stored."""
    cells = []
    while (column := results.outcomes(trial_id, f"{name}_{len(cells)}")) is not None:
        if np.isnan(column[position]) or column[position] < 0:
            break
        cells.append(int(column[position]))
    return np.array(cells) if cells else None


def _walks(cells: np.ndarray, target: int, longest: int) -> list[np.ndarray]:
    """The walks of a path, each from cell 0: a walk ends on the target or after its longest number of steps."""
    walks = [[0]]
    for cell in cells.tolist():
        walks[-1].append(cell)
        if cell == target or len(walks[-1]) > longest:
            walks.append([0])
    return [np.array(walk) for walk in walks if len(walk) > 1]


def _paint_board(axes: Axes, board: Board, target: tuple[int, int]) -> None:
    rows, columns = board.shape
    axes.set_xlim(0.5, columns + 0.5)
    axes.set_ylim(0.5, rows + 0.5)
    axes.set_xticks(np.arange(columns + 1) + 0.5, [""] * (columns + 1))
    axes.set_yticks(np.arange(rows + 1) + 0.5, [""] * (rows + 1))
    axes.tick_params(length=0)
    axes.grid(True, color="#c8c8c8", linewidth=0.7)
    axes.spines[:].set_visible(True)
    for walk, color, thickness in zip(board.walks, (FIRST, SECOND), (4.0, 1.6), strict=False):
        (line,) = axes.plot(walk[:, 1] + 1, walk[:, 0] + 1, color=color, linewidth=thickness, zorder=3)
        line.set(solid_joinstyle="round", solid_capstyle="round")
    for (row, column), color in (((1, 1), "black"), (target, TARGET)):
        (star,) = axes.plot(column, row, marker="*", markersize=11, color=color, zorder=6)
        star.set(markeredgecolor="white", markeredgewidth=0.6)


def _one_training(rows: pd.DataFrame, seed: int | None) -> pd.Series:
    """The only trial of the training seed `seed`, or of the lowest training seed."""
    seed = int(rows["seed"].min()) if seed is None else seed
    of_seed = rows[rows["seed"] == seed]
    if of_seed.empty:
        raise NoData(f"no finished trial with seed = {seed}")
    if len(of_seed) > 1:
        different = "; ".join(mixed(of_seed, ()))
        raise NoData(f"{counted(len(of_seed), 'trial')} with seed = {seed} differ in {different}; one is wanted")
    return of_seed.iloc[0]


def _whole_number(trial: pd.Series, name: str) -> int:
    """A whole number among the columns of a trial, such as a size of its task."""
    value = trial[selection.column(trial.to_frame().T, name)]
    if not isinstance(value, int | float | np.number) or float(value) != int(value):
        raise NoData(f"'{name}' is {value}, not a whole number")
    return int(value)
