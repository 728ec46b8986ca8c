"""Panels side by side on one canvas: axes, titles, legends and a footer.

Matplotlib's constrained layout makes room for all text. The axes of all panels stand in one row of a grid, so that they
line up. Two flat rows hold what belongs to whole panels: titles stand on the upper one, and legends hang from the lower
one, each below the panels that share it. The canvas takes the size at which the axes have the sizes that their kinds
ask for (`Drawing.widths`, `HEIGHT`). Texts are broken into lines by their number of letters; what nobody would read to
its end is cut, and says so.
"""

import io
import itertools
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator
from matplotlib.transforms import Bbox, offset_copy
from PIL import Image

from sweeper.analysis.figures import pdf_fonts, style, texts
from sweeper.analysis.figures.drawing import PUBLISHED_ONLY, Drawing
from sweeper.analysis.figures.style import HEIGHT
from sweeper.panels.checks import is_text

DOTS_PER_INCH = 200

FLAT = 0.01  # height in inches of the row of the grid on which titles stand, and of that from which legends hang
MARGIN = 0.08  # room around all axes and their labels, in inches
BESIDE = 0.45  # width of ticks and label on the left of axes, in inches: titles begin above them
APART = 4  # room on either side of tick labels and seed counts, in pixels
CLOSE = 4.0  # crosses nearer to each other than this number of points are set side by side, so that none hides another

BESIDE_ALL = 0.8  # width in inches of what stands beside axes, before it is measured; a good guess spares a fit

ATTEMPTS, CLOSE_ENOUGH = 5, 0.02
"""How often the canvas is fitted, as a rule twice, and inches that may be left: 4 pixels are not worth a third time."""

LETTER, LINE = 0.51, 1.3  # width of a letter and height of a line, of the size of the font

MOST_ENTRIES, LAST_ENTRIES = 30, 6
"""Most entries of a legend; of more entries the first are shown and the last, which are no series in many kinds."""

MOST_REMARKS, MOST_LINES = 400, 8
"""Most characters of the remarks on a panel in a footer, and most lines of panels; the notes have all."""


class Picture(Figure):
    """A figure that a notebook shows, in the settings of this package."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        with style.settings():
            texts.Canvas(self).print_png(file)
        return file.getvalue()


def compose(row: Sequence[Drawing], palette: style.PaletteName) -> Figure:
    """A figure of panels side by side; its size follows from the sizes of their axes."""
    look = style.PALETTES[palette]
    widths = [list(drawing.widths()) for drawing in row]
    columns, starts = list(itertools.chain.from_iterable(widths)), [0, *itertools.accumulate(map(len, widths))]
    figure = Picture((sum(columns) + BESIDE_ALL * len(row), HEIGHT + 4), DOTS_PER_INCH)
    texts.Canvas(figure)
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=MARGIN, h_pad=MARGIN / 2, wspace=0, hspace=0))
    grid = figure.add_gridspec(3, len(columns), width_ratios=columns, height_ratios=[FLAT, HEIGHT, FLAT])

    def flat(line: int, panels: slice) -> Axes:
        """Flat axes above or below the columns of some panels."""
        axes = figure.add_subplot(grid[line, starts[panels.start] : starts[panels.stop]])
        axes.axis("off")
        return axes

    names = [0.65 * 10.5 / 72 * len(drawing.panel.name) for drawing in row]  # their widths, in bold
    titles = [
        broken(drawing.title(), sum(each) + BESIDE - name, 9)
        for drawing, each, name in zip(row, widths, names, strict=True)
    ]
    lines = max(title.count("\n") + 1 for title in titles)
    for place, (drawing, title) in enumerate(zip(row, titles, strict=True)):
        axes = [figure.add_subplot(grid[1, column]) for column in range(*starts[place : place + 2])]
        drawing.paint(axes, look)
        for part, width in zip(axes, widths[place], strict=True):
            style.show_no_rounding(part)
            part.set_xlabel(broken(part.get_xlabel(), width, 9))
            part.set_ylabel(broken(part.get_ylabel(), HEIGHT, 9))
        _add_title(flat(0, slice(place, place + 1)), drawing.panel.name, title, lines)
    for group in _sharing(row):
        entries = _united([drawing.legend(look) for drawing in row[group]])
        _add_legend(flat(2, group), entries, sum(map(sum, widths[group])))
    width = sum(columns) + BESIDE * len(row)
    remarks = "\n".join(broken(line, width, style.SMALL) for line in _footer(row))
    footer = figure.supxlabel(remarks, ha="left", fontsize=style.SMALL, color=style.FAINT)
    try:
        _fit(figure, columns)
    except ValueError:  # a text is no valid formula
        show_texts(figure)
        _fit(figure, columns)
    footer.set_x(MARGIN / figure.get_figwidth())
    figure.set_layout_engine("none")
    for axes in figure.axes:
        _spread(axes)
        _hide_overlapping(axes)
    return figure


def save(make: Callable[[], Figure], path: Path, content: str = "") -> list[Path]:
    """Write a figure as PNG and PDF; after an error no half of it stays.

    The PNG keeps a digest of the `content` that is drawn. Files of this very content are not made again.
    """
    # `with_suffix` would take the end of a name such as "rate=0.5" for a suffix.
    png, pdf = (path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "pdf"))
    if content and pdf.is_file() and _content(png) == content:
        return [png, pdf]
    with style.settings():
        figure = make()
        try:
            # `savefig` draws twice.
            texts.Canvas(figure).print_png(png, metadata={"Content": content} if content else None)
            with pdf_fonts.shared(), texts.kept_formulas():
                FigureCanvasPdf(figure).print_pdf(pdf, metadata={"CreationDate": None})
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


def broken(text: str, width: float, size: float) -> str:
    """A text in lines of about so many inches, without a break inside a formula."""
    whole = re.sub(r"\$[^$]*\$", lambda formula: formula[0].replace(" ", "\xa0"), text)
    letters = max(8, int(width * 72 / (LETTER * size))) + len(text) - len(style.plain(text))
    return "\n".join(textwrap.wrap(whole, letters, break_on_hyphens=False)).replace("\xa0", " ")


def show_texts(whole: Artist) -> None:
    """Have texts that are no valid formula drawn as they are: they may be values of trials."""
    for text in whole.findobj(Text):
        assert isinstance(text, Text)
        if not all(map(is_text, text.get_text().split("\n"))):
            text.set_parse_math(False)


def _fit(figure: Figure, columns: Sequence[float]) -> None:
    """Size the canvas so that the axes have their own sizes: texts around the axes do not grow with the canvas.

    The layout gives up on a canvas that is smaller than the texts, so the canvas is made large enough first.
    """
    engine = figure.get_layout_engine()
    assert engine is not None
    for _ in range(ATTEMPTS):
        engine.execute(figure)
        box, (width, height) = figure.axes[0].get_position(original=True), figure.get_size_inches()
        wider, higher = (1 - box.width * width / columns[0]) * sum(columns), HEIGHT - box.height * height
        if max(abs(wider), abs(higher)) < CLOSE_ENOUGH:
            break
        figure.set_size_inches(width + wider, height + higher)


def _add_title(head: Axes, name: str, title: str, lines: int) -> None:
    """The name of a panel in bold and its title; all titles of a row begin at one height, that of the longest."""
    where: dict[str, Any] = {"textcoords": "offset points", "va": "top"}
    height, left = lines * LINE * 9 + 4, -72 * BESIDE
    bold = head.annotate(name, (0, 1), (left, height + 1), fontsize=10.5, fontweight="bold", **where)
    beside = left + 6 + bold.get_window_extent().width * 72 / DOTS_PER_INCH
    head.annotate(title, (0, 1), (beside, height), fontsize=9, linespacing=1.25, **where)


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


def _spread(axes: Axes) -> None:
    """Move crosses that would hide each other apart, sideways and by no more than needed to tell them."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    drawn = [line for line in axes.lines if line.get_gid() == style.PUBLISHED]
    points = [axes.transData.transform(np.column_stack(line.get_data()))[0] * 72 / figure.dpi for line in drawn]
    groups: list[list[int]] = []
    for index in sorted(range(len(drawn)), key=lambda i: (round(points[i][0]), points[i][1])):
        if groups and max(abs(points[index] - points[groups[-1][-1]])) < CLOSE:
            groups[-1].append(index)
        else:
            groups.append([index])
    for group in groups:
        for place, index in enumerate(sorted(group)):
            aside = CLOSE * (place - (len(group) - 1) / 2)
            drawn[index].set_transform(offset_copy(axes.transData, figure, x=aside, units="points"))


def _sharing(row: Sequence[Drawing]) -> list[slice]:
    """Neighbours of one kind that declare series of the same labels and colours: they share a legend."""
    keys = [(type(drawing), drawing.shared_legend() or place) for place, drawing in enumerate(row)]
    groups = [list(places) for _, places in itertools.groupby(range(len(row)), key=keys.__getitem__)]
    return [slice(places[0], places[-1] + 1) for places in groups]


def _united(legends: Sequence[Sequence[tuple[str, Artist]]]) -> list[tuple[str, Artist]]:
    """The entries of several legends, each once, in the order of the fullest legend.

    A series that has only published values in one panel, and trials in another, counts as measured.
    """
    united: dict[str, Artist] = {}
    for label, handle in itertools.chain.from_iterable(sorted(legends, key=len, reverse=True)):
        united.setdefault(label, handle)
    measured = {f"{label}{PUBLISHED_ONLY}" for label in united}
    return [entry for entry in united.items() if entry[0] not in measured]


def _add_legend(foot: Axes, named: list[tuple[str, Artist]], width: float) -> None:
    """A legend that hangs from flat axes below the panels, in as few rows as are not wider than the panels.

    `figure.legend(loc="outside ...")` stands at the border of the whole canvas, and this legend below its panels.
    """
    if left_out := max(0, len(named) - MOST_ENTRIES):
        more = (f"… {left_out:,} more", Line2D([], [], linestyle="none"))
        named = [*named[: MOST_ENTRIES - LAST_ENTRIES], more, *named[-LAST_ENTRIES:]]
    size = style.RC["legend.fontsize"]
    # A label has its handle on the left, twice the size of the font long, and a space behind it unless it is the last.
    between = style.RC["legend.columnspacing"] * size / 72
    beside = (2 + style.RC["legend.handletextpad"]) * size / 72 + between
    labels = [broken(label, width + BESIDE / 2, size) for label, _ in named]
    letters = [max(map(len, style.plain(label).split("\n"))) * LETTER * size / 72 + beside for label in labels]
    counts = range(len(named), 1, -1)
    room = width + BESIDE + between
    fitting = (count for count in counts if sum(map(max, np.array_split(letters, count))) <= room)
    if named:
        handles = [handle for _, handle in named]
        foot.legend(handles, labels, ncols=next(fitting, 1), loc="upper center", bbox_to_anchor=(0.5, 1))


def _footer(row: Sequence[Drawing]) -> list[str]:
    """The remarks on the panels, each line once with the names of its panels unless it is about all of them."""
    panels: dict[str, list[str]] = {}
    for drawing in row:
        line = textwrap.shorten("; ".join(drawing.remarks()), MOST_REMARKS, placeholder=" … (see the notes)")
        panels.setdefault(f"{line}.", []).append(drawing.panel.name)
    lines = [f"{', '.join(names)}: {line}" if len(panels) > 1 else line for line, names in panels.items()]
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "Other panels: see the notes."]
