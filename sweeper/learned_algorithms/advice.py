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
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from sweeper.learned_algorithms.contracts import Abilities
from sweeper.learned_algorithms.metrics import SUCCESS, estimate_of
from sweeper.learned_algorithms.trial_spec import Baseline
from sweeper.learned_algorithms.vote_bounds import MARGINS, rivals_of, votes_needed
from sweeper.learned_algorithms.voting import sizes_of
from sweeper.tables import MISSING, Amount, table, value_text
from sweeper.trial.entry_names import by_entries, column_name, entries, value_order, varying
from sweeper.trial.metrics import Metric
from sweeper.trial.trial import first_part

NEARLY = 0.98  # a tail within 1 - NEARLY of the best tail, relative to its size, counts as equally good
FAILURE = 0.05  # probability with which a vote may be wrong


def _abilities(rows: pd.DataFrame) -> Abilities:
    """What the task of some trials can do; nothing beyond every task where this checkout does not have it."""
    task = first_part(rows["spec"].iloc[0])
    return Abilities() if task is None else task.abilities()


# Groups of trials


SharedEntries = dict[str, Any]
"""The cells that the trials of a group share: task, baseline, q, steps, and what else differs between groups."""

_NAMED = {"task.name", "baseline", "objective.q", "objective.m", "steps"}


def _randomised(trials: pd.DataFrame, free: Iterable[str] = ()) -> list[tuple[SharedEntries, pd.DataFrame]]:
    """Finished trials of randomised models in groups that are equal in all entries but the training seed and `free`."""
    if trials.empty:
        return []
    fresh = [baseline.value for baseline in Baseline if baseline.fresh_seeds]
    grouped = []
    for _, of_task in trials[trials["baseline"].isin(fresh)].groupby("task"):
        groups = by_entries(of_task, free)
        differing = [path for path in varying([shared for shared, _ in groups]) if path not in _NAMED]
        for shared, rows in groups:
            first = rows.iloc[0]
            q = None if pd.isna(first["q"]) else float(first["q"])
            others = {column_name(path): shared[path] for path in differing if path in shared}
            text = ", ".join(f"{name} {value_text(value)}" for name, value in others.items())
            named = {"task": first["task"], "baseline": first["baseline"], "q": q, "steps": int(first["steps"])}
            order = [(name, *value_order(value)) for name, value in others.items()]
            key = (first["task"], first["baseline"], value_order(q), named["steps"], order, first["m"])
            grouped.append((key, named | {"other entries": text}, rows))
    return [(cells, rows) for _, cells, rows in sorted(grouped, key=lambda group: group[0])]


# Seeds of a training step


SEEDS_TITLE = "How many seeds m a training step needs"


def seeds_table(trials: pd.DataFrame) -> pd.DataFrame:
    """The smallest sufficient m of every group of trials that tried several."""
    note = (
        f"Tail: 5th percentile of success over the inputs, or the metric that is named; mean over training seeds. "
        f"Enough: the smallest m tried whose tail is within {100 * (1 - NEARLY):g} % of the best. "
        f"CPU seconds of a whole trial and steps per second, with "
        f"enough / with the best m, are means over the trials, on the machine that ran them. Where the advice is weak: "
        f"'largest tried': a larger m may be better; 'all tails 0': nothing tells the values of m apart; "
        f"'one seed': a single training behind the tail; 'devices': costs of several kinds of device."
    )
    rows = [shared | own for shared, rows in _randomised(trials, free=["objective.m"]) if (own := _seeds(rows))]
    return table(rows, SEEDS_TITLE, note) if rows else table([])


def _seeds(rows: pd.DataFrame) -> dict[str, Any]:
    """The cells of trials that differ in m and the training seed; empty of trials with one m."""
    tail = _abilities(rows).tail_metric
    measured = rows.dropna(subset=[tail.name]) if tail.name in rows else rows[:0]
    tried = {int(m): group for m, group in measured.groupby("m")}  # pyright: ignore[reportArgumentType]
    if len(tried) < 2:
        return {}
    seeds = {m: group["seed"].nunique() for m, group in tried.items()}
    tails = {m: float(group.groupby("seed")[tail.name].mean().mean()) for m, group in tried.items()}
    best = (max if tail.high_is_good else min)(tails, key=tails.__getitem__)
    telling = any(tails.values())  # else nothing tells the values of m apart
    enough = next(m for m, value in tails.items() if as_good(tail, value, tails[best])) if telling else None
    both = [best] if enough is None else [enough, best]
    devices = rows["device"].nunique()
    remarks = [
        *["all tails 0"] * (not telling),
        *["largest tried"] * (enough == max(tails)),
        *["one seed"] * (min(seeds[m] for m in both) == 1),
        *[f"{devices} devices"] * (devices > 1),
    ]

    def with_tail(m: int) -> Amount:
        """Such as "10 (49.1 %)"; success is shown as per cent, any other metric by its name."""
        shown = f"{100 * tails[m]:.1f} %" if tail == SUCCESS.tail else f"{tail.name} {tails[m]:.2f}"
        return Amount(m, f"{m} ({shown})")

    def cost(name: str) -> Amount | None:
        means = [tried[m][name].mean() for m in both]
        return Amount(means[0], " / ".join(f"{mean:,.0f}" for mean in means)) if telling else None

    return {
        "m tried": f"{min(tails)} ... {max(tails)} ({len(tails)})" if len(tails) > 4 else ", ".join(map(str, tails)),
        "enough m (tail)": Amount(math.nan, "none") if enough is None else with_tail(enough),
        "best m (tail)": with_tail(best) if telling else None,
        "CPU s": cost("cpu_seconds"),
        "steps/s": cost("steps_per_second"),
        "seeds": _span(seeds.values(), str, "-"),
        "remark": ", ".join(remarks),
    }


def _span(values: Iterable[float], text: Callable[[float], str], between: str = " ... ") -> Amount:
    """Lowest and highest of several values, once if they look alike; none of none."""
    ends = [function(known) for function in (min, max)] if (known := list(values)) else []
    return Amount(ends[0], between.join(dict.fromkeys(map(text, ends)))) if ends else MISSING


def as_good(tail: Metric, value: float, best: float) -> bool:
    """Whether a tail is nearly the best."""
    sign = 1 if tail.high_is_good else -1
    return sign * value >= sign * best - (1 - NEARLY) * abs(best)


# Votes


VOTES_TITLE = "How many votes each network needs"


def votes_table(trials: pd.DataFrame) -> pd.DataFrame:
    """The votes of every randomised setting and kind of vote with a measured margin or success."""
    found = [vote for shared, rows in _randomised(trials) for vote in _votes(shared, rows)]
    protocols = {seeds for _, _, _, seeds in found}
    seeds = " or ".join(map(str, sorted(protocols)))
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
    sizes = sorted({size for _, shares, _, _ in found for size in shares})
    rows = [
        cells | {f"{size} votes, %": shares.get(size) for size in sizes} | {"entropy": entropy}
        for cells, shares, entropy, _ in found
    ]
    return table(rows, VOTES_TITLE, note) if rows else table([])


def _votes(shared: SharedEntries, rows: pd.DataFrame) -> Iterator[tuple[SharedEntries, dict[int, Amount], Amount, int]]:
    """For each kind of vote of a setting: its cells, success by number of votes, entropy, and evaluation seeds."""
    voting, of_trial = _abilities(rows).voting, entries(rows["spec"].iloc[0])
    if voting is None:
        return
    groups, evaluation_seeds = of_trial.get("evaluation.votes", ()), of_trial["evaluation.seeds"]
    for vote, rule in sorted(voting.rules.items(), key=lambda named: named[1]):  # joint first
        reached = _reached(rows, vote, sorted({*groups, *sizes_of(evaluation_seeds, groups)}))
        # Shares of single precision may exceed 1 by a rounding error; so may margins of a perfect model.
        margins = [min(margin, 1.0) for margin in _values(rows, MARGINS[rule])]
        if not (margins or reached):
            continue
        needed = [votes_needed(margin, rivals_of(voting, rule), FAILURE) for margin in margins]
        cells = shared | {
            "m": int(rows["m"].iloc[0]),
            "seeds": rows["seed"].nunique(),
            "vote": "whole" if rule == "joint" else "parts",
            "margin": _span(margins, "{:.2f}".format),
            "bound": _span(needed, lambda votes: "none" if math.isinf(votes) else f"{votes:,.0f}"),
            "enough": _enough(reached),
        }
        shares = {size: _shares(*reached[size]) for size in groups if size in reached}
        yield cells, shares, _span(_values(rows, "wrong_entropy"), "{:.1f}".format), evaluation_seeds


def _reached(trials: pd.DataFrame, vote: str, sizes: Iterable[int]) -> dict[int, tuple[float, float]]:
    """Average success and its 5th percentile by number of votes, averaged over training seeds.

    They are the estimates `votes_<k>` where these were measured, else the disjoint groups of the paper,
    `majority_<k>`. NaN stands for a percentile that is 0 for one training seed and 1 for another.
    """
    reached: dict[int, tuple[float, float]] = {}
    for size in sizes:
        for metric in (Metric(estimate_of(vote), number=size), Metric(vote, number=size)):
            average, tail = _values(trials, metric.name), _values(trials, metric.tail.name)
            if average and tail:
                none = metric.tail.has_no_mean(min(tail), max(tail))
                reached.setdefault(size, (float(np.mean(average)), math.nan if none else float(np.mean(tail))))
    return reached


def _values(trials: pd.DataFrame, metric: str) -> list[float]:
    """Values of the trials that have the metric; trials of older programs may lack it."""
    return list(trials[metric].dropna().astype(float)) if metric in trials else []


def _enough(reached: Mapping[int, tuple[float, float]]) -> Amount:
    """The fewest votes whose measured average success, and 5th percentile, is at least 1 - FAILURE."""
    if not reached:
        return MISSING
    average, tail = (
        min((size for size, shares in reached.items() if shares[which] >= 1 - FAILURE), default=None)
        for which in (0, 1)
    )
    text = "/".join(f">{max(reached)}" if few is None else str(few) for few in (average, tail))
    return Amount(math.nan if average is None else average, text)


def _shares(average: float, tail: float) -> Amount:
    """In per cent, such as "95/80"."""
    return Amount(average, f"{100 * average:.3g}/{'0 to 100' if math.isnan(tail) else f'{100 * tail:.3g}'}")
