"""Finished trials of randomised models, grouped by setting.

Trials of a group differ only in the training seed, and in the entries that a caller leaves free. The entries by which
the groups of a task differ are named in their `Setting`.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from sweeper.analysis.results import entries, last_part
from sweeper.analysis.table import TEXT, VALUE, Column, value_text
from sweeper.trial.trial_spec import Baseline


@dataclass(frozen=True)
class Setting:
    """The entries that the trials of a group share; `others` names further entries that differ between groups."""

    task: str
    baseline: str
    q: float | None
    steps: int
    others: str

    def cells(self) -> tuple[Any, ...]:
        """The values of `SETTING_COLUMNS`."""
        return self.task, self.baseline, self.q, self.steps, self.others


SETTING_COLUMNS = (
    Column("task", TEXT), Column("model", TEXT), Column("q", VALUE), Column("steps", VALUE), Column("setting", TEXT),
)  # fmt: skip


def by_setting(trials: pd.DataFrame, free: Iterable[str] = ()) -> list[tuple[Setting, pd.DataFrame]]:
    """The trials of randomised models in groups that are equal in all entries but the training seed and `free`.

    Args:
        trials: Finished trials, as in `Results.trials`.
        free: Dotted paths of entries that may differ within a group.
    """
    fresh = [baseline.value for baseline in Baseline if baseline.fresh_seeds]
    randomised = trials[trials["baseline"].isin(fresh)] if len(trials) else trials
    free = {*free, "seed"}
    groups: dict[frozenset[tuple[str, Any]], list[Any]] = {}
    for index, spec in randomised["spec"].items():
        fixed = frozenset((path, value) for path, value in entries(spec).items() if path not in free)
        groups.setdefault(fixed, []).append(index)
    fixed_entries = [dict(fixed) for fixed in groups]
    grouped = []
    for fixed, places in zip(fixed_entries, groups.values(), strict=True):
        rows = randomised.loc[places]
        first = rows.iloc[0]
        q = None if pd.isna(first["q"]) else float(first["q"])
        others = _differing(fixed, [other for other in fixed_entries if other["task.name"] == fixed["task.name"]])
        setting = Setting(first["task"], first["baseline"], q, int(first["steps"]), others)
        grouped.append((setting, rows))
    return sorted(grouped, key=_order)


def _order(group: tuple[Setting, pd.DataFrame]) -> tuple[Any, ...]:
    setting, rows = group
    # Parts of a text that are numbers are compared as numbers: 8 comes before 16.
    natural = [
        (part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", setting.others)
    ]
    return (setting.task, setting.baseline, setting.q or 0.0, setting.steps, natural, rows["m"].iloc[0])


_NAMED = {"task.name", "baseline", "objective.q", "objective.m", "steps"}


def _differing(fixed: Mapping[str, Any], groups: Collection[Mapping[str, Any]]) -> str:
    """Those of the entries in which the groups differ, as text, without those that have a column of their own."""
    ends = [last_part(path) for path in fixed]
    shown = []
    for path in sorted(fixed.keys() - _NAMED):
        if any(other.get(path) != fixed[path] for other in groups):
            name = last_part(path) if ends.count(last_part(path)) == 1 else path
            shown.append(f"{name} {value_text(fixed[path])}")
    return ", ".join(shown)
