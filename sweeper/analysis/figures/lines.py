"""Panels of lines: an average as a solid line and a tail as a dashed one, one colour a series.

A point is the mean over training seeds, and a band shows their spread. On lines of few points each training seed also
stands as a faint marker, because runs differ by seed and a mean alone hides it. Published values are crosses in the
series' colour, also of series of which nothing is measured yet.

Exact values, such as what no agent can beat, are known to the task (`Abilities.exact_values`) and horizontal lines.
They are those of the very trials that a panel draws, so a line can never stand beside curves of another size of the
task. If the trials of a panel have tasks of several sizes, each exact value gets a line.
"""

import abc
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import style
from sweeper.analysis.figures.drawing import Drawing, by_seed, mark, over_seeds
from sweeper.analysis.figures.selection import NoData, column
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results, own_goals, task_of
from sweeper.learned_algorithms.contracts import Task
from sweeper.learned_algorithms.metrics import Metric, metric_named
from sweeper.messages import counted
from sweeper.panels.axes import label_of
from sweeper.panels.kinds import CurvePanel, HistoryPanel, LinesPanel
from sweeper.panels.series import PublishedCurve
from sweeper.trial.columns import TIMINGS

DASHED = (0, (3.2, 1.6))  # line style of a tail

EXACT_DASHES = ((0, (1, 1.4)), (0, (5, 1.5, 1, 1.5)), (0, (7, 2)))
"""Line styles of the exact values of a panel, in turn; the dashes of a bad tail are not among them."""

DENSE = 40  # a line of more points than this has few markers, and none of single seeds
APART = 0.85  # width in inches of the axes of a single series
MARKERS = 7  # markers along a dense line, where the palette tells series apart by them

LINE_AND_X = ["series", "metric", "tail", "x"]

LinesT = TypeVar("LinesT", bound=LinesPanel)
Line = tuple[str, str, bool]  # series, metric, and whether it is the tail
Place = Callable[[float], float]  # from x to its place on the axis


class Lines(Drawing[LinesT], abc.ABC):
    """A panel of lines; its kinds differ in their horizontal axis."""

    def __init__(self, panel: LinesT, results: Results) -> None:
        """As of every kind, and with a note on every exact value that is missing, and values that no axis can show."""
        super().__init__(panel, results)
        tails = {(series.label, panel.metrics(series)[1]) for series in self.declared}
        pairs = zip(self.frame["series"], self.frame["metric"], strict=True)
        self.frame["tail"] = [pair in tails for pair in pairs]
        places = {series.label: place for place, series in enumerate(self.declared)}
        order = self.frame["series"].map(places).astype(float), self.frame["x"].astype(float)
        self.frame = self.frame.iloc[np.lexsort(order[::-1])]
        self.seeds = by_seed(self.frame, LINE_AND_X)
        self.points = self._points()
        for remark in self.scale_remarks():
            self.note("", remark)
        self.exact = list(self._exact_lines())
        for place, exact in enumerate(panel.yardsticks):
            if len(self.frame) and place not in {known for known, _, _ in self.exact}:
                self.note(exact.label, f"the task has no exact '{exact.value}'")

    def _points(self) -> pd.DataFrame:
        """Statistics over training seeds by line and x; NaN, but for the count, where a mean describes no training."""
        points = over_seeds(self.seeds, LINE_AND_X)
        ends = zip(points["metric"], points["min"], points["max"], strict=True)
        none = [metric_named(metric).has_no_mean(low, high) for metric, low, high in ends]
        points.loc[none, ["mean", "min", "max", "std"]] = np.nan
        return points

    def _exact_lines(self) -> Iterator[tuple[int, str, float]]:
        """The exact values that the tasks of the trials know: place in the panel, label, value in the unit drawn."""
        tasks = dict.fromkeys(map(task_of, self.trials["spec"])) if self.panel.yardsticks else ()
        known = [_exact_values(task) for task in tasks if task is not None]  # pyright: ignore[reportArgumentType]
        for place, exact in enumerate(self.panel.yardsticks):
            for value in dict.fromkeys(values[exact.value] for values in known if exact.value in values):
                drawn = value * self.panel.y.factor if exact.unit is None else value / exact.unit
                yield place, f"{exact.label} ({drawn:.4g})", drawn

    # Published values

    def shared_legend(self) -> object:
        return [(series.label, series.color) for series in self.panel.series]

    def published_values(self) -> list[float]:
        return [value for reference in self.published for value in reference.values.values()]

    def beside(self, reference: PublishedCurve) -> Iterator[Comparison]:
        line = self.part(reference.series)
        line = line[line["metric"] == reference.metric]
        scale = {"percent": self.panel.y.percent, "largest": max(map(abs, self.published_values()))}
        for x, published in sorted(reference.values.items()):
            behind = line[np.isclose(line["x"].astype(float), x, rtol=1e-9)]
            yield self.compared(reference, reference.metric, x, published, behind, **scale)
            # Of a percentile also that of all training seeds together, which may be what a paper means.
            metric = metric_named(reference.metric)._replace(statistic="pooled")
            if metric_named(reference.metric) != metric.tail or behind["seed"].nunique() < 2:
                continue
            if (value := pooled(self.results, behind["trial_id"].unique(), metric)) is not None:
                yield self.compared(reference, metric.name, x, published, behind.assign(value=value), **scale)

    # What is painted

    @property
    def dense(self) -> bool:
        return bool(len(self.points)) and self.points.groupby(["series", "metric"]).size().max() > DENSE

    def places(self) -> Place:
        """Where each x stands on the axis."""
        return float

    @abc.abstractmethod
    def dress(self, axes: Axes, place: Place) -> None:
        """Labels, ticks and limits of the horizontal axis."""

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        self.paint_series(axes[0], look, list(self.colors()))

    def paint_series(self, ax: Axes, look: Look, labels: Sequence[str]) -> None:
        """Draw some of the series into axes."""
        looks, place, y = self.looks(look), self.places(), self.panel.y
        for line, points in self.points.groupby(["series", "metric", "tail"], sort=False):
            if line[0] in labels:
                self._paint_line(ax, line, points, looks, place)  # pyright: ignore[reportArgumentType]
        logarithmic = self._scale()[0] == "log"
        for reference in self.published:
            for x, value in sorted(reference.values.items()):
                if reference.series in labels and (value > 0 or not logarithmic):
                    style.cross(ax, place(x), value * y.factor, looks[reference.series][0])
        for at, _, value in self.exact:
            ax.axhline(value, zorder=1.5, **self._exact_style(at, look))
        ax.set_yscale(self._scale()[0])
        metric = self.panel.metric or self.panel.tail
        ax.set_ylabel(y.label or (label_of(metric, y.percent) if metric else "(%)" * y.percent))
        ax.grid(True)
        self.dress(ax, place)
        if y.limits and self._scale()[0] == y.scale:
            ends = zip(y.limits, ax.get_ylim(), strict=True)
            low, high = (limit if given is None else given for given, limit in ends)
            # Lines along a limit, such as a success of 100 %, must be seen whole; those along 0 lie on the axis anyway.
            pad = 0.03 * (high - low) if y.scale == "linear" else 0.0
            ax.set_ylim(low - pad * (None not in y.limits), high + pad)

    def _paint_line(
        self, ax: Axes, line: Line, points: pd.DataFrame, looks: dict[str, tuple[str, str]], place: Place
    ) -> None:
        """The means over seeds, solid with full markers, or dashed with empty ones; single seeds, and their band."""
        (label, metric, tail), (shade, marker), factor = line, looks[line[0]], self.panel.y.factor
        x, dense = points["x"].map(place).to_numpy(float), self.dense
        several = points["count"].max() > 1
        # The bands of averages and tails, one upon the other, could not be told apart.
        if several and (dense or not (tail and self._has_average(label))):
            low, high = self._spread(points)
            ax.fill_between(x, low, high, color=shade, alpha=0.18 if dense and not tail else 0.1, linewidth=0, zorder=2)
        if several and not dense:
            seeds = self.seeds[(self.seeds["series"] == label) & (self.seeds["metric"] == metric)]
            for at, size in (
                (points["mean"].notna() & (points["count"] > 1), {"size": 2.6, "alpha": 0.35, "zorder": 3}),
                (points["mean"].isna(), {"size": 3.6, "zorder": 5, "markerfacecolor": "white", "markeredgewidth": 0.9}),
            ):
                shown = seeds[seeds["x"].isin(points.loc[at, "x"])]
                style.dots(ax, shown["x"].map(place), shown["value"] * factor, shade, marker, **size)
        look: dict[str, Any] = {"linestyle": DASHED, "markerfacecolor": "white"} if tail else {"markerfacecolor": shade}
        if dense:  # lines that coincide must not hide each other's markers
            every = max(1, len(x) // MARKERS)
            look |= {"markevery": (list(looks).index(label) * every // 3 % every, every)}
        look |= {"marker": self._marker(marker), "markersize": 3.6, "markeredgewidth": 0.9}
        ax.plot(x, points["mean"].to_numpy() * factor, color=shade, linewidth=1.2 if dense else 1.4, zorder=5, **look)

    def _marker(self, marker: str) -> str:
        """The marker on a line: a dense line has none if it is the same of all series."""
        return "" if self.dense and marker == "o" else marker

    def _has_average(self, label: str) -> bool:
        return not self.part(label)["tail"].all()

    def _spread(self, points: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper edge of the band around the points of a line, in the unit that is drawn."""
        factor = self.panel.y.factor
        if self.panel.band == "range":
            return points["min"].to_numpy() * factor, points["max"].to_numpy() * factor
        mean, deviation = points["mean"].to_numpy() * factor, points["std"].fillna(0).to_numpy() * abs(factor)
        return mean - deviation, mean + deviation

    def _scale(self) -> tuple[str, str]:
        """The scale of the vertical axis for means and published values, and a remark on values that it cannot show."""
        values = [*self.points["mean"], *self.published_values()]
        return style.scale_for(self.panel.y.scale, values, "the vertical axis")

    def _exact_style(self, place: int, look: Look) -> dict[str, Any]:
        shade = look.shades[self.panel.yardsticks[place].color]
        return {"color": shade, "linewidth": 0.9, "linestyle": EXACT_DASHES[place % len(EXACT_DASHES)]}

    # What is said

    def handle(self, label: str, shade: str, marker: str) -> Artist:
        dashes = "-" if self._has_average(label) else DASHED
        look = {"marker": self._marker(marker), "markersize": 3.6, "linewidth": 1.4, "linestyle": dashes}
        return Line2D([], [], color=shade, **look)

    def legend(self, look: Look) -> list[tuple[str, Artist]]:
        entries, flipped = super().legend(look), self.panel.y.factor < 0
        faint: dict[str, Any] = {"color": style.FAINT, "linewidth": 1.2}
        tails = self.frame.loc[self.frame["tail"].astype(bool), "metric"].unique()
        if len(tails):
            if not self.frame["tail"].all():
                entries.append(("average", Line2D([], [], **faint)))
            named = ", ".join(dict.fromkeys(metric_named(metric).label(flipped) for metric in tails))
            entries.append((named, Line2D([], [], linestyle=DASHED, **faint)))
        if self.published:
            entries.append(("published", mark("x")))
        return [*entries, *((label, Line2D([], [], **self._exact_style(at, look))) for at, label, _ in self.exact)]

    def scale_remarks(self) -> list[str]:
        """Remarks on values that the axes cannot show."""
        return [remark for _, remark in [self._scale()] if remark]

    def seeds_remark(self) -> str:
        """How many training seeds the points have."""
        low, high = int(self.points["count"].min()), int(self.points["count"].max())
        return counted(high, "training seed") if low == high else f"{low}-{high} training seeds"

    def remarks(self) -> list[str]:
        parts = [self.seeds_remark()]
        if self.points["count"].max() > 1:
            spread = {"range": "lowest to highest seed", "std": "one standard deviation over seeds"}[self.panel.band]
            both = not self.dense and any(part["tail"].nunique() > 1 for _, part in self.frame.groupby("series"))
            parts.append(f"band{' of averages' * both}: {spread}")
            parts += ["faint markers: single seeds"] * (not self.dense)
        if self.points["mean"].isna().any():
            parts.append("no mean where a percentile is 0 for one seed and 1 for another: empty markers")
        return [*parts, *self.scale_remarks(), *self.choice_remarks()]


class Curves(Lines[CurvePanel]):
    """Lines against a column of the trials. Where points differ in their number of seeds, it stands above the axes."""

    NAME = "Curves"

    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        x, empty, measured = column(rows, self.panel.x.column), self.panel.x.empty, metric_named(metric)
        places = rows[x] if empty is None else rows[x].astype(float).fillna(empty)
        if measured.statistic != "pooled":
            return metric_values(rows, metric, places)
        values = {at: pooled(self.results, part["trial_id"], measured) for at, part in rows.groupby(places)}
        if not any(value is not None for value in values.values()):
            raise NoData(f"'{metric}' needs the outcomes of inputs, which are not stored")
        return metric_values(rows.assign(**{metric: places.map(values)}), metric, places)

    def alike(self) -> Sequence[str]:
        # The cost of a trial depends on the machine and on other work there; its metrics do not.
        metrics = {metric for series in self.declared for metric in self.panel.metrics(series)}
        return ("device", "lanes") if metrics & set(TIMINGS) else ()

    def _every_x(self) -> list[float]:
        """All x, measured or published."""
        return sorted({*self.frame["x"], *(float(x) for each in self.published for x in each.values)})

    def _x_scale(self) -> str:
        """Logarithmic only where each value has a place: 0 stands before the others, as infinity stands after them."""
        finite = [x for x in self._every_x() if np.isfinite(x)]
        return self.panel.x.scale if min(finite, default=1) >= 0 and max(finite, default=1) > 0 else "linear"

    def places(self) -> Place:
        finite, log = [x for x in self._every_x() if np.isfinite(x)] or [1.0], self._x_scale() == "log"
        beyond = _beyond(finite, log)
        before = 1 / _beyond([1 / x for x in reversed(finite) if x > 0] or [1.0], log)
        return lambda x: before if x == 0 and log else float(x) if np.isfinite(x) else beyond

    def dress(self, axes: Axes, place: Place) -> None:
        x, log, ticks = self.panel.x, self._x_scale() == "log", {place(x): style.number(x) for x in self._every_x()}
        low, high = min(ticks), max(ticks)
        reach = ((high / low) ** 0.04 if high > low else 1.3) if log else (high - low) * 0.04 or 0.5
        axes.set_xscale("log" if log else "linear")
        axes.set_xlim(*((low / reach, high * reach) if log else (low - reach, high + reach)))
        axes.set_xlabel(x.label or x.column)
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.xaxis.set_minor_locator(NullLocator())

    def _apart(self) -> list[str]:
        """The series with axes of their own; none unless the panel wants it."""
        known = {*self.labels(), *(reference.series for reference in self.published)}
        return [label for label in self.colors() if label in known] if self.panel.apart else []

    def widths(self) -> Sequence[float]:
        return [APART] * len(self._apart()) or super().widths()

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        place = self.places()
        counts = {place(x): count for x, count in self.counts().items()} if self._uneven() else {}
        for ax, label in zip(axes, self._apart() or [""], strict=True):
            self.paint_series(ax, look, [label] if label else list(self.colors()))
            style.seeds_above(ax, counts, 3, named=ax is axes[0])
            style.above(ax, label, 0.5, 4 + 9 * bool(counts), fontsize=9, color="black")
        low, high = zip(*(ax.get_ylim() for ax in axes), strict=True)
        for ax in axes:
            ax.set_ylim(min(low), max(high))
            if ax is not axes[0]:
                ax.set_ylabel("")
                ax.tick_params(labelleft=False)

    def legend(self, look: Look) -> list[tuple[str, Artist]]:
        return [entry for entry in super().legend(look) if entry[0] not in self._apart()]

    def counts(self) -> dict[float, str]:
        """Numbers of training seeds at each x, such as "5", or "2-5" if series differ."""
        counts = self.frame.groupby(["x", "series"])["seed"].nunique().groupby("x").agg(["min", "max"])
        return {x: f"{low}" if low == high else f"{low}-{high}" for x, low, high in counts.itertuples()}

    def _uneven(self) -> bool:
        return len({*self.counts().values()}) > 1

    def seeds_remark(self) -> str:
        if self._uneven():
            return "Above: training seeds at each point"
        remark = super().seeds_remark()
        return remark if "-" in remark else f"{remark} at every point"

    def scale_remarks(self) -> list[str]:
        linear = self._x_scale() != self.panel.x.scale
        return [*super().scale_remarks(), *["the horizontal axis is linear, as it has values of 0 or less"] * linear]


def _beyond(finite: Sequence[float], log: bool) -> float:
    """Where infinity stands: one step after the largest finite value."""
    if log:
        ratio = finite[-1] / finite[-2] if len(finite) > 1 and finite[-2] > 0 else 2.0
        return finite[-1] * max(ratio, 1.5)
    return finite[-1] + 0.12 * ((finite[-1] - finite[0]) or 1.0)


class Histories(Lines[HistoryPanel]):
    """Lines against the training step, of batches or of evaluations."""

    NAME = "Training curves"

    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        stored = self.results.curves(rows["trial_id"].tolist())
        points = stored[stored["metric"] == metric]
        if points.empty:
            known = ", ".join(sorted(set(stored["metric"])))
            raise NoData(f"no training curve '{metric}' was stored" + f" (known: {known})" * bool(known))
        points = points[["trial_id", "step", "value"]].rename(columns={"step": "x"})
        return points.astype({"x": float, "value": float}).merge(rows[["trial_id", "seed"]], on="trial_id")

    def dress(self, axes: Axes, place: Place) -> None:
        axes.set_xlabel(self.panel.x)
        axes.locator_params(axis="x", nbins=6)

    def against(self) -> str:
        return "against the step"

    def remarks(self) -> list[str]:
        # What an experiment evaluates while it trains is a curve as well, of no batch.
        specs = dict(zip(self.trials["trial_id"], self.trials["spec"], strict=True))
        lines = self.frame.drop_duplicates(["series", "metric"])
        own = all(line.metric in own_goals(specs[line.trial_id]) for line in lines.itertuples())
        return [self.seeds_remark(), *["on training batches"] * (not own), *super().remarks()[1:]]


@functools.cache  # solving a task may take seconds, and many panels ask for the same task
def _exact_values(task: Task) -> dict[str, float]:
    return task.abilities().exact_values()


def metric_values(rows: pd.DataFrame, name: str, x: pd.Series) -> pd.DataFrame:
    """A metric of the trials at `x` (`x`, `seed`, `value`, `trial_id`), without trials that lack it.

    `NoData` if no trial has the metric, or either is not a number.
    """
    values = rows[["seed", "trial_id"]].assign(x=x, value=rows[column(rows, name)]).dropna()
    if values.empty:
        raise NoData(f"'{name}' was not measured")
    try:
        return values.astype({"x": float, "value": float})
    except ValueError:
        raise NoData(f"'{x.name}' and '{name}' are not both numbers") from None


def pooled(results: Results, trial_ids: Sequence[str] | pd.Series, metric: Metric) -> float | None:
    """The percentile over the inputs of all these trials together; None if the inputs of one are not stored."""
    inputs = [results.outcomes(trial_id, metric._replace(statistic="mean").name) for trial_id in trial_ids]
    known = [values for values in inputs if values is not None]
    return metric.over_inputs(np.concatenate(known).astype(float)) if known and len(known) == len(inputs) else None
