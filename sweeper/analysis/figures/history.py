"""Histories: training curves against the step, averages solid and bad tails dashed, one colour a series.

A line is the mean over training seeds, its band their spread; unlike the final metrics of a trial, a training curve is
measured on the batches of its own training. Published values are crosses in the series' colour.
"""

from dataclasses import replace

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import exact_values, per_seed, selection, style
from sweeper.analysis.figures.curve import (
    AXES,
    DASHED,
    Content,
    Drawn,
    Line,
    line_legend,
    published_comparisons,
    published_crosses,
)
from sweeper.analysis.results import Results
from sweeper.messages import counted
from sweeper.space.panels import CurveSeries, HistoryPanel

MARKERS = 7
"""Markers along a line, where the palette tells series apart by them."""


def gather(panel: HistoryPanel, results: Results) -> Content:
    """The curves of a panel, with a note for every series that has none."""

    def drawn(index: int, one: CurveSeries, rows: pd.DataFrame) -> Drawn:
        lines, missing = [], []
        for metric, tail in zip(panel.metrics(one), (False, True), strict=True):
            try:
                if metric is not None:
                    lines.append(Line(metric, tail, per_seed.curve(results, rows, metric), rows))
            except selection.NoData as reason:
                missing.append(str(reason))
        if not lines:
            raise selection.NoData("; ".join(dict.fromkeys(missing)))
        return Drawn(index, one.label, one.color, tuple(lines), tuple(missing))

    content = selection.gathered(panel, panel.series, CurveSeries, results, drawn)
    missing = [selection.Note(panel.name, one.label, reason) for one in content.series for reason in one.missing]
    return replace(content, notes=(*content.notes, *missing, *exact_values.notes(panel, content)))


def compare(panel: HistoryPanel, content: Content) -> list[Comparison]:
    """The published values of a panel beside those measured at the same step."""
    return published_comparisons(panel, content, lambda line, at: line.rows)


# --------------------------------------------------------------------------------------------------------------------
# Drawing
# --------------------------------------------------------------------------------------------------------------------


def width(panel: HistoryPanel, content: Content) -> float:
    """Width of the panel in inches."""
    return style.LEFT + AXES[0] + style.RIGHT


def frame(panel: HistoryPanel, content: Content) -> style.Frame:
    return style.frame(
        width(panel, content),
        panel.name,
        panel.title,
        count_lines=0,
        axes=AXES[1],
        footer=_footer(panel, content),
    )


def paint(panel: HistoryPanel, content: Content, region: style.Region, look: style.Look) -> None:
    """Draw the panel into its region of a figure."""
    axes = region.axes("axes")
    scale = panel.y.factor
    for one in content.series:
        shade = look.shade(one.color, one.index)
        for line in one.lines:
            _paint_line(axes, line, scale, shade, _marker(look, one), panel.band, one.index)
    crosses = style.paint_crosses(axes, published_crosses(panel, content, look, float))
    exact_values.paint(axes, panel, content, look)
    axes.set_yscale(panel.y.scale)
    axes.set_xlabel(panel.x)
    axes.locator_params(axis="x", nbins=6)
    axes.grid(True)
    if panel.y.limits:
        axes.set_ylim(*panel.y.limits)
    region.label_values(axes, panel.y.label or (panel.metric or panel.tail or "") + " (%)" * panel.y.percent)
    style.spread(axes, crosses)
    region.title(panel.name, panel.title)
    region.footer(_footer(panel, content))


def _marker(look: style.Look, one: Drawn) -> str:
    return look.marker(one.index) if len(look.markers) > 1 else ""


def _paint_line(axes: Axes, line: Line, scale: float, shade: str, marker: str, band: str, index: int) -> None:
    points = line.points()
    x, mean = points.index.to_numpy(float), points["mean"].to_numpy() * scale
    if points["count"].max() > 1:
        if band == "range":
            low, high = points["min"].to_numpy() * scale, points["max"].to_numpy() * scale
        else:
            spread = points["std"].fillna(0).to_numpy() * abs(scale)
            low, high = mean - spread, mean + spread
        axes.fill_between(x, low, high, color=shade, alpha=0.1 if line.tail else 0.18, linewidth=0, zorder=2)
    # Lines that coincide must not hide each other's markers.
    every = max(1, len(x) // MARKERS)
    axes.plot(
        x,
        mean,
        color=shade,
        linestyle=DASHED if line.tail else "-",
        linewidth=1.2,
        marker=marker,
        markevery=(index * every // 3 % every, every),
        markersize=3.6,
        markerfacecolor="white" if line.tail else shade,
        markeredgewidth=0.9,
        zorder=5,
    )


def legend(panel: HistoryPanel, content: Content, look: style.Look) -> list[tuple[str, Artist]]:
    """Labels and handles of all that is drawn."""

    def handle(one: Drawn, linestyle: object) -> Line2D:
        return Line2D(
            [],
            [],
            color=look.shade(one.color, one.index),
            linestyle=linestyle,  # pyright: ignore[reportArgumentType]
            linewidth=1.4,
            marker=_marker(look, one),
            markersize=3.6,
        )

    return [*line_legend(panel, content, look, handle), *exact_values.legend(panel, content, look)]


def _footer(panel: HistoryPanel, content: Content) -> str:
    counts = sorted({int(count) for one in content.series for line in one.lines for count in line.points()["count"]})
    parts = ["-".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))) + " training seeds"]
    if counts == [1]:
        parts = [counted(1, "training seed")]
    else:
        spread = "lowest to highest seed" if panel.band == "range" else "one standard deviation over seeds"
        parts.append(f"band: {spread}")
    return "; ".join([*parts, "on training batches", *content.remarks()]) + "."
