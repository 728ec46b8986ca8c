"""What panels of lines share: an average as a solid line and a tail as a dashed one, one colour a series.

A point is the mean over training seeds, and a band shows their spread. A training seed counts once at a point, however
many trials of it are merged there: trials are averaged within their seed first. Published values are crosses in the
series' colour, also of series of which nothing is measured yet.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import references, style
from sweeper.analysis.figures.drawing import Content, Drawing, Note
from sweeper.analysis.figures.selection import NoData, column
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results, task_of
from sweeper.messages import counted
from sweeper.panels.kinds import LinesPanel
from sweeper.panels.series import CurveSeries
from sweeper.trial.entry_names import entries
from sweeper.trial.metrics import metric_named

DASHED = (0, (3.2, 1.6))
"""Line style of a tail."""

LinesT = TypeVar("LinesT", bound=LinesPanel)


@dataclass(frozen=True)
class Line:
    """One metric of a series: its value for each training seed (`x`, `seed`, `value`), and the trials behind it."""

    metric: str
    tail: bool
    values: pd.DataFrame
    rows: pd.DataFrame

    def points(self) -> pd.DataFrame:
        """Statistics over the training seeds, by `x`."""
        return self.values.groupby("x")["value"].agg(["mean", "min", "max", "std", "count"])


@dataclass(frozen=True)
class LineSeries:
    """A series with data: its place in the panel decides the colour where none is given.

    `missing` says why one of its two lines is not there.
    """

    index: int
    label: str
    color: Any
    lines: tuple[Line, ...]
    missing: tuple[str, ...]

    def counts(self) -> dict[float, int]:
        """Number of training seeds at every value of x."""
        merged = pd.concat([line.values for line in self.lines])
        return {float(x): int(group["seed"].nunique()) for x, group in merged.groupby("x")}  # pyright: ignore[reportArgumentType]


class Lines(Drawing[LinesT, CurveSeries, LineSeries], abc.ABC):
    """A panel of lines; its kinds differ in their horizontal axis."""

    SERIES = CurveSeries

    @classmethod
    def of(cls, panel: LinesT, results: Results) -> Self:
        """As of every kind, and with a note for every line and every exact value that is missing."""
        results = results.of_evaluations() if panel.draws_evaluations else results
        if panel.draws_evaluations and results.trials.empty:
            note = Note(panel.name, "", "no network is evaluated (python -m sweeper.evaluate)")
            return cls(panel, Content((), (note,)))
        content = super().of(panel, results).content
        missing = [Note(panel.name, series.label, reason) for series in content.series for reason in series.missing]
        lost = [Note(panel.name, "", remark) for remark in cls(panel, content).scale_remarks()]
        exact = references.exact_notes(panel, content)
        return cls(panel, replace(content, notes=(*content.notes, *missing, *lost, *exact)))

    @classmethod
    def drawn(cls, panel: LinesT, results: Results, index: int, series: CurveSeries, rows: pd.DataFrame) -> LineSeries:
        found, missing = [], []
        for metric, tail in zip(panel.metrics(series), (False, True), strict=True):
            try:
                if metric is not None:
                    found.append(Line(metric, tail, cls.values(panel, results, rows, metric), rows))
            except NoData as reason:
                missing.append(str(reason))
        if not found:
            raise NoData("; ".join(dict.fromkeys(missing)))
        return LineSeries(index, series.label, series.color, tuple(found), tuple(missing))

    @classmethod
    @abc.abstractmethod
    def values(cls, panel: LinesT, results: Results, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        """A metric of the trials for each training seed (`x`, `seed`, `value`).

        Raises:
            NoData: no trial has it.
        """

    def trials_behind(self, line: Line, x: float) -> pd.DataFrame:
        """The trials behind a point of a line."""
        return line.rows

    def handle(self, series: LineSeries, look: Look, **line: Any) -> Line2D:
        """The handle of a series in the legend."""
        shade, marker = look.shade(series.color, series.index), look.marker(series.index)
        return Line2D([], [], color=shade, marker=marker, markersize=3.6, linewidth=1.4, **line)

    def shared_legend(self) -> object:
        return [(series.label, series.color) for series in self.panel.series]

    def compare(self) -> list[Comparison]:
        lines = {(series.label, line.metric): line for series in self.content.series for line in series.lines}
        compared = []
        largest = max((abs(x) for part in self.panel.published for x in part.values.values()), default=0.0)
        for reference in self.panel.published:
            line = lines.get((reference.series, reference.metric))
            for x, published in sorted(reference.values.items()):
                point = None if line is None else line.values[np.isclose(line.values["x"], x, rtol=1e-9)]
                by_seed = {} if point is None else dict(zip(point["seed"], point["value"], strict=True))
                rows = None if line is None else self.trials_behind(line, x)
                scale = {"percent": self.panel.y.percent, "largest": largest}
                compared.append(
                    references.compared(self.panel, reference, reference.metric, x, published, by_seed, rows, **scale)
                )
        return compared

    def value_label(self) -> str:
        """The label of the vertical axis."""
        metric = self.panel.metric or self.panel.tail or ""
        return self.panel.y.label or metric + " (%)" * self.panel.y.percent

    def spread(self, points: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper edge of the band around the points of a line, in the unit that is drawn."""
        factor = self.panel.y.factor
        if self.panel.band == "range":
            return points["min"].to_numpy() * factor, points["max"].to_numpy() * factor
        mean, deviation = points["mean"].to_numpy() * factor, points["std"].fillna(0).to_numpy() * abs(factor)
        return mean - deviation, mean + deviation

    def seeds_remark(self) -> tuple[str, bool]:
        """How many training seeds the points have, and whether any has several."""
        counts = {
            int(count) for series in self.content.series for line in series.lines for count in line.points()["count"]
        }
        low, high = min(counts), max(counts)
        return counted(high, "training seed") if low == high else f"{low}-{high} training seeds", high > 1

    def spread_name(self) -> str:
        return "lowest to highest seed" if self.panel.band == "range" else "one standard deviation over seeds"

    def paint_points(
        self, axes: Axes, line: Line, place: Callable[[float], float], shade: str, marker: str, banded: bool
    ) -> None:
        """A line with a marker at each point, its single seeds, and with `banded` the band of their spread."""
        points = line.points()
        x = np.array([place(value) for value in points.index])
        if points["count"].max() > 1:
            if banded:
                low, high = self.spread(points)
                axes.fill_between(x, low, high, color=shade, alpha=0.1, linewidth=0, zorder=2)
            several = line.values[line.values["x"].isin(points.index[points["count"] > 1])]
            seeds = several["value"].to_numpy() * self.panel.y.factor
            style.dots(axes, [place(value) for value in several["x"]], seeds, shade, marker, 2.6, alpha=0.35, zorder=3)
        self.paint_means(axes, x, line, shade, linewidth=1.4, marker=marker)

    def paint_means(self, axes: Axes, x: np.ndarray, line: Line, shade: str, **look: Any) -> None:
        """The means over the seeds: solid with full markers, and dashed with empty ones for a tail."""
        look |= {"linestyle": DASHED, "markerfacecolor": "white"} if line.tail else {"markerfacecolor": shade}
        y = line.points()["mean"].to_numpy() * self.panel.y.factor
        axes.plot(x, y, color=shade, markersize=3.6, markeredgewidth=0.9, zorder=5, **look)

    def _scale(self) -> tuple[str, str]:
        """The scale of the vertical axis for means and published values, and a remark on values that it cannot show."""
        means = [mean for series in self.content.series for line in series.lines for mean in line.points()["mean"]]
        published = [value for reference in self.panel.published for value in reference.values.values()]
        return style.scale_for(self.panel.y.scale, [*means, *published], "the vertical axis")

    def scale_remarks(self) -> list[str]:
        """Remarks on values that the axes cannot show."""
        return [remark for _, remark in [self._scale()] if remark]

    def dress(self, axes: Axes, x_label: str) -> None:
        """Scale, labels and grid."""
        axes.set_yscale(self._scale()[0])
        axes.set_xlabel(x_label)
        axes.set_ylabel(self.value_label())
        axes.grid(True)

    def set_limits(self, axes: Axes) -> None:
        """The vertical limits that the panel gives."""
        y = self.panel.y
        if y.limits:
            low, high = (
                limit if given is None else given for given, limit in zip(y.limits, axes.get_ylim(), strict=True)
            )
            # Lines along a limit, such as a success of 100 %, must be seen whole; those along 0 lie on the axis anyway.
            pad = 0.03 * (high - low) if y.scale == "linear" else 0.0
            axes.set_ylim(low - pad * (None not in y.limits), high + pad)

    def paint_references(self, axes: Axes, look: Look, place: Callable[[float], float]) -> None:
        """Published values of all series, whether measured or not, at `place` of their x; and exact values."""
        shades = references.shades(self.panel, self.content.series, look)
        for reference in self.panel.published:
            for x, value in sorted(reference.values.items()):
                if value <= 0 and self._scale()[0] == "log":
                    continue
                references.paint_cross(axes, place(x), value * self.panel.y.factor, shades[reference.series])
        references.paint_exact(axes, self.panel, self.content, look)

    def legend(self, look: Look) -> Sequence[tuple[str, Artist]]:
        drawn = self.content.series
        entries: list[tuple[str, Artist]] = [
            (
                series.label,
                self.handle(series, look, linestyle=DASHED if all(line.tail for line in series.lines) else "-"),
            )
            for series in drawn
        ]
        labels = {series.label for series in drawn}
        entries += [
            (f"{label}{references.PUBLISHED_ONLY}", references.cross_handle(shade))
            for label, shade in references.shades(self.panel, drawn, look).items()
            if label not in labels and any(reference.series == label for reference in self.panel.published)
        ]
        lines = [line for series in drawn for line in series.lines]
        flipped = self.panel.y.factor < 0
        tails = dict.fromkeys(metric_named(line.metric).label(flipped) for line in lines if line.tail)
        if tails and not all(line.tail for line in lines):
            entries.append(("average", Line2D([], [], color=style.FAINT, linewidth=1.2)))
        if tails:
            dashed = Line2D([], [], color=style.FAINT, linewidth=1.2, linestyle=DASHED)
            entries.append((", ".join(tails), dashed))
        if self.panel.published:
            entries.append(("published", references.cross_handle()))
        return [*entries, *references.exact_legend(self.panel, self.content, look)]


# --------------------------------------------------------------------------------------------------------------------
# Numbers of a series for each training seed
# --------------------------------------------------------------------------------------------------------------------


def metric_by_seed(rows: pd.DataFrame, name: str, x: str) -> pd.DataFrame:
    """Mean of a metric over the trials of each training seed at each value of column `x`.

    The result has columns `x`, `seed`, `value`; trials that lack the metric are not in it.

    Raises:
        NoData: no trial has the metric, or either is not a number.
    """
    values = pd.DataFrame({"x": rows[x], "seed": rows["seed"], "value": _measured(rows, name)}).dropna()
    if values.empty:
        raise NoData(f"'{name}' was not measured")
    try:
        values = values.astype({"x": float, "value": float})
    except ValueError:
        raise NoData(f"'{x}' and '{name}' are not both numbers") from None
    return values.groupby(["x", "seed"])["value"].mean().reset_index()


def votes_by_seed(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """As `metric_by_seed`, of votes at each number k of them, such as `votes_p5` for the columns `votes_<k>_p5`.

    Of several evaluations of one network the evaluation with the most seeds r counts, for every k by itself.

    Raises:
        NoData: no trial has the metric for any number of votes.
    """
    wanted, measured = metric_named(name), dict[int, str]()
    for named in rows.columns:
        size = metric_named(named).votes
        if size is not None and wanted._replace(votes=size).name == named and rows[named].notna().any():
            measured[size] = named
    if not measured:
        numbered = wanted._replace(quantity=f"{wanted.quantity}_<k>").name
        raise NoData(f"'{numbered}' was not measured for any number k of votes")
    return pd.concat(
        metric_by_seed(most_seeds(rows[rows[named].notna()]).assign(votes=size), named, "votes")
        for size, named in sorted(measured.items())
    )


def most_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """One row of every trial: of several evaluations of its network that with the most evaluation seeds."""
    seeds = pd.Series([entries(spec)["evaluation.seeds"] for spec in rows["spec"]], rows.index, dtype=int)
    return rows.loc[seeds.sort_values(ascending=False, kind="stable").index].drop_duplicates("trial_id")


def _measured(rows: pd.DataFrame, name: str) -> pd.Series:
    """A metric of the trials, derived by their task where the row of an older program lacks it and the task can."""
    values = rows[name] if name in rows else pd.Series(np.nan, rows.index)
    derived = {index: _own_metrics(rows.loc[index]).get(name) for index in rows.index[values.isna()]}
    known = {index: value for index, value in derived.items() if value is not None}
    if name not in rows and not known:
        return rows[column(rows, name)]
    return values.fillna(pd.Series(known, dtype=float)) if known else values


def _own_metrics(trial: pd.Series) -> dict[str, float]:
    """The metrics that the task derives from a row, if this checkout has the task and the row has all inputs."""
    task = task_of(trial["spec"])
    if task is None:
        return {}
    numbers = {
        str(name): float(value)
        for name, value in trial.items()
        if isinstance(value, int | float | np.number) and not np.isnan(value)
    }
    try:
        return {metric.name: value for metric, value in task.abilities().own_metrics(numbers).items()}
    except KeyError:
        return {}


def curve_by_seed(results: Results, rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """As `metric_by_seed`, of a training curve at each step.

    Raises:
        NoData: no trial has the curve.
    """
    stored = results.curves(rows["trial_id"].tolist())
    points = stored[stored["metric"] == name]
    if points.empty:
        known = sorted(set(stored["metric"]))
        raise NoData(f"no training curve '{name}' was stored" + f" (known: {', '.join(known)})" * bool(known))
    seeds = dict(zip(rows["trial_id"], rows["seed"], strict=True))
    points = pd.DataFrame({"x": points["step"], "seed": points["trial_id"].map(seeds), "value": points["value"]})
    return points.astype({"x": float, "value": float}).groupby(["x", "seed"])["value"].mean().reset_index()
