"""The figures of the page: one chapter for every sweep or search space."""

import base64
import collections
import functools
import io
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from PIL import Image

from sweeper.analysis import figures
from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import FigureReport
from sweeper.analysis.figures.drawing import Drawing
from sweeper.analysis.figures.selection import NoData, chosen
from sweeper.analysis.page.page_table import TrialKind, TrialKinds, kinds_where
from sweeper.analysis.results import Results
from sweeper.messages import counted, inflected
from sweeper.panels.kinds import Panel
from sweeper.panels.series import Where

PIXELS_PER_CSS_PIXEL = figures.DOTS_PER_INCH / 125
"""At 125 pixels to the inch the 8-point text of the figures is as large as that of the tables."""

COLORS = 24  # of a figure on the page; its file has all


class SearchFigure(NamedTuple):
    """The settings of a search as parallel coordinates: what is shown, the files, PNG first, and the trials behind."""

    caption: str
    paths: tuple[Path, ...]
    trials: pd.DataFrame


class Section(NamedTuple):
    """The figures of a sweep or a search space, with the panels and the trials that they were drawn from."""

    name: str
    panels: tuple[Panel, ...]
    results: Results
    report: FigureReport
    search: SearchFigure | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.report.paths + (self.search.paths if self.search else ())


class Figure(NamedTuple):
    title: str
    caption: str
    behind: str  # trials, training seeds and steps
    alternative: str
    notes: tuple[str, ...]
    source: str
    width: int
    height: int
    kinds: TrialKinds


class Chapter(NamedTuple):
    """The figures of a section, and notes about panels that were not drawn."""

    name: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]


def chapter(section: Section) -> Chapter:
    drawn = {path.stem: path for path in section.report.paths if path.suffix == ".png"}
    notes = collections.defaultdict(list)
    left_out = []
    for panels, text in figures.note_lines(section.report.notes):
        for panel in panels:
            notes[panel].append(text)
        if absent := [panel for panel in panels if panel not in drawn]:
            left_out.append(f"{', '.join(absent)} {inflected(len(absent), 'is', 'are')} not drawn: {text}")
    failed: list[figures.Note] = []
    shown = []
    for drawing in section.report.drawn:
        name = drawing.panel.name
        make = functools.partial(_figure, section, drawing, drawn[name], tuple(notes[name]))
        shown.append(figures.attempted(name, failed, make))
    left_out += [f"{note.panel} is not shown: {note.text}" for note in failed]
    if (search := section.search) is not None:
        caption = f"{search.caption}, one line a setting: the darker the better, the best in red"
        alternative = f"Parallel coordinates of the entries that differ and of the metric: {search.caption}."
        kinds = _kinds_of(search.trials, section.name)
        shown.append(_shown("parallel coordinates", caption, search.trials, alternative, search.paths[0], kinds))
    return Chapter(section.name, tuple(filter(None, shown)), tuple(left_out))


def published(section: Section) -> list[tuple[Comparison, TrialKinds]]:
    """The published numbers of a section, each with the kinds of the trials behind it."""
    named = {compared.panel for compared in section.report.comparisons}
    panels = [panel for panel in section.panels if panel.name in named]
    by_series = {panel.name: _series_kinds(section, panel) for panel in panels}
    whole = {panel.name: _kinds(section, panel.where) for panel in panels}
    return [
        (compared._replace(sweep=section.name), by_series[compared.panel].get(compared.series, whole[compared.panel]))
        for compared in section.report.comparisons
    ]


def _kinds(section: Section, *conditions: Where) -> TrialKinds:
    """The kinds of the trials that meet the conditions; without such trials, the kinds that the conditions name."""
    try:
        return _kinds_of(chosen(section.results, *conditions), section.name)
    except NoData:
        return kinds_where(section.name, *conditions)


def _kinds_of(rows: pd.DataFrame, sweep: str) -> TrialKinds:
    distinct = rows[["task", "baseline", "model"]].drop_duplicates()
    return frozenset(
        TrialKind(str(task), str(baseline), str(model), sweep, "finished")
        for task, baseline, model in distinct.itertuples(index=False)
    )


def _series_kinds(section: Section, panel: Panel) -> dict[str, TrialKinds]:
    """The kinds behind each series of a panel that lists its series, by label."""
    return {figures.plain(series.label): _kinds(section, panel.where, series.where) for series in panel.series}


def _figure(section: Section, drawing: Drawing, png: Path, notes: tuple[str, ...]) -> Figure:
    panel = drawing.panel
    by_series = _series_kinds(section, panel)
    kinds = frozenset().union(*by_series.values()) if by_series else _kinds(section, panel.where)
    return _shown(panel.name, figures.plain(panel.title), drawing.trials, drawing.alternative(), png, kinds, notes)


def _shown(
    title: str,
    caption: str,
    trials: pd.DataFrame,
    alternative: str,
    file: Path,
    kinds: TrialKinds,
    notes: tuple[str, ...] = (),
) -> Figure:
    small = io.BytesIO()
    with Image.open(file) as image:
        width, height = (round(pixels / PIXELS_PER_CSS_PIXEL) for pixels in image.size)
        # A quarter of the bytes of the PNG; every browser of the last years knows the format.
        colors = image.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
        colors.convert("RGB").save(small, "WEBP", lossless=True)
    source = "data:image/webp;base64," + base64.b64encode(small.getvalue()).decode()
    lowest, highest = trials["steps"].min(), trials["steps"].max()
    steps = f"{lowest:,}" if lowest == highest else f"{lowest:,} to {highest:,}"
    behind = f"{counted(len(trials), 'trial')}, {counted(trials['seed'].nunique(), 'training seed')}, {steps} steps."
    return Figure(title, caption, behind, alternative, notes, source, width, height, kinds)
