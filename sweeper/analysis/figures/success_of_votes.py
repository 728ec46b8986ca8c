"""Success against the number of votes: averages solid, tails dashed, and dotted what the bounds on votes promise.

The success of k votes is measured for some numbers k (`votes_<k>`, see `sweeper.learned_algorithms.voting`). A bound of
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

from sweeper.analysis.figures import style
from sweeper.analysis.figures.lines import Line, Lines, LineSeries, metric_by_seed
from sweeper.analysis.figures.selection import NoData
from sweeper.analysis.figures.style import Look
from sweeper.analysis.results import Results, abilities_of
from sweeper.analysis.vote_bounds import MARGINS, rivals_of, success_promised
from sweeper.learned_algorithms.metrics import estimate_of, metric_named
from sweeper.messages import counted
from sweeper.panels.kinds import VotesPanel
from sweeper.trial.entry_names import entries

MOST = 300  # least number of votes at the end of the axis: bounds are above 0 only for many votes

TICKS = (1, 3, 10, 30, 100, 300, 1000, 3000)

DOTTED: dict[str, Any] = {"linestyle": (0, (1, 1.2)), "linewidth": 1.2}  # the line of a bound
ERRORS = 2.0  # length of an error bar to either side, in standard errors


class VoteCurves(Lines[VotesPanel]):
    """Lines against the number of votes."""

    NAME = "Success of votes"

    def values(self, results: Results, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        return _votes_by_seed(rows, metric)

    def axis_columns(self) -> Sequence[str]:
        # Of several protocols of one network the protocol with the most seeds r counts, so none are merged.
        return ["evaluation.seeds", "evaluation.votes"]

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        (ax,) = axes
        votes = np.geomspace(1, self._most(), 120)
        for series in self.series:
            shade = look.shade(series.color, series.index)
            for line in series.lines:
                self.paint_points(ax, series, line, float, look, banded=not line.tail)
                errors = _standard_errors(line)  # of an average, for the draw of the seeds r
                for at, mean in line.points["mean"].items():
                    if error := errors.get(at):
                        place, reach = mean * self.panel.y.factor, ERRORS * error * abs(self.panel.y.factor)
                        ax.errorbar([at], [place], [reach], color=shade, linewidth=0.9, capsize=1.8, zorder=5)  # pyright: ignore[reportArgumentType]
            for margin, rivals in self._bounds(series):
                promised = np.array([success_promised(k, margin, rivals) for k in votes])
                something = promised > 0
                drawn = votes[something], promised[something] * self.panel.y.factor
                ax.plot(*drawn, color=shade, zorder=4, **DOTTED)
        self.paint_references(ax, look, float)
        ax.set_xscale("log")
        self.dress(ax, self.panel.x)
        ticks = [tick for tick in TICKS if tick <= self._most()]
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlim(0.9, 1.1 * self._most())
        self.set_limits(ax)

    def _most(self) -> float:
        return max(MOST, *(x for series in self.series for x in series.counts()))

    def legend(self, look: Look) -> Sequence[tuple[str, Artist]]:
        bound = ("bound on the 5th percentile", Line2D([], [], color=style.FAINT, **DOTTED))
        return [*super().legend(look), *[bound] * any(map(self._bounds, self.series))]

    def _promises(self, series: LineSeries) -> list[bool]:
        """Whether the bound says anything up to the end of the axis, for every trial with a margin."""
        return [success_promised(self._most(), margin, rivals) > 0 for margin, rivals in _margins(series)]

    def _bounds(self, series: LineSeries) -> list[tuple[float, int]]:
        """The margins of a series, with the number of rivals; none unless the bound says something for every trial."""
        return list(_margins(series)) if all(self._promises(series)) else []

    def against(self) -> str:
        return "against the number of votes"

    def remarks(self) -> list[str]:
        seeds, several = self.seeds_remark()
        parts = [seeds]
        if several:
            parts.append(f"band of averages: {self.spread_name()}; faint markers: single seeds")
        if any(map(_standard_errors, self.all_lines())):
            parts.append(f"bars: {ERRORS:g} standard errors, for the draw of the seeds r")
        parts += self.mean_remarks()
        promises = [promise for series in self.series for promise in self._promises(series)]
        if silent := len(promises) - sum(promises):
            without = f"{silent} of {counted(len(promises), 'trial')}"
            parts.append(f"no bound up to {self._most():g} votes: {without}; a series has bounds for all or for none")
        return [*parts, *self.scale_remarks(), *self.choice_remarks()]


def _votes_by_seed(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """As `metric_by_seed`, of votes at each number k of them, such as `votes_p5` for the columns `votes_<k>_p5`.

    Of several evaluations of one network the evaluation with the most seeds r counts, for every k by itself.
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
        metric_by_seed(_most_seeds(rows[rows[named].notna()]).assign(votes=size), named, "votes")
        for size, named in sorted(measured.items())
    )


def _most_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """One row of every trial: of several evaluations of its network that with the most evaluation seeds."""
    seeds = pd.Series([entries(spec)["evaluation.seeds"] for spec in rows["spec"]], rows.index, dtype=int)
    return rows.loc[seeds.sort_values(ascending=False, kind="stable").index].drop_duplicates("trial_id")


def _standard_errors(line: Line) -> dict[Any, float]:
    """Standard error of the average at each number of votes, where it was measured; training seeds are independent."""
    if line.tail:
        return {}
    try:
        squares = _votes_by_seed(line.rows, metric_named(line.metric)._replace(statistic="error").name)
    except NoData:
        return {}
    return {votes: float(np.sqrt((group["value"] ** 2).sum()) / len(group)) for votes, group in squares.groupby("x")}


def _margins(series: LineSeries) -> Iterator[tuple[float, int]]:
    """Of every trial of a series the margin that decides its votes, with the number of rivals."""
    votes = {metric_named(line.metric).quantity for line in series.lines}
    for _, trial in _most_seeds(series.lines[0].rows).iterrows():
        voting = abilities_of(str(trial["spec"])).voting
        if voting is None:
            continue
        for vote, rule in voting.rules.items():
            if votes & {vote, estimate_of(vote)}:
                margin = trial.get(MARGINS[rule])
                if margin is not None and not np.isnan(float(margin)):
                    yield min(1.0, float(margin)), rivals_of(voting, rule)
