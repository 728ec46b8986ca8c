"""What panels of lines share: an average as a solid line and a tail as a dashed one, one colour a series.

A point is the mean over training seeds, and a band shows their spread. A training seed counts once at a point, however
many trials of it are merged there: trials are averaged within their seed first. Published values are crosses in the
series' colour, also of series of which nothing is measured yet.

Exact values, such as what no agent can beat, are known to the task (`Abilities.exact_values`) and horizontal lines.
They are those of the very trials that a panel draws, so a line can never stand beside curves of another size of the
task. If the trials of a panel have tasks of several sizes, each exact value gets a line.
"""

import abc
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import references, style
from sweeper.analysis.figures.drawing import Drawing, Note
from sweeper.analysis.figures.selection import NoData, column
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results, task_of
from sweeper.learned_algorithms.contracts import Task
from sweeper.learned_algorithms.metrics import Metric, metric_named
from sweeper.messages import counted
from sweeper.panels.kinds import LinesPanel
from sweeper.panels.series import CurveSeries

DASHED = (0, (3.2, 1.6))  # line style of a tail

EXACT_DASHES = ((0, (1, 1.4)), (0, (5, 1.5, 1, 1.5)), (0, (7, 2)))
"""Line styles of the exact values of a panel, in turn; the dashes of a bad tail are not among them."""

LinesT = TypeVar("LinesT", bound=LinesPanel)


@dataclass(frozen=True)
class Line:
    """One metric of a series: its value for each training seed (`x`, `seed`, `value`), and the trials behind it."""

    metric: str
    tail: bool
    values: pd.DataFrame
    rows: pd.DataFrame

    @functools.cached_property
    def points(self) -> pd.DataFrame:
        """Statistics over the training seeds, by `x`; NaN, but for the count, where a mean describes no training."""
        points = self.values.groupby("x")["value"].agg(["mean", "min", "max", "std", "count"])
        metric = metric_named(self.metric)
        none = [metric.has_no_mean(*ends) for ends in zip(points["min"], points["max"], strict=True)]
        points.loc[none, ["mean", "min", "max", "std"]] = np.nan
        return points


@dataclass(frozen=True)
class LineSeries:
    """A series with data: its place in the panel decides the colour where none is given."""

    index: int
    label: str
    color: Any
    lines: tuple[Line, ...]

    def counts(self) -> dict[float, int]:
        """Number of training seeds at every value of x."""
        merged = pd.concat([line.values for line in self.lines])
        return {float(x): int(group["seed"].nunique()) for x, group in merged.groupby("x")}  # pyright: ignore[reportArgumentType]


class ExactLine(NamedTuple):
    """A horizontal line, in the units that the panel draws; `place` is its index in the panel."""

    place: int
    label: str
    value: float


class Lines(Drawing[LinesT, CurveSeries, LineSeries], abc.ABC):
    """A panel of lines; its kinds differ in their horizontal axis."""

    SERIES = CurveSeries

    def __init__(self, panel: LinesT, results: Results) -> None:
        """As of every kind, and with a note on every exact value that is missing, and values that no axis can show."""
        super().__init__(panel, results)
        self.exact = list(self._exact_lines())
        self.notes += [Note(panel.name, "", remark) for remark in self.scale_remarks()]
        known = {line.place for line in self.exact}
        self.notes += [
            Note(panel.name, exact.label, f"the task has no exact '{exact.value}'")
            for place, exact in enumerate(panel.yardsticks)
            if self.series and place not in known
        ]

    def _exact_lines(self) -> Iterator[ExactLine]:
        """The exact values that the tasks of the trials know."""
        tasks = dict.fromkeys(map(task_of, self.trials["spec"])) if self.panel.yardsticks else ()
        known = [_exact_values(task) for task in tasks if task is not None]  # pyright: ignore[reportArgumentType]
        for place, exact in enumerate(self.panel.yardsticks):
            for value in dict.fromkeys(values[exact.value] for values in known if exact.value in values):
                drawn = value * self.panel.y.factor if exact.unit is None else value / exact.unit
                yield ExactLine(place, f"{exact.label} ({drawn:.4g})", drawn)

    def drawn(self, results: Results, index: int, series: CurveSeries, rows: pd.DataFrame) -> LineSeries:
        found, missing = [], []
        for metric, tail in zip(self.panel.metrics(series), (False, True), strict=True):
            try:
                if metric is not None:
                    found.append(Line(metric, tail, self.values(results, rows, metric), rows))
            except NoData as reason:
                missing.append(str(reason))
        if not found:
            raise NoData("; ".join(dict.fromkeys(missing)))
        self.notes += [Note(self.panel.name, series.label, reason) for reason in missing]
        return LineSeries(index, series.label, series.color, tuple(found))

    @abc.abstractmethod
    def values(self, results: Results, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        """A metric of the trials for each training seed (`x`, `seed`, `value`); `NoData` if no trial has it."""

    def trials_behind(self, line: Line, x: float) -> pd.DataFrame:
        """The trials behind a point of a line."""
        return line.rows

    def marker(self, series: LineSeries, look: Look) -> str:
        """The marker of a series on its lines and in the legend; empty for none."""
        return look.marker(series.index)

    def all_lines(self) -> list[Line]:
        return [line for series in self.series for line in series.lines]

    def published_values(self) -> list[float]:
        return [value for reference in self.panel.published for value in reference.values.values()]

    def shared_legend(self) -> object:
        return [(series.label, series.color) for series in self.panel.series]

    def compare(self) -> list[Comparison]:
        lines = {(series.label, line.metric): line for series in self.series for line in series.lines}
        largest = max(map(abs, self.published_values()), default=0.0)
        compared = []
        for reference in self.panel.published:
            line = lines.get((reference.series, reference.metric))
            for x, published in sorted(reference.values.items()):
                by_seed, rows = {}, None
                if line is not None:
                    point = line.values[np.isclose(line.values["x"], x, rtol=1e-9)]
                    by_seed, rows = dict(zip(point["seed"], point["value"], strict=True)), self.trials_behind(line, x)
                for metric, values in ((reference.metric, by_seed), *self._pooled(reference.metric, rows)):
                    about = self.panel, reference, metric, x, published, values, rows
                    compared.append(references.compared(*about, percent=self.panel.y.percent, largest=largest))
        return compared

    def _pooled(self, name: str, rows: pd.DataFrame | None) -> Iterator[tuple[str, dict[int, float]]]:
        """Of a percentile also that of all training seeds together, which may be what a paper means."""
        metric = metric_named(name)._replace(statistic="pooled")
        if rows is None or metric_named(name) != metric.tail or rows["seed"].nunique() < 2:
            return
        if (value := pooled(self.results, rows, metric)) is not None:
            yield metric.name, dict.fromkeys(rows["seed"], value)

    def spread(self, points: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper edge of the band around the points of a line, in the unit that is drawn."""
        factor = self.panel.y.factor
        if self.panel.band == "range":
            return points["min"].to_numpy() * factor, points["max"].to_numpy() * factor
        mean, deviation = points["mean"].to_numpy() * factor, points["std"].fillna(0).to_numpy() * abs(factor)
        return mean - deviation, mean + deviation

    def spread_name(self) -> str:
        return "lowest to highest seed" if self.panel.band == "range" else "one standard deviation over seeds"

    def seeds_remark(self) -> tuple[str, bool]:
        """How many training seeds the points have, and whether any has several."""
        counts = {int(count) for line in self.all_lines() for count in line.points["count"]}
        low, high = min(counts), max(counts)
        return counted(high, "training seed") if low == high else f"{low}-{high} training seeds", high > 1

    def mean_remarks(self) -> list[str]:
        """A remark on points that have no mean."""
        lost = any(line.points["mean"].isna().any() for line in self.all_lines())
        return ["no mean where a percentile is 0 for one seed and 1 for another: empty markers"] * lost

    def paint_points(
        self, axes: Axes, series: LineSeries, line: Line, place: Callable[[float], float], look: Look, banded: bool
    ) -> None:
        """A line with a marker at each point, its single seeds, and with `banded` the band of their spread."""
        points, shade, marker = line.points, look.shade(series.color, series.index), look.marker(series.index)
        x = np.array([place(value) for value in points.index])
        if points["count"].max() > 1:
            if banded:
                low, high = self.spread(points)
                axes.fill_between(x, low, high, color=shade, alpha=0.1, linewidth=0, zorder=2)
            for at, look_of_seeds in (
                (points["mean"].notna() & (points["count"] > 1), {"size": 2.6, "alpha": 0.35, "zorder": 3}),
                (points["mean"].isna(), {"size": 3.6, "zorder": 5, "markerfacecolor": "white", "markeredgewidth": 0.9}),
            ):
                seeds = line.values[line.values["x"].isin(points.index[at])]
                y = seeds["value"].to_numpy() * self.panel.y.factor
                style.dots(axes, [place(value) for value in seeds["x"]], y, shade, marker, **look_of_seeds)
        self.paint_means(axes, x, line, shade, linewidth=1.4, marker=marker)

    def paint_means(self, axes: Axes, x: np.ndarray, line: Line, shade: str, **look: Any) -> None:
        """The means over the seeds: solid with full markers, and dashed with empty ones for a tail."""
        look |= {"linestyle": DASHED, "markerfacecolor": "white"} if line.tail else {"markerfacecolor": shade}
        y = line.points["mean"].to_numpy() * self.panel.y.factor
        axes.plot(x, y, color=shade, markersize=3.6, markeredgewidth=0.9, zorder=5, **look)

    def _scale(self) -> tuple[str, str]:
        """The scale of the vertical axis for means and published values, and a remark on values that it cannot show."""
        means = [mean for line in self.all_lines() for mean in line.points["mean"]]
        return style.scale_for(self.panel.y.scale, [*means, *self.published_values()], "the vertical axis")

    def scale_remarks(self) -> list[str]:
        """Remarks on values that the axes cannot show."""
        return [remark for _, remark in [self._scale()] if remark]

    def dress(self, axes: Axes, x_label: str) -> None:
        """Scale, labels and grid."""
        metric = self.panel.metric or self.panel.tail or ""
        axes.set_yscale(self._scale()[0])
        axes.set_xlabel(x_label)
        axes.set_ylabel(self.panel.y.label or metric + " (%)" * self.panel.y.percent)
        axes.grid(True)

    def set_limits(self, axes: Axes) -> None:
        """The vertical limits that the panel gives."""
        y = self.panel.y
        if y.limits and self._scale()[0] == y.scale:
            ends = zip(y.limits, axes.get_ylim(), strict=True)
            low, high = (limit if given is None else given for given, limit in ends)
            # Lines along a limit, such as a success of 100 %, must be seen whole; those along 0 lie on the axis anyway.
            pad = 0.03 * (high - low) if y.scale == "linear" else 0.0
            axes.set_ylim(low - pad * (None not in y.limits), high + pad)

    def paint_references(self, axes: Axes, look: Look, place: Callable[[float], float]) -> None:
        """Published values of all series, whether measured or not, at `place` of their x; and exact values."""
        shades, logarithmic = references.shades(self.panel, self.series, look), self._scale()[0] == "log"
        for reference in self.panel.published:
            for x, value in sorted(reference.values.items()):
                if value > 0 or not logarithmic:
                    references.paint_cross(axes, place(x), value * self.panel.y.factor, shades[reference.series])
        for line in self.exact:
            axes.axhline(line.value, zorder=1.5, **self._exact_style(line, look))

    def _exact_style(self, line: ExactLine, look: Look) -> dict[str, Any]:
        shade = look.shades[self.panel.yardsticks[line.place].color]
        return {"color": shade, "linewidth": 0.9, "linestyle": EXACT_DASHES[line.place % len(EXACT_DASHES)]}

    def legend(self, look: Look) -> Sequence[tuple[str, Artist]]:
        entries: list[tuple[str, Artist]] = []
        for series in self.series:
            shade, dashes = look.shade(series.color, series.index), DASHED if all(x.tail for x in series.lines) else "-"
            line = {"marker": self.marker(series, look), "markersize": 3.6, "linewidth": 1.4, "linestyle": dashes}
            entries.append((series.label, Line2D([], [], color=shade, **line)))
        entries += references.published_only(self.panel, self.series, look)
        flipped, faint = self.panel.y.factor < 0, {"color": style.FAINT, "linewidth": 1.2}
        tails = dict.fromkeys(metric_named(line.metric).label(flipped) for line in self.all_lines() if line.tail)
        if tails and not all(line.tail for line in self.all_lines()):
            entries.append(("average", Line2D([], [], **faint)))
        if tails:
            entries.append((", ".join(tails), Line2D([], [], linestyle=DASHED, **faint)))
        if self.panel.published:
            entries.append(("published", references.handle("x")))
        return [*entries, *((line.label, Line2D([], [], **self._exact_style(line, look))) for line in self.exact)]


@functools.cache  # solving a task may take seconds, and many panels ask for the same task
def _exact_values(task: Task) -> dict[str, float]:
    return task.abilities().exact_values()


def metric_by_seed(rows: pd.DataFrame, name: str, x: str) -> pd.DataFrame:
    """Mean of a metric over the trials of each training seed at each value of column `x`.

    The result has columns `x`, `seed`, `value`; trials that lack the metric are not in it. `NoData` if no trial has the
    metric, or either is not a number.
    """
    values = pd.DataFrame({"x": rows[x], "seed": rows["seed"], "value": rows[column(rows, name)]}).dropna()
    if values.empty:
        raise NoData(f"'{name}' was not measured")
    try:
        values = values.astype({"x": float, "value": float})
    except ValueError:
        raise NoData(f"'{x}' and '{name}' are not both numbers") from None
    return mean_by_seed(values)


def pooled(results: Results, rows: pd.DataFrame, metric: Metric) -> float | None:
    """The percentile over the inputs of all these trials together; None if the inputs of one are not stored."""
    inputs = [results.outcomes(trial, metric._replace(statistic="mean").name) for trial in rows["trial_id"]]
    known = [values for values in inputs if values is not None]
    return metric.over_inputs(np.concatenate(known).astype(float)) if known and len(known) == len(inputs) else None


def mean_by_seed(values: pd.DataFrame) -> pd.DataFrame:
    """The mean for each training seed at each x (`x`, `seed`, `value`)."""
    return values.groupby(["x", "seed"])["value"].mean().reset_index()
