"""Success against the number of votes: averages solid, tails dashed, and dotted what the bounds on votes promise.

The success of k votes is measured for some numbers k (`votes_<k>`, see `sweeper.training.voting`). A bound of
`sweeper.analysis.vote_bounds` turns the margin of a model into a success of at least so much for every k. The margin is
the 5th percentile over the inputs, so that the dotted line is a promise about the dashed one. Every network has a
margin and a dotted line of its own.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from sweeper.analysis.figures import lines, selection, style
from sweeper.analysis.figures.lines import Line, LineSeries
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results, task_of
from sweeper.analysis.vote_bounds import MARGINS, rivals_of, success_promised
from sweeper.messages import counted
from sweeper.panels.kinds import VotesPanel
from sweeper.trial.metrics import estimate_of, metric_named

MOST = 300
"""Least number of votes at the end of the axis: bounds are above 0 only for many votes."""

TICKS = (1, 3, 10, 30, 100, 300, 1000, 3000)

DOTTED = (0, (1, 1.2))
"""Line style of a bound."""

ERRORS = 2.0
"""Length of an error bar to either side, in standard errors."""


class VoteCurves(lines.Lines[VotesPanel]):
    """Lines against the number of votes."""

    NAME = "Success of votes"

    @classmethod
    def values(cls, panel: VotesPanel, results: Results, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        return lines.votes_by_seed(rows, metric)

    @classmethod
    def mentioned(cls, panel: VotesPanel) -> Sequence[str]:
        # Of several protocols of one network the protocol with the most seeds r counts, so none are merged.
        return ["evaluation.seeds", "evaluation.votes"]

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        (ax,) = axes
        votes = np.geomspace(1, self._most(), 120)
        for series in self.content.series:
            shade, marker = look.shade(series.color, series.index), look.marker(series.index)
            for line in series.lines:
                self.paint_points(ax, line, float, shade, marker, banded=not line.tail)
                self._paint_errors(ax, line, shade)
            for margin, rivals in _margins(series):
                promised = np.array([success_promised(k, margin, rivals) for k in votes])
                something = promised > 0
                drawn = votes[something], promised[something] * self.panel.y.factor
                ax.plot(*drawn, color=shade, linestyle=DOTTED, linewidth=1.2, zorder=4)
        self.paint_references(ax, look, float)
        ax.set_xscale("log")
        self.dress(ax, self.panel.x)
        ticks = [tick for tick in TICKS if tick <= self._most()]
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlim(0.9, 1.1 * self._most())
        self.set_limits(ax)

    def _most(self) -> float:
        return max(MOST, *(x for series in self.content.series for x in series.counts()))

    def _paint_errors(self, ax: Axes, line: Line, shade: str) -> None:
        """Error bars of an average, for the draw of the seeds r."""
        errors = _standard_errors(line)
        for votes, mean in line.points()["mean"].items():
            if error := errors.get(votes):
                place, reach = mean * self.panel.y.factor, ERRORS * error * abs(self.panel.y.factor)
                ax.errorbar([votes], [place], [reach], color=shade, linewidth=0.9, capsize=1.8, zorder=5)  # pyright: ignore[reportArgumentType]

    def legend(self, look: Look) -> Sequence[tuple[str, Artist]]:
        entries = list(super().legend(look))
        if any(self._promises()):
            dotted = Line2D([], [], color=style.FAINT, linestyle=DOTTED, linewidth=1.2)
            entries.append(("bound on the 5th percentile", dotted))
        return entries

    def _promises(self) -> list[bool]:
        """Whether the bound says anything up to the end of the axis, for every trial with a margin."""
        margins = [margin for series in self.content.series for margin in _margins(series)]
        return [success_promised(self._most(), margin, rivals) > 0 for margin, rivals in margins]

    def against(self) -> str:
        return "against the number of votes"

    def remarks(self) -> list[str]:
        drawn = [line for series in self.content.series for line in series.lines]
        seeds, several = self.seeds_remark()
        parts = [seeds]
        if several:
            parts.append(f"band of averages: {self.spread_name()}; faint markers: single seeds")
        if any(_standard_errors(line) for line in drawn):
            parts.append(f"bars: {ERRORS:g} standard errors, for the draw of the seeds r")
        if promises := self._promises():
            silent = len(promises) - sum(promises)
            parts.append(
                f"no bound up to {self._most():g} votes: {silent} of {counted(len(promises), 'trial')}" * bool(silent)
            )
        return [*filter(None, parts), *self.scale_remarks(), *self.content.remarks()]


def _standard_errors(line: Line) -> dict[Any, float]:
    """Standard error of the average at each number of votes, where it was measured; training seeds are independent."""
    if line.tail:
        return {}
    try:
        errors = metric_named(line.metric)._replace(statistic="error")
        squares = lines.votes_by_seed(line.rows, errors.name)
    except selection.NoData:
        return {}
    return {votes: float(np.sqrt((group["value"] ** 2).sum()) / len(group)) for votes, group in squares.groupby("x")}


def _margins(series: LineSeries) -> Iterator[tuple[float, int]]:
    """Of every trial of a series the margin that decides its votes, with the number of rivals."""
    votes = {metric_named(line.metric).quantity for line in series.lines}
    for _, trial in lines.most_seeds(series.lines[0].rows).iterrows():
        task = task_of(str(trial["spec"]))
        voting = task.abilities().voting if task else None
        if voting is None:
            continue
        for vote, rule in voting.rules.items():
            if votes & {vote, estimate_of(vote)}:
                margin = trial.get(MARGINS[rule])
                if margin is not None and not np.isnan(float(margin)):
                    yield min(1.0, float(margin)), rivals_of(voting, rule)
