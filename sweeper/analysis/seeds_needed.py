"""Advice on m, the number of seeds r of a training step, from the trials of a store.

Trials that are equal except in m and the training seed are compared. The bad tail of success, or of the metric that the
task names (`Abilities.tail`), improves with m and then stays; it is a percentile over the inputs, averaged over
training seeds. The cost of a step keeps growing with m. So the advice is the smallest m whose tail is nearly the best.

Where the data are too weak for the advice (all tails zero, one training seed), a remark says so. Nothing is trained.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from sweeper.analysis.results import Results, task_of
from sweeper.analysis.shared_entries import SETTING_COLUMNS, SharedEntries, randomised
from sweeper.analysis.table import TEXT, Column, Form, Table, without_empty_columns
from sweeper.trial.metrics import SUCCESS, Metric

NEARLY = 0.98
"""A tail within 1 - NEARLY of the best tail, relative to its size, counts as equally good."""


@dataclass(frozen=True)
class AtM:
    """Trials with one value of m: their average tail, and the average cost of a trial."""

    m: int
    seeds: int
    tail: float
    cpu_seconds: float
    steps_per_second: float


@dataclass(frozen=True)
class EnoughSeeds:
    """The values of m that were tried, and the smallest sufficient m; None if the data cannot decide.

    `remarks` say what weakens the advice.
    """

    setting: SharedEntries
    tail: Metric
    tried: tuple[AtM, ...]
    best: AtM
    enough: AtM | None
    remarks: tuple[str, ...]


def enough_seeds(results: Results) -> list[EnoughSeeds]:
    """The smallest sufficient m of every group of trials that tried several."""
    advice = []
    for setting, rows in randomised(results.trials, free=["objective.m"]):
        task = task_of(rows["spec"].iloc[0])
        tail = SUCCESS.tail if task is None else task.abilities().tail_metric
        if tail.name not in rows:
            continue
        measured = rows.dropna(subset=[tail.name])
        tried = tuple(_at_m(int(m), group, tail.name) for m, group in measured.groupby("m"))  # pyright: ignore[reportArgumentType]
        if len(tried) > 1:
            sign = 1 if tail.high_is_good else -1
            best = max(tried, key=lambda at: sign * at.tail)
            telling = any(at.tail != 0 for at in tried)
            enough = next(at for at in tried if as_good(tail, at.tail, best.tail)) if telling else None
            remarks = _remarks(tried, best, enough, rows["device"].nunique())
            advice.append(EnoughSeeds(setting, tail, tried, best, enough, remarks))
    return advice


def as_good(tail: Metric, value: float, best: float) -> bool:
    """Whether a tail is nearly the best one."""
    sign = 1 if tail.high_is_good else -1
    return sign * value >= sign * best - (1 - NEARLY) * abs(best)


def _at_m(m: int, rows: pd.DataFrame, tail: str) -> AtM:
    return AtM(
        m=m,
        seeds=rows["seed"].nunique(),
        tail=float(rows.groupby("seed")[tail].mean().mean()),
        cpu_seconds=float(rows["cpu_seconds"].mean()),
        steps_per_second=float(rows["steps_per_second"].mean()),
    )


def _remarks(tried: Sequence[AtM], best: AtM, enough: AtM | None, devices: int) -> tuple[str, ...]:
    remarks = []
    if enough is None:
        remarks.append("all tails 0")
    elif enough.m == tried[-1].m:
        remarks.append("largest tried")
    if min(at.seeds for at in (best, enough or best)) == 1:
        remarks.append("one seed")
    if devices > 1:
        remarks.append(f"{devices} devices")
    return tuple(remarks)


# --------------------------------------------------------------------------------------------------------------------
# The table
# --------------------------------------------------------------------------------------------------------------------


class MAndTail(NamedTuple):
    """A value of m with its tail."""

    m: int
    tail: Metric
    value: float

    def text(self) -> str:
        """Such as "10 (49.1 %)"; success is shown as per cent, any other metric by its name."""
        tail = f"{100 * self.value:.1f} %" if self.tail == SUCCESS.tail else f"{self.tail.name} {self.value:.2f}"
        return f"{self.m} ({tail})"


def _listed(values: Sequence[int]) -> str:
    if len(values) > 4:
        return f"{values[0]} ... {values[-1]} ({len(values)})"
    return ", ".join(map(str, values))


M_AND_TAIL = Form(MAndTail.text, numeric=True, order=lambda shown: shown.m)
COSTS = Form(lambda costs: " / ".join(f"{cost:,.0f}" for cost in costs), numeric=True, order=lambda costs: costs[0])
SPAN = Form(lambda counts: "-".join(map(str, dict.fromkeys(counts))), numeric=True, order=lambda counts: counts[0])
TITLE = "How many seeds m a training step needs"


def seeds_table(advice: Iterable[EnoughSeeds]) -> Table:
    """The advice as a table."""
    columns = (
        *SETTING_COLUMNS,
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
    return without_empty_columns(Table(TITLE, columns, tuple(map(_row, advice)), note))


def _row(advice: EnoughSeeds) -> tuple[object, ...]:
    seeds = [at.seeds for at in advice.tried]
    both = () if advice.enough is None else (advice.enough, advice.best)
    enough, best = [MAndTail(at.m, advice.tail, at.tail) for at in both] or (None, None)
    return (
        *advice.setting.cells(),
        tuple(at.m for at in advice.tried),
        enough,
        best,
        tuple(at.cpu_seconds for at in both) or None,
        tuple(at.steps_per_second for at in both) or None,
        (min(seeds), max(seeds)),
        ", ".join(advice.remarks),
    )
