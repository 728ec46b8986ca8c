"""What a store advises: how many seeds a training step needs, and how many votes a trained model.

Both are read off finished trials of randomised models (those with many seeds r), and neither trains anything.

`enough_seeds` compares trials that are equal but for m and the training seed. The bad tail of success, or of what the
task names instead (`Abilities.tail`), improves with m and then stays; it is a percentile over the inputs, averaged over
training seeds. What a step costs grows with m throughout. So the smallest m whose tail is nearly the best one is the
one to train with.

`votes` applies the bounds of `vote_bounds` to each training, one for every kind of vote that the task offers: on
whole answers and part by part. The margin is the 5th percentile over the inputs, so that so many votes answer at least
95 % of the inputs right with probability 95 % each. Every trained model has its own number: an average over training
seeds would hide the one that no vote can help. Beside the bound stands how many of the votes taken reached as much.

Invariants:
    - A group never mixes trials that differ in anything but what it compares; what tells the groups of a task apart is
      named in their rows.
    - Where the data do not carry the advice (all tails zero, one training seed, no margin measured), it says so.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from sweeper.analysis.figures import Results
from sweeper.analysis.results import task_of
from sweeper.analysis.tables import Column, Table
from sweeper.analysis.vote_bounds import partwise_votes_needed, votes_needed
from sweeper.trial.contracts import Task, Voting, VotingRule
from sweeper.trial.trial_spec import Baseline, leaf_values

NEARLY = 0.98
"""A tail within 1 - NEARLY of the best one, relative to its size, is as good."""

FAILURE = 0.05
"""Probability with which a vote may be wrong."""


@dataclass(frozen=True)
class Tail:
    """The column by which models are ranked, and whether its high values are the bad ones."""

    metric: str
    high_is_bad: bool

    def better(self, value: float) -> float:
        """A number that is the larger, the better the tail is."""
        return -value if self.high_is_bad else value

    def as_good(self, value: float, best: float) -> bool:
        """Whether a tail is nearly the best one."""
        return self.better(value) >= self.better(best) - (1 - NEARLY) * abs(best)

    def shown(self, value: float) -> str:
        return f"{100 * value:.1f} %" if self == SUCCESS else f"{self.metric} {value:.2f}"


SUCCESS = Tail("success_p5", high_is_bad=False)


def tail_of(task: Task | None) -> Tail:
    """By what the trials of a task are ranked; by success where this checkout does not have the task."""
    if task is None:
        return SUCCESS
    abilities = task.abilities()
    high = abilities.measures.get(abilities.tail) == "high"
    return Tail(f"{abilities.tail}_{'p95' if high else 'p5'}", high)


@dataclass(frozen=True)
class Setting:
    """What the trials of a group have in common; `others` names what else tells it from the groups of its task."""

    task: str
    baseline: str
    q: float
    steps: int
    others: str


@dataclass(frozen=True)
class AtM:
    """Trials with one m: their tail, and what one of them costs, on average."""

    m: int
    seeds: int
    tail: float
    cpu_seconds: float
    steps_per_second: float


@dataclass(frozen=True)
class EnoughSeeds:
    """The values of m that were tried, and the smallest one that is enough; None where nothing tells.

    `remarks` say what weakens the advice.
    """

    setting: Setting
    tail: Tail
    tried: tuple[AtM, ...]
    best: AtM
    enough: AtM | None
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Votes:
    """What one kind of vote needs, and what it reached.

    Attributes:
        setting: The model.
        m: Seeds a training step.
        seeds: Training seeds; the values below are one for each that has them.
        rule: Whether seeds vote on whole answers or part by part.
        margins: 5th percentile over the inputs of the margin that decides this vote.
        needed: Votes that the bound asks for; infinity where it promises nothing.
        reached: Average success and its 5th percentile of votes among so many seeds, averaged over training seeds.
        entropies: Entropy of the wrong answers in bits, averaged over the inputs that have some.
        evaluation_seeds: How many seeds r the margins were estimated from.
    """

    setting: Setting
    m: int
    seeds: int
    rule: VotingRule
    margins: tuple[float, ...]
    needed: tuple[float, ...]
    reached: Mapping[int, tuple[float, float]]
    entropies: tuple[float, ...]
    evaluation_seeds: int

    def enough(self, which: Literal[0, 1]) -> int | None:
        """The fewest votes taken whose average success (0), or 5th percentile (1), is no less than 1 - FAILURE."""
        return min((group for group, shares in self.reached.items() if shares[which] >= 1 - FAILURE), default=None)


# --------------------------------------------------------------------------------------------------------------------
# Groups of trials
# --------------------------------------------------------------------------------------------------------------------


def _groups(trials: pd.DataFrame, free: Iterable[str]) -> list[tuple[Setting, pd.DataFrame]]:
    """Trials of randomised models that are equal in all entries but those in `free`."""
    fresh = [baseline.value for baseline in Baseline if baseline.fresh_seeds]
    randomised = trials[trials["baseline"].isin(fresh)] if len(trials) else trials
    free = {*free, "seed"}
    groups: dict[str, list[Any]] = {}
    for index, spec in randomised["spec"].items():
        entries = {path: value for path, value in leaf_values(json.loads(spec)) if path not in free}
        groups.setdefault(json.dumps(entries, sort_keys=True), []).append(index)
    entries_of = {key: json.loads(key) for key in groups}
    found = []
    for key, entries in entries_of.items():
        rows = randomised.loc[groups[key]]
        first = rows.iloc[0]
        others = _differing(entries, [one for one in entries_of.values() if one["task.name"] == entries["task.name"]])
        setting = Setting(first["task"], first["baseline"], float(first["q"]), int(first["steps"]), others)
        found.append((setting, rows))
    return sorted(found, key=lambda one: (*astuple(one[0])[:-1], _natural(one[0].others), one[1]["m"].iloc[0]))


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """A key that sorts 8 before 16."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", text)]


_NAMED = {"task.name", "baseline", "objective.q", "objective.m", "steps"}


def _differing(entries: Mapping[str, Any], groups: Sequence[Mapping[str, Any]]) -> str:
    """Those of the entries in which the groups differ, as text, without those that have a column of their own."""
    ends = [path.rpartition(".")[2] for path in entries]
    shown = []
    for path in sorted(entries.keys() - _NAMED):
        if any(other.get(path) != entries[path] for other in groups):
            end, value = path.rpartition(".")[2], entries[path]
            name = end if ends.count(end) == 1 else path
            shown.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(shown)


# --------------------------------------------------------------------------------------------------------------------
# Seeds of a training step
# --------------------------------------------------------------------------------------------------------------------


def enough_seeds(results: Results) -> list[EnoughSeeds]:
    """The smallest sufficient m of every group of trials that tried several."""
    found = []
    for setting, rows in _groups(results.trials, free=["objective.m"]):
        tail = tail_of(task_of(rows["spec"].iloc[0]))
        if tail.metric not in rows:
            continue
        measured = rows.dropna(subset=[tail.metric])
        tried = tuple(_at_m(int(m), group, tail.metric) for m, group in measured.groupby("m"))  # pyright: ignore[reportArgumentType]
        if len(tried) > 1:
            best = max(tried, key=lambda one: tail.better(one.tail))
            told = any(one.tail != 0 for one in tried)
            enough = next(one for one in tried if tail.as_good(one.tail, best.tail)) if told else None
            remarks = _remarks(tried, best, enough, rows["device"].nunique())
            found.append(EnoughSeeds(setting, tail, tried, best, enough, remarks))
    return found


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
    if min(one.seeds for one in (best, enough or best)) == 1:
        remarks.append("one seed")
    if devices > 1:
        remarks.append(f"{devices} devices")
    return tuple(remarks)


def seeds_table(found: Iterable[EnoughSeeds]) -> Table:
    """The advice as a table."""
    rows = []
    for one in found:
        seeds = sorted({at.seeds for at in one.tried})
        told = () if one.enough is None else (one.enough, one.best)
        m_and_tail = [f"{at.m} ({one.tail.shown(at.tail)})" for at in told] or ["none", ""]
        costs = [(f"{at.cpu_seconds:,.0f}", f"{at.steps_per_second:,.0f}") for at in told] or [("", "")]
        rows.append(
            (
                *_setting_cells(one.setting),
                _listed([at.m for at in one.tried]),
                *m_and_tail,
                *(" / ".join(cells) for cells in zip(*costs, strict=True)),
                "-".join(str(count) for count in dict.fromkeys((seeds[0], seeds[-1]))),
                ", ".join(one.remarks),
            )
        )
    columns = (
        *_SETTING,
        Column("m tried"),
        *(Column(title, numeric=True) for title in ("enough m (tail)", "best m (tail)", "CPU s", "steps/s", "seeds")),
        Column("remark"),
    )
    note = (
        f"Tail: 5th percentile of success over the inputs, or the metric that is named; mean over training seeds. "
        f"Enough: the smallest m tried whose tail is within {100 * (1 - NEARLY):g} % of the best. "
        f"CPU seconds of a whole trial and steps per second, with "
        f"enough / with the best m, are means over the trials, on the machine that ran them. Where the advice is weak: "
        f"'largest tried': a larger m may be better; 'all tails 0': nothing tells the values of m apart; "
        f"'one seed': a single training behind the tail; 'devices': costs of several kinds of device."
    )
    return _without_empty_columns(Table("How many seeds m a training step needs", columns, tuple(rows), note))


def _listed(values: Sequence[int]) -> str:
    if len(values) > 4:
        return f"{values[0]} ... {values[-1]} ({len(values)})"
    return ", ".join(map(str, values))


# --------------------------------------------------------------------------------------------------------------------
# Votes
# --------------------------------------------------------------------------------------------------------------------


def votes(results: Results) -> list[Votes]:
    """What voting needs and reached, for every randomised model and kind of vote of which either was measured."""
    found = []
    for setting, rows in _groups(results.trials, free=()):
        spec = json.loads(rows["spec"].iloc[0])
        task = task_of(rows["spec"].iloc[0])
        voting = task.abilities().voting if task else None
        if voting is None:
            continue
        for vote, rule in sorted(voting.rules.items(), key=lambda named: named[1]):  # joint first
            reached = {}
            for group in spec["evaluation"]["votes"]:
                means = [_mean(rows, f"{vote}_{group}{tail}") for tail in ("", "_p5")]
                if None not in means:
                    reached[group] = tuple(means)
            margins = _values(rows, "margin_p5" if rule == "joint" else "part_margin_p5")
            if margins or reached:
                needed = tuple(_needed(voting, rule, margin) for margin in margins)
                m, seeds = int(rows["m"].iloc[0]), rows["seed"].nunique()
                entropies = _values(rows, "wrong_entropy")
                found.append(
                    Votes(setting, m, seeds, rule, margins, needed, reached, entropies, spec["evaluation"]["seeds"])
                )
    return found


def _needed(voting: Voting, rule: VotingRule, margin: float) -> float:
    if rule == "joint":
        return votes_needed(margin, voting.wrong_answers, FAILURE)
    return partwise_votes_needed(margin, voting.parts, FAILURE)


def _values(rows: pd.DataFrame, metric: str) -> tuple[float, ...]:
    """Of the trials that have the metric; those of an older program may not."""
    return tuple(rows[metric].dropna().astype(float)) if metric in rows else ()


def _mean(rows: pd.DataFrame, metric: str) -> float | None:
    values = _values(rows, metric)
    return float(np.mean(values)) if values else None


MISSING = "-"
"""A cell whose number was not measured."""


def votes_table(found: Sequence[Votes]) -> Table:
    """The votes as a table."""
    groups = sorted({group for one in found for group in one.reached})
    rows = [
        (
            *_setting_cells(one.setting),
            str(one.m),
            str(one.seeds),
            "whole" if one.rule == "joint" else "parts",
            _span(one.margins, lambda margin: f"{margin:.2f}") or MISSING,
            _span(one.needed, lambda votes: "none" if math.isinf(votes) else f"{votes:,.0f}") or MISSING,
            "/".join(_enough(one, which) for which in (0, 1)) if one.reached else MISSING,
            *(_shares(one.reached.get(group)) for group in groups),
            _span(one.entropies, lambda bits: f"{bits:.1f}") or MISSING,
        )
        for one in found
    ]
    columns = (
        *_SETTING,
        *(Column(title, numeric=True) for title in ("m", "seeds")),
        Column("vote"),
        *(Column(title, numeric=True) for title in ("margin", "bound", "enough")),
        *(Column(f"{group} votes, %", numeric=True) for group in groups),
        Column("entropy", numeric=True),
    )
    seeds = " or ".join(str(count) for count in sorted({one.evaluation_seeds for one in found}))
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
    return _without_empty_columns(Table("How many votes each trained model needs", columns, tuple(rows), note))


def _enough(one: Votes, which: Literal[0, 1]) -> str:
    found = one.enough(which)
    return f">{max(one.reached)}" if found is None else str(found)


def _span(values: Sequence[float], shown: Any) -> str:
    """Lowest and highest of the values as text; one text if they look alike."""
    return " ... ".join(dict.fromkeys(shown(value) for value in (min(values), max(values)))) if values else ""


def _shares(reached: tuple[float, float] | None) -> str:
    return "" if reached is None else "/".join(f"{100 * share:.3g}" for share in reached)


_SETTING = (
    Column("task"),
    Column("model"),
    Column("q", numeric=True),
    Column("steps", numeric=True),
    Column("setting"),
)


def _setting_cells(setting: Setting) -> tuple[str, ...]:
    q = "inf" if math.isinf(setting.q) else f"{setting.q:g}"
    return setting.task, setting.baseline, q, str(setting.steps), setting.others


def _without_empty_columns(table: Table) -> Table:
    filled = [index for index in range(len(table.columns)) if any(row[index] for row in table.rows)]
    return table._replace(
        columns=tuple(table.columns[index] for index in filled),
        rows=tuple(tuple(row[index] for index in filled) for row in table.rows),
    )
