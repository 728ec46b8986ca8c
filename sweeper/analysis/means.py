"""What the trials of a sweep reached: means over their training seeds, as the table at the end of a sweep.

A mean never joins stopped trials with finished ones: a stopped trial was trained for fewer steps.
"""

import math
from collections.abc import Hashable
from typing import Any, NamedTuple, cast

import pandas as pd

from sweeper.analysis.table import VALUE, Column, Form, Table
from sweeper.messages import counted

METRICS = ("success", "success_p5", "majority_30", "loss")
"""Metrics with a column, where any trial has them."""

MAX_ROWS = 100

MEAN = Form("{:.3g}".format, numeric=True)


class Trials(NamedTuple):
    """How many trials a row is about, and what became of them."""

    number: int
    status: str

    def text(self) -> str:
        """The count, with the status of trials that are not finished."""
        return f"{self.number:,}" if self.status == "finished" else f"{self.number:,} {self.status}"


TRIALS = Form(Trials.text, numeric=True, order=lambda trials: trials.number)


def means(trials: pd.DataFrame) -> Table:
    """Means over training seeds, and over whatever else a row does not name.

    Args:
        trials: Rows of the store; failed trials are left out.
    """
    sound = trials[trials["status"] != "failed"]
    stopped = int((sound["status"] == "stopped").sum())
    metrics = [name for name in METRICS if name in sound and sound[name].notna().any()]
    keys = ["task", "baseline", "q", "m", "status"]
    groups = list(sound.groupby(keys, sort=True))
    columns = (
        Column("task"), Column("baseline"), Column("q", VALUE), Column("m", VALUE),
        *(Column(name, MEAN) for name in metrics), Column("trials", TRIALS),
    )  # fmt: skip
    rows = tuple(_row(key, group, metrics) for key, group in groups[:MAX_ROWS])
    notes = []
    if stopped:
        notes.append(f"stopped early: {counted(stopped, 'trial')} of {len(sound):,}, in rows of their own")
    if len(groups) > MAX_ROWS:
        notes.append(f"and {counted(len(groups) - MAX_ROWS, 'row')} more; python -m sweeper.query shows them all")
    return Table("", columns, rows, "; ".join(notes))


def _row(key: Hashable, group: pd.DataFrame, metrics: list[str]) -> tuple[Any, ...]:
    task, baseline, q, m, status = cast(tuple[Any, ...], key)
    values = (None if math.isnan(mean) else float(mean) for mean in group[metrics].mean())
    return task, baseline, float(q), int(m), *values, Trials(len(group), status)
