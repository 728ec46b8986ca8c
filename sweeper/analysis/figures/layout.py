"""Panels side by side on one canvas: axes, titles, legends and a footer.

Matplotlib's constrained layout makes room for all text. The axes of all panels stand in one row of a grid, so that they
line up. Two flat rows hold what belongs to whole panels: titles stand on the upper one, and legends hang from the lower
one, each below the panels that share it.

Kinds give the sizes of their axes in inches (`Drawing.widths`, `HEIGHT`). The canvas takes the size at which the axes
have these sizes, however much room their labels, legends and footers need: these are measured first, since the layout
gives up on a canvas that is smaller than they are. What nobody would read to its end is cut, and says so.
"""

import itertools
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator
from matplotlib.transforms import Bbox
from PIL import Image

from sweeper.analysis.figures import references, style
from sweeper.analysis.figures.drawing import Drawing
from sweeper.panels.checks import is_text

HEIGHT = 2.05  # height of all axes, in inches

DOTS_PER_INCH = 200

FLAT = 0.01  # height in inches of the row of the grid on which titles stand, and of that from which legends hang
MARGIN = 0.08  # room around all axes and their labels, in inches

ATTEMPTS, CLOSE_ENOUGH = 8, 0.005
"""How often the size of the canvas is improved, and the error of the axes that is left, in inches."""

LARGEST = 60  # largest width and height of a canvas before it takes its size, in inches
GAP = 6  # points between the name of a panel and its title
APART = 4  # room on either side of tick labels and seed counts, in pixels
SHORTEST = 8  # least number of characters of a line of a broken text

MOST_ENTRIES, LAST_ENTRIES = 30, 6
"""Most entries of a legend; of more entries the first are shown and the last, which are no series in many kinds."""

MOST_REMARKS, MOST_LINES = 400, 8
"""Most characters of the remarks on a panel in a footer, and most lines of panels; the notes have all."""


def compose(row: Sequence[Drawing], palette: style.PaletteName) -> Figure:
    """A figure of panels side by side; its size follows from the sizes of their axes."""
    look = style.PALETTES[palette]
    widths = [list(drawing.widths()) for drawing in row]
    starts = [0, *itertools.accumulate(map(len, widths))]
    columns = list(itertools.chain.from_iterable(widths))
    figure = Figure((sum(columns) + 2 * len(row), HEIGHT + 4), DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=MARGIN, h_pad=MARGIN / 2, wspace=0, hspace=0))
    grid = figure.add_gridspec(3, len(columns), width_ratios=columns, height_ratios=[FLAT, HEIGHT, FLAT])

    def flat(line: int, first: int, last: int) -> Axes:
        """Flat axes over the columns of the panels `first` to `last`."""
        axes = figure.add_subplot(grid[line, starts[first] : starts[last]])
        axes.axis("off")
        return axes

    panels = []
    for drawing, start, end in zip(row, starts, starts[1:], strict=False):
        axes = [figure.add_subplot(grid[1, column]) for column in range(start, end)]
        drawing.paint(axes, look)
        for part in axes:
            style.show_no_rounding(part)
        panels.append(axes)
    heads = [flat(0, place, place + 1) for place in range(len(row))]
    groups = _sharing(row)
    feet = [flat(2, group.start, group.stop) for group in groups]
    show_texts(figure)
    _grow(figure)
    _fit(figure, columns)

    for axes in itertools.chain.from_iterable(panels):
        _break(axes.xaxis.label, axes.get_xlabel(), axes.bbox.width)
        _break(axes.yaxis.label, axes.get_ylabel(), axes.bbox.height, upright=True)
    boxes = [Bbox.union([box for part in axes if (box := part.get_tightbbox())]) for axes in panels]  # with labels
    titles = [
        _title(head, drawing.panel.name, drawing.panel.title, axes[0], box.width)
        for drawing, head, axes, box in zip(row, heads, panels, boxes, strict=True)
    ]
    tallest = max(title.offsetbox.get_window_extent().height for title in titles)
    for title in titles:
        title.xybox = (0, tallest * 72 / DOTS_PER_INCH)
    for group, foot in zip(groups, feet, strict=True):
        _add_legend(foot, _united([drawing.legend(look) for drawing in row[group]]), Bbox.union(boxes[group]))
    left = MARGIN / figure.get_figwidth()
    figure.supxlabel(_footer(row), x=left, ha="left", fontsize=style.SMALL, color=style.FAINT, wrap=True)
    show_texts(figure)
    _grow(figure)
    _fit(figure, columns)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        references.spread(axes)
        _hide_overlapping(axes)
    return figure


def save(make: Callable[[], Figure], path: Path, content: str = "") -> list[Path]:
    """Write a figure as PNG and PDF; after an error no half of it stays.

    The PNG keeps a digest of the `content` that is drawn. Files of this very content are not made again.
    """
    # `with_suffix` would take the end of a name such as "q=0.5" for a suffix.
    png, pdf = (path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "pdf"))
    if content and pdf.is_file() and _content(png) == content:
        return [png, pdf]
    with matplotlib.rc_context(style.RC):
        figure = make()
        try:
            figure.savefig(png, metadata={"Content": content} if content else None)
            figure.savefig(pdf, metadata={"CreationDate": None})
        except Exception:
            for file in (png, pdf):
                file.unlink(missing_ok=True)
            raise
    return [png, pdf]


def _content(png: Path) -> str | None:
    """The content that a PNG keeps; None without a file of ours."""
    try:
        with Image.open(png) as image:
            return image.info.get("Content")
    except OSError:  # also of a file that is no picture
        return None


def show_texts(whole: Artist) -> None:
    """Have texts that are no valid formula drawn as they are: they may be values of trials."""
    for text in whole.findobj(Text):
        assert isinstance(text, Text)
        if not all(map(is_text, text.get_text().split("\n"))):
            text.set_parse_math(False)


def _grow(figure: Figure) -> None:
    """Make the canvas larger than all that is around the axes."""
    drawn = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    around = Bbox.union([Bbox.from_bounds(0, 0, width, height), drawn])
    figure.set_size_inches(min(around.width, LARGEST), min(2 * around.height - height, LARGEST))


def _fit(figure: Figure, columns: Sequence[float]) -> None:
    """Size the canvas so that the axes have their own sizes: texts around the axes do not grow with the canvas."""
    engine = figure.get_layout_engine()
    assert engine is not None
    for _ in range(ATTEMPTS):
        engine.execute(figure)
        box = figure.axes[0].get_position(original=True)
        width, height = figure.get_size_inches()
        wider = (1 - box.width * width / columns[0]) * sum(columns)
        higher = HEIGHT - box.height * height
        if max(abs(wider), abs(higher)) < CLOSE_ENOUGH:
            break
        figure.set_size_inches(width + wider, height + higher)


def _title(head: Axes, name: str, title: str, first: Axes, width: float) -> AnnotationBbox:
    """The name of a panel in bold and its title, which is broken into lines of so many pixels.

    Both are added to the flat axes `head`, their upper edge `xybox` points above them, and begin with the labels of the
    panel's `first` axes.
    """
    text = TextArea("", textprops={"fontsize": 9, "linespacing": 1.25})
    bold = TextArea(name, textprops={"fontsize": 10.5, "fontweight": "bold"})
    packed = HPacker(children=[bold, text], sep=GAP, pad=0, align="top")
    label = first.yaxis.label
    left = label if label.get_text() else first
    where = {"xycoords": (left, head.transAxes), "boxcoords": "offset points", "box_alignment": (0, 1)}
    added = AnnotationBbox(packed, (0, 1), frameon=False, pad=0, **where)
    head.add_artist(added)
    _break(text, title, width - bold.get_window_extent().width - GAP * DOTS_PER_INCH / 72)
    return added


def _hide_overlapping(axes: Axes) -> None:
    """Leave out labels of fixed ticks, and seed counts, that would run into the one before."""
    texts = [text for text in axes.texts if text.get_gid() == style.COUNT]
    if isinstance(axes.xaxis.get_major_locator(), FixedLocator):
        texts += axes.get_xticklabels()
    kept: list[Bbox] = []
    for text in texts:
        box = text.get_window_extent().padded(APART, 0)
        if any(map(box.overlaps, kept)):
            text.set_visible(False)
        else:
            kept.append(box)


def _sharing(row: Sequence[Drawing]) -> list[slice]:
    """Neighbours of one kind that declare series of the same labels and colours: they share a legend."""

    keys = [(type(drawing), drawing.shared_legend() or place) for place, drawing in enumerate(row)]
    groups = [list(places) for _, places in itertools.groupby(range(len(row)), key=keys.__getitem__)]
    return [slice(places[0], places[-1] + 1) for places in groups]


def _united(legends: Sequence[Sequence[tuple[str, Artist]]]) -> dict[str, Artist]:
    """The entries of several legends, each once, in the order of the fullest legend.

    A series that has only published values in one panel, and trials in another, counts as measured.
    """
    united: dict[str, Artist] = {}
    for entries in sorted(legends, key=len, reverse=True):
        for label, handle in entries:
            united.setdefault(label, handle)
    for label in list(united):
        united.pop(f"{label}{references.PUBLISHED_ONLY}", None)
    return united


def _add_legend(foot: Axes, entries: Mapping[str, Artist], panels: Bbox) -> None:
    """A legend that hangs from flat axes below the panels, in as few rows as are not wider than the panels.

    `figure.legend(loc="outside ...")` stands at the border of the whole canvas, and this legend below its panels.
    """
    if not entries:
        return
    named = list(entries.items())
    if left_out := max(0, len(named) - MOST_ENTRIES):
        more = (f"… {left_out:,} more", Line2D([], [], linestyle="none"))
        named = [*named[: MOST_ENTRIES - LAST_ENTRIES], more, *named[-LAST_ENTRIES:]]
    centre = (panels.x0 + panels.x1) / 2 - foot.bbox.x0
    where = {"loc": "upper center", "bbox_to_anchor": (centre / foot.bbox.width, 1)}
    # A legend takes a tenth of a second, so its columns are counted from the widths of its texts.
    legend = foot.legend([handle for _, handle in named], [label for label, _ in named], ncols=1, **where)
    points = matplotlib.rcParams["legend.fontsize"] * DOTS_PER_INCH / 72
    handle = (legend.handlelength + legend.handletextpad) * points
    for text in legend.get_texts():
        _break(text, text.get_text(), panels.width - handle)
    widths = [handle + text.get_window_extent().width for text in legend.get_texts()]

    def width(count: int) -> float:
        return sum(map(max, np.array_split(widths, count))) + (count - 1) * legend.columnspacing * points

    count = next((count for count in range(len(named), 1, -1) if width(count) <= panels.width), 1)
    labels = [text.get_text() for text in legend.get_texts()]
    foot.legend([handle for _, handle in named], labels, ncols=count, **where)


def _break(text: Text | TextArea, words: str, width: float, upright: bool = False) -> None:
    """Break a text into lines of so many pixels. Matplotlib breaks at the border of a figure, and inside formulas."""

    def length() -> float:
        box = text.get_window_extent()
        return box.height if upright else box.width

    text.set_text(words)
    show_texts(text)
    if length() <= width:
        return
    whole = re.sub(r"\$[^$]*\$", lambda formula: formula[0].replace(" ", "\xa0"), words)
    estimate = math.ceil(1.5 * len(whole) * width / length())
    for characters in range(min(max(estimate, SHORTEST), len(whole)), SHORTEST - 1, -1):
        lines = textwrap.wrap(whole, characters, break_on_hyphens=False)
        text.set_text("\n".join(lines).replace("\xa0", " "))
        if length() <= width:
            break


def _footer(row: Sequence[Drawing]) -> str:
    """The remarks on the panels, each line once with the names of its panels unless it is about all of them."""
    panels: dict[str, list[str]] = {}
    for drawing in row:
        line = textwrap.shorten("; ".join(drawing.remarks()), MOST_REMARKS, placeholder=" … (see the notes)")
        panels.setdefault(f"{line}.", []).append(drawing.panel.name)
    if len(panels) == 1:
        return next(iter(panels))
    lines = [f"{', '.join(names)}: {line}" for line, names in panels.items()]
    return "\n".join(lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "Other panels: see the notes."])
