"""The look that all kinds of panel share: palettes, the frame of a panel, number formats, legends and footers.

Colours are named in the panels and given a shade here. `paper` is the palette of the published figures; in
`colorblind` every two colours stay apart for readers with any of the three kinds of dichromacy, and each series gets
a marker of its own.

A panel is laid out in inches, from the top: title, seed counts, axes, axis labels, legend, footer. Panels drawn side
by side share the tallest of each part, so that their axes line up. The legend's height is not a panel's own: neighbours
may share one (`sweeper.analysis.figures.compose`).
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal, NamedTuple, get_args

import matplotlib.figure
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.transforms import offset_copy

from sweeper.space.panels import Color

PaletteName = Literal["paper", "colorblind"]

RC: dict[Any, Any] = {
    "font.size": 8,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "grid.linewidth": 0.5,
    "grid.color": "#e6e6e6",
    "mathtext.fontset": "dejavusans",
    "pdf.fonttype": 42,  # text in the PDF stays text
}

SMALL = 6.5
"""Font size of seed counts and footers, in points."""

FAINT = "#555555"

# Inches.
LEFT, RIGHT = 0.7, 0.16
TITLE_LINE, SMALL_LINE, LEGEND_LINE = 0.16, 0.118, 0.15
AXIS_LABELS = 0.45
MAX_TICK_LABEL = 6
"""Characters of a tick label that fit between the vertical axis and its label."""
CHARACTER = 0.0093
"""Mean width of a character, times its font size in points."""


# --------------------------------------------------------------------------------------------------------------------
# Palettes
# --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """A palette: the shade of every colour name, and the markers that its series take in turn."""

    shades: dict[Color, str]
    markers: tuple[str, ...]

    def shade(self, color: Color | None, index: int) -> str:
        """The shade of a series: its colour's, or by its place among the series of the panel."""
        names = get_args(Color)
        return self.shades[color or names[index % len(names)]]

    def marker(self, index: int) -> str:
        return self.markers[index % len(self.markers)]


PALETTES: dict[PaletteName, Look] = {
    "paper": Look(
        shades={
            "red": "#d62728",
            "blue": "#1f4fd8",
            "purple": "#8e44ad",
            "green": "#2e8b57",
            "teal": "#0f766e",
            "lime": "#4cd137",
            "orange": "#f08c00",
            "black": "#111111",
        },
        markers=("o",),
    ),
    "colorblind": Look(
        shades={
            "red": "#963908",
            "blue": "#1365b7",
            "purple": "#b75d94",
            "green": "#16a55a",
            "teal": "#8daaff",
            "lime": "#909700",
            "orange": "#ffc000",
            "black": "#111111",
        },
        markers=("o", "s", "^", "D", "v", "P", "X"),
    ),
}


# --------------------------------------------------------------------------------------------------------------------
# Frame of a panel
# --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """Heights of the parts of a panel, in inches from the top."""

    title: float
    counts: float
    axes: float
    labels: float
    legend: float
    footer: float

    @property
    def height(self) -> float:
        return math.fsum(astuple(self))

    @staticmethod
    def tallest(frames: Sequence["Frame"]) -> "Frame":
        """The frame in which each of these panels fits."""
        return Frame(*(max(heights) for heights in zip(*map(astuple, frames), strict=True)))


@dataclass(frozen=True)
class Region:
    """A panel's place in a figure: its left edge and its width in inches, and the frame it shares with its row."""

    figure: matplotlib.figure.Figure
    left: float
    width: float
    frame: Frame

    def axes(self, part: Literal["counts", "axes", "legend"], left: float = LEFT, right: float = RIGHT) -> Axes:
        """Axes that fill one part of the panel, `left` and `right` inches away from the panel's edges."""
        figure_width, figure_height = self.figure.get_size_inches()
        bottom, height = self._place(part)
        box = (
            (self.left + left) / figure_width,
            bottom / figure_height,
            (self.width - left - right) / figure_width,
            height / figure_height,
        )
        return self.figure.add_axes(box)

    def title(self, name: str, title: str) -> None:
        """The panel's name in bold before its title, as in the published figures."""
        lines = title_lines(name, title, self.width)
        self._text("title", 0.1, name, fontsize=10, fontweight="bold")
        self._text("title", title_left(name), "\n".join(lines), fontsize=8.5, linespacing=1.25)

    def footer(self, text: str) -> None:
        lines = footer_lines(text, self.width)
        self._text("footer", 0.1, "\n".join(lines), fontsize=SMALL, color=FAINT, linespacing=1.3)

    def legend(self, handles: Sequence[Artist], labels: Sequence[str]) -> None:
        """A legend below the axes, in as many columns as fit."""
        axes = self.axes("legend", left=0.1, right=0.1)
        axes.axis("off")
        axes.legend(
            list(handles),
            list(labels),
            loc="upper center",
            ncols=legend_columns(labels, self.width),
            borderpad=0,
            borderaxespad=0,
            labelspacing=0.4,
            handlelength=2.0,
            handletextpad=0.5,
            columnspacing=1.3,
        )

    def label_values(self, axes: Axes, label: str) -> None:
        """Label the vertical axis at a fixed distance from the panel's edge; its tick labels leave room for that."""
        axes.set_ylabel(label)
        width = axes.get_position().width * self.figure.get_size_inches()[0]
        axes.yaxis.set_label_coords((0.22 - LEFT) / width, 0.5)
        if axes.get_yscale() == "linear":
            low, high = sorted(axes.get_ylim())
            shown = [tick for tick in axes.get_yticks() if low <= tick <= high]
            if max(map(len, axes.yaxis.get_major_formatter().format_ticks(shown)), default=0) > MAX_TICK_LABEL:
                axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))

    def _text(self, part: str, left: float, text: str, **style: Any) -> None:
        width, height = self.figure.get_size_inches()
        bottom, part_height = self._place(part)
        top = (bottom + part_height - 0.03) / height
        self.figure.text((self.left + left) / width, top, text, ha="left", va="top", **style)

    def _place(self, part: str) -> tuple[float, float]:
        """Bottom and height of a part, in inches from the figure's bottom."""
        heights = vars(self.frame)
        names = list(heights)
        below = math.fsum(heights[name] for name in names[names.index(part) + 1 :])
        return below, heights[part]


def title_left(name: str) -> float:
    """Where a title begins beside the name of its panel, in inches."""
    return 0.22 + TextPath((0, 0), name, size=10, prop=FontProperties(weight="bold")).get_extents().width / 72


def title_lines(name: str, title: str, width: float) -> list[str]:
    return textwrap.wrap(title, max(12, int((width - title_left(name) - 0.1) / (CHARACTER * 8.5 * 0.88)))) or [""]


def footer_lines(text: str, width: float) -> list[str]:
    return textwrap.wrap(text, max(20, int((width - 0.2) / (CHARACTER * SMALL * 0.88))))


def legend_columns(labels: Sequence[str], width: float) -> int:
    """How many columns of these labels fit side by side."""
    longest = max(len(plain(label)) for label in labels)
    return max(1, min(len(labels), int((width - 0.2) / (0.48 + longest * CHARACTER * 7.5))))


def legend_height(labels: Sequence[str], width: float) -> float:
    """Height of a legend below panels of this width together, in inches."""
    return 0.08 + LEGEND_LINE * math.ceil(len(labels) / legend_columns(labels, width)) if labels else 0.0


def frame(
    width: float,
    name: str,
    title: str,
    count_lines: int,
    axes: float,
    footer: str,
    labels: float = AXIS_LABELS,
) -> Frame:
    """The frame of a panel without its legend, from what its parts hold; `axes` is the height of the axes in inches."""
    return Frame(
        title=0.1 + TITLE_LINE * len(title_lines(name, title, width)),
        counts=0.05 + SMALL_LINE * count_lines,
        axes=axes,
        labels=labels,
        legend=0.0,
        footer=0.08 + SMALL_LINE * len(footer_lines(footer, width)),
    )


# --------------------------------------------------------------------------------------------------------------------
# Published values
# --------------------------------------------------------------------------------------------------------------------


class Cross(NamedTuple):
    """A published value: where it stands in the data of the axes, and the shade of its series."""

    x: float
    y: float
    shade: str


def shades(panel: Any, drawn: Sequence[Any], look: Look) -> dict[str, str]:
    """The shade of every series that is declared, drawn or published, by label.

    A series of `drawn` knows its place among those of the panel (`index`), which a panel that splits does not list; of
    such a panel, trials of a published series may not exist.
    """
    found = {one.label: look.shade(one.color, index) for index, one in enumerate(panel.series)}
    found |= {one.label: look.shade(one.color, one.index) for one in drawn}
    for reference in panel.published:
        found.setdefault(reference.series, look.shade(None, len(found)))
    return found


CLOSE = 4.0
"""Crosses that are nearer than so many points are set side by side, so that neither hides the other."""


def paint_crosses(axes: Axes, crosses: Sequence[Cross]) -> list[Line2D]:
    """Draw published values; `spread` sets those apart that coincide, once the limits of the axes are known."""
    return [
        axes.plot(
            [cross.x],
            [cross.y],
            linestyle="none",
            marker="x",
            markersize=5.5,
            markeredgewidth=1.3,
            color=cross.shade,
            zorder=6,
            clip_on=False,
        )[0]
        for cross in crosses
    ]


def spread(axes: Axes, drawn: Sequence[Line2D]) -> None:
    """Move crosses that would hide each other apart, sideways and by no more than needed to tell them."""
    figure = axes.get_figure(root=True)
    assert figure is not None
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


PUBLISHED_ONLY = " (published only)"
"""What the legend adds to the label of a series of which there are crosses and nothing else."""


def cross_handle(shade: str = FAINT) -> Line2D:
    """A cross in a legend."""
    return Line2D([], [], color=shade, linestyle="none", marker="x", markersize=5)


# --------------------------------------------------------------------------------------------------------------------
# Text
# --------------------------------------------------------------------------------------------------------------------


def plain(label: str) -> str:
    """A label without its mathematical markup, for tables and terminals, and to judge its length."""
    return label.translate(str.maketrans("", "", "${}"))


def number(value: float | int) -> str:
    """A value of an axis as its tick label."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value and not 1e-3 <= abs(value) < 1e5:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        mantissa = mantissa.removesuffix(".0")
        power = f"10^{{{int(exponent)}}}"
        return f"${power}$" if mantissa == "1" else f"${mantissa}\\cdot {power}$"
    return f"{value:g}"
