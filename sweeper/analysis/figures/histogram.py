"""Overlaid histograms over inputs: which share of the inputs has which success.

Each training seed makes a histogram of its own; the bars are their mean, and where there are several the single seeds
stand as faint markers. Published shares are crosses, a published place of the fullest bin a triangle on the axis, also
of histograms of which nothing is measured yet.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import per_seed, selection, style
from sweeper.analysis.results import Results
from sweeper.messages import counted
from sweeper.space.panels import Color, HistogramPanel, HistogramSeries, PublishedHistogram

AXES = (2.75, 2.05)
"""Width and height of the axes, in inches."""


@dataclass(frozen=True)
class Bars:
    """One histogram: the shares of inputs in each bin for each training seed, and the trials behind it."""

    index: int
    label: str
    color: Color | None
    shares: dict[int, np.ndarray]
    rows: pd.DataFrame

    def mean(self) -> np.ndarray:
        return np.mean(list(self.shares.values()), axis=0)


Content = selection.Content[Bars]


def gather(panel: HistogramPanel, results: Results) -> Content:
    """The histograms of a panel, with a note for every series that has none."""

    def drawn(index: int, one: HistogramSeries, rows: pd.DataFrame) -> Bars:
        shares = per_seed.shares(results, rows, one.metric or panel.metric or "", panel.bins)
        return Bars(index, one.label, one.color, shares, rows)

    return selection.gathered(panel, panel.series, HistogramSeries, results, drawn)


def compare(panel: HistogramPanel, content: Content) -> list[Comparison]:
    """Published shares and peaks beside the measured ones."""
    found = {bars.label: bars for bars in content.series}
    compared = []
    for reference in panel.published:
        bars = found.get(reference.series)
        for at, published in sorted(reference.fractions.items()):
            bin_ = _bin(at, panel.bins)
            measured = {} if bars is None else {seed: float(shares[bin_]) for seed, shares in bars.shares.items()}
            mean = float(np.mean(list(measured.values()))) if measured else None
            compared.append(_comparison(panel, reference, "fraction of inputs", at, published, mean, measured, bars))
        if reference.peak is not None:
            measured = {} if bars is None else {seed: _peak(shares) for seed, shares in bars.shares.items()}
            # The peak of the histogram that is drawn: the mean of the seeds' peaks may lie where no input is.
            peak = None if bars is None else _peak(bars.mean())
            compared.append(_comparison(panel, reference, "fullest bin", None, reference.peak, peak, measured, bars))
    return compared


def _comparison(
    panel: HistogramPanel,
    reference: PublishedHistogram,
    metric: str,
    at: float | None,
    published: float,
    measured: float | None,
    by_seed: dict[int, float],
    bars: Bars | None,
) -> Comparison:
    return Comparison(
        panel=panel.name,
        curve=style.plain(reference.series),
        metric=metric,
        at=at,
        published=published,
        measured=measured,
        lowest=min(by_seed.values(), default=None),
        highest=max(by_seed.values(), default=None),
        seeds=len(by_seed),
        steps="" if bars is None else selection.steps(bars.rows),
        percent=True,
        source=reference.source,
    )


def _bin(value: float, bins: int) -> int:
    return min(int(value * bins + 1e-4), bins - 1)


def _peak(shares: np.ndarray) -> float:
    """Centre of the fullest bin."""
    return float((shares.argmax() + 0.5) / shares.size)


# --------------------------------------------------------------------------------------------------------------------
# Drawing
# --------------------------------------------------------------------------------------------------------------------


def width(panel: HistogramPanel, content: Content) -> float:
    """Width of the panel in inches."""
    return style.LEFT + AXES[0] + style.RIGHT


def frame(panel: HistogramPanel, content: Content) -> style.Frame:
    return style.frame(
        width(panel, content),
        panel.name,
        panel.title,
        count_lines=0,
        axes=AXES[1],
        footer=_footer(panel, content),
    )


def paint(panel: HistogramPanel, content: Content, region: style.Region, look: style.Look) -> None:
    """Draw the panel into its region of a figure."""
    axes = region.axes("axes")
    edges = np.linspace(0, 100, panel.bins + 1)
    centres = (edges[:-1] + edges[1:]) / 2
    scale = panel.y.factor
    for bars in content.series:
        shade = look.shade(bars.color, bars.index)
        mean = bars.mean() * scale
        axes.stairs(mean, edges, fill=True, facecolor=to_rgba(shade, 0.3), zorder=2)
        # Bins that are empty in every seed get no outline: a line along zero says nothing and hides the next series.
        axes.stairs(np.where(mean > 0, mean, np.nan), edges, color=shade, linewidth=1.1, baseline=0, zorder=3)
        if len(bars.shares) > 1:
            for shares in bars.shares.values():
                seen = shares > 0
                axes.plot(
                    centres[seen],
                    shares[seen] * scale,
                    linestyle="none",
                    marker=look.marker(bars.index),
                    markersize=2.6,
                    markeredgewidth=0,
                    color=shade,
                    alpha=0.45,
                    zorder=4,
                )
    crosses = []
    shades = style.shades(panel, content.series, look)
    for reference in panel.published:
        shade = shades[reference.series]
        crosses += [
            style.Cross(float(centres[_bin(at, panel.bins)]), value * scale, shade)
            for at, value in reference.fractions.items()
        ]
        if reference.peak is not None:
            axes.plot(
                [reference.peak * 100],
                [0.03],
                linestyle="none",
                marker="v",
                markersize=5.5,
                color=shade,
                markeredgecolor="white",
                markeredgewidth=0.6,
                zorder=7,
                clip_on=False,
                transform=axes.get_xaxis_transform(),
            )
    drawn = style.paint_crosses(axes, crosses)
    axes.set_xlim(-2, 102)
    axes.set_xticks([0, 20, 40, 60, 80, 100])
    axes.set_xlabel(panel.label)
    axes.set_yscale(panel.y.scale)
    if panel.y.limits:
        axes.set_ylim(*panel.y.limits)
    elif panel.y.scale == "linear":
        axes.set_ylim(bottom=0)
    region.label_values(axes, panel.y.label)
    axes.grid(True, axis="y")
    style.spread(axes, drawn)
    region.title(panel.name, panel.title)
    region.footer(_footer(panel, content))


def legend(panel: HistogramPanel, content: Content, look: style.Look) -> list[tuple[str, Artist]]:
    """Labels and handles of all that is drawn."""
    entries: list[tuple[str, Artist]] = []
    for bars in content.series:
        shade = look.shade(bars.color, bars.index)
        label = f"{bars.label} ({counted(len(bars.shares), 'seed')})"
        entries.append((label, Patch(facecolor=to_rgba(shade, 0.3), edgecolor=shade, linewidth=1.1)))
    measured = {bars.label for bars in content.series}
    shades = style.shades(panel, content.series, look)
    for reference in panel.published:
        if reference.series not in measured:
            measured.add(reference.series)
            marker = "x" if reference.fractions else "v"
            handle = Line2D([], [], color=shades[reference.series], linestyle="none", marker=marker, markersize=5)
            entries.append((f"{reference.series}{style.PUBLISHED_ONLY}", handle))
    if any(reference.fractions for reference in panel.published):
        entries.append(("published", style.cross_handle()))
    if any(reference.peak is not None for reference in panel.published):
        entries.append(
            ("published peak", Line2D([], [], color=style.FAINT, linestyle="none", marker="v", markersize=5))
        )
    return entries


def _footer(panel: HistogramPanel, content: Content) -> str:
    parts = [f"Bins of {style.number(100 / panel.bins)} %"]
    if any(len(bars.shares) > 1 for bars in content.series):
        parts.append("bars: mean over training seeds; faint markers: single seeds")
    parts.extend(content.remarks())
    return "; ".join(parts) + "."
