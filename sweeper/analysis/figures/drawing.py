"""The interface of a kind of panel.

A kind is one subclass of `Drawing`. It chooses the numbers of a panel, says how wide its axes are, paints them, and
explains them in a legend and in remarks. It knows nothing of other panels, of the canvas, or of any task or paper:
`sweeper.analysis.figures.layout` puts drawings side by side, with titles, legends and footers.
"""

import abc
from collections.abc import Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures.selection import NoData, best_settings, chosen, mixed, series_of
from sweeper.analysis.figures.style import Look, plain
from sweeper.analysis.results import Results
from sweeper.messages import typed
from sweeper.panels.kinds import Panel
from sweeper.panels.series import Series

WIDTH = 2.75  # width of axes in inches, unless a kind gives another
MOST_DIFFERENT = 4  # most entries that a footer names where trials that differ are merged; the notes name all

PanelT = TypeVar("PanelT", bound=Panel)
SeriesT = TypeVar("SeriesT", bound=Series)
DrawnT = TypeVar("DrawnT")


class Note(NamedTuple):
    """A note to the reader of a panel: a series left out, different trials merged, or the setting that is the best."""

    panel: str
    series: str
    text: str


class Drawing(abc.ABC, Generic[PanelT, SeriesT, DrawnT]):
    """One panel, as the search space declares it, with the numbers that it shows."""

    NAME: ClassVar[str]
    """The name of the kind in prose, in the plural."""

    SERIES: ClassVar[type[Series]] = Series
    """The record of its series."""

    def __init__(self, panel: PanelT, results: Results) -> None:
        """The panel with its numbers taken from the results; a note for every series that has none."""
        self.panel = panel
        self.series: list[DrawnT] = []  # those with data, as their kind draws them
        self.notes: list[Note] = []
        self.merged: list[str] = []  # entries in which trials of a series differ that are not alike
        self.best: list[str] = []  # the drawn setting of each series that shows the best of several
        results = self.results = results.of_evaluations() if panel.draws_evaluations else results
        self.trials = results.trials[:0]  # that are drawn
        try:
            if results.trials.empty:  # the same of all series, so said once
                evaluations = f"no network is evaluated ({typed('evaluate')})"
                raise NoData(evaluations if panel.draws_evaluations else "no trial is finished")
            declared = series_of(panel, self.SERIES, results)
        except NoData as reason:
            self.notes.append(Note(panel.name, "", str(reason)))
            return
        axes, trials = self.axis_columns(), []
        for index, declaration in enumerate(declared):
            label = declaration.label
            try:
                rows = chosen(results, panel.where, declaration.where)
                choice = declaration.best or panel.best
                rows, settings = (rows, "") if choice is None else best_settings(rows, choice, axes)
                self.series.append(self.drawn(results, index, declaration, rows))  # pyright: ignore[reportArgumentType]
            except NoData as reason:
                self.notes.append(Note(panel.name, label, str(reason)))
                continue
            trials.append(rows)
            if settings:
                self.notes.append(Note(panel.name, label, settings))
                self.best.append(f"{plain(label)}: {settings}")
            if different := mixed(rows, [*axes, *panel.where, *declaration.where], self.alike()):
                named = "; ".join(different)
                self.notes.append(Note(panel.name, label, f"merges trials that differ in {named}"))
                many = len(different) > MOST_DIFFERENT
                self.merged.append(f"{len(different)} entries differ; see the notes" if many else named)
        self.merged = list(dict.fromkeys(self.merged))
        if trials:
            self.trials = pd.concat(trials).drop_duplicates("trial_id")

    @abc.abstractmethod
    def drawn(self, results: Results, index: int, series: SeriesT, rows: pd.DataFrame) -> DrawnT:
        """A series of its place, its declaration and its trials; `NoData` if they lack what is drawn of them."""

    def axis_columns(self) -> Sequence[str]:
        """Columns of the panel's axes; together with its conditions they may differ within a series."""
        column = getattr(getattr(self.panel, "x", None), "column", None)
        return [column] if column else []

    def alike(self) -> Sequence[str]:
        """Columns that are not entries of a trial, and that should be equal within a series."""
        return ()

    def widths(self) -> Sequence[float]:
        """Width in inches of each of the axes; their height is `layout.HEIGHT`."""
        return [WIDTH]

    @abc.abstractmethod
    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        """Draw into axes of these widths, from left to right."""

    @abc.abstractmethod
    def remarks(self) -> list[str]:
        """Remarks for the footer of the figure, in half-sentences."""

    def choice_remarks(self) -> list[str]:
        """Remarks on the choice of trials."""
        return [*self.best, *(f"merged: {different}" for different in self.merged)]

    def legend(self, look: Look) -> Sequence[tuple[str, Artist]]:
        """Labels and handles of what is drawn; none where the drawing explains itself."""
        return []

    def shared_legend(self) -> object:
        """Neighbouring panels of one kind share a legend if this value is equal. A panel with None has its own."""
        return None

    def compare(self) -> list[Comparison]:
        """Every published value beside the measured number; none for kinds without published values."""
        return []

    def against(self) -> str:
        """The horizontal axis, in words."""
        return " ".join(["against", *self.axis_columns()]) if self.axis_columns() else "over inputs"

    def alternative(self) -> str:
        """A description of the figure for readers who cannot see it."""
        panel = self.panel
        named = [name for part in (panel, *panel.series) for name in (part.metric, getattr(part, "tail", None)) if name]
        labels = ", ".join(series.label for series in panel.series)
        series = f"one for every value of {panel.split}" if panel.split else labels
        title, metrics = f" ({panel.title})" if panel.title else "", ", ".join(dict.fromkeys(named))
        return plain(f"{self.NAME} {panel.name}{title}: {metrics} {self.against()}; series: {series}.")
