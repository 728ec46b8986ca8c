"""Panels of lines: an average as a solid line and a tail as a dashed one, one colour a series.

A point is the mean over training seeds, and a band shows their spread. Against a column each training seed also stands
as a faint marker, because runs differ by seed and a mean alone hides it. Published values are crosses in the series'
colour, upright ones for tails beside averages, also of series of which nothing is measured yet. Known numbers, such as
what no training can beat, are horizontal lines.
"""

import abc
import functools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import style, ticks
from sweeper.analysis.figures.drawing import Drawing, by_seed, mark, over_seeds
from sweeper.analysis.figures.selection import NoData, column
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results, tables_of_row
from sweeper.messages import counted
from sweeper.panels.kinds import CurvePanel, HistoryPanel
from sweeper.panels.panel import LinesPanel
from sweeper.panels.series import PublishedCurve
from sweeper.trial.metrics import Metric

DASHED = (0, (3.2, 1.6))  # line style of a tail

KNOWN_DASHES = ((0, (1, 1.4)), (0, (5, 1.5, 1, 1.5)), (0, (7, 2)))
"""Line styles of the known numbers of a panel, in turn; the dashes of a bad tail are not among them."""

MOST_LABELLED = 16  # most places on an axis that are labelled themselves; an axis with more has round ticks

LINE_AND_X = ["series", "metric", "tail", "x"]

LinesT = TypeVar("LinesT", bound=LinesPanel)
Line = tuple[str, str, bool]  # series, metric, and whether it is the tail


class Lines(Drawing[LinesT], abc.ABC):
    """A panel of lines; its kinds differ in their horizontal axis."""

    SINGLE_SEEDS: ClassVar[bool] = True
    """Whether points and single training seeds have markers."""

    def arranged(self, frame: pd.DataFrame) -> pd.DataFrame:
        tails = {(series.label, self.panel.metrics(series)[1]) for series in self.declared}
        frame["tail"] = [pair in tails for pair in zip(frame["series"], frame["metric"], strict=True)]
        places = {series.label: place for place, series in enumerate(self.declared)}
        self.note_hidden("vertical", self.panel.y.scale, frame["value"] * self.panel.y.factor)
        return frame.iloc[np.lexsort((frame["x"].astype(float), frame["series"].map(places).astype(float)))]

    @functools.cached_property
    def seeds(self) -> pd.DataFrame:
        return by_seed(self.frame, LINE_AND_X)

    @functools.cached_property
    def points(self) -> pd.DataFrame:
        """Mean, count, and the band's edges `min` and `max`, over training seeds by line and x.

        They are NaN, but for the count, where a mean describes no training.
        """
        points = over_seeds(self.seeds, LINE_AND_X)
        metrics = {name: self.tables.metric(name) for name in points["metric"].unique()}
        ends = zip(points["metric"], points["min"], points["max"], strict=True)
        none = [metrics[name].has_no_mean(low, high) for name, low, high in ends]
        points.loc[none, ["mean", "min", "max", "std"]] = np.nan
        if self.panel.band == "std":
            deviation = points["std"].fillna(0)
            points["min"], points["max"] = points["mean"] - deviation, points["mean"] + deviation
        return points

    # Published values

    def _cross(self, reference: PublishedCurve) -> Literal["x", "+"]:
        """The marker of published values: an upright cross for a tail whose series has an average as well."""
        drawn = (self.panel.metrics(series) for series in self.declared if series.label == reference.series)
        return "+" if any(average and tail == reference.metric for average, tail in drawn) else "x"

    def _cross_label(self, reference: PublishedCurve, flipped: bool) -> str:
        tail = self._cross(reference) == "+"
        return f"{reference.label}, {self.tables.metric(reference.metric).label(flipped)}" if tail else reference.label

    def beside(self, reference: PublishedCurve) -> Iterator[Comparison]:
        line = self.part(reference.series)
        line = line[line["metric"] == reference.metric]
        percent = self.panel.y.percent
        for x, published in sorted(reference.values.items()):
            behind = line[np.isclose(line["x"].astype(float), x, rtol=1e-9)]
            yield self.compared(reference, reference.metric, x, published, behind, percent)
            # Of a percentile also that of all training seeds together, which may be what a paper means.
            several = behind["seed"].nunique() > 1
            if not several or (metric := self.tables.metric(reference.metric)).statistic != "percentile":
                continue
            together = metric._replace(statistic="pooled")
            if (value := pooled(self.results, behind["trial_id"].unique(), together)) is not None:
                one = self.compared(reference, together.name, x, published, behind.assign(value=value), percent)
                yield one._replace(error=None)

    # What is painted

    def place(self, x: float) -> float:
        """Where an x stands on the axis."""
        return float(x)

    @abc.abstractmethod
    def dress(self, axes: Axes) -> None:
        """Labels, ticks and limits of the horizontal axis."""

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        (ax,), looks, y = axes, self.looks(look), self.panel.y
        for line, points in self.points.groupby(["series", "metric", "tail"], sort=False):
            self._paint_line(ax, line, points, looks)  # pyright: ignore[reportArgumentType]
        for reference in self.published:
            for x, value in sorted(reference.values.items()):
                marker = self._cross(reference)
                style.cross(ax, self.place(x), value * y.factor, looks[reference.series][0], marker)
        for place, known in enumerate(self.panel.lines):
            ax.axhline(known.at, zorder=1.5, **self._known_style(place, look))
        if y.scale == "log":
            ticks.scale(ax, "y", "log")
        metric = self.panel.metric or self.panel.tail
        ax.set_ylabel(y.label or (self.tables.metric(metric).axis_label(y.percent) if metric else "(%)" * y.percent))
        ax.grid(True)
        self.dress(ax)
        if y.limits:
            self._limit(ax, *y.limits)

    def _limit(self, ax: Axes, *limits: float | None) -> None:
        """Set the ends of the vertical axis; the data decide an end that is None."""
        low, high = (end if given is None else given for given, end in zip(limits, ax.get_ylim(), strict=True))
        # Lines along a limit, such as one of 100 %, must be seen whole; those along 0 lie on the axis anyway.
        pad = 0.03 * (high - low) if self.panel.y.scale == "linear" else 0.0
        ax.set_ylim(low - pad * (None not in limits), high + pad)

    def _paint_line(self, ax: Axes, line: Line, points: pd.DataFrame, looks: dict[str, tuple[str, str]]) -> None:
        """The means over seeds, solid with full markers, or dashed with empty ones; single seeds, and their band."""
        (label, metric, tail), (shade, marker), factor = line, looks[line[0]], self.panel.y.factor
        x, several = points["x"].map(self.place).to_numpy(float), points["count"].max() > 1
        both = tail and self._has_average(label)
        # The bands of averages and tails, one upon the other, could not be told apart.
        if several and not both:
            low, high = points["min"] * factor, points["max"] * factor
            ax.fill_between(x, low, high, color=shade, alpha=0.14, linewidth=0, zorder=2)
        if several and self.SINGLE_SEEDS:
            seeds = self.seeds[(self.seeds["series"] == label) & (self.seeds["metric"] == metric)]
            # Where a series has both, single seeds of the average and of the tail lie among each other.
            faint: dict[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 0.7} if both else {}
            for at, size in (
                (points["mean"].notna() & (points["count"] > 1), {"size": 2.6, "alpha": 0.35, "zorder": 3} | faint),
                (points["mean"].isna(), {"size": 3.6, "zorder": 5, "markerfacecolor": "white", "markeredgewidth": 0.9}),
            ):
                shown = seeds[seeds["x"].isin(points.loc[at, "x"])]
                style.dots(ax, shown["x"].map(self.place), shown["value"] * factor, shade, marker, **size)
        look: dict[str, Any] = {"linestyle": DASHED, "markerfacecolor": "white"} if tail else {"markerfacecolor": shade}
        look |= {"marker": marker * self.SINGLE_SEEDS, "markersize": 3.6, "markeredgewidth": 0.9}
        ax.plot(x, points["mean"].to_numpy() * factor, color=shade, linewidth=1.4, zorder=5, **look)

    def _has_average(self, label: str) -> bool:
        return not self.part(label)["tail"].all()

    def _known_style(self, place: int, look: Look) -> dict[str, Any]:
        shade = look.shades[self.panel.lines[place].color]
        return {"color": shade, "linewidth": 0.9, "linestyle": KNOWN_DASHES[place % len(KNOWN_DASHES)]}

    # What is said

    def handle(self, label: str, shade: str, marker: str) -> Artist:
        dashes = "-" if self._has_average(label) else DASHED
        look = {"marker": marker * self.SINGLE_SEEDS, "markersize": 3.6, "linewidth": 1.4, "linestyle": dashes}
        return Line2D([], [], color=shade, **look)

    def legend(self, look: Look) -> list[tuple[str, Artist]]:
        entries, flipped = super().legend(look), self.panel.y.factor < 0
        faint: dict[str, Any] = {"color": style.FAINT, "linewidth": 1.2}
        tails = self.frame.loc[self.frame["tail"].astype(bool), "metric"].unique()
        if len(tails):
            if not self.frame["tail"].all():
                entries.append(("average", Line2D([], [], **faint)))
            named = ", ".join(dict.fromkeys(self.tables.metric(metric).label(flipped) for metric in tails))
            entries.append((named, Line2D([], [], linestyle=DASHED, **faint)))
        crosses = {self._cross_label(each, flipped): self._cross(each) for each in self.published}
        entries += [(label, mark(marker)) for label, marker in crosses.items()]
        for place, known in enumerate(self.panel.lines):
            entries.append((f"{known.label} ({known.at:.4g})", Line2D([], [], **self._known_style(place, look))))
        return entries

    def remarks(self) -> list[str]:
        low, high = int(self.points["count"].min()), int(self.points["count"].max())
        parts = [counted(high, "training seed") if low == high else f"{low} to {high} training seeds"]
        if high > 1:
            spread = {"range": "lowest to highest seed", "std": "one standard deviation over seeds"}[self.panel.band]
            both = any(part["tail"].nunique() > 1 for _, part in self.frame.groupby("series"))
            parts.append(f"band{' of averages' * both}: {spread}")
            parts += ["faint markers: single seeds" + ", empty of a tail" * both] * self.SINGLE_SEEDS
        if self.points["mean"].isna().any():
            parts.append("no mean where a tail is 0 for one seed and 1 for another: bold empty markers")
        return [*parts, *self.choice_remarks()]


class Curves(Lines[CurvePanel]):
    """Lines against a column of the trials."""

    def arranged(self, frame: pd.DataFrame) -> pd.DataFrame:
        if self.panel.x.scale == "log" and (frame["x"].astype(float) <= 0).any():
            self.note("", f"the axis is linear: a logarithmic one has no place for {frame['x'].min():g}")
        return super().arranged(frame)

    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        x, empty = column(rows, self.panel.x.column), self.panel.x.empty
        measured = tables_of_row(rows["spec"].iloc[0]).metric(metric)
        places = rows[x] if empty is None else rows[x].astype(float).fillna(empty)
        if measured.statistic != "pooled":
            return metric_values(rows, metric, places)
        values = {at: pooled(self.results, part["trial_id"], measured) for at, part in rows.groupby(places)}
        if not any(value is not None for value in values.values()):
            raise NoData(f"'{metric}' needs the outcomes of inputs, which are not stored")
        return metric_values(rows.assign(**{metric: places.map(values)}), metric, places)

    @functools.cached_property
    def every_x(self) -> list[float]:
        """All x, measured or published."""
        return sorted({*self.frame["x"], *(float(x) for each in self.published for x in each.values)})

    @property
    def finite(self) -> list[float]:
        """All x but infinity."""
        return [x for x in self.every_x if np.isfinite(x)] or [1.0]

    @property
    def log(self) -> bool:
        """Whether the axis is logarithmic, which has no place for 0."""
        return self.panel.x.scale == "log" and self.finite[0] > 0

    def place(self, x: float) -> float:
        return float(x) if np.isfinite(x) else _beyond(self.finite, self.log)

    def dress(self, axes: Axes) -> None:
        x, log, labels = self.panel.x, self.log, {self.place(x): style.number(x) for x in self.every_x}
        low, high = min(labels), max(labels)
        reach = ((high / low) ** 0.04 if high > low else 1.3) if log else (high - low) * 0.04 or 0.5
        scale = "log" if log else "linear"
        if len(labels) <= MOST_LABELLED or not np.isfinite(self.every_x[-1]):
            ticks.label(axes, scale, labels)
        else:
            ticks.scale(axes, "x", scale)
        axes.set_xlim(*((low / reach, high * reach) if log else (low - reach, high + reach)))
        axes.set_xlabel(x.label or x.column)


def _beyond(finite: Sequence[float], log: bool) -> float:
    """Where infinity stands: one step after the largest finite value."""
    if log:
        ratio = finite[-1] / finite[-2] if len(finite) > 1 and finite[-2] > 0 else 2.0
        return finite[-1] * max(ratio, 1.5)
    return finite[-1] + 0.12 * ((finite[-1] - finite[0]) or 1.0)


class Histories(Lines[HistoryPanel]):
    """Lines against the training step, of batches or of evaluations."""

    SINGLE_SEEDS = False

    def arranged(self, frame: pd.DataFrame) -> pd.DataFrame:
        self.note_hidden("horizontal", self.panel.scale, frame["x"])
        return super().arranged(frame)

    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        stored = self.results.curves(rows["trial_id"].tolist())
        points = stored[stored["metric"] == metric]
        if points.empty:
            known = ", ".join(sorted(set(stored["metric"])))
            raise NoData(f"no training curve '{metric}' was stored" + f" (known: {known})" * bool(known))
        points = points[["trial_id", "step", "value"]].rename(columns={"step": "x"})
        return points.astype({"x": float, "value": float}).merge(rows[["trial_id", "seed"]], on="trial_id")

    def dress(self, axes: Axes) -> None:
        axes.set_xlabel(self.panel.x)
        ticks.scale(axes, "x", self.panel.scale)


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
    """The percentile over the inputs of all these trials together.

    It is made from their outcomes, or else from the quantiles of their evaluations; None if some have neither.
    """
    name = metric._replace(statistic="mean").name
    for values in (results.outcomes, results.quantiles):
        inputs = [values(trial_id, name) for trial_id in trial_ids]
        known = [each for each in inputs if each is not None]
        if known and len(known) == len(inputs):
            return metric.over_inputs(np.concatenate(known).astype(float))
    return None
