"""Success against the number of votes: averages solid, tails dashed, and dotted what the bounds on votes promise.

The success of k votes is measured for some numbers k (`votes_<k>`, see `sweeper.learned_algorithms.voting`). A bound of
`sweeper.learned_algorithms.vote_bounds` turns the margin of a model into a success of at least so much for every k. The
margin is the 5th percentile over the inputs, so that the dotted line is a promise about the dashed one. Every network
has a margin and a dotted line of its own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from sweeper.analysis.figures import style
from sweeper.analysis.figures.lines import Lines, metric_values
from sweeper.analysis.figures.selection import NoData
from sweeper.analysis.figures.style import Look
from sweeper.learned_algorithms.figures.panels import VotesPanel
from sweeper.learned_algorithms.metrics import estimate_of, metric_named
from sweeper.learned_algorithms.vote_bounds import MARGINS, rivals_of, success_promised
from sweeper.messages import counted
from sweeper.trial.entry_names import entries
from sweeper.trial.trial import first_part

TICKS = (1, 3, 10, 30, 100, 300, 1000, 3000)

DOTTED: dict[str, Any] = {"linestyle": (0, (1, 1.2)), "linewidth": 1.2}  # the line of a bound
ERRORS = 2.0  # length of an error bar to either side, in standard errors


class VoteCurves(Lines[VotesPanel]):
    """Lines against the number of votes."""

    def values(self, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
        """As of every kind, with the standard `error` of each value, and `margin` and `rivals` of its trial; or NaN."""
        named = metric_named(metric)
        values, errors = votes_of(rows, metric), named._replace(statistic="error").name
        known = named.statistic == "mean" and _numbers_of_votes(rows, errors)
        measured = votes_of(rows, errors) if known else values[:0]
        measured = measured.rename(columns={"value": "error"})[["trial_id", "x", "error"]]
        margins = _margins(rows, named.quantity)
        return values.merge(measured, on=["trial_id", "x"], how="left").merge(margins, on="trial_id", how="left")

    def axis_columns(self) -> Sequence[str]:
        # Of several protocols of one network the protocol with the most seeds r counts, so none are merged.
        return ["evaluation.seeds", "evaluation.votes"]

    def paint(self, axes: Sequence[Axes], look: Look) -> None:
        super().paint(axes, look)
        (ax,), looks, y = axes, self.looks(look), self.panel.y
        errors = self.errors()
        means = self.points.merge(errors, on=["series", "metric", "x"])
        for label, at in means.groupby("series"):
            reach = ERRORS * at["error"] * abs(y.factor)  # of an average, for the draw of the seeds r
            bar: dict[str, Any] = {"linestyle": "none", "linewidth": 0.9, "capsize": 1.8, "zorder": 5}
            ax.errorbar(at["x"], at["mean"] * y.factor, reach, color=looks[str(label)][0], **bar)
        votes = np.geomspace(1, self.most(), 120)
        for label in self.labels():
            for margin, rivals in self._bounds(label):
                promised = np.array([success_promised(k, margin, rivals) for k in votes])
                seen = promised > 0
                ax.plot(votes[seen], promised[seen] * y.factor, color=looks[label][0], zorder=4, **DOTTED)

    def dress(self, axes: Axes) -> None:
        ticks = [tick for tick in TICKS if tick <= self.most()]
        axes.set(xscale="log", xlim=(0.9, 1.1 * self.most()), xlabel=self.panel.x)
        axes.set_xticks(ticks, list(map(str, ticks)))
        axes.xaxis.set_minor_locator(NullLocator())

    def most(self) -> float:
        """The number of votes at the end of the axis."""
        return self.frame["x"].max()

    def errors(self) -> pd.DataFrame:
        """Standard errors of averages by series and number of votes, where measured; training seeds are independent."""
        by_trial = self.frame.dropna(subset="error").groupby(["series", "metric", "x"])["error"]
        return by_trial.agg(lambda errors: float(np.sqrt((errors**2).sum()) / len(errors))).reset_index()

    def legend(self, look: Look) -> list[tuple[str, Artist]]:
        bound = ("bound on the 5th percentile", Line2D([], [], color=style.FAINT, **DOTTED))
        return [*super().legend(look), *[bound] * any(map(self._bounds, self.labels()))]

    def _margins(self, label: str) -> list[tuple[float, int]]:
        """The margins of the trials of a series that have one, with the number of rivals."""
        known = self.part(label).dropna(subset="margin").drop_duplicates(["trial_id", "rivals"])
        return list(zip(known["margin"], known["rivals"], strict=True))

    def _promises(self, label: str) -> list[bool]:
        """Whether the bound says anything up to the end of the axis, for every trial with a margin."""
        return [success_promised(self.most(), margin, rivals) > 0 for margin, rivals in self._margins(label)]

    def _bounds(self, label: str) -> list[tuple[float, int]]:
        """The margins of a series, with the number of rivals; none unless the bound says something for every trial."""
        return self._margins(label) if all(self._promises(label)) else []

    def remarks(self) -> list[str]:
        parts = super().remarks()
        if len(self.errors()):
            parts.append(f"bars: {ERRORS:g} standard errors, for the draw of the seeds r")
        promises = [promise for label in self.labels() for promise in self._promises(label)]
        if silent := len(promises) - sum(promises):
            without = f"{silent} of {counted(len(promises), 'trial')}"
            parts.append(f"no bound up to {self.most():g} votes: {without}; a series has bounds for all or for none")
        return parts


def votes_of(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """As `metric_values`, of votes at each number k of them, such as `votes_p5` for the columns `votes_<k>_p5`.

    Of several evaluations of one network the evaluation with the most seeds r counts, for every k by itself.
    """
    measured = _numbers_of_votes(rows, name)
    if not measured:
        numbered = metric_named(name)._replace(quantity=f"{metric_named(name).quantity}_<k>").name
        raise NoData(f"'{numbered}' was not measured for any number k of votes")
    parts = [(size, named, _most_seeds(rows[rows[named].notna()])) for size, named in measured.items()]
    return pd.concat(metric_values(part, named, pd.Series(size, part.index)) for size, named, part in parts)


def _numbers_of_votes(rows: pd.DataFrame, name: str) -> dict[int, str]:
    """The numbers of votes for which trials have a metric, rising, with its column."""
    wanted, sizes = metric_named(name), {named: metric_named(named).number for named in rows.columns}
    measured = {size: wanted._replace(number=size).name for size in sorted(set(filter(None, sizes.values())))}
    return {size: named for size, named in measured.items() if named in sizes and rows[named].notna().any()}


def _margins(rows: pd.DataFrame, vote: str) -> pd.DataFrame:
    """Of every trial the margin that decides these votes, and the number of rivals (`trial_id`, `margin`, `rivals`)."""
    found = []
    for _, trial in _most_seeds(rows).iterrows():
        task = first_part(str(trial["spec"]))
        voting = None if task is None else task.abilities().voting
        if voting is None:
            continue
        for decided, rule in voting.rules.items():
            margin = trial.get(MARGINS[rule])
            if vote in (decided, estimate_of(decided)) and pd.notna(margin):
                found.append((trial["trial_id"], min(1.0, float(margin)), rivals_of(voting, rule)))
    return pd.DataFrame(found, columns=["trial_id", "margin", "rivals"])


def _most_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """One row of every trial: of several evaluations of its network that with the most evaluation seeds."""
    seeds = pd.Series([entries(spec)["evaluation.seeds"] for spec in rows["spec"]], rows.index, dtype=int)
    return rows.loc[seeds.sort_values(ascending=False, kind="stable").index].drop_duplicates("trial_id")
