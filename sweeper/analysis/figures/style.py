"""The look that all kinds of panel share: palettes, text sizes, number formats.

Colours are named in the panels and given a shade here. `paper` is the palette of the published figures; in
`colorblind` every two colours stay apart for readers with any of the three kinds of dichromacy, and each series gets
a marker of its own.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import matplotlib
from matplotlib.axes import Axes

from sweeper.panels.axes import Color
from sweeper.tables import value_text
from sweeper.trial.entry_names import is_number

PaletteName = Literal["paper", "colorblind"]

RC: dict[Any, Any] = {
    "font.size": 8.5,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0,
    "legend.labelspacing": 0.4,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.3,
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

HEIGHT = 2.05  # height of all axes, in inches


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """Matplotlib's own defaults and ours, whatever the user's `matplotlibrc` says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        yield


SMALL = 7  # font size of footers, in points

FAINT = "#555555"

HATCHED: dict[str, Any] = {"facecolor": "#f2f2f2", "edgecolor": "#b5b5b5", "hatch": "////", "linewidth": 0}
"""The look of places without data."""


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
    "paper": Look({
        "red": "#d62728", "blue": "#1f4fd8", "purple": "#8e44ad", "green": "#2e8b57", "teal": "#0f766e",
        "lime": "#4cd137", "orange": "#f08c00", "black": "#111111",
    }, markers=("o",)),
    "colorblind": Look({
        "red": "#963908", "blue": "#1365b7", "purple": "#b75d94", "green": "#16a55a", "teal": "#8daaff",
        "lime": "#909700", "orange": "#ffc000", "black": "#111111",
    }, markers=("o", "s", "^", "D", "v", "P", "X")),
}  # fmt: skip


def cross(axes: Axes, x: float, y: float, shade: str, marker: Literal["x", "+"] = "x") -> None:
    """Draw a published value."""
    size = 5.5 if marker == "x" else 7  # an upright cross of the same size looks smaller
    look = {"linestyle": "none", "marker": marker, "markersize": size, "markeredgewidth": 1.3, "color": shade}
    axes.plot([x], [y], zorder=6, clip_on=False, **look)


def dots(axes: Axes, x: Any, y: Any, shade: str, marker: str, size: float, **look: Any) -> None:
    """Points without a line, such as those of single seeds."""
    look = {"markeredgewidth": 0} | look
    axes.plot(x, y, linestyle="none", marker=marker, markersize=size, color=shade, **look)


def color_bar(axes: Sequence[Axes], mesh: Any, label: str) -> None:
    """The scale of the colours of maps side by side."""
    figure = axes[0].get_figure(root=True)
    assert figure is not None
    figure.colorbar(mesh, ax=list(axes), pad=0.03, label=label).minorticks_off()


def plain(label: str) -> str:
    """A label without its mathematical markup, for tables and terminals."""
    return label.translate(str.maketrans("", "", "${}"))


def number(value: float | int, digits: int = 2) -> str:
    """A value of an axis as its tick label; a power of ten has a factor of at most so many digits."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value and not 1e-3 <= abs(value) < 1e5:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        mantissa = mantissa.rstrip("0").removesuffix(".")
        power = f"10^{{{int(exponent)}}}"
        return f"${power}$" if mantissa == "1" else f"${mantissa}\\cdot {power}$"
    return f"{value:g}"


def value_label(value: Any) -> str:
    """A value of an entry, also one that is no number, as its tick label or in a legend."""
    return number(value) if is_number(value) else value_text(value)
