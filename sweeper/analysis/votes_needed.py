"""Advice on votes from the trials of a store: how many votes a network needs, and the success that votes reached.

The bounds of `vote_bounds` are applied to each network, for every kind of vote that the task offers: on whole answers
and part by part. The margin is the 5th percentile over the inputs, so that this number of votes answers at least 95 %
of the inputs right with probability 95 % each. Every network has its own number: an average over training seeds would
hide a network that no vote can help. Beside the bound stands the number of votes that reached as much, estimated from
all seeds r of the evaluation (`votes_<k>`); rows of older programs have the paper's disjoint groups instead.

Nothing is trained. A number that was not measured is shown as a dash.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from sweeper.analysis.results import Results, task_of
from sweeper.analysis.shared_entries import SETTING_COLUMNS, SharedEntries, randomised
from sweeper.analysis.table import VALUE, Column, Form, Table, without_empty_columns
from sweeper.analysis.vote_bounds import MARGINS, partwise_votes_needed, rivals_of, votes_needed
from sweeper.training.voting import sizes_of
from sweeper.trial.contracts import Voting, VotingRule
from sweeper.trial.entry_names import entries
from sweeper.trial.metrics import Metric, estimate_of

FAILURE = 0.05
"""Probability with which a vote may be wrong."""


@dataclass(frozen=True)
class Votes:
    """How many votes of one kind are needed, and the success that such votes reached.

    Attributes:
        setting: The setting.
        m: Seeds r of a training step.
        seeds: Training seeds; the values below have one entry for each training seed that has them.
        rule: Whether seeds r vote on whole answers or part by part.
        margins: 5th percentile over the inputs of the margin that decides this vote.
        needed: Votes that the bound asks for; infinity where the bound gives nothing.
        reached: Average success and its 5th percentile by number of votes, averaged over training seeds: the estimates
            `votes_<k>` where they were measured, else the disjoint groups of the paper, `majority_<k>`.
        shown: Numbers of votes with a column of the table: those in the protocols of the trials.
        entropies: Entropy of the wrong answers in bits, averaged over the inputs with wrong answers.
        evaluation_seeds: How many seeds r the margins were estimated from.
    """

    setting: SharedEntries
    m: int
    seeds: int
    rule: VotingRule
    margins: tuple[float, ...]
    needed: tuple[float, ...]
    reached: Mapping[int, tuple[float, float]]
    shown: tuple[int, ...]
    entropies: tuple[float, ...]
    evaluation_seeds: int

    def enough(self, which: Literal[0, 1]) -> int | None:
        """The fewest votes whose measured average success (0), or 5th percentile (1), is at least 1 - FAILURE."""
        return min((group for group, shares in self.reached.items() if shares[which] >= 1 - FAILURE), default=None)


def votes_of_networks(results: Results) -> list[Votes]:
    """The votes of every randomised setting and kind of vote with a measured margin or success."""
    advice = []
    for setting, rows in randomised(results.trials):
        spec = rows["spec"].iloc[0]
        task = task_of(spec)
        voting = task.abilities().voting if task else None
        if voting is None:
            continue
        groups, evaluation_seeds = entries(spec)["evaluation.votes"], entries(spec)["evaluation.seeds"]
        for vote, rule in sorted(voting.rules.items(), key=lambda named: named[1]):  # joint first
            reached = {}
            for size in sorted({*groups, *sizes_of(evaluation_seeds, groups)}):
                for metric in (Metric(estimate_of(vote), votes=size), Metric(vote, votes=size)):
                    average, tail = _mean(rows, metric.name), _mean(rows, metric.tail.name)
                    if average is not None and tail is not None:
                        reached.setdefault(size, (average, tail))
            # Shares of single precision may exceed 1 by a rounding error; so may margins of a perfect model.
            margins = tuple(min(margin, 1.0) for margin in _values(rows, MARGINS[rule]))
            if margins or reached:
                needed = tuple(_needed(voting, rule, margin) for margin in margins)
                m, seeds = int(rows["m"].iloc[0]), rows["seed"].nunique()
                entropies = _values(rows, "wrong_entropy")
                shown = tuple(size for size in groups if size in reached)
                advice.append(
                    Votes(setting, m, seeds, rule, margins, needed, reached, shown, entropies, evaluation_seeds)
                )
    return advice


def _needed(voting: Voting, rule: VotingRule, margin: float) -> float:
    bound = votes_needed if rule == "joint" else partwise_votes_needed
    return bound(margin, rivals_of(voting, rule), FAILURE)


def _values(rows: pd.DataFrame, metric: str) -> tuple[float, ...]:
    """Values of the trials that have the metric; trials of older programs may lack it."""
    return tuple(rows[metric].dropna().astype(float)) if metric in rows else ()


def _mean(rows: pd.DataFrame, metric: str) -> float | None:
    values = _values(rows, metric)
    return float(np.mean(values)) if values else None


# --------------------------------------------------------------------------------------------------------------------
# The table
# --------------------------------------------------------------------------------------------------------------------


class Enough(NamedTuple):
    """The fewest votes that sufficed, on average and in the 5th percentile, or None; and the most measured."""

    average: int | None
    tail: int | None
    most: int

    def text(self) -> str:
        """Such as "5/>30"."""
        return "/".join(f">{self.most}" if votes is None else str(votes) for votes in self[:2])


def _span(shown: Callable[[float], str]) -> Form:
    """Lowest and highest of several values; once if they look alike."""

    def text(values: Sequence[float]) -> str:
        return " ... ".join(dict.fromkeys(shown(value) for value in (min(values), max(values))))

    return Form(text, numeric=True, order=min)


MARGIN = _span("{:.2f}".format)
BOUND = _span(lambda votes: "none" if math.isinf(votes) else f"{votes:,.0f}")
ENTROPY = _span("{:.1f}".format)
ENOUGH = Form(Enough.text, numeric=True, order=lambda enough: enough.average)
SHARES = Form(
    lambda shares: "/".join(f"{100 * share:.3g}" for share in shares), numeric=True, order=lambda shares: shares[0]
)
MISSING = "-"
TITLE = "How many votes each network needs"


def votes_table(advice: Sequence[Votes]) -> Table:
    """The votes as a table."""
    groups = sorted({group for votes in advice for group in votes.shown})
    columns = (
        *SETTING_COLUMNS,
        Column("m", VALUE),
        Column("seeds", VALUE),
        Column("vote"),
        Column("margin", MARGIN, MISSING),
        Column("bound", BOUND, MISSING),
        Column("enough", ENOUGH, MISSING),
        *(Column(f"{group} votes, %", SHARES) for group in groups),
        Column("entropy", ENTROPY, MISSING),
    )
    seeds = " or ".join(str(count) for count in sorted({votes.evaluation_seeds for votes in advice}))
    note = (
        f"Vote: seeds r vote on whole answers, or on each part of them such as a bit. "
        f"Margin: share of seeds with the most frequent right answer less that with the most frequent wrong one; by "
        f"part, share with the weakest part right less that with it wrong; 5th percentile over the inputs, from "
        f"{seeds} evaluation seeds, whose noise makes it look worse than it is. "
        f"Bound: so many are right with probability {100 * (1 - FAILURE):g} % on 95 % of the inputs; fewer may "
        f"do, and 'none' says that the bound promises nothing. "
        f"Enough: the fewest votes taken that reached {100 * (1 - FAILURE):g} %, on average/in the 5th percentile, "
        f"which is what the bound is about; beside it the success of votes in the same form. "
        f"Entropy: of the wrong answers, in bits. Of several training seeds the lowest ... highest. "
        f"'{MISSING}': not measured, as by older programs, or no answer is wrong."
    )
    rows = tuple(_row(votes, groups) for votes in advice)
    return without_empty_columns(Table(TITLE, columns, rows, note))


def _row(votes: Votes, groups: Sequence[int]) -> tuple[object, ...]:
    enough = Enough(votes.enough(0), votes.enough(1), max(votes.reached)) if votes.reached else None
    return (
        *votes.setting.cells(),
        votes.m,
        votes.seeds,
        "whole" if votes.rule == "joint" else "parts",
        votes.margins or None,
        votes.needed or None,
        enough,
        *(votes.reached.get(group) for group in groups),
        votes.entropies or None,
    )
