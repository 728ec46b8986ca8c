"""Boards with the walks of an agent, each of one training."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sweeper.analysis.figures import style
from sweeper.analysis.figures.grids import Grids, whole_number
from sweeper.analysis.figures.selection import NoData
from sweeper.analysis.figures.style import Look
from sweeper.learned_algorithms.figures.panels import BoardPanel

WALKS = (("#1b2a6b", 4.0), ("#35d0e6", 1.6))
"""Colour and width of the two walks: as far apart in lightness as in hue, so that no reader needs the hue."""

TARGET = "#e3000f"


class Boards(Grids[BoardPanel]):
    """Where an agent walks to one target, on one board for each of several seeds r.

    The first walk is a thick dark line, the second a thin bright one on top of it. A black star marks the start, a red
    one the target. Above stands the number of steps of both walks, in the panel's unit, beneath it the seed r. A row of
    the frame is a visited cell, by seed `r` and `walk`; its `value` is the number of the cell.
    """

    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        panel, trial = self.panel, self.one_training(rows)
        height, width = int(trial["rows"].iloc[0]), int(trial["columns"].iloc[0])
        longest = whole_number(rows[rows["trial_id"].isin(trial["trial_id"])], panel.longest)
        row, place = panel.target
        target = (row - 1) * width + place - 1
        if row > height or place > width or target < panel.first:
            raise NoData(f"row {row}, column {place} is no input of a grid of {height} x {width}")
        paths = [self._path(trial["trial_id"].iloc[0], f"{metric}_{seed}", target) for seed in range(panel.boards)]
        visited = [
            (seed, walk, cell)
            for seed, path in enumerate(paths)
            for walk, cells in enumerate(_walks(path, target, longest))
            for cell in cells
        ]
        if not visited:
            raise NoData(f"no outcome '{metric}_0_0' of its inputs was stored")
        return pd.DataFrame(visited, columns=["r", "walk", "value"]).merge(trial, how="cross")

    def _path(self, trial_id: str, name: str, target: int) -> list[int]:
        """The cells reached step by step with one seed r; none if they were not stored."""
        cells: list[int] = []
        while (stored := self.results.outcomes(trial_id, f"{name}_{len(cells)}")) is not None:
            cell = stored[target - self.panel.first]
            if np.isnan(cell) or cell < 0:
                break
            cells.append(int(cell))
        return cells

    def maps(self) -> Iterator[tuple[str, pd.DataFrame]]:
        for (label, _), part in self.frame.groupby(["series", "r"], sort=False):
            steps = style.number((len(part) - part["walk"].nunique()) / self.panel.unit)
            yield f"{label}\n{steps}" if len(self.labels()) > 1 else steps, part

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        for ax, (label, part) in zip(axes, self.maps(), strict=True):
            height, width = part.iloc[0][["rows", "columns"]]
            for axis, size in ((ax.xaxis, width), (ax.yaxis, height)):
                axis.set_ticks(np.arange(size + 1) + 0.5, [""] * (size + 1))
            ax.set(xlim=(0.5, width + 0.5), ylim=(0.5, height + 0.5), xlabel=f"seed {part['r'].iloc[0]}")
            ax.tick_params(length=0)
            ax.grid(True, color="#c8c8c8", linewidth=0.7)
            ax.spines[:].set_visible(True)
            for (_, walk), (color, thickness) in zip(part.groupby("walk"), WALKS, strict=False):
                row, place = np.divmod(walk["value"].to_numpy(), width)
                (line,) = ax.plot(place + 1, row + 1, color=color, linewidth=thickness, zorder=3)
                line.set(solid_joinstyle="round", solid_capstyle="round")
            for (row, place), color in (((1, 1), "black"), (self.panel.target, TARGET)):
                edge = {"markeredgecolor": "white", "markeredgewidth": 0.6}
                ax.plot(place, row, marker="*", markersize=11, color=color, zorder=6, **edge)
            ax.set_title(label)

    def legend(self, look: Look) -> list[tuple[str, Artist]]:
        star = {"linestyle": "none", "marker": "*", "markersize": 8}
        walks = [(f"episode {at + 1}", Line2D([], [], color=color, linewidth=w)) for at, (color, w) in enumerate(WALKS)]
        stars = (("start", "black"), ("target", TARGET))
        return [*((name, Line2D([], [], color=color, **star)) for name, color in stars), *walks]

    def remarks(self) -> list[str]:
        minus = "minus the " if self.panel.unit < 0 else ""
        return [f"Above: {minus}steps of both episodes", f"one training, {self.trainings()}", *self.best]


def _walks(cells: Sequence[int], target: int, longest: int) -> list[list[int]]:
    """The walks of a path, each from cell 0: a walk ends on the target or after its longest number of steps."""
    walks = [[0]]
    for cell in cells:
        walks[-1].append(cell)
        if cell == target or len(walks[-1]) > longest:
            walks.append([0])
    return [walk for walk in walks if len(walk) > 1]
