"""The settings of a search as lines across parallel axes, one axis for every entry that differs and one for the metric.

The colour of a line is the rank of its setting: the darker the better, and the best is thick and red.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sweeper.analysis.figures.layout import DOTS_PER_INCH, save, show_texts
from sweeper.analysis.figures.style import FAINT, PALETTES, PaletteName, Scale, number
from sweeper.analysis.importance import logarithmic_entries, tried_entries, used_entries, values_of
from sweeper.analysis.ranking import Ranking
from sweeper.analysis.results import is_number
from sweeper.analysis.table import value_text
from sweeper.messages import counted
from sweeper.space.sweep_spec import SweepSpec
from sweeper.trial.entry_names import column_name

MAX_AXES = 12  # largest number of axes that a reader can distinguish on one canvas
WIDTH, HEIGHT = 1.35, 3.4  # inches from one axis to the next, and of the canvas
NONE = -0.12  # where a setting stands on the axis of an entry that it does not use
DECADES = 2  # A positive metric that spans at least this number of powers of ten has a logarithmic axis


class ParallelAxis(NamedTuple):
    """One of the parallel axes: heights between 0 and 1 of all settings, `NONE` without a value, and of the ticks."""

    title: str
    places: np.ndarray
    ticks: Sequence[tuple[float, str]]


def axes_of(ranked: Ranking, space: SweepSpec) -> list[ParallelAxis]:
    """The axes of a search: the entries that differ between its settings, and last the metric."""
    records = [used_entries(each.setting.entries) for each in ranked.ranked]
    paths = tried_entries(records)[: MAX_AXES - 1]
    logarithmic = logarithmic_entries(space)
    entries = [_entry_axis(path, records, path in logarithmic) for path in paths]
    means = np.array([each.mean.mean for each in ranked.ranked])
    wide = bool((means > 0).all()) and means.max() >= 10.0**DECADES * means.min()
    return [*entries, _number_axis(ranked.goal.metric, means, wide)]


def _entry_axis(path: str, records: Sequence[Mapping[str, Any]], logarithmic: bool) -> ParallelAxis:
    name, values = column_name(path), values_of(records, path)
    if len(values) > 2 and all(map(is_number, values)) and all(map(math.isfinite, values)):
        return _number_axis(name, np.array([record.get(path, math.nan) for record in records], float), logarithmic)
    heights = np.linspace(0, 1, len(values) + 2)[1:-1]
    places = np.array([heights[values.index(record[path])] if path in record else NONE for record in records])
    return _axis(name, places, list(zip(map(float, heights), map(value_text, values), strict=True)))


def _axis(name: str, places: np.ndarray, ticks: list[tuple[float, str]]) -> ParallelAxis:
    """With a tick for settings without a value, if there are any."""
    return ParallelAxis(name, places, [*ticks, (NONE, "none")] if (places == NONE).any() else ticks)


def _number_axis(name: str, values: np.ndarray, logarithmic: bool) -> ParallelAxis:
    scale = Scale.over(values, logarithmic and bool((values[~np.isnan(values)] > 0).all()))
    places = np.where(np.isnan(values), NONE, scale.place(values))
    return _axis(name, places, [(place, number(value)) for place, value in scale.ticks()])


def draw(ranked: Ranking, space: SweepSpec, folder: Path, palette: PaletteName = "paper") -> list[Path]:
    """Write the figure of at least one setting as `parallel-coordinates.png` and `.pdf` into a folder, and return both.

    The colour of the best setting comes from the palette.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return save(lambda: _figure(ranked, space, PALETTES[palette].shade("red", 0)), folder / "parallel-coordinates")


def _figure(ranked: Ranking, space: SweepSpec, best: str) -> Figure:
    axes = axes_of(ranked, space)
    figure = Figure(figsize=(WIDTH * (len(axes) - 1) + 1.8, HEIGHT), dpi=DOTS_PER_INCH, layout="constrained")
    _paint(figure.subplots(), axes, best)
    listed = f"{counted(len(ranked.ranked), 'setting')} of {space.name} by {ranked.goal.text()}"
    figure.suptitle(f"{listed}; the darker the better, the best in red", x=0.01, ha="left", fontsize=9)
    show_texts(figure)
    return figure


def _paint(canvas: Axes, axes: Sequence[ParallelAxis], best: str) -> None:
    heights = np.stack([axis.places for axis in axes], axis=1)
    count = len(heights)
    shades = matplotlib.colormaps["viridis"](np.linspace(0, 0.95, count))
    faint = min(1.0, max(0.25, 30 / count))
    for place in range(count - 1, -1, -1):  # the best line last, above all others
        look: dict[str, Any] = {"color": shades[place], "linewidth": 0.9, "alpha": faint, "zorder": 2}
        if place == 0:
            look = {"color": best, "linewidth": 2.2, "zorder": 4}
        canvas.plot(range(len(axes)), heights[place], marker="o", markersize=2.5, **look)
    for place, axis in enumerate(axes):
        canvas.axvline(place, color=FAINT, linewidth=0.8, zorder=3)
        for height, text in axis.ticks:
            canvas.annotate(
                text, (place, height), (4, 0), textcoords="offset points", va="center", fontsize=7.5, zorder=5,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
            )  # fmt: skip
    canvas.set_xticks(range(len(axes)), [axis.title for axis in axes])
    canvas.set_xlim(-0.15, len(axes) - 1 + 0.45)
    canvas.set_ylim(heights.min() - 0.04, 1.04)
    canvas.tick_params(axis="x", length=0)
    canvas.yaxis.set_visible(False)
    canvas.spines[:].set_visible(False)
