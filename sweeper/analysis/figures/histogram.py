"""Histograms over inputs: which share of the inputs has which value of an outcome, such as an accuracy.

Overlaid, each training seed makes a histogram of its own; the bars are their mean, and where there are several the
single seeds stand as faint markers. Published shares are crosses, a published place of the fullest bin a triangle on
the axis, also of histograms of which nothing is measured yet.

As heat maps there is a histogram for every value of a column, side by side, one map a series. The colour is the share
of inputs, averaged over training seeds, on a logarithmic scale; white is less than its lowest value. A value of the
column for which a series has no trial is hatched, so that it cannot be taken for an empty one.

In the frame of both a row is a bin of a trial, which begins at `low` in 0..1; its `value` is the share of the inputs.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, to_rgba
from matplotlib.patches import Patch

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import style
from sweeper.analysis.figures.drawing import COLUMNS, Drawing, by_seed, mark, over_seeds
from sweeper.analysis.figures.selection import NoData, column
from sweeper.analysis.figures.style import Look, number, value_label
from sweeper.analysis.results import Results
from sweeper.messages import counted
from sweeper.panels.kinds import HeatmapPanel, HistogramPanel
from sweeper.panels.series import PublishedHistogram
from sweeper.trial.entry_names import value_order

PERCENTS = [0, 20, 40, 60, 80, 100]  # ticks of an outcome


class Histograms(Drawing[HistogramPanel]):
    """Histograms of an outcome."""

    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        return shares(self.results, rows, metric, self.panel.bins)

    def arranged(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.reindex(columns=[*COLUMNS, "low"])

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        (ax,), looks, y = axes, self.looks(look), self.panel.y
        for label in self.labels():
            (shade, marker), seeds = looks[label], by_seed(self.part(label), ["low"])
            bars = over_seeds(seeds, ["low"])
            mean, edges = bars["mean"].to_numpy() * y.factor, 100 * self.edges
            ax.stairs(mean, edges, fill=True, facecolor=to_rgba(shade, 0.3), zorder=2)
            # Bins that are empty in every seed get no outline: a line along zero says nothing and hides others.
            ax.stairs(np.where(mean > 0, mean, np.nan), edges, color=shade, linewidth=1.1, zorder=3)
            if bars["count"].max() > 1:
                seen = seeds[seeds["value"] > 0]
                at = 100 * self._centre(seen["low"])
                style.dots(ax, at, seen["value"] * y.factor, shade, marker, 2.6, alpha=0.45, zorder=4)
        for reference in self.published:
            shade = looks[reference.series][0]
            for at, value in reference.fractions.items():
                low = self.edges[bin_index(at, self.edges)]
                style.cross(ax, 100 * self._centre(low), value * y.factor, shade)
            if reference.peak is not None:
                on_axis = {"transform": ax.get_xaxis_transform(), "clip_on": False, "zorder": 7}
                edge = {"markeredgecolor": "white", "markeredgewidth": 0.6}
                ax.plot([reference.peak * 100], [0.03], "v", markersize=5.5, color=shade, **edge, **on_axis)
        ax.set(xlim=(-2, 102), xticks=PERCENTS, xlabel=outcome_label(self), ylabel=y.label, yscale=y.scale)
        if y.limits:
            ax.set_ylim(*y.limits)
        elif y.scale == "linear":
            ax.set_ylim(bottom=0)
        ax.grid(True, axis="y")

    @property
    def edges(self) -> np.ndarray:
        return np.linspace(0, 1, self.panel.bins + 1)

    def _centre(self, low: Any) -> Any:
        """The centre of bins from their lower ends."""
        return low + 0.5 / self.panel.bins

    def entry(self, label: str) -> str:
        return f"{label} ({counted(self.part(label)['seed'].nunique(), 'seed')})"

    def handle(self, label: str, shade: str, marker: str) -> Artist:
        return Patch(facecolor=to_rgba(shade, 0.3), edgecolor=shade, linewidth=1.1)

    def legend(self, look: Look) -> list[tuple[str, Artist]]:
        published = self.published
        crosses = [("published", mark("x"))] * any(reference.fractions for reference in published)
        peaks = [("published peak", mark("v"))] * any(reference.peak is not None for reference in published)
        return [*super().legend(look), *crosses, *peaks]

    def remarks(self) -> list[str]:
        parts = [f"Bins of {number(100 / self.panel.bins)} %"]
        if self.frame.groupby("series")["seed"].nunique().max() > 1:
            parts.append("bars: mean over training seeds; faint markers: single seeds")
        return [*parts, *self.choice_remarks()]

    def beside(self, reference: PublishedHistogram) -> Iterator[Comparison]:
        part = self.part(reference.series)
        for at, published in sorted(reference.fractions.items()):
            behind = part[part["low"] == self.edges[bin_index(at, self.edges)]]
            yield self.compared(reference, "fraction of inputs", at, published, behind, percent=True)
        if reference.peak is not None:
            # The peak of the histogram that is drawn: the mean of the seeds' peaks may lie where no input is.
            bars = by_seed(part, ["low"]).groupby("low")["value"].mean()
            peak = self._centre(bars.idxmax()) if len(bars) else math.nan
            behind = part.drop_duplicates("trial_id").assign(value=peak)
            one = self.compared(reference, "fullest bin", None, reference.peak, behind, percent=True)
            yield one._replace(error=None)


def outcome_label(drawing: "Histograms | HeatMaps") -> str:
    """The label of the axis of the outcomes, such as "Right answers (%)"."""
    labels = dict.fromkeys(map(drawing.tables.outcome_label, drawing.frame["metric"].unique()))
    return drawing.panel.label or f"{' or '.join(labels)} (%)"


# Heat maps

COLUMN = 0.2  # least width of a column, in inches
LETTER = 0.06  # width of a letter of a tick, in inches
LABEL_LETTER = 0.08  # width of a letter of the label of an axis
MAP = 1.5  # least width of a map, in inches
MOST_COLUMNS = 60  # most columns of a map; of more values of its column some are shown, evenly spaced


class HeatMaps(Drawing[HeatmapPanel]):
    """Histograms as colours."""

    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        x = column(rows, self.panel.x.column)
        present = rows[rows[x].notna()]
        if present.empty:
            raise NoData(f"no trial has a value of '{x}'")
        bins = shares(self.results, present, metric, self.panel.bins)
        return bins.merge(rows[["trial_id", x]].rename(columns={x: "x"}), on="trial_id")

    def _every_value(self) -> list[float | str]:
        return sorted(self.frame["x"].unique().tolist(), key=value_order)

    def columns(self) -> list[float | str]:
        """The columns that all maps have, in order."""
        values = self._every_value()
        shown = np.linspace(0, len(values) - 1, min(len(values), MOST_COLUMNS)).round().astype(int)
        return [values[place] for place in shown]

    def _ticks(self) -> list[str]:
        return list(map(value_label, self.columns()))

    def widths(self) -> Sequence[float]:
        longest = max(len(style.plain(tick)) for tick in self._ticks())
        columns = len(self._ticks()) * max(COLUMN, (longest + 2) * LETTER)
        return [max(MAP, columns, len(style.plain(self._label())) * LABEL_LETTER)] * len(self.labels())

    def _label(self) -> str:
        return self.panel.x.label or self.panel.x.column

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        columns, places = self.columns(), np.arange(len(self.columns()) + 1)
        norm = LogNorm(self.panel.lowest, 1)
        cmap = matplotlib.colormaps["viridis_r"].with_extremes(under="white", bad="white")
        mesh = None
        for ax, label in zip(axes, self.labels(), strict=True):
            part = self.part(label)
            counts = part.groupby("x")["seed"].nunique().reindex(columns, fill_value=0)
            mean = by_seed(part, ["x", "low"]).pivot_table("value", "low", "x").reindex(columns=columns)
            edges = np.linspace(0, 100, self.panel.bins + 1)
            mesh = ax.pcolormesh(places, edges, mean.fillna(0), norm=norm, cmap=cmap, rasterized=True)
            for index in np.flatnonzero(counts == 0).tolist():
                ax.axvspan(index, index + 1, **style.HATCHED)
            ax.set_title(label)
            ax.set_xticks(places[:-1] + 0.5, self._ticks())
            ax.set(yticks=PERCENTS, xlabel=self._label())
            ax.tick_params(labelleft=ax is axes[0])
            ax.spines[["top", "right"]].set_visible(True)
        axes[0].set_ylabel(outcome_label(self))
        style.color_bar(axes, mesh, "Fraction of inputs")

    def legend(self, look: Look) -> list[tuple[str, Artist]]:
        return []

    def remarks(self) -> list[str]:
        seeds = self.frame.groupby(["series", "x"])["seed"].nunique()
        low, high = seeds.min(), seeds.max()
        averaged = counted(high, "training seed") if low == high else f"{low} to {high} training seeds"
        parts = [f"Bins of {number(100 / self.panel.bins)} %", f"mean over {averaged}"]
        parts.append(f"white: less than {number(self.panel.lowest)}")
        values, shown = self._every_value(), self.columns()
        seen = self.frame[self.frame["x"].isin(shown)].drop_duplicates(["series", "x"])
        parts += ["hatched: no trial"] * (len(seen) < len(shown) * len(self.labels()))
        parts += [f"{len(shown)} of {len(values):,} columns"] * (len(shown) < len(values))
        return [*parts, *self.choice_remarks()]


SLACK = 4e-6
"""Shares of seeds are of single precision, so that 0.29 is a little below 29 %: they must not slip into a neighbour."""


def bin_index(values: np.ndarray | float, edges: np.ndarray) -> np.ndarray:
    """The bin of each value; the value 1 is in the last bin."""
    return np.searchsorted(edges[1:-1], np.asarray(values) + SLACK, side="right")


def shares(results: Results, rows: pd.DataFrame, metric: str, bins: int) -> pd.DataFrame:
    """The share of the inputs in each of so many bins of each trial: `seed`, `trial_id`, `low`, `value`.

    `NoData` if no trial has stored the outcome.
    """
    stored = {trial: results.distribution(trial, metric) for trial in rows["trial_id"]}
    known = {trial: distribution for trial, distribution in stored.items() if distribution is not None}
    if not known:
        raise NoData(f"the outcome '{metric}' of its inputs was not stored")
    edges = np.linspace(0, 1, bins + 1)
    filled = [
        np.bincount(bin_index(values, edges), weights=counts, minlength=bins) / counts.sum()
        for values, counts in known.values()
    ]
    every = pd.MultiIndex.from_product([known, edges[:-1]]).to_frame(index=False, name=["trial_id", "low"])
    return every.assign(value=np.concatenate(filled)).merge(rows[["trial_id", "seed"]], on="trial_id")
