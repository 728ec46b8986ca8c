"""Panels side by side in one figure: axes, titles, legends and a footer.

Matplotlib's constrained layout makes room for what stands around axes. The axes of all panels are one row of a grid, so
that they line up; the rows above and below have the title and the legend of each panel, and are as high as the largest
of these. The remarks on all panels are one text below.
"""

import contextlib
import io
import itertools
import math
import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.analysis.figures import style
from sweeper.analysis.figures.drawing import Drawing
from sweeper.analysis.figures.style import HEIGHT
from sweeper.messages import writing

DOTS_PER_INCH = 200

BESIDE, BELOW = 0.65, 0.5  # inches for ticks and labels, on the left of a panel and below it
LETTER, LINE = 0.53 / 72, 1.5 / 72  # width of a letter and height of a line in inches, for each point of the font
BOLD = 1.2  # width of a bold letter beside another
MOST_ENTRIES = 30  # of a legend


class Picture(Figure):
    """A figure that a notebook shows, in the settings of this package."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        with style.settings():
            self.savefig(file, format="png")
        return file.getvalue()


def compose(row: Sequence[Drawing], palette: style.PaletteName) -> Figure:
    """A figure of panels side by side."""
    look = style.PALETTES[palette]
    widths = [list(drawing.widths()) for drawing in row]
    columns, starts = list(itertools.chain(*widths)), [0, *itertools.accumulate(map(len, widths))]
    rooms = [sum(own) + BESIDE for own in widths]
    heads = [_head(drawing.panel.name, drawing.panel.title, room) for drawing, room in zip(row, rooms, strict=True)]
    legends = [_shortened(drawing.legend(look)) for drawing in row]
    counts = [_entries_abreast(entries, room - 0.2) for entries, room in zip(legends, rooms, strict=True)]
    remarks = "\n".join(broken(line, sum(rooms), style.SMALL) for line in _footer(row))
    above = 9 * LINE * max(f"{name}{title}".count("\n") + 1 for name, title in heads)
    below = 8 * LINE * max(math.ceil(len(entries) / count) for entries, count in zip(legends, counts, strict=True))
    height = above + HEIGHT + BELOW + below + style.SMALL * LINE * (remarks.count("\n") + 1)
    figure = Picture((sum(rooms), height), DOTS_PER_INCH, layout="constrained")
    grid = figure.add_gridspec(3, len(columns), width_ratios=columns, height_ratios=[above, HEIGHT, max(below, 0.01)])
    for place, drawing in enumerate(row):
        panel = slice(*starts[place : place + 2])
        axes = [figure.add_subplot(grid[1, column]) for column in range(panel.start, panel.stop)]
        drawing.paint(axes, look)
        for part, width in zip(axes, widths[place], strict=True):
            part.set_xlabel(broken(part.get_xlabel(), width, 9))
            part.set_ylabel(broken(part.get_ylabel(), HEIGHT, 9))
        left = BESIDE / 2 if axes[0].get_ylabel() else 0
        _add_head(_bare(figure.add_subplot(grid[0, panel])), left, *heads[place])
        if legends[place]:
            labels, handles = zip(*legends[place], strict=True)
            foot = _bare(figure.add_subplot(grid[2, panel]))
            middle = 0.5 - BESIDE / sum(widths[place]) / 2  # of the axes and what stands on their left
            legend = foot.legend(handles, labels, ncols=counts[place], loc="upper center", bbox_to_anchor=(middle, 1))
            legend.set_in_layout(False)
    figure.supxlabel(remarks, x=0.01, ha="left", fontsize=style.SMALL, color=style.FAINT)
    return figure


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A new file that takes the place of `path` at its end, so that nobody reads half of it."""
    new = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path):
            yield new
            os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def save(row: Sequence[Drawing], palette: style.PaletteName, path: Path, pdf: bool = False) -> list[Path]:
    """Write a figure of panels as PNG, and as PDF if that is asked for; the path has no suffix yet."""
    # `with_suffix` would take the end of a name such as "rate=0.5" for a suffix.
    files = [path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "pdf")[: 1 + pdf]]
    with style.settings():
        figure = compose(row, palette)
        for file in files:
            with replaced(file) as new:
                figure.savefig(new, format=file.suffix[1:], metadata={"CreationDate": None} if pdf else None)
    return files


def broken(text: str, width: float, size: float) -> str:
    """A text in lines of about so many inches, without a break inside a formula."""
    whole = re.sub(r"\$[^$]*\$", lambda formula: formula[0].replace(" ", "\xa0"), text)
    letters, shown = max(8, int(width / (LETTER * size))), len(style.plain(text))
    markup = (len(text) - shown) // math.ceil((shown or 1) / letters)  # in each line, about
    return "\n".join(textwrap.wrap(whole, letters + markup, break_on_hyphens=False)).replace("\xa0", " ")


def _bare(axes: Axes) -> Axes:
    """Axes as a place for text alone."""
    axes.axis("off")
    return axes


def _head(name: str, title: str, room: float) -> tuple[str, str]:
    """The name of a panel and its title in lines; the title begins a line of its own if the name is long."""
    beside = room - 0.4 - 10.5 * LETTER * len(name)
    if beside > room / 3 or not title:
        return broken(name, room, 10.5 * BOLD), broken(title, beside, 9)
    return broken(name, room, 10.5 * BOLD), "\n" + broken(title, room, 9)


def _add_head(head: Axes, left: float, name: str, title: str) -> None:
    """The name of a panel in bold and its title, which begin so many inches on the left of the axes."""
    points: dict[str, Any] = {"textcoords": "offset points", "va": "top"}
    bold = head.annotate(name, (0, 1), (-72 * left, 0), fontsize=10.5, fontweight="bold", **points)
    at, off = ((0, 0), (0, -2)) if title.startswith("\n") else ((1, 1), (6, -1))
    beside = head.annotate(title.lstrip("\n"), at, off, xycoords=bold, fontsize=9, **points)
    for text in (bold, beside):
        text.set_in_layout(False)


def _shortened(entries: Sequence[tuple[str, Artist]]) -> list[tuple[str, Artist]]:
    """The entries of a legend, or the first of too many."""
    more = len(entries) - MOST_ENTRIES
    kept = [(broken(label, 3, 8), handle) for label, handle in entries[:MOST_ENTRIES]]
    return [*kept, (f"… {more:,} more", Line2D([], [], linestyle="none"))] if more > 0 else kept


def _entries_abreast(entries: Sequence[tuple[str, Artist]], room: float) -> int:
    """How many entries of a legend stand side by side."""
    letters = [max(map(len, style.plain(label).split("\n"))) + 7.5 for label, _ in entries]  # with the handle
    counts = range(len(letters), 1, -1)
    return next((count for count in counts if 8 * LETTER * sum(map(max, np.array_split(letters, count))) <= room), 1)


def _footer(row: Sequence[Drawing]) -> list[str]:
    """The remarks on the panels, each line once with the names of its panels unless it is about all of them."""
    panels: dict[str, list[str]] = {}
    for drawing in row:
        panels.setdefault(f"{'; '.join(drawing.remarks())}.", []).append(drawing.panel.name)
    return [f"{', '.join(names)}: {line}" if len(panels) > 1 else line for line, names in panels.items()]
