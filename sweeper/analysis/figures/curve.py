"""Curves: averages solid and bad tails dashed against a column, one colour a series.

A point is the mean over training seeds. Where a point has several, a band shows the spread of averages, or of tails
that are drawn without, and each seed stands as a faint marker, because runs differ by seed and a mean alone hides it.
Published values are crosses in the series' colour, also of series of which nothing is measured yet.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import exact_values, per_seed, selection, style
from sweeper.analysis.results import Results
from sweeper.messages import counted
from sweeper.space.panels import CurvePanel, CurveSeries, HistoryPanel
from sweeper.store.store import TIMINGS

AXES = (2.75, 2.05)
"""Width and height of the axes, in inches."""

DASHED = (0, (3.2, 1.6))
"""Line style of a bad tail."""

DIGIT = style.CHARACTER * 7.5
"""Width of a digit of a tick label, in inches."""


@dataclass(frozen=True)
class Line:
    """One metric of a series: its value for each training seed (`x`, `seed`, `value`), and the trials behind it."""

    metric: str
    tail: bool
    values: pd.DataFrame
    rows: pd.DataFrame

    def points(self) -> pd.DataFrame:
        """Statistics over the training seeds, by `x`."""
        return self.values.groupby("x")["value"].agg(["mean", "min", "max", "std", "count"])


@dataclass(frozen=True)
class Drawn:
    """A series with data: its place in the panel decides the colour where none is given.

    `missing` says why one of its two lines is not there.
    """

    index: int
    label: str
    color: Any
    lines: tuple[Line, ...]
    missing: tuple[str, ...]

    def counts(self) -> dict[float, int]:
        """Number of training seeds at every value of x."""
        merged = pd.concat([line.values for line in self.lines])
        return {float(x): int(group["seed"].nunique()) for x, group in merged.groupby("x")}  # pyright: ignore[reportArgumentType]


Content = selection.Content[Drawn]


def gather(panel: CurvePanel, results: Results) -> Content:
    """The numbers of a panel, with a note for every series that has none."""

    def drawn(index: int, one: CurveSeries, rows: pd.DataFrame) -> Drawn:
        x = selection.column(rows, panel.x.column)
        if panel.x.empty is not None:
            rows = rows.assign(**{x: rows[x].astype(float).fillna(panel.x.empty)})
        lines, missing = [], []
        for metric, tail in zip(panel.metrics(one), (False, True), strict=True):
            try:
                if metric is not None:
                    lines.append(Line(metric, tail, per_seed.metric(rows, metric, x), rows))
            except selection.NoData as reason:
                missing.append(str(reason))
        if not lines:
            raise selection.NoData("; ".join(dict.fromkeys(missing)))
        return Drawn(index, one.label, one.color, tuple(lines), tuple(missing))

    # What a trial costs depends on the machine and on its company there; what it learns does not.
    alike = ("device", "lanes") if _all_metrics(panel) & set(TIMINGS) else ()
    content = selection.gathered(panel, panel.series, CurveSeries, results, drawn, [panel.x.column], alike)
    missing = [selection.Note(panel.name, one.label, reason) for one in content.series for reason in one.missing]
    return replace(content, notes=(*content.notes, *missing, *exact_values.notes(panel, content)))


def _all_metrics(panel: CurvePanel) -> set[str]:
    named = {metric for one in panel.series for metric in panel.metrics(one)} | {panel.metric, panel.tail}
    return {metric for metric in named if metric}


def compare(panel: CurvePanel, content: Content) -> list[Comparison]:
    """The published values of a panel beside the measured ones."""

    def behind(line: Line, at: float) -> pd.DataFrame:
        x = selection.column(line.rows, panel.x.column)
        return line.rows[np.isclose(line.rows[x], at, rtol=1e-9)]

    return published_comparisons(panel, content, behind)


def published_comparisons(
    panel: CurvePanel | HistoryPanel, content: Content, behind: Callable[[Line, float], pd.DataFrame]
) -> list[Comparison]:
    """The published values of a panel beside the measured ones; `behind` gives the trials behind a point of a line."""
    found = {(one.label, line.metric): line for one in content.series for line in one.lines}
    compared = []
    for reference in panel.published:
        line = found.get((reference.series, reference.metric))
        for at, published in sorted(reference.values.items()):
            point = None if line is None else line.values[np.isclose(line.values["x"], at, rtol=1e-9)]
            measured = {} if point is None else dict(zip(point["seed"], point["value"], strict=True))
            mean, low, high = per_seed.summary(measured) if measured else (None, None, None)
            compared.append(
                Comparison(
                    panel=panel.name,
                    curve=style.plain(reference.series),
                    metric=reference.metric,
                    at=at,
                    published=published,
                    measured=mean,
                    lowest=low,
                    highest=high,
                    seeds=len(measured),
                    steps="" if line is None else selection.steps(behind(line, at)),
                    percent=panel.y.percent,
                    source=reference.source,
                )
            )
    return compared


# --------------------------------------------------------------------------------------------------------------------
# Drawing
# --------------------------------------------------------------------------------------------------------------------


def width(panel: CurvePanel, content: Content) -> float:
    """Width of the panel in inches."""
    return style.LEFT + AXES[0] + style.RIGHT


def frame(panel: CurvePanel, content: Content) -> style.Frame:
    return style.frame(
        width(panel, content),
        panel.name,
        panel.title,
        count_lines=len(_count_rows(content)),
        axes=AXES[1],
        footer=_footer(panel, content),
    )


def paint(panel: CurvePanel, content: Content, region: style.Region, look: style.Look) -> None:
    """Draw the panel into its region of a figure."""
    axes = region.axes("axes")
    place = _Places(panel, content)
    scale = panel.y.factor
    for one in content.series:
        shade = look.shade(one.color, one.index)
        for line in one.lines:
            # The bands of averages and tails, one upon the other, could not be told apart.
            band = "" if line.tail and len(one.lines) > 1 else panel.band
            _paint_line(axes, line, place, scale, shade, look.marker(one.index), band)
    crosses = style.paint_crosses(axes, published_crosses(panel, content, look, place))
    exact_values.paint(axes, panel, content, look)
    _dress(region, axes, panel, place)
    style.spread(axes, crosses)
    region.title(panel.name, panel.title)
    rows = _count_rows(content)
    if rows:
        _paint_counts(region, axes, rows, place, look)
    region.footer(_footer(panel, content))


class _Places:
    """Where the values of x stand on the axis; infinity stands one step beyond the largest finite value."""

    def __init__(self, panel: CurvePanel, content: Content) -> None:
        measured = {float(x) for one in content.series for x in one.counts()}
        published = {x for reference in panel.published for x in reference.values}
        self.values = sorted(measured | published)
        self.log = panel.x.scale == "log"
        finite = [x for x in self.values if np.isfinite(x)] or [1.0]
        span = (finite[-1] - finite[0]) or 1.0
        ratio = finite[-1] / finite[-2] if len(finite) > 1 and finite[-2] > 0 else 2.0
        self.beyond = finite[-1] * max(ratio, 1.5) if self.log else finite[-1] + 0.12 * span

    def __call__(self, x: float) -> float:
        return float(x) if np.isfinite(x) else self.beyond

    def apart(self, values: Sequence[float], widths: Sequence[float]) -> list[float]:
        """The values whose texts, so many inches wide and centred, do not run into each other."""
        low, high = (self._linear(self.values[end]) for end in (0, -1))
        inches = AXES[0] * 0.92 / ((high - low) or 1.0)
        kept, end = [], -np.inf
        for value, text in zip(values, widths, strict=True):
            middle = (self._linear(value) - low) * inches
            if middle - text / 2 >= end:
                kept.append(value)
                end = middle + text / 2
        return kept

    def _linear(self, x: float) -> float:
        return float(np.log(self(x))) if self.log else self(x)


def _paint_line(axes: Axes, line: Line, place: _Places, scale: float, shade: str, marker: str, band: str) -> None:
    points = line.points()
    x = np.array([place(value) for value in points.index])
    mean = points["mean"].to_numpy() * scale
    if points["count"].max() > 1:
        if band:
            if band == "range":
                low, high = points["min"].to_numpy() * scale, points["max"].to_numpy() * scale
            else:
                spread = points["std"].fillna(0).to_numpy() * abs(scale)
                low, high = mean - spread, mean + spread
            axes.fill_between(x, low, high, color=shade, alpha=0.1, linewidth=0, zorder=2)
        several = line.values[line.values["x"].isin(points.index[points["count"] > 1])]
        axes.plot(
            [place(value) for value in several["x"]],
            several["value"].to_numpy() * scale,
            linestyle="none",
            marker=marker,
            markersize=2.6,
            markeredgewidth=0,
            color=shade,
            alpha=0.35,
            zorder=3,
        )
    axes.plot(
        x,
        mean,
        color=shade,
        linestyle=DASHED if line.tail else "-",
        linewidth=1.4,
        marker=marker,
        markersize=3.6,
        markerfacecolor="white" if line.tail else shade,
        markeredgecolor=shade,
        markeredgewidth=0.9,
        zorder=5,
    )


def _dress(region: style.Region, axes: Axes, panel: CurvePanel, place: _Places) -> None:
    """Labels, ticks, limits and grid."""
    axes.set_xscale(panel.x.scale)
    axes.set_yscale(panel.y.scale)
    axes.set_xlabel(panel.x.label or panel.x.column)
    axes.grid(True)
    low, high = place(place.values[0]), place(place.values[-1])
    if panel.x.scale == "log":
        reach = (high / low) ** 0.04 if high > low else 1.3
        axes.set_xlim(low / reach, high * reach)
    else:
        reach = (high - low) * 0.04 or 0.5
        axes.set_xlim(low - reach, high + reach)
    ticks = place.apart(place.values, [DIGIT * (len(style.plain(style.number(x))) + 0.5) for x in place.values])
    axes.set_xticks([place(x) for x in ticks], [style.number(x) for x in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    if panel.y.limits:
        low, high = (
            found if given is None else given for given, found in zip(panel.y.limits, axes.get_ylim(), strict=True)
        )
        # Lines along a limit, such as a success of 100 %, must be seen whole; those along 0 lie on the axis anyway.
        pad = 0.03 * (high - low) if panel.y.scale == "linear" else 0.0
        axes.set_ylim(low - pad * (None not in panel.y.limits), high + pad)
    region.label_values(axes, panel.y.label or (panel.metric or panel.tail or "") + " (%)" * panel.y.percent)


def published_crosses(
    panel: CurvePanel | HistoryPanel, content: Content, look: style.Look, place: Callable[[float], float]
) -> list[style.Cross]:
    """The published values of all series, whether measured or not, as they are drawn."""
    shades = style.shades(panel, content.series, look)
    return [
        style.Cross(place(x), value * panel.y.factor, shades[reference.series])
        for reference in panel.published
        for x, value in sorted(reference.values.items())
    ]


def legend(panel: CurvePanel, content: Content, look: style.Look) -> list[tuple[str, Artist]]:
    """Labels and handles of all that is drawn."""

    def handle(one: Drawn, linestyle: Any) -> Line2D:
        return Line2D(
            [],
            [],
            color=look.shade(one.color, one.index),
            marker=look.marker(one.index),
            markersize=3.6,
            linewidth=1.4,
            linestyle=linestyle,
        )

    return [*line_legend(panel, content, look, handle), *exact_values.legend(panel, content, look)]


def line_legend(
    panel: CurvePanel | HistoryPanel, content: Content, look: style.Look, handle: Callable[[Drawn, Any], Line2D]
) -> list[tuple[str, Artist]]:
    """Labels and handles of the series, whose lines `handle` makes, and of what line styles and crosses mean."""
    entries: list[tuple[str, Artist]] = [
        (one.label, handle(one, DASHED if all(line.tail for line in one.lines) else "-")) for one in content.series
    ]
    measured = {one.label for one in content.series}
    entries += [
        (f"{label}{style.PUBLISHED_ONLY}", style.cross_handle(shade))
        for label, shade in style.shades(panel, content.series, look).items()
        if label not in measured and any(reference.series == label for reference in panel.published)
    ]
    tails = {line.tail for one in content.series for line in one.lines}
    if len(tails) == 2:
        entries.append(("average", Line2D([], [], color=style.FAINT, linewidth=1.2)))
    if True in tails:
        entries.append(("bad tail", Line2D([], [], color=style.FAINT, linewidth=1.2, linestyle=DASHED)))
    if panel.published:
        entries.append(("published", style.cross_handle()))
    return entries


# --------------------------------------------------------------------------------------------------------------------
# Seed counts
# --------------------------------------------------------------------------------------------------------------------


def _all_counts(content: Content) -> set[int]:
    return {count for one in content.series for count in one.counts().values()}


def _count_rows(content: Content) -> list[tuple[list[Drawn], dict[float, int]]]:
    """Seed counts to print above the axes, one row for the series that share them; none if all are equal."""
    if len(_all_counts(content)) <= 1:
        return []
    rows: list[tuple[list[Drawn], dict[float, int]]] = []
    for one in content.series:
        for members, counts in rows:
            if counts == one.counts():
                members.append(one)
                break
        else:
            rows.append(([one], one.counts()))
    return rows


def _paint_counts(
    region: style.Region,
    axes: Axes,
    rows: Sequence[tuple[list[Drawn], dict[float, int]]],
    place: _Places,
    look: style.Look,
) -> None:
    strip = region.axes("counts")
    strip.axis("off")
    strip.set_xscale(axes.get_xscale())
    strip.set_xlim(axes.get_xlim())
    strip.set_ylim(len(rows) + 0.3, 0)
    left = strip.get_yaxis_transform()
    if len(rows) == 1:
        strip.text(
            -0.02, 0.5, "seeds", fontsize=style.SMALL, color=style.FAINT, ha="right", va="center", transform=left
        )
    for index, (members, counts) in enumerate(rows):
        # One row speaks for all series; of several, each shows the colours of those it speaks for.
        for position, one in enumerate(reversed(members) if len(rows) > 1 else ()):
            at = -min(0.03, 0.22 / len(members)) * (position + 1)
            shade = look.shade(one.color, one.index)
            strip.plot(at, index + 0.5, marker="s", markersize=4, color=shade, transform=left, clip_on=False)
        at = sorted(counts)
        for x in place.apart(at, [DIGIT * (len(str(counts[x])) + 0.3) for x in at]):
            strip.text(
                place(x), index + 0.5, str(counts[x]), fontsize=style.SMALL, color=style.FAINT, ha="center", va="center"
            )


def _footer(panel: CurvePanel, content: Content) -> str:
    counts = _all_counts(content)
    parts = [
        f"{counted(counts.pop(), 'training seed')} at every point"
        if len(counts) == 1
        else "Above: training seeds at each point"
    ]
    if max(_all_counts(content)) > 1:
        spread = "lowest to highest seed" if panel.band == "range" else "one standard deviation over seeds"
        both = any(len(one.lines) > 1 for one in content.series)
        parts.append(f"band{' of averages' * both}: {spread}; faint markers: single seeds")
    parts.extend(content.remarks())
    return "; ".join(parts) + "."
