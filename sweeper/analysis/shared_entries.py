"""Trials grouped by the entries that they share, and the groups of randomised models with columns for tables."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from sweeper.analysis.results import value_order
from sweeper.analysis.table import ENTRIES, TEXT, VALUE, Column
from sweeper.trial.entry_names import entries, entry_names, varying
from sweeper.trial.trial_spec import Baseline


def by_entries(trials: pd.DataFrame, free: Iterable[str] = ()) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    """The trials in groups that are equal in all entries but the training seed and `free`.

    Args:
        trials: Trials with the column `spec`.
        free: Dotted paths of entries that may differ within a group.

    Returns:
        The shared entries and the rows of every group, in the order of first appearance.
    """
    free = {*free, "seed"}
    groups: dict[frozenset[tuple[str, Any]], list[int]] = {}
    for place, spec in enumerate(trials["spec"]):
        shared = frozenset((path, value) for path, value in entries(spec).items() if path not in free)
        groups.setdefault(shared, []).append(place)
    grouped = []
    for places in groups.values():
        rows = trials.iloc[places]
        spec = entries(rows["spec"].iloc[0])
        grouped.append(({path: value for path, value in spec.items() if path not in free}, rows))
    return grouped


@dataclass(frozen=True)
class SharedEntries:
    """The entries that the trials of a group share; `others` are further ones that differ between groups, by name."""

    task: str
    baseline: str
    q: float | None
    steps: int
    others: tuple[tuple[str, Any], ...]

    def cells(self) -> tuple[Any, ...]:
        """The values of `SETTING_COLUMNS`."""
        return self.task, self.baseline, self.q, self.steps, self.others


SETTING_COLUMNS = (
    Column("task", TEXT), Column("baseline", TEXT), Column("q", VALUE), Column("steps", VALUE),
    Column("other entries", ENTRIES),
)  # fmt: skip


def randomised(trials: pd.DataFrame, free: Iterable[str] = ()) -> list[tuple[SharedEntries, pd.DataFrame]]:
    """The trials of randomised models, grouped by `by_entries`, with the names of what differs in a task.

    Args:
        trials: Finished trials, as in `Results.trials`.
        free: Dotted paths of entries that may differ within a group.
    """
    fresh = [baseline.value for baseline in Baseline if baseline.fresh_seeds]
    groups = by_entries(trials[trials["baseline"].isin(fresh)] if len(trials) else trials[:0], free)
    names = entry_names([shared for shared, _ in groups])
    tasks = {shared["task.name"] for shared, _ in groups}
    differing = {task: varying([shared for shared, _ in groups if shared["task.name"] == task]) for task in tasks}
    grouped = []
    for shared, rows in groups:
        first = rows.iloc[0]
        q = None if pd.isna(first["q"]) else float(first["q"])
        shown = [path for path in differing[shared["task.name"]] if path in shared and path not in _NAMED]
        others = tuple((names[path], shared[path]) for path in shown)
        grouped.append((SharedEntries(first["task"], first["baseline"], q, int(first["steps"]), others), rows))
    return sorted(grouped, key=_order)


def _order(group: tuple[SharedEntries, pd.DataFrame]) -> tuple[Any, ...]:
    setting, rows = group
    others = [(name, *value_order(value)) for name, value in setting.others]
    return (setting.task, setting.baseline, setting.q or 0.0, setting.steps, others, rows["m"].iloc[0])


_NAMED = {"task.name", "baseline", "objective.q", "objective.m", "steps"}
