"""Boards: where an agent walks on a grid with several seeds r, for one target.

Each board shows two walks from the first cell of the grid: the first as a thick dark line, the second as a thin bright
one on top of it. A black star marks the start, a red one the target. Above stands the number of steps of both walks,
in the panel's unit, beneath it the seed r. All boards of a series are one training.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sweeper.analysis.figures import selection, style
from sweeper.analysis.figures.cells import map_width
from sweeper.analysis.figures.drawing import Drawing
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results
from sweeper.panels.kinds import BoardPanel
from sweeper.panels.series import Series

FIRST, SECOND = "#1b2a6b", "#35d0e6"
"""Colours of the two walks: as far apart in lightness as in hue, so that no reader needs the hue."""

TARGET = "#e3000f"


@dataclass(frozen=True)
class Board:
    """One board: the cells (row, column) that each walk visits, its start included, and how many steps both have."""

    label: str
    training_seed: int
    seed: int
    shape: tuple[int, int]
    walks: tuple[np.ndarray, ...]
    steps: int


class Boards(Drawing[BoardPanel, Series, tuple[Board, ...]]):
    """Walks of single trainings."""

    NAME = "Boards"
    SERIES = Series

    @classmethod
    def drawn(
        cls, panel: BoardPanel, results: Results, index: int, series: Series, rows: pd.DataFrame
    ) -> tuple[Board, ...]:
        trial = selection.one_training(rows, panel.seed)
        shape = selection.entry(trial, panel.rows), selection.entry(trial, panel.columns)
        longest = selection.entry(trial, panel.longest)
        row, column = panel.target
        target = (row - 1) * shape[1] + column - 1
        if row > shape[0] or column > shape[1] or target < panel.first:
            raise selection.NoData(f"row {row}, column {column} is no input of a grid of {shape[0]} x {shape[1]}")
        name, trial_id = series.metric or panel.metric, str(trial["trial_id"])
        boards = []
        for seed in range(panel.boards):
            cells = _path(results, trial_id, f"{name}_{seed}", target - panel.first)
            if cells is not None:
                walks = tuple(np.stack(np.divmod(walk, shape[1]), 1) for walk in _walks(cells, target, longest))
                boards.append(Board(series.label, int(trial["seed"]), seed, shape, walks, len(cells)))
        if not boards:
            raise selection.NoData(f"no outcome '{name}_0_0' of its inputs was stored")
        return tuple(boards)

    def _boards(self) -> list[Board]:
        return [board for boards in self.content.series for board in boards]

    def widths(self) -> Sequence[float]:
        return [map_width(board.shape) for board in self._boards()]

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        for ax, board in zip(axes, self._boards(), strict=True):
            _paint_board(ax, board, self.panel.target)
            steps = style.number(board.steps / self.panel.unit)
            text = f"{board.label}\n{steps}" if len(self.content.series) > 1 else steps
            style.above(ax, text, 0.5, 4, fontsize=9, color="black")
            ax.set_xlabel(f"seed {board.seed}")

    def legend(self, look: Look) -> Sequence[tuple[str, Artist]]:
        def star(color: str) -> Line2D:
            return Line2D([], [], linestyle="none", marker="*", markersize=8, color=color)

        return [
            ("start", star("black")),
            ("target", star(TARGET)),
            ("episode 1", Line2D([], [], color=FIRST, linewidth=4.0)),
            ("episode 2", Line2D([], [], color=SECOND, linewidth=1.6)),
        ]

    def remarks(self) -> list[str]:
        seeds = sorted({board.training_seed for board in self._boards()})
        training = f"one training, training seed {' and '.join(map(str, seeds))}"
        return ["Above: steps of both episodes", training, *self.content.best]


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
    walks, walk = [], [0]
    for cell in cells:
        walk.append(int(cell))
        if cell == target or len(walk) > longest:
            walks.append(np.array(walk))
            walk = [0]
    return walks + ([np.array(walk)] if len(walk) > 1 else [])


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
