"""A panel with its numbers: one tidy frame, and all that follows from the frame for every kind.

A row of the frame is a number of one trial: its `series`, `x`, `seed`, `metric`, `value` and `trial_id`, and columns of
the kind. Colours, legend, published values beside measured ones, and merged entries come from the frame here. A kind is
a subclass: it says which values it shows of some trials, and paints them into axes. It knows nothing of other panels,
of the canvas, or of any task or paper: `sweeper.analysis.figures.layout` puts drawings side by side, with titles,
legends and footers.
"""

import abc
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures.selection import NoData, best_settings, chosen, mixed, series_of
from sweeper.analysis.figures.style import FAINT, Look, plain
from sweeper.analysis.results import Results, tables_of_row
from sweeper.messages import counted, typed
from sweeper.panels.axes import Color
from sweeper.panels.panel import Panel
from sweeper.panels.series import Series
from sweeper.trial.kinds import KindTables

WIDTH = 2.75  # width of axes in inches, unless a kind gives another
MOST_DIFFERENT = 4  # most entries that a footer names where trials that differ are merged; the notes name all

COLUMNS = ["series", "x", "seed", "metric", "value", "trial_id"]

PUBLISHED_ONLY = " (published only)"
"""The addition in the legend to the label of a series that has published values and nothing else."""

PanelT = TypeVar("PanelT", bound=Panel)


class Note(NamedTuple):
    """A note to the reader of a panel: a series left out, different trials merged, or the setting that is the best."""

    panel: str
    series: str
    text: str


class Drawing(abc.ABC, Generic[PanelT]):
    """One panel, as the search space declares it, with the numbers that it shows."""

    MERGES: ClassVar[bool] = True
    """Whether trials of a series share a point, so that a point is a mean over trials that differ."""

    def __init__(self, panel: PanelT, results: Results) -> None:
        """The panel with its numbers taken from the results; a note for every series that has none."""
        self.panel = panel
        self.published: Sequence[Any] = getattr(panel, "published", ())
        self.results = results.of_evaluations() if panel.draws_evaluations else results
        self.notes: list[Note] = []
        self.differing: dict[str, list[str]] = {}  # entries in which trials differ that are not alike, by series
        self.best: list[str] = []  # the drawn setting of each series that shows the best of several
        self.declared: Sequence[Series] = ()
        parts: list[pd.DataFrame] = []
        trials = [self.results.trials[:0]]
        try:
            if self.results.trials.empty:  # the same of all series, so said once
                evaluations = f"no network is evaluated ({typed('evaluate')})"
                raise NoData(evaluations if panel.draws_evaluations else "no trial is finished")
            self.declared = series_of(panel, self.results)
        except NoData as reason:
            self.note("", str(reason))
        for series in self.declared:
            try:
                rows, settings = self._chosen(series)
                parts += self._parts(series, rows)
            except NoData as reason:
                self.note(series.label, str(reason))
                continue
            trials.append(rows)
            if settings:
                self.note(series.label, settings)
                self.best.append(f"{plain(series.label)}: {settings}")
            mentioned = [*self.axis_columns(), *panel.where, *series.where]
            if different := mixed(rows, mentioned):
                self.differing[series.label] = different
                self.note(
                    series.label, f"{'merges' if self.MERGES else 'has'} trials that differ in {'; '.join(different)}"
                )
        self.frame = self.arranged(pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS))
        self.trials = pd.concat(trials[1:] or trials).drop_duplicates("trial_id")

    def _chosen(self, series: Series) -> tuple[pd.DataFrame, str]:
        """The trials of a series, and a sentence about the setting that is the best of several."""
        rows = chosen(self.results, self.panel.where, series.where)
        best = series.best or self.panel.best
        return (rows, "") if best is None else best_settings(rows, best, self.axis_columns())

    def _parts(self, series: Series, rows: pd.DataFrame) -> list[pd.DataFrame]:
        """The numbers of each metric of a series; a note for each that was not measured, if another was."""
        found, missing = [], []
        for metric in filter(None, self.panel.metrics(series)):
            try:
                found.append(self.values(rows, metric).assign(series=series.label, metric=metric))
            except NoData as reason:
                missing.append(str(reason))
        if not found:
            raise NoData("; ".join(dict.fromkeys(missing)))
        for reason in missing:
            self.note(series.label, reason)
        return found

    def note(self, series: str, text: str) -> None:
        self.notes.append(Note(self.panel.name, series, text))

    def note_hidden(self, axis: str, scale: str, places: pd.Series) -> None:
        """A note if a logarithmic axis hides numbers."""
        if hidden := int((places.astype(float) <= 0).sum()) * (scale == "log"):
            self.note("", f"{counted(hidden, 'point')} at 0 or below: the logarithmic {axis} axis has no place for it")

    @abc.abstractmethod
    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        """A metric of some trials: `seed`, `value`, `trial_id`, and columns of the kind; `NoData` if none has it."""

    def arranged(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The numbers of all series in an order and with columns of the kind."""
        return frame

    @abc.abstractmethod
    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        """Draw into axes of the given `widths`, from left to right."""

    @abc.abstractmethod
    def remarks(self) -> list[str]:
        """Remarks for the footer of the figure, in half-sentences."""

    def axis_columns(self) -> Sequence[str]:
        """Columns of the panel's axes; together with its conditions they may differ within a series."""
        column = getattr(getattr(self.panel, "x", None), "column", None)
        return [column] if column else []

    def widths(self) -> Sequence[float]:
        """About the width in inches of each of the axes; their height is about `style.HEIGHT`."""
        return [WIDTH]

    @property
    def tables(self) -> KindTables:
        """What tables show of the kind of the drawn trials, at least one; of several kinds that of the first trial."""
        return tables_of_row(self.trials["spec"].iloc[0])

    def labels(self) -> list[str]:
        """The labels of the series that have numbers, in the order of the panel."""
        drawn = set(self.frame["series"])
        return [series.label for series in self.declared if series.label in drawn]

    def part(self, label: str) -> pd.DataFrame:
        """The rows of one series."""
        return self.frame[self.frame["series"] == label]

    def colors(self) -> dict[str, Color | None]:
        """The colour that every series asks for that is declared or published, by label.

        A panel that splits lists no series, and a published series of it may have no trials.
        """
        colors = {series.label: getattr(series, "color", None) for series in self.declared or self.panel.series}
        return colors | {each.series: None for each in self.published if each.series not in colors}

    def looks(self, look: Look) -> dict[str, tuple[str, str]]:
        """Shade and marker of every series, by label."""
        places = enumerate(self.colors().items())
        return {label: (look.shade(color, place), look.marker(place)) for place, (label, color) in places}

    @property
    def differences(self) -> list[str]:
        """The entries in which trials of a series differ, for the footer; with values that all series share."""
        texts: dict[str, list[str]] = {}
        for text in dict.fromkeys(itertools.chain.from_iterable(self.differing.values())):
            texts.setdefault(text.partition(" ")[0], []).append(text)
        if len(texts) > MOST_DIFFERENT:
            return [f"{len(texts)} entries differ; see the notes"]
        return [of_one[0] if len(of_one) == 1 else name for name, of_one in texts.items()]

    def choice_remarks(self) -> list[str]:
        """Remarks on the choice of trials."""
        how = "merged" if self.MERGES else "within a series differ"
        return [*self.best, *[f"{how}: {'; '.join(self.differences)}"] * bool(self.differences)]

    def legend(self, look: Look) -> list[tuple[str, Artist]]:
        """Labels and handles of what is drawn: each series, those that are published alone, and the published marks."""
        looks, drawn = self.looks(look), self.labels()
        entries = [(self.entry(label), self.handle(label, *looks[label])) for label in drawn]
        marks = {each.series: "x" if getattr(each, "fractions", True) else "v" for each in self.published}
        for label in looks:
            if label in marks and label not in drawn:
                entries.append((f"{label}{PUBLISHED_ONLY}", mark(marks[label], looks[label][0])))
        return entries

    def entry(self, label: str) -> str:
        """The text of a series in the legend."""
        return label

    def handle(self, label: str, shade: str, marker: str) -> Artist:
        """The handle of a series in the legend."""
        return Line2D([], [], color=shade, linestyle="none", marker=marker, markersize=4)

    def compare(self) -> list[Comparison]:
        """Every published value beside the measured number."""
        return [compared for reference in self.published for compared in self.beside(reference)]

    def beside(self, reference: Any) -> Iterator[Comparison]:
        """The published values of one series beside the measured numbers."""
        yield from ()

    def compared(
        self, reference: Any, metric: str, x: float | None, published: float, behind: pd.DataFrame, percent: bool
    ) -> Comparison:
        """A published value beside the mean over training seeds of the rows of the frame `behind`, with its error."""
        seeds = behind.groupby("seed")["value"].mean()
        scale = 100 if percent else 1
        measured = scale * float(seeds.mean()) if len(seeds) else None
        about = (self.panel.name, plain(reference.series), metric, x)
        error = scale * float(seeds.sem()) if len(seeds) > 1 else None
        return Comparison(*about, scale * published, measured, len(seeds), percent, error=error)


def mark(marker: str, shade: str = FAINT) -> Line2D:
    """The mark of a published value in a legend."""
    return Line2D([], [], color=shade, linestyle="none", marker=marker, markersize=5)


def by_seed(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The mean for each training seed at each combination of the columns `by`, in the order of the frame.

    A training seed counts once, however many trials of it are merged.
    """
    return frame.groupby([*by, "seed"], sort=False)["value"].mean().reset_index()


def over_seeds(seeds: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Statistics over training seeds of the means that `by_seed` gives."""
    return seeds.groupby([*by], sort=False)["value"].agg(["mean", "min", "max", "std", "count"]).reset_index()
