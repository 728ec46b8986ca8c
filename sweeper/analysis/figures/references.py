"""What a figure shows beside the trials: published values as crosses, and exact values as horizontal lines.

A cross has the colour of its series. A series without trials keeps its crosses, and the legend says so. Crosses that
coincide stand side by side.

Exact values, such as what no agent can beat, are known to the task (`Abilities.exact_values`). They are those of the
very trials that a panel draws, so a line can never stand beside curves of another size of the task. If the trials of a
panel have tasks of several sizes, each exact value gets a line.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import offset_copy

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures.drawing import Content, Note
from sweeper.analysis.figures.selection import steps
from sweeper.analysis.figures.style import FAINT, Look, plain
from sweeper.analysis.results import task_of
from sweeper.panels.kinds import LinesPanel, Published
from sweeper.panels.series import PublishedCurve, PublishedHistogram
from sweeper.trial.contracts import Task

CLOSE = 4.0
"""Crosses nearer to each other than this number of points are set side by side, so that neither hides the other."""

MARK = "published"
"""The group id of crosses among the lines of their axes."""

PUBLISHED_ONLY = " (published only)"
"""The addition in the legend to the label of a series that has crosses and nothing else."""

DASHES = ((0, (1, 1.4)), (0, (5, 1.5, 1, 1.5)), (0, (7, 2)))
"""Line styles of the exact values of a panel, in turn; the dashes of a bad tail are not among them."""


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
        "steps": () if rows is None else steps(rows),
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


def cross_handle(shade: str = FAINT) -> Line2D:
    """A cross in a legend."""
    return Line2D([], [], color=shade, linestyle="none", marker="x", markersize=5)


class ExactLine(NamedTuple):
    """A horizontal line, in the units that the panel draws; `place` is its index in the panel."""

    place: int
    label: str
    value: float


def exact_lines(panel: LinesPanel, content: Content) -> list[ExactLine]:
    """The lines of a panel, without those whose task does not know the value."""
    tasks = dict.fromkeys(task_of(spec) for spec in content.trials["spec"]) if content and panel.yardsticks else {}
    known = [_of_task(task) for task in tasks if task is not None]  # pyright: ignore[reportArgumentType]
    lines = []
    for index, exact in enumerate(panel.yardsticks):
        for value in dict.fromkeys(values[exact.value] for values in known if exact.value in values):
            drawn = value * panel.y.factor if exact.unit is None else value / exact.unit
            lines.append(ExactLine(index, f"{exact.label} ({drawn:.4g})", drawn))
    return lines


@functools.cache  # solving a task may take seconds, and many panels ask for the same task
def _of_task(task: Task) -> dict[str, float]:
    return task.abilities().exact_values()


def exact_notes(panel: LinesPanel, content: Content) -> list[Note]:
    """Notes on lines that are not drawn."""
    drawn = {line.place for line in exact_lines(panel, content)}
    return [
        Note(panel.name, exact.label, f"the task has no exact '{exact.value}'")
        for index, exact in enumerate(panel.yardsticks)
        if content and index not in drawn
    ]


def exact_legend(panel: LinesPanel, content: Content, look: Look) -> list[tuple[str, Line2D]]:
    """Labels and handles of the lines."""
    return [(line.label, Line2D([], [], **_style(panel, line, look))) for line in exact_lines(panel, content)]


def paint_exact(axes: Axes, panel: LinesPanel, content: Content, look: Look) -> None:
    """Draw the lines across the axes, behind the curves."""
    for line in exact_lines(panel, content):
        axes.axhline(line.value, zorder=1.5, **_style(panel, line, look))


def _style(panel: LinesPanel, line: ExactLine, look: Look) -> dict:
    shade = look.shades[panel.yardsticks[line.place].color]
    return {"color": shade, "linewidth": 0.9, "linestyle": DASHES[line.place % len(DASHES)]}
