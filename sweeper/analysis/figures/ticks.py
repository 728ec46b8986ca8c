"""Ticks of an axis of numbers: as many as have room for their labels, whatever the range, the labels and the size.

Labels are measured when a figure is drawn, as only then its layout has given each axis its length.
"""

import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter, Locator, MaxNLocator, NullFormatter, NullLocator

from sweeper.analysis.figures.style import number

Scale = Literal["linear", "log"]

MOST = {"linear": 6, "log": 8}
"""Largest number of intervals between ticks, or of ticks of a logarithmic axis."""

PARTS = (range(1, 10), (1, 2, 3, 5), (1, 2, 5), (1, 3))
"""Ticks in each decade, the finest first."""

FEW = 3  # ticks of the finest parts that show a logarithmic scale; an axis with fewer has even steps
GAP = 0.5  # least distance between two labels, in heights of the font


def scale(axes: Axes, name: Literal["x", "y"], scale: Scale) -> None:
    """Give an axis its scale, with round ticks: the finest of which all labels have room."""
    axis = axes.xaxis if name == "x" else axes.yaxis
    with warnings.catch_warnings(action="ignore"):  # where no number is positive, a note says so
        axes.set(**{f"{name}scale": scale})
    axis.set_major_locator(Ticks(scale, _in_decades if scale == "log" else _even))
    if scale == "log":
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, digits=6)))
        axis.set_minor_formatter(NullFormatter())


def label(axes: Axes, scale: Scale, labels: Mapping[float, str]) -> None:
    """Give the horizontal axis its scale, with ticks at places of the data alone: those whose labels have room."""
    axes.set_xscale(scale)
    axes.xaxis.set_major_locator(Ticks(scale, lambda low, high: [list(labels)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda place, _: labels.get(float(place), "")))
    axes.xaxis.set_minor_locator(NullLocator())


class Ticks(Locator):
    """The first of some choices of rising ticks, by the ends of the axis, whose labels all have room, else the most."""

    axis: Any

    def __init__(self, scale: Scale, choices: Callable[[float, float], Iterable[Sequence[float]]]):
        self._scale, self._choices = scale, choices

    def __call__(self) -> Sequence[float]:
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        low, high = sorted((vmin, vmax))
        most: list[float] = []
        for choice in self._choices(low, high):
            places = [float(place) for place in choice if low <= place <= high]
            shown = self._with_room(places, low, high) if places else []
            if 1 < len(places) == len(shown) <= MOST["log"]:
                return shown
            most = max(most, shown, key=len)
        return most

    def _with_room(self, places: Sequence[float], low: float, high: float) -> list[float]:
        """Those of some rising places whose labels do not run into the label before them."""
        across = self.axis.axis_name == "x"
        box, figure = self.axis.axes.bbox, self.axis.axes.get_figure(root=True)
        length = (box.width if across else box.height) * 72 / figure.dpi
        size = FontProperties(size=matplotlib.rcParams["xtick.labelsize"]).get_size_in_points()
        along = np.log if self._scale == "log" else np.asarray
        low, high = float(along(low)), float(along(high))
        middles = (along(np.asarray(places, float)) - low) / ((high - low) or 1) * length
        texts = self.axis.get_major_formatter().format_ticks(places)
        shown, end = list[float](), -math.inf
        for place, middle, text in zip(places, middles, texts, strict=True):
            half = ((_width(text, size) if across else size) + GAP * size) / 2
            if middle - half >= end:
                shown.append(float(place))
                end = middle + half
        return shown


@functools.lru_cache(4096)
def _width(text: str, size: float) -> float:
    """The width of a label in points."""
    return TextPath((0, 0), text, size=size).get_extents().width if text.strip() else 0.0


def _even(low: float, high: float) -> Iterator[Sequence[float]]:
    """Ticks at even round steps, the finest first."""
    for most in range(MOST["linear"], 0, -1):
        yield MaxNLocator(most, steps=[1, 2, 2.5, 5, 10], min_n_ticks=1).tick_values(low, high)


def _in_decades(low: float, high: float) -> Iterator[Sequence[float]]:
    """Ticks of a logarithmic axis, the finest first: parts of decades, or every so many decades.

    Losses of one figure may span less than a decade, whose round numbers would be too few.
    """
    if not 0 < low < high:
        return
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    parts = [[factor * 10.0**decade for decade in decades for factor in factors] for factors in PARTS]
    if sum(low <= tick <= high for tick in parts[0]) < FEW:
        yield from _even(low, high)
        return
    yield from parts
    for every in range(1, len(decades) + 1):
        offsets = ([10.0**decade for decade in decades if decade % every == offset] for offset in range(every))
        yield max(offsets, key=lambda places: sum(low <= place <= high for place in places))
