"""Horizontal lines at exact values, such as what no agent can beat: each task knows its own (`Abilities.exact_values`).

The values are those of the very trials that a panel draws, so a line can never stand beside curves of another size of
the task. If the trials of a panel have tasks of several sizes, each exact value gets a line.
"""

import functools
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sweeper.analysis.figures import selection, style
from sweeper.analysis.results import task_of
from sweeper.space.panels import LinesPanel
from sweeper.trial.contracts import Task

DASHES = ((0, (1, 1.4)), (0, (5, 1.5, 1, 1.5)), (0, (7, 2)))
"""Line styles of the exact values of a panel, in turn; the dashes of a bad tail are not among them."""


class ExactLine(NamedTuple):
    """A horizontal line, in the units that the panel draws; `place` is its index in the panel."""

    place: int
    label: str
    value: float


def lines_of(panel: LinesPanel, content: selection.Content) -> list[ExactLine]:
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


def notes(panel: LinesPanel, content: selection.Content) -> list[selection.Note]:
    """Notes on lines that are not drawn."""
    drawn = {line.place for line in lines_of(panel, content)}
    return [
        selection.Note(panel.name, exact.label, f"the task has no exact '{exact.value}'")
        for index, exact in enumerate(panel.yardsticks)
        if content and index not in drawn
    ]


def legend(panel: LinesPanel, content: selection.Content, look: style.Look) -> list[tuple[str, Line2D]]:
    """Labels and handles of the lines."""
    return [(line.label, Line2D([], [], **_style(panel, line, look))) for line in lines_of(panel, content)]


def paint(axes: Axes, panel: LinesPanel, content: selection.Content, look: style.Look) -> None:
    """Draw the lines across the axes, behind the curves."""
    for line in lines_of(panel, content):
        axes.axhline(line.value, zorder=1.5, **_style(panel, line, look))


def _style(panel: LinesPanel, line: ExactLine, look: style.Look) -> dict:
    shade = look.shades[panel.yardsticks[line.place].color]
    return {"color": shade, "linewidth": 0.9, "linestyle": DASHES[line.place % len(DASHES)]}
