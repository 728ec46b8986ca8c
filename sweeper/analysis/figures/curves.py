"""Curves against a column of the trials, and training curves against the step: averages solid, tails dashed."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from sweeper.analysis.figures import selection, style
from sweeper.analysis.figures.lines import Line, Lines, LineSeries, mean_by_seed, metric_by_seed, pooled
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results, own_goals
from sweeper.learned_algorithms.metrics import metric_named
from sweeper.messages import counted
from sweeper.panels.kinds import CurvePanel, HistoryPanel
from sweeper.panels.series import CurveSeries
from sweeper.trial.columns import TIMINGS

MOST_ROWS = 8  # most rows of seed counts above the axes
MARKERS = 7  # markers along a training curve, where the palette tells series apart by them


class Curves(Lines[CurvePanel]):
    """Lines against a column of the trials.

    Where a point has several training seeds, each stands as a faint marker, because runs differ by seed and a mean
    alone hides it; the band shows the spread of averages, or of tails that are drawn without. Where points differ in
    their number of seeds, the numbers stand above the axes.
    """

    NAME = "Curves"

    def drawn(self, results: Results, index: int, series: CurveSeries, rows: pd.DataFrame) -> LineSeries:
        if self.panel.x.empty is not None:
            x = selection.column(rows, self.panel.x.column)
            rows = rows.assign(**{x: rows[x].astype(float).fillna(self.panel.x.empty)})
        return super().drawn(results, index, series, rows)

    def values(self, results: Results, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        x = selection.column(rows, self.panel.x.column)
        measured = metric_named(metric)
        if measured.statistic != "pooled":
            return metric_by_seed(rows, metric, x)
        values = [
            {"x": place, "seed": seed, "value": value}
            for place, at in rows.groupby(x)
            if (value := pooled(results, at, measured)) is not None
            for seed in at["seed"].unique()
        ]
        if not values:
            raise selection.NoData(f"'{metric}' needs the outcomes of inputs, which are not stored")
        return pd.DataFrame(values).astype({"x": float})

    def alike(self) -> Sequence[str]:
        # The cost of a trial depends on the machine and on other work there; its metrics do not.
        panel = self.panel
        metrics = {panel.metric, panel.tail, *(metric for series in panel.series for metric in panel.metrics(series))}
        return ("device", "lanes") if metrics & set(TIMINGS) else ()

    def trials_behind(self, line: Line, x: float) -> pd.DataFrame:
        column = selection.column(line.rows, self.panel.x.column)
        return line.rows[np.isclose(line.rows[column], x, rtol=1e-9)]

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        (ax,) = axes
        values = self._values()
        finite, log = [x for x in values if np.isfinite(x)] or [1.0], self._x_scale() == "log"
        beyond = _beyond(finite, log)
        before = 1 / _beyond([1 / x for x in reversed(finite) if x > 0] or [1.0], log)

        def place(x: float) -> float:
            if x == 0 and log:
                return before
            return float(x) if np.isfinite(x) else beyond

        for series in self.series:
            for line in series.lines:
                # The bands of averages and tails, one upon the other, could not be told apart.
                self.paint_points(ax, series, line, place, look, banded=not (line.tail and len(series.lines) > 1))
        self.paint_references(ax, look, place)
        self._dress(ax, {place(x): style.number(x) for x in values})
        rows = self._count_rows()
        for index, (members, counts) in enumerate(rows):
            height = 3 + 1.25 * style.SMALL * (len(rows) - 1 - index)
            if len(rows) == 1:
                style.above(ax, "seeds", 0, height, -4, ha="right")
            # One row speaks for all series; of several, each shows the colours of those it speaks for.
            for position, series in enumerate(reversed(members) if len(rows) > 1 else ()):
                shade = look.shade(series.color, series.index)
                style.above(ax, "■", 0, height, -8 - 6 * position, color=shade)
            for x, count in sorted(counts.items()):
                style.count_above(ax, count, place(x), height)

    def _values(self) -> list[float]:
        """All x, measured or published."""
        measured = {float(x) for series in self.series for x in series.counts()}
        return sorted(measured | {x for reference in self.panel.published for x in reference.values})

    def _x_scale(self) -> str:
        """Logarithmic only where each value has a place: 0 stands before the others, as infinity stands after them."""
        finite = [x for x in self._values() if np.isfinite(x)]
        return self.panel.x.scale if min(finite, default=1) >= 0 and max(finite, default=1) > 0 else "linear"

    def scale_remarks(self) -> list[str]:
        linear = self._x_scale() != self.panel.x.scale
        return [*super().scale_remarks(), *["the horizontal axis is linear, as it has values of 0 or less"] * linear]

    def _dress(self, ax: Axes, ticks: dict[float, str]) -> None:
        """Labels, ticks in ascending order, limits and grid."""
        x, scale = self.panel.x, self._x_scale()
        ax.set_xscale(scale)
        self.dress(ax, x.label or x.column)
        low, high = min(ticks), max(ticks)
        if scale == "log":
            reach = (high / low) ** 0.04 if high > low else 1.3
            ax.set_xlim(low / reach, high * reach)
        else:
            reach = (high - low) * 0.04 or 0.5
            ax.set_xlim(low - reach, high + reach)
        ax.set_xticks(list(ticks), list(ticks.values()))
        ax.xaxis.set_minor_locator(NullLocator())
        self.set_limits(ax)

    def _count_rows(self) -> list[tuple[list[LineSeries], dict[float, int]]]:
        """Seed counts to print above the axes, a row for the series that share them; none if all are equal or many."""
        shared: dict[frozenset[tuple[float, int]], list[LineSeries]] = {}
        for series in self.series:
            shared.setdefault(frozenset(series.counts().items()), []).append(series)
        rows = [(members, dict(counts)) for counts, members in shared.items()]
        differ = len({count for counts in shared for _, count in counts}) > 1
        return rows if differ and len(rows) <= MOST_ROWS else []

    def remarks(self) -> list[str]:
        counts = {count for series in self.series for count in series.counts().values()}
        equal = f"{counted(max(counts), 'training seed')} at every point"
        above = "Above: training seeds at each point" if self._count_rows() else self.seeds_remark()[0]
        parts = [equal if len(counts) == 1 else above]
        if max(counts) > 1:
            both = any(len(series.lines) > 1 for series in self.series)
            parts.append(f"band{' of averages' * both}: {self.spread_name()}; faint markers: single seeds")
        return [*parts, *self.mean_remarks(), *self.scale_remarks(), *self.choice_remarks()]


def _beyond(finite: Sequence[float], log: bool) -> float:
    """Where infinity stands: one step after the largest finite value."""
    if log:
        ratio = finite[-1] / finite[-2] if len(finite) > 1 and finite[-2] > 0 else 2.0
        return finite[-1] * max(ratio, 1.5)
    return finite[-1] + 0.12 * ((finite[-1] - finite[0]) or 1.0)


class Histories(Lines[HistoryPanel]):
    """Lines against the training step, of batches or of evaluations; the band is the spread over seeds."""

    NAME = "Training curves"

    def values(self, results: Results, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        stored = results.curves(rows["trial_id"].tolist())
        points = stored[stored["metric"] == metric]
        if points.empty:
            known = ", ".join(sorted(set(stored["metric"])))
            raise selection.NoData(f"no training curve '{metric}' was stored" + f" (known: {known})" * bool(known))
        seeds = dict(zip(rows["trial_id"], rows["seed"], strict=True))
        points = pd.DataFrame({"x": points["step"], "seed": points["trial_id"].map(seeds), "value": points["value"]})
        return mean_by_seed(points.astype({"x": float, "value": float}))

    def marker(self, series: LineSeries, look: Look) -> str:
        return look.marker(series.index) if len(look.markers) > 1 else ""

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        (ax,) = axes
        for series in self.series:
            for line in series.lines:
                self._paint_line(ax, series, line, look)
        self.paint_references(ax, look, float)
        self.dress(ax, self.panel.x)
        ax.locator_params(axis="x", nbins=6)
        if self.panel.y.limits and self._scale()[0] == self.panel.y.scale:
            ax.set_ylim(*self.panel.y.limits)

    def _paint_line(self, ax: Axes, series: LineSeries, line: Line, look: Look) -> None:
        points = line.points
        shade, x = look.shade(series.color, series.index), points.index.to_numpy(float)
        if points["count"].max() > 1:
            low, high = self.spread(points)
            ax.fill_between(x, low, high, color=shade, alpha=0.1 if line.tail else 0.18, linewidth=0, zorder=2)
        # Lines that coincide must not hide each other's markers.
        every = max(1, len(x) // MARKERS)
        apart = series.index * every // 3 % every, every
        self.paint_means(ax, x, line, shade, linewidth=1.2, marker=self.marker(series, look), markevery=apart)

    def against(self) -> str:
        return "against the step"

    def remarks(self) -> list[str]:
        seeds, several = self.seeds_remark()
        parts = [seeds, f"band: {self.spread_name()}"] if several else [seeds]
        # What an experiment evaluates while it trains is a curve as well, of no batch.
        lines = [line for series in self.series for line in series.lines]
        if any(line.metric not in own_goals(spec) for line in lines for spec in line.rows["spec"].head(1)):
            parts.append("on training batches")
        return [*parts, *self.scale_remarks(), *self.choice_remarks()]
