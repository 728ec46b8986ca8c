"""Published values beside the trials: as crosses in a figure, and as records beside what was measured.

A cross has the colour of its series. A series without trials keeps its crosses, and the legend says so. Crosses that
coincide stand side by side.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import offset_copy

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures.style import FAINT, Look, plain
from sweeper.panels.kinds import Published
from sweeper.panels.series import PublishedCurve, PublishedHistogram

CLOSE = 4.0
"""Crosses nearer to each other than this number of points are set side by side, so that neither hides the other."""

MARK = "published"  # the group id of crosses among the lines of their axes

PUBLISHED_ONLY = " (published only)"
"""The addition in the legend to the label of a series that has crosses and nothing else."""


def compared(
    panel: Published,
    reference: PublishedCurve | PublishedHistogram,
    metric: str,
    at: float | None,
    published: float,
    by_seed: Mapping[int, float],
    rows: pd.DataFrame | None,
    **others: Any,
) -> Comparison:
    """A published value beside what the training seeds measured, from the trials in `rows`."""
    values = list(by_seed.values())
    numbers: dict[str, Any] = {
        "measured": float(np.mean(values)) if values else None,
        "lowest": min(values, default=None),
        "highest": max(values, default=None),
        "seeds": len(values),
        "steps": () if rows is None else tuple(sorted(map(int, rows["steps"].unique()))),
    }
    named = {"panel": panel.name, "series": plain(reference.series), "source": reference.source}
    return Comparison(metric=metric, at=at, published=published, **named, **numbers | others)


def shades(panel: Any, drawn: Sequence[Any], look: Look) -> dict[str, str]:
    """The shade of every series that is declared, drawn or published, by label.

    `index` is the place of a drawn series in its panel. A panel that splits lists no series, and a published series of
    it may have no trials.
    """
    by_label = {series.label: look.shade(series.color, index) for index, series in enumerate(panel.series)}
    by_label |= {series.label: look.shade(series.color, series.index) for series in drawn}
    for reference in panel.published:
        by_label.setdefault(reference.series, look.shade(None, len(by_label)))
    return by_label


def published_only(panel: Any, drawn: Sequence[Any], look: Look) -> list[tuple[str, Line2D]]:
    """Entries of a legend for the published series that have no trials."""
    markers = {part.series: "x" if getattr(part, "fractions", True) else "v" for part in panel.published}
    missing = markers.keys() - {series.label for series in drawn}
    shaded = shades(panel, drawn, look).items()
    return [(f"{label}{PUBLISHED_ONLY}", handle(markers[label], shade)) for label, shade in shaded if label in missing]


def paint_cross(axes: Axes, x: float, y: float, shade: str) -> None:
    """Draw a published value; `spread` sets those apart that coincide, once the axes have their place."""
    look = {"linestyle": "none", "marker": "x", "markersize": 5.5, "markeredgewidth": 1.3, "color": shade}
    axes.plot([x], [y], zorder=6, clip_on=False, gid=MARK, **look)


def spread(axes: Axes) -> None:
    """Move crosses that would hide each other apart, sideways and by no more than needed to tell them."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    drawn = [line for line in axes.lines if line.get_gid() == MARK]
    points = [axes.transData.transform(np.column_stack(line.get_data()))[0] * 72 / figure.dpi for line in drawn]
    groups: list[list[int]] = []
    for index in sorted(range(len(drawn)), key=lambda i: (round(points[i][0]), points[i][1])):
        last = points[groups[-1][-1]] if groups else None
        if last is not None and max(abs(points[index] - last)) < CLOSE:
            groups[-1].append(index)
        else:
            groups.append([index])
    for group in groups:
        for place, index in enumerate(sorted(group)):
            aside = CLOSE * (place - (len(group) - 1) / 2)
            drawn[index].set_transform(offset_copy(axes.transData, figure, x=aside, units="points"))


def handle(marker: str, shade: str = FAINT) -> Line2D:
    """A mark in a legend."""
    return Line2D([], [], color=shade, linestyle="none", marker=marker, markersize=5)
