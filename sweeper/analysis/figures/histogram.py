"""Histograms over inputs: which share of the inputs has which success.

Overlaid, each training seed makes a histogram of its own; the bars are their mean, and where there are several the
single seeds stand as faint markers. Published shares are crosses, a published place of the fullest bin a triangle on
the axis, also of histograms of which nothing is measured yet.

As heat maps there is a histogram for every value of a column, side by side, one map a series. The colour is the share
of inputs, averaged over training seeds, on a logarithmic scale; white is less than its lowest value. A value of the
column for which a series has no trial is hatched, so that it cannot be taken for an empty one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm, to_rgba
from matplotlib.patches import Patch
from matplotlib.textpath import TextPath

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import references, style
from sweeper.analysis.figures.drawing import Drawing
from sweeper.analysis.figures.selection import NoData, column
from sweeper.analysis.figures.style import Look, number
from sweeper.analysis.results import Results
from sweeper.messages import counted
from sweeper.panels.axes import Color
from sweeper.panels.checks import is_text
from sweeper.panels.kinds import HeatmapPanel, HistogramPanel
from sweeper.panels.series import ColoredSeries, Series


@dataclass(frozen=True)
class Bars:
    """One histogram, and the trials behind it."""

    index: int
    label: str
    color: Color | None
    edges: np.ndarray  # of its bins in 0..1
    shares: dict[int, np.ndarray]  # of the inputs in each bin, for each training seed
    rows: pd.DataFrame

    def mean(self) -> np.ndarray:
        return np.mean(list(self.shares.values()), axis=0)


class Histograms(Drawing[HistogramPanel, ColoredSeries, Bars]):
    """Histograms of an outcome."""

    NAME = "Histograms"
    SERIES = ColoredSeries

    def drawn(self, results: Results, index: int, series: ColoredSeries, rows: pd.DataFrame) -> Bars:
        metric = series.metric or self.panel.metric or ""
        edges = edges_of(results, rows, metric, self.panel.bins)
        shares = shares_by_seed(results, rows, metric, edges)
        return Bars(index, series.label, series.color, edges, shares, rows)

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        (ax,) = axes
        for bars in self.series:
            self._paint_bars(ax, bars, look)
        self._paint_published(ax, look)
        ax.set_xlim(-2, 102)
        ax.set_xticks([0, 20, 40, 60, 80, 100])
        ax.set_xlabel(self.panel.label)
        ax.set_ylabel(self.panel.y.label)
        ax.set_yscale(self.panel.y.scale)
        if self.panel.y.limits:
            ax.set_ylim(*self.panel.y.limits)
        elif self.panel.y.scale == "linear":
            ax.set_ylim(bottom=0)
        ax.grid(True, axis="y")

    def _paint_bars(self, ax: Axes, bars: Bars, look: Look) -> None:
        shade, factor = look.shade(bars.color, bars.index), self.panel.y.factor
        mean, edges, centres = bars.mean() * factor, 100 * bars.edges, 100 * _centres(bars.edges)
        ax.stairs(mean, edges, fill=True, facecolor=to_rgba(shade, 0.3), zorder=2)
        # Bins that are empty in every seed get no outline: a line along zero says nothing and hides the next series.
        ax.stairs(np.where(mean > 0, mean, np.nan), edges, color=shade, linewidth=1.1, baseline=0, zorder=3)
        for shares in bars.shares.values() if len(bars.shares) > 1 else ():
            seen = shares > 0
            marker = look.marker(bars.index)
            style.dots(ax, centres[seen], shares[seen] * factor, shade, marker, 2.6, alpha=0.45, zorder=4)

    def _paint_published(self, ax: Axes, look: Look) -> None:
        shades = references.shades(self.panel, self.series, look)
        for reference in self.panel.published:
            shade, edges = shades[reference.series], self._edges(reference.series)
            for at, value in reference.fractions.items():
                place = 100 * float(_centres(edges)[_bin(at, edges)])
                references.paint_cross(ax, place, value * self.panel.y.factor, shade)
            if reference.peak is not None:
                on_axis = {"transform": ax.get_xaxis_transform(), "clip_on": False, "zorder": 7}
                edge = {"markeredgecolor": "white", "markeredgewidth": 0.6}
                ax.plot([reference.peak * 100], [0.03], "v", markersize=5.5, color=shade, **edge, **on_axis)

    def _edges(self, label: str) -> np.ndarray:
        """Edges of the bins of a series; of a series without trials, the edges of default bins."""
        return next(
            (bars.edges for bars in self.series if bars.label == label),
            bin_edges(np.empty(0), self.panel.bins or BINS),
        )

    def legend(self, look: Look) -> Sequence[tuple[str, Artist]]:
        entries: list[tuple[str, Artist]] = []
        for bars in self.series:
            shade = look.shade(bars.color, bars.index)
            patch = Patch(facecolor=to_rgba(shade, 0.3), edgecolor=shade, linewidth=1.1)
            entries.append((f"{bars.label} ({counted(len(bars.shares), 'seed')})", patch))
        entries += references.published_only(self.panel, self.series, look)
        if any(reference.fractions for reference in self.panel.published):
            entries.append(("published", references.handle("x")))
        if any(reference.peak is not None for reference in self.panel.published):
            entries.append(("published peak", references.handle("v")))
        return entries

    def remarks(self) -> list[str]:
        described: dict[str, list[str]] = {}
        for bars in self.series:
            described.setdefault(bins_text(bars.edges), []).append(style.plain(bars.label))
        texts = [f"{', '.join(labels)}: {text}" if len(described) > 1 else text for text, labels in described.items()]
        bins = "; ".join(texts)
        parts = [bins[0].upper() + bins[1:]]
        if any(len(bars.shares) > 1 for bars in self.series):
            parts.append("bars: mean over training seeds; faint markers: single seeds")
        return [*parts, *self.choice_remarks()]

    def compare(self) -> list[Comparison]:
        measured = {bars.label: bars for bars in self.series}
        compared = []
        for reference in self.panel.published:
            bars = measured.get(reference.series)
            shares, rows = ({}, None) if bars is None else (bars.shares, bars.rows)
            for at, published in sorted(reference.fractions.items()):
                place = _bin(at, self._edges(reference.series))
                by_seed = {seed: float(values[place]) for seed, values in shares.items()}
                about = self.panel, reference, "fraction of inputs", at, published, by_seed, rows
                compared.append(references.compared(*about, percent=True))
            if reference.peak is not None:
                peaks = {} if bars is None else {seed: _peak(values, bars.edges) for seed, values in shares.items()}
                # The peak of the histogram that is drawn: the mean of the seeds' peaks may lie where no input is.
                peak = None if bars is None else _peak(bars.mean(), bars.edges)
                about = self.panel, reference, "fullest bin", None, reference.peak, peaks, rows
                compared.append(references.compared(*about, measured=peak, percent=True))
        return compared


def _bin(value: float, edges: np.ndarray) -> int:
    return int(bin_index(np.array([value]), edges)[0])


def _centres(edges: np.ndarray) -> np.ndarray:
    return (edges[:-1] + edges[1:]) / 2


def _peak(shares: np.ndarray, edges: np.ndarray) -> float:
    """Centre of the fullest bin."""
    return float(_centres(edges)[shares.argmax()])


# Heat maps

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
        x = column(rows, self.panel.x.column)
        metric = series.metric or self.panel.metric or ""
        edges = edges_of(results, rows, metric, self.panel.bins)
        columns, reason = {}, NoData(f"no trial has a value of '{x}'")
        for value, group in rows.groupby(x):
            try:
                columns[value] = shares_by_seed(results, group, metric, edges)
            except NoData as caught:
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
        return [value if isinstance(value, str) else number(value) for value in self._values()]

    def widths(self) -> Sequence[float]:
        size = style.RC["xtick.labelsize"]
        ticks = [tick if is_text(tick) else tick.replace("$", r"\$") for tick in self._ticks()]
        longest = max(TextPath((0, 0), tick, size).get_extents().width for tick in ticks)
        return [max(MAP, len(self._ticks()) * max(COLUMN, (longest + size / 2) / 72))] * len(self.series)

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        meshes = [self._paint_map(ax, part) for ax, part in zip(axes, self.series, strict=True)]
        for ax in axes:
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
        style.above(ax, part.label, 0.5, 12, fontsize=9, color="black")
        return mesh

    def remarks(self) -> list[str]:
        parts = list(dict.fromkeys(bins_text(part.edges) for part in self.series))
        parts.append("above: training seeds averaged in each column")
        parts.append(f"white: less than {number(self.panel.lowest)}")
        if any(value not in part.shares for part in self.series for value in self._values()):
            parts.append("hatched: no trial")
        if (count := len(self._every_value())) > MOST_COLUMNS:
            parts.append(f"{MOST_COLUMNS} of {count:,} columns")
        return [parts[0][0].upper() + parts[0][1:], *parts[1:], *self.choice_remarks()]


# Bins that the values of a column can fill

# A success is a share of seeds or of votes, so that it has few values: votes of 5 among 100 seeds reach multiples of
# 5 % only, and leave every fifth bin of 4 % empty. Such a column gets one bin for each of its values.

BINS = 25  # number of equal bins, unless a panel gives another or the values cannot fill them

FEWEST, MOST = 10, 50
"""Steps between 0 and 1 for which every value gets a bin: with fewer, values stand apart in any bins; with more, equal
bins hold two values or more."""

SLACK = 4e-6
"""Shares of seeds are of single precision, so that 0.29 is a little below 29 %: they must not slip into a neighbour."""


def bin_edges(values: np.ndarray, bins: int | None) -> np.ndarray:
    """The edges of the bins of [0, 1] for a column with these different values; `bins` equal ones if that is given."""

    def fit(steps: int) -> bool:
        """Whether all values lie on so many equal steps from 0 to 1."""
        return bool(np.all(np.abs(values * steps - np.round(values * steps)) < 1e-4))

    steps = next(filter(fit, range(1, MOST + 1)), 0)
    if bins is None and steps >= FEWEST and steps % BINS:
        return np.concatenate([[0.0], (np.arange(steps) + 0.5) / steps, [1.0]])
    return np.linspace(0, 1, (bins or BINS) + 1)


def bin_index(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The bin of each value; the value 1 is in the last bin."""
    return np.searchsorted(edges[1:-1], np.asarray(values) + SLACK, side="right")


def edges_of(results: Results, rows: pd.DataFrame, name: str, count: int | None) -> np.ndarray:
    """As `bin_edges`, for an outcome of these trials; raises `NoData` if no trial has stored it."""
    stored = [results.distribution(str(trial_id), name) for trial_id in rows["trial_id"]]
    values = [distribution[0] for distribution in stored if distribution is not None]
    if not values:
        raise NoData(f"the outcome '{name}' of its inputs was not stored")
    return bin_edges(np.unique(np.concatenate(values)), count)


def shares_by_seed(results: Results, rows: pd.DataFrame, name: str, edges: np.ndarray) -> dict[int, np.ndarray]:
    """Shares of the inputs in each bin for each training seed, shape `(bins,)`; raises `NoData` if none is stored."""
    by_seed: dict[int, list[np.ndarray]] = {}
    for trial_id, seed in zip(rows["trial_id"], rows["seed"], strict=True):
        distribution = results.distribution(str(trial_id), name)
        if distribution is not None:
            values, counts = distribution
            filled = np.bincount(bin_index(values, edges), weights=counts, minlength=len(edges) - 1)
            by_seed.setdefault(int(seed), []).append(filled / counts.sum())
    if not by_seed:
        raise NoData(f"the outcome '{name}' of its inputs was not stored")
    return {seed: np.mean(histograms, axis=0) for seed, histograms in sorted(by_seed.items())}


def bins_text(edges: np.ndarray) -> str:
    """Such as "bins of 4 %"."""
    if np.isclose(edges[1], edges[2] - edges[1]):
        return f"bins of {number(100 * edges[1])} %"
    return f"a bin for each of {len(edges) - 1} values"
