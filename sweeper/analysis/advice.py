"""Advice read off the trials of a store: how many seeds r a training step needs, and how many votes a network.

**Seeds of a training step, m.** Trials that are equal except in m and the training seed are compared. The bad tail of
success, or of the metric that the task names (`Abilities.tail`), improves with m and then stays; it is a percentile
over the inputs, averaged over training seeds. The cost of a step keeps growing with m. So the advice is the smallest m
whose tail is nearly the best. A remark says where the data are too weak for the advice.

**Votes.** The bounds of `vote_bounds` are applied to each network, for every kind of vote that the task offers: on
whole answers and part by part. The margin is the 5th percentile over the inputs, so that this number of votes answers
at least 95 % of the inputs right with probability 95 % each. Every network has its own number: an average over training
seeds would hide a network that no vote can help. Beside the bound stands the number of votes that reached as much,
estimated from all seeds r of the evaluation (`votes_<k>`); rows of older programs have the paper's disjoint groups.

Nothing is trained. A number that was not measured is shown as a dash.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from sweeper.analysis.results import Results, abilities_of, value_order
from sweeper.analysis.settings_table import by_entries
from sweeper.analysis.table import ENTRIES, TEXT, VALUE, Column, Form, Table, attempted, without_empty_columns
from sweeper.analysis.vote_bounds import MARGINS, rivals_of, votes_needed
from sweeper.learned_algorithms.contracts import VotingRule
from sweeper.learned_algorithms.metrics import SUCCESS, Metric, estimate_of
from sweeper.learned_algorithms.trial_spec import Baseline
from sweeper.learned_algorithms.voting import sizes_of
from sweeper.trial.entry_names import column_name, entries, varying

NEARLY = 0.98  # a tail within 1 - NEARLY of the best tail, relative to its size, counts as equally good
FAILURE = 0.05  # probability with which a vote may be wrong


def advice_tables(results: Results) -> list[Table]:
    """The tables of advice that the trials allow; a table that could not be made says why."""
    tables = [
        attempted(SEEDS_TITLE, lambda: seeds_table(results)),
        attempted(VOTES_TITLE, lambda: votes_table(votes_of_networks(results))),
    ]
    return [table for table in tables if table.rows or not table.columns]


# Groups of trials


SharedEntries = tuple[str, str, float | None, int, tuple[tuple[str, Any], ...]]
"""What the trials of a group share: task, baseline, q, steps, and by name what else differs between groups."""

_SHARED_COLUMNS = (
    Column("task", TEXT), Column("baseline", TEXT), Column("q", VALUE), Column("steps", VALUE),
    Column("other entries", ENTRIES),
)  # fmt: skip

_NAMED = {"task.name", "baseline", "objective.q", "objective.m", "steps"}


def _randomised(trials: pd.DataFrame, free: Iterable[str] = ()) -> list[tuple[SharedEntries, pd.DataFrame]]:
    """Finished trials of randomised models in groups that are equal in all entries but the training seed and `free`."""
    fresh = [baseline.value for baseline in Baseline if baseline.fresh_seeds]
    groups = by_entries(trials[trials["baseline"].isin(fresh)] if len(trials) else trials[:0], free)
    tasks = {shared["task.name"] for shared, _ in groups}
    differing = {task: varying([shared for shared, _ in groups if shared["task.name"] == task]) for task in tasks}
    grouped = []
    for shared, rows in groups:
        first = rows.iloc[0]
        q = None if pd.isna(first["q"]) else float(first["q"])
        shown = [path for path in differing[shared["task.name"]] if path in shared and path not in _NAMED]
        others = tuple((column_name(path), shared[path]) for path in shown)
        grouped.append(((first["task"], first["baseline"], q, int(first["steps"]), others), rows))
    return sorted(grouped, key=_order)


def _order(group: tuple[SharedEntries, pd.DataFrame]) -> tuple[Any, ...]:
    (task, baseline, q, steps, others), rows = group
    return task, baseline, q or 0.0, steps, [(name, *value_order(value)) for name, value in others], rows["m"].iloc[0]


# Seeds of a training step


def _m_and_tail(value: tuple[int, float, Metric]) -> str:
    """Such as "10 (49.1 %)"; success is shown as per cent, any other metric by its name."""
    m, tail, metric = value
    return f"{m} ({100 * tail:.1f} %)" if metric == SUCCESS.tail else f"{m} ({metric.name} {tail:.2f})"


def _listed(values: Sequence[int]) -> str:
    return f"{values[0]} ... {values[-1]} ({len(values)})" if len(values) > 4 else ", ".join(map(str, values))


M_AND_TAIL = Form(_m_and_tail, numeric=True, order=lambda value: value[0])
COSTS = Form(lambda costs: " / ".join(f"{cost:,.0f}" for cost in costs), numeric=True, order=lambda costs: costs[0])
SPAN = Form(lambda counts: "-".join(map(str, dict.fromkeys(counts))), numeric=True, order=lambda counts: counts[0])
SEEDS_TITLE = "How many seeds m a training step needs"


def seeds_table(results: Results) -> Table:
    """The smallest sufficient m of every group of trials that tried several."""
    columns = (
        *_SHARED_COLUMNS,
        Column("m tried", Form(_listed)),
        Column("enough m (tail)", M_AND_TAIL, "none"),
        Column("best m (tail)", M_AND_TAIL),
        Column("CPU s", COSTS),
        Column("steps/s", COSTS),
        Column("seeds", SPAN),
        Column("remark", TEXT),
    )
    note = (
        f"Tail: 5th percentile of success over the inputs, or the metric that is named; mean over training seeds. "
        f"Enough: the smallest m tried whose tail is within {100 * (1 - NEARLY):g} % of the best. "
        f"CPU seconds of a whole trial and steps per second, with "
        f"enough / with the best m, are means over the trials, on the machine that ran them. Where the advice is weak: "
        f"'largest tried': a larger m may be better; 'all tails 0': nothing tells the values of m apart; "
        f"'one seed': a single training behind the tail; 'devices': costs of several kinds of device."
    )
    rows = (_seeds_row(*group) for group in _randomised(results.trials, free=["objective.m"]))
    return without_empty_columns(Table(SEEDS_TITLE, columns, tuple(row for row in rows if row), note))


def _seeds_row(setting: SharedEntries, rows: pd.DataFrame) -> tuple[object, ...]:
    """The row of trials that differ in m and the training seed; empty of trials with one m."""
    tail = abilities_of(rows["spec"].iloc[0]).tail_metric
    measured = rows.dropna(subset=[tail.name]) if tail.name in rows else rows[:0]
    tried = {int(m): group for m, group in measured.groupby("m")}  # pyright: ignore[reportArgumentType]
    if len(tried) < 2:
        return ()
    seeds = {m: group["seed"].nunique() for m, group in tried.items()}
    tails = {m: float(group.groupby("seed")[tail.name].mean().mean()) for m, group in tried.items()}
    best = (max if tail.high_is_good else min)(tails, key=tails.__getitem__)
    telling = any(tails.values())  # else nothing tells the values of m apart
    enough = next(m for m, value in tails.items() if as_good(tail, value, tails[best])) if telling else None
    both = [best] if enough is None else [enough, best]
    costs = (tuple(tried[m][name].mean() for m in both) for name in ("cpu_seconds", "steps_per_second"))
    devices = rows["device"].nunique()
    remarks = [
        *["all tails 0"] * (not telling),
        *["largest tried"] * (enough == max(tails)),
        *["one seed"] * (min(seeds[m] for m in both) == 1),
        *[f"{devices} devices"] * (devices > 1),
    ]
    return (
        *setting,
        tuple(tails),
        None if enough is None else (enough, tails[enough], tail),
        None if enough is None else (best, tails[best], tail),
        *(costs if enough is not None else (None, None)),
        (min(seeds.values()), max(seeds.values())),
        ", ".join(remarks),
    )


def as_good(tail: Metric, value: float, best: float) -> bool:
    """Whether a tail is nearly the best."""
    sign = 1 if tail.high_is_good else -1
    return sign * value >= sign * best - (1 - NEARLY) * abs(best)


# Votes


@dataclass(frozen=True)
class Votes:
    """How many votes of one kind are needed, and the success that such votes reached."""

    setting: SharedEntries
    m: int  # seeds r of a training step
    seeds: int  # training seeds; the values below have one entry for each training seed that has them
    rule: VotingRule  # whether seeds r vote on whole answers or part by part
    margins: tuple[float, ...]  # 5th percentile over the inputs of the margin that decides this vote
    needed: tuple[float, ...]  # votes that the bound asks for; infinity where the bound gives nothing
    # Average success and its 5th percentile by number of votes, averaged over training seeds: the estimates
    # `votes_<k>` where they were measured, else the disjoint groups of the paper, `majority_<k>`. NaN for a percentile
    # that is 0 for one training seed and 1 for another
    reached: Mapping[int, tuple[float, float]]
    shown: tuple[int, ...]  # numbers of votes with a column of the table: those in the protocols of the trials
    # Entropy of the wrong answers in bits, averaged over the inputs with wrong answers
    entropies: tuple[float, ...]
    evaluation_seeds: int  # how many seeds r the margins were estimated from

    def enough(self, which: Literal[0, 1]) -> int | None:
        """The fewest votes whose measured average success (0), or 5th percentile (1), is at least 1 - FAILURE."""
        return min((group for group, shares in self.reached.items() if shares[which] >= 1 - FAILURE), default=None)


def votes_of_networks(results: Results) -> list[Votes]:
    """The votes of every randomised setting and kind of vote with a measured margin or success."""
    advice = []
    for setting, rows in _randomised(results.trials):
        spec = rows["spec"].iloc[0]
        voting = abilities_of(spec).voting
        if voting is None:
            continue
        groups, evaluation_seeds = entries(spec).get("evaluation.votes", ()), entries(spec)["evaluation.seeds"]
        m, seeds, entropies = int(rows["m"].iloc[0]), rows["seed"].nunique(), _values(rows, "wrong_entropy")
        for vote, rule in sorted(voting.rules.items(), key=lambda named: named[1]):  # joint first
            reached = {}
            for size in sorted({*groups, *sizes_of(evaluation_seeds, groups)}):
                for metric in (Metric(estimate_of(vote), votes=size), Metric(vote, votes=size)):
                    average, tail = _values(rows, metric.name), _values(rows, metric.tail.name)
                    if average and tail:
                        none = metric.tail.has_no_mean(min(tail), max(tail))
                        shares = float(np.mean(average)), math.nan if none else float(np.mean(tail))
                        reached.setdefault(size, shares)
            # Shares of single precision may exceed 1 by a rounding error; so may margins of a perfect model.
            margins = tuple(min(margin, 1.0) for margin in _values(rows, MARGINS[rule]))
            if margins or reached:
                needed = tuple(votes_needed(margin, rivals_of(voting, rule), FAILURE) for margin in margins)
                shown = tuple(size for size in groups if size in reached)
                advice.append(
                    Votes(setting, m, seeds, rule, margins, needed, reached, shown, entropies, evaluation_seeds)
                )
    return advice


def _values(rows: pd.DataFrame, metric: str) -> tuple[float, ...]:
    """Values of the trials that have the metric; trials of older programs may lack it."""
    return tuple(rows[metric].dropna().astype(float)) if metric in rows else ()


def _enough(value: tuple[int | None, int | None, int]) -> str:
    """The fewest votes that sufficed, on average and in the 5th percentile; None if not even the most did."""
    *enough, most = value
    return "/".join(f">{most}" if votes is None else str(votes) for votes in enough)


def _span(shown: Callable[[float], str]) -> Form:
    """Lowest and highest of several values; once if they look alike."""

    def text(values: Sequence[float]) -> str:
        return " ... ".join(dict.fromkeys(shown(value) for value in (min(values), max(values))))

    return Form(text, numeric=True, order=min)


MARGIN = _span("{:.2f}".format)
BOUND = _span(lambda votes: "none" if math.isinf(votes) else f"{votes:,.0f}")
ENTROPY = _span("{:.1f}".format)
ENOUGH = Form(_enough, numeric=True, order=lambda value: value[0])
SHARES = Form(
    lambda shares: "/".join("0 to 100" if math.isnan(share) else f"{100 * share:.3g}" for share in shares),
    numeric=True,
    order=lambda shares: shares[0],
)
MISSING = "-"
VOTES_TITLE = "How many votes each network needs"


def votes_table(advice: Sequence[Votes]) -> Table:
    groups = sorted({group for votes in advice for group in votes.shown})
    columns = (
        *_SHARED_COLUMNS,
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
    rows = tuple(
        (
            *votes.setting,
            votes.m,
            votes.seeds,
            "whole" if votes.rule == "joint" else "parts",
            votes.margins or None,
            votes.needed or None,
            (votes.enough(0), votes.enough(1), max(votes.reached)) if votes.reached else None,
            *(votes.reached.get(group) for group in groups),
            votes.entropies or None,
        )
        for votes in advice
    )
    return without_empty_columns(Table(VOTES_TITLE, columns, rows, note))
