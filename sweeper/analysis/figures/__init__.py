"""Panels drawn from a store as PNG and PDF, one kind of panel a module.

A kind is a module with six functions: `gather` takes a panel's numbers from the results, `width` and `frame` say how
much room they need, `paint` draws them, `legend` explains them, and `compare` puts published numbers beside them. Kinds
know no task, no paper and no store. A new kind is one more module here, one more record in `sweeper.space.panels`, and
one more line in `KINDS`.

Every panel is drawn alone; panels that name the same `figure` are drawn side by side as well, also those of several
search spaces, and share a legend with neighbours of the same series. Series without data are named in `Report.notes`;
their published values are drawn all the same. Panels without data in any series are not drawn.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import matplotlib
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sweeper.analysis.comparison import Comparison, agreement
from sweeper.analysis.figures import board, cells, curve, heatmap, histogram, history
from sweeper.analysis.figures.selection import Note
from sweeper.analysis.figures.style import (
    PALETTES,
    PUBLISHED_ONLY,
    RC,
    Frame,
    PaletteName,
    Region,
    legend_height,
    plain,
)
from sweeper.analysis.results import Results
from sweeper.space.panels import CurvePanel, HistoryPanel, Panel

__all__ = [
    "PALETTES", "Comparison", "Note", "PaletteName", "Report", "Results",
    "agreement", "draw", "draw_together", "note_lines", "plain",
]  # fmt: skip

KINDS: dict[str, ModuleType] = {
    "curve": curve,
    "history": history,
    "histogram": histogram,
    "heatmap": heatmap,
    "cells": cells,
    "board": board,
}

DOTS_PER_INCH = 200


class Report(NamedTuple):
    """What was drawn, and what there is to say about it.

    Attributes:
        paths: The written files.
        notes: Series that were left out with the reason, and series that merge trials which are not alike.
        comparisons: Every published value of the panels beside the measured one, also of panels without any data.
        drawn: The panels that were drawn, with what their kind gathered.
    """

    paths: tuple[Path, ...]
    notes: tuple[Note, ...]
    comparisons: tuple[Comparison, ...]
    drawn: tuple[tuple[Panel, Any], ...]


def note_lines(notes: Iterable[Note]) -> list[tuple[tuple[str, ...], str]]:
    """Notes without repetitions: one line for all panels, and all of their series, of which the same is to be said.

    Returns:
        The panels, and the line, which names the series.
    """
    series: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        series.setdefault((note.panel, note.text), []).append(plain(note.series))
    panels: dict[str, list[str]] = {}
    for (panel, text), labels in series.items():
        named = ", ".join(filter(None, labels))
        panels.setdefault(f"{named}: {text}" if named else text, []).append(panel)
    return [(tuple(named), line) for line, named in panels.items()]


def draw(results: Results, panels: Sequence[Panel], out: Path, palette: PaletteName = "paper") -> Report:
    """Draw panels into the folder `out` as `<name>.png` and `.pdf`, and as `figure-<figure>` where they share one."""
    out.mkdir(parents=True, exist_ok=True)
    gathered = [(panel, KINDS[panel.kind].gather(panel, results)) for panel in panels]
    drawable = [(panel, content) for panel, content in gathered if content]
    paths = [path for panel, content in drawable for path in _write([(panel, content)], out / panel.name, palette)]
    for figure in dict.fromkeys(panel.figure for panel, _ in drawable if panel.figure):
        row = [(panel, content) for panel, content in drawable if panel.figure == figure]
        if len(row) > 1:
            paths += _write(row, out / f"figure-{figure}", palette)
    return Report(
        paths=tuple(paths),
        notes=tuple(note for _, content in gathered for note in content.notes),
        comparisons=tuple(one for panel, content in gathered for one in KINDS[panel.kind].compare(panel, content)),
        drawn=tuple(drawable),
    )


def draw_together(reports: Sequence[Report], out: Path, palette: PaletteName = "paper") -> list[Path]:
    """Draw the figures whose panels come from several reports into the folder `out`, ordered by name of the panel.

    Panels of one name are one figure of different trials, such as a sweep and its repetition. Side by side they could
    not be told apart, so that a figure with two of them is left to the single reports.
    """
    parts: dict[str, list[list[tuple[Panel, Any]]]] = {}
    for report in reports:
        for figure in dict.fromkeys(panel.figure for panel, _ in report.drawn if panel.figure):
            parts.setdefault(figure, []).append([one for one in report.drawn if one[0].figure == figure])
    paths = []
    for figure, found in parts.items():
        row = sorted((one for part in found for one in part), key=lambda one: one[0].name)
        if len(found) > 1 and len({panel.name for panel, _ in row}) == len(row):
            out.mkdir(parents=True, exist_ok=True)
            paths += _write(row, out / f"figure-{figure}", palette)
    return paths


def _write(row: Sequence[tuple[Panel, Any]], path: Path, palette: PaletteName) -> list[Path]:
    """Write a row of panels as PNG and PDF."""
    with matplotlib.rc_context(RC):
        figure = compose(row, palette)
        # `with_suffix` would take the end of a name such as "q=0.5" for a suffix.
        png, pdf = (path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "pdf"))
        figure.savefig(png, dpi=DOTS_PER_INCH)
        figure.savefig(pdf, metadata={"CreationDate": None})
    return [png, pdf]


def compose(row: Sequence[tuple[Panel, Any]], palette: PaletteName) -> Figure:
    """A figure of panels side by side; panels are given with what their kind gathered."""
    look = PALETTES[palette]
    widths = [KINDS[panel.kind].width(panel, content) for panel, content in row]
    lefts = [0.0, *itertools.accumulate(widths)]
    legends = []
    for group in _sharing(row):
        entries = _united([KINDS[panel.kind].legend(panel, content, look) for panel, content in row[group]])
        legends.append((lefts[group.start], lefts[group.stop] - lefts[group.start], entries))
    frame = replace(
        Frame.tallest([KINDS[panel.kind].frame(panel, content) for panel, content in row]),
        legend=max(legend_height(list(entries), width) for _, width, entries in legends),
    )
    figure = Figure(figsize=(lefts[-1], frame.height))
    FigureCanvasAgg(figure)
    for (panel, content), left, width in zip(row, lefts, widths, strict=False):
        KINDS[panel.kind].paint(panel, content, Region(figure, left, width, frame), look)
    for left, width, entries in legends:
        if entries:
            Region(figure, left, width, frame).legend(list(entries.values()), list(entries))
    return figure


def _sharing(row: Sequence[tuple[Panel, Any]]) -> list[slice]:
    """Neighbours of one kind that declare series of the same labels and colours: they share a legend."""

    def series(place: int) -> object:
        panel = row[place][0]
        if isinstance(panel, CurvePanel | HistoryPanel) and panel.series:
            return panel.kind, [(one.label, one.color) for one in panel.series]
        return place

    groups = [list(places) for _, places in itertools.groupby(range(len(row)), key=series)]
    return [slice(places[0], places[-1] + 1) for places in groups]


def _united(legends: Sequence[Sequence[tuple[str, Artist]]]) -> dict[str, Artist]:
    """The entries of several legends, each once, in the order of the fullest; what one panel measured, is measured."""
    united: dict[str, Artist] = {}
    for entries in sorted(legends, key=len, reverse=True):
        for label, handle in entries:
            united.setdefault(label, handle)
    for label in list(united):
        if f"{label}{PUBLISHED_ONLY}" in united:
            del united[f"{label}{PUBLISHED_ONLY}"]
    return united
