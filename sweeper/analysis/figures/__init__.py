"""Panels drawn from a store as PNG, and as PDF if that is asked for.

A kind is a subclass of `drawing.Drawing`, and `layout` puts drawings on a canvas. A new kind is one more subclass and
one more line in `KINDS`, beside its record in `sweeper.panels.kinds`; a kind of trial may have more of its own
(`sweeper.training.kind.Kind.drawings`).

Every panel is drawn alone; panels that name the same `figure` are drawn side by side as well, also those of several
search spaces. Series without data are named in the notes of the `FigureReport`; their published values are drawn all
the same. Panels without data in any series are not drawn. A panel that cannot be drawn is a note too: no figure ends a
sweep or a report.
"""

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures.drawing import Drawing, Note
from sweeper.analysis.figures.grids import CellMaps
from sweeper.analysis.figures.histogram import HeatMaps, Histograms
from sweeper.analysis.figures.layout import DOTS_PER_INCH, save
from sweeper.analysis.figures.lines import Curves, Histories
from sweeper.analysis.figures.scatter import Scatters
from sweeper.analysis.figures.style import PALETTES, PaletteName, plain
from sweeper.analysis.results import Results
from sweeper.panels.panel import Panel
from sweeper.progress import each
from sweeper.trial.kinds import kinds

__all__ = [
    "DOTS_PER_INCH", "PALETTES", "FigureReport", "Note", "PaletteName", "attempted", "draw", "draw_together", "drawing",
    "note_lines", "plain",
]  # fmt: skip

logger = logging.getLogger(__name__)

T = TypeVar("T")

FAILED = "could not be drawn"  # the beginning of a note about a figure whose drawing raised an exception

KINDS: dict[str, type[Drawing]] = {
    "curve": Curves,
    "history": Histories,
    "histogram": Histograms,
    "scatter": Scatters,
    "heatmap": HeatMaps,
    "cells": CellMaps,
}


class FigureReport(NamedTuple):
    """The figures of a sweep or a search space: what they were drawn from, the written files, and the panels."""

    name: str  # of the sweep or the space
    results: Results  # the trials that were to be drawn
    paths: tuple[Path, ...]
    notes: tuple[Note, ...]
    comparisons: tuple[Comparison, ...]  # of every published value, also in panels without any data
    drawn: tuple[Drawing, ...]


def note_lines(notes: Iterable[Note]) -> list[tuple[tuple[str, ...], str]]:
    """Notes without repetitions: the panels that share a note, and a line that names their series."""
    series: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        series.setdefault((note.panel, note.text), []).append(plain(note.series))
    panels: dict[str, list[str]] = {}
    for (panel, text), labels in series.items():
        named = ", ".join(filter(None, labels))
        panels.setdefault(f"{named}: {text}" if named else text, []).append(panel)
    return [(tuple(named), line) for line, named in panels.items()]


def drawing(panel: Panel, results: Results) -> Drawing:
    """The panel with its numbers."""
    return _drawings()[panel.kind](panel, results)


@functools.cache
def _drawings() -> dict[str, type[Drawing]]:
    return KINDS | {name: drawn for kind in kinds() for name, drawn in kind.drawings().items()}


def draw(
    results: Results, panels: Sequence[Panel], out: Path, palette: PaletteName = "paper", pdf: bool = False
) -> FigureReport:
    """Draw panels into the folder `out` as `<name>.png`, and as `figure-<figure>.png` where they share one.

    The folder has the name of the sweep or the space.
    """
    out.mkdir(parents=True, exist_ok=True)
    notes: list[Note] = []
    paths: list[Path] = []
    comparisons: list[Comparison] = []
    drawn: list[Drawing] = []
    for panel in each(panels, f"drawing {out.name}"):
        part = attempted(panel.name, notes, lambda panel=panel: drawing(panel, results))
        if part is None:
            continue
        notes += part.notes
        comparisons += [one._replace(sweep=out.name) for one in attempted(panel.name, notes, part.compare) or []]
        if len(part.frame) and (written := _written([part], panel.name, out / panel.name, palette, pdf, notes)):
            paths += written
            drawn.append(part)
    together = [(figure, row) for figure, row in _by_figure(drawn).items() if len(row) > 1]
    for figure, row in each(together, f"drawing figures of {out.name}"):
        paths += _written(row, figure, out / f"figure-{figure}", palette, pdf, notes)
    return FigureReport(out.name, results, tuple(paths), tuple(notes), tuple(comparisons), tuple(drawn))


def attempted(name: str, notes: list[Note], make: Callable[[], T]) -> T | None:
    """The result of `make`; None and a further note if it fails."""
    try:
        return make()
    except Exception as error:  # an error in one panel must not end the others
        logger.debug("%s: no figure", name, exc_info=error)
        notes.append(Note(name, "", f"{FAILED}: {type(error).__name__}: {error}"))
        return None


def draw_together(
    reports: Sequence[FigureReport], out: Path, palette: PaletteName = "paper", pdf: bool = False
) -> tuple[list[Path], list[Note]]:
    """Draw the figures whose panels come from several reports into the folder `out`, ordered by name of the panel.

    Panels of one name are one figure of different trials, such as a sweep and its repetition. Side by side they could
    not be told apart, so that a figure with two of them is left to the single reports. A figure that could not be drawn
    is a note.
    """
    paths: list[Path] = []
    notes: list[Note] = []
    for figure, row in _by_figure(part for report in reports for part in report.drawn).items():
        several = sum(any(part.panel.figure == figure for part in report.drawn) for report in reports) > 1
        if several and len({part.panel.name for part in row}) == len(row):
            out.mkdir(parents=True, exist_ok=True)
            row.sort(key=lambda part: part.panel.name)
            paths += _written(row, figure, out / f"figure-{figure}", palette, pdf, notes)
    return paths, notes


def _by_figure(drawn: Iterable[Drawing]) -> dict[str, list[Drawing]]:
    """The panels that name a figure, by its name."""
    rows: dict[str, list[Drawing]] = {}
    for part in drawn:
        if part.panel.figure:
            rows.setdefault(part.panel.figure, []).append(part)
    return rows


def _written(
    row: Sequence[Drawing], name: str, path: Path, palette: PaletteName, pdf: bool, notes: list[Note]
) -> list[Path]:
    """The files of a row of panels; none and a further note if it cannot be drawn."""
    return attempted(name, notes, lambda: save(row, palette, path, pdf)) or []
