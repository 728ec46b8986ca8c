"""Inputs as cells of a grid; row 1 is at the bottom.

Each map is one training, because a mean over several would blur what each of them does: where one walk never leads and
another always does, the mean shows a cell that both see now and then.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from sweeper.analysis.figures import style
from sweeper.analysis.figures.drawing import Drawing
from sweeper.analysis.figures.selection import NoData, column, mixed
from sweeper.analysis.figures.style import Look
from sweeper.messages import counted
from sweeper.panels.kinds import CellsPanel
from sweeper.panels.panel import GridPanel

WIDTHS = (0.9, 4.1)  # least and largest width in inches of a map, which otherwise follows from its number of cells
NUMBERED = 8  # largest number of rows and columns whose values are also written into the cells

GridT = TypeVar("GridT", bound=GridPanel)


class Grids(Drawing[GridT]):
    """What maps share; the frame has the size of the grid in the columns `rows` and `columns`."""

    def one_training(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The only trial of the panel's training seed, or of the lowest training seed, with the size of its grid."""
        seed = int(rows["seed"].min()) if self.panel.seed is None else self.panel.seed
        of_seed = rows[rows["seed"] == seed]
        if of_seed.empty:
            raise NoData(f"no finished trial with seed = {seed}")
        if len(of_seed) > 1:
            different = "; ".join(mixed(of_seed, ()))
            raise NoData(f"{counted(len(of_seed), 'trial')} with seed = {seed} differ in {different}; one is wanted")
        sizes = {name: whole_number(of_seed, getattr(self.panel, name)) for name in ("rows", "columns")}
        return of_seed[["seed", "trial_id"]].assign(**sizes)

    def trainings(self) -> str:
        """Such as "training seed 0 and 3"."""
        return f"training seed {' and '.join(map(str, sorted(self.frame['seed'].unique())))}"

    def maps(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """What each of the axes shows, with its label."""
        for label in self.labels():
            yield label, self.part(label)

    def widths(self) -> Sequence[float]:
        sizes = [part.iloc[0][["columns", "rows"]] for _, part in self.maps()]
        return [float(np.clip(style.HEIGHT * columns / rows, *WIDTHS)) for columns, rows in sizes]


class CellMaps(Grids[CellsPanel]):
    """An outcome of every input as the colour of its cell, one map a series. A cell without an input is hatched."""

    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        panel, trial = self.panel, self.one_training(rows)
        height, width = int(trial["rows"].iloc[0]), int(trial["columns"].iloc[0])
        values = self.results.outcomes(trial["trial_id"].iloc[0], metric)
        if values is None:
            raise NoData(f"the outcome '{metric}' of its inputs was not stored")
        if panel.first + len(values) > height * width:
            inputs = counted(len(values), "input")
            raise NoData(f"{inputs} from cell {panel.first} on do not fit {height} x {width}")
        row, place = np.divmod(panel.first + np.arange(len(values)), width)
        chosen = rows[rows["trial_id"].isin(trial["trial_id"])]
        low, high = (float(whole_number(chosen, end)) if isinstance(end, str) else end for end in panel.limits)
        low, high = (np.nanmin(values) if low is None else low), (np.nanmax(values) if high is None else high)
        cells = pd.DataFrame({"row": row + 1, "column": place + 1, "value": values, "low": low, "high": high})
        return cells.merge(trial, how="cross")

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        meshes = [self._paint_map(ax, label, part) for ax, (label, part) in zip(axes, self.maps(), strict=True)]
        style.color_bar(axes, meshes[0], self.panel.label or self.panel.metric or "")
        axes[0].set_ylabel("Row")

    def _paint_map(self, ax: Axes, label: str, part: pd.DataFrame) -> Artist:
        height, width = part.iloc[0][["rows", "columns"]]
        sides = range(1, height + 1), range(1, width + 1)
        cells = part.pivot(index="row", columns="column", values="value").reindex(index=sides[0], columns=sides[1])
        limits = {"vmin": self.frame["low"].min(), "vmax": self.frame["high"].max()}
        look = {"cmap": "Blues", "edgecolors": "white", "linewidth": 0.8}
        mesh = ax.pcolormesh(sides[1], sides[0], np.ma.masked_invalid(cells), **limits, **look)
        for (row, place), value in np.ndenumerate(cells.to_numpy(float)):
            if np.isnan(value):
                ax.add_patch(Rectangle((place + 0.5, row + 0.5), 1, 1, **style.HATCHED))
            elif max(height, width) <= NUMBERED:
                shade = "white" if value - limits["vmin"] > 0.6 * (limits["vmax"] - limits["vmin"]) else "black"
                text = f"{value:.1f}".removesuffix(".0")
                ax.text(place + 1, row + 1, text, ha="center", va="center", fontsize=style.SMALL, color=shade)
        ax.set(xticks=sides[1], yticks=sides[0], xlabel="Column")
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_title(label)
        return mesh

    def legend(self, look: Look) -> list[tuple[str, Artist]]:
        return []

    def remarks(self) -> list[str]:
        cells = self.frame.groupby("series").agg({"value": "count", "rows": "first", "columns": "first"})
        hatched = (cells["value"] < cells["rows"] * cells["columns"]).any()
        return [f"One training each, {self.trainings()}", *["hatched: no input"] * bool(hatched), *self.best]


def whole_number(trials: pd.DataFrame, name: str) -> int:
    """A whole number among the columns of a trial, such as a size of its task."""
    value = trials[column(trials, name)].iloc[0]
    if not isinstance(value, int | float | np.number) or float(value) != int(value):
        raise NoData(f"'{name}' is {value}, not a whole number")
    return int(value)
