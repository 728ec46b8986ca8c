"""Numbers of a series for each training seed: metrics and training curves.

A training seed counts once at a point, however many trials of it are merged there: trials are averaged within their
seed first, then over the seeds.

A metric that a task derives from others (`Abilities.own_metrics`), and that a row lacks because an older program made
it, is derived here by the same function.
"""

import numpy as np
import pandas as pd

from sweeper.analysis.figures.selection import NoData, column
from sweeper.analysis.results import Results, task_of
from sweeper.trial.entry_names import entries
from sweeper.trial.metrics import metric_named


def metric(rows: pd.DataFrame, name: str, x: str) -> pd.DataFrame:
    """Mean of a metric over the trials of each training seed at each value of column `x`.

    Returns:
        One row per value and seed, with columns `x`, `seed`, `value`; trials that lack the metric are not in it.

    Raises:
        NoData: no trial has the metric, or either is not a number.
    """
    values = pd.DataFrame({"x": rows[x], "seed": rows["seed"], "value": _measured(rows, name)}).dropna()
    if values.empty:
        raise NoData(f"'{name}' was not measured")
    try:
        values = values.astype({"x": float, "value": float})
    except ValueError:
        raise NoData(f"'{x}' and '{name}' are not both numbers") from None
    return values.groupby(["x", "seed"])["value"].mean().reset_index()


def metric_of_votes(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Mean of a metric of k votes, such as `votes` for `votes_5` or `votes_p5` for `votes_5_p5`, at each k.

    Of several evaluations of one network the evaluation with the most seeds r counts, for every k by itself.

    Returns:
        One row per number of votes and seed, with columns `x`, `seed`, `value`.

    Raises:
        NoData: no trial has the metric for any number of votes.
    """
    wanted, measured = metric_named(name), dict[str, int]()
    for column_name in rows.columns:
        size = metric_named(column_name).votes
        if size is not None and wanted._replace(votes=size).name == column_name and rows[column_name].notna().any():
            measured[column_name] = size
    if not measured:
        numbered = wanted._replace(quantity=f"{wanted.quantity}_<k>").name
        raise NoData(f"'{numbered}' was not measured for any number k of votes")
    return pd.concat(
        [
            metric(most_seeds(rows[rows[column].notna()]).assign(votes=size), column, "votes")
            for column, size in sorted(measured.items(), key=lambda item: item[1])
        ]
    )


def most_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """One row of every trial: of several evaluations of its network that with the most evaluation seeds."""
    seeds = pd.Series([entries(spec)["evaluation.seeds"] for spec in rows["spec"]], rows.index, dtype=int)
    return rows.loc[seeds.sort_values(ascending=False, kind="stable").index].drop_duplicates("trial_id")


def _measured(rows: pd.DataFrame, name: str) -> pd.Series:
    """A metric of the trials, derived by their task where their row lacks it and the task can.

    Raises:
        NoData: no column is meant, and no task derives it.
    """
    values = rows[name] if name in rows else pd.Series(np.nan, rows.index)
    derived = {index: _own_metrics(rows.loc[index]).get(name) for index in rows.index[values.isna()]}
    known = {index: value for index, value in derived.items() if value is not None}
    if name not in rows and not known:
        return rows[column(rows, name)]
    return values.fillna(pd.Series(known, dtype=float)) if known else values


def _own_metrics(trial: pd.Series) -> dict[str, float]:
    """The metrics that the task derives from a row, if this checkout has the task and the row has all inputs."""
    task = task_of(trial["spec"])
    if task is None:
        return {}
    numbers = {
        str(name): float(value)
        for name, value in trial.items()
        if isinstance(value, int | float | np.number) and not np.isnan(value)
    }
    try:
        return {metric.name: value for metric, value in task.abilities().own_metrics(numbers).items()}
    except KeyError:
        return {}


def curve(results: Results, rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Mean of a training curve over the trials of each training seed, at each step.

    Returns:
        One row per step and seed, with columns `x`, `seed`, `value`.

    Raises:
        NoData: no trial has the curve.
    """
    stored = results.curves(rows["trial_id"].tolist())
    points = stored[stored["metric"] == name]
    if points.empty:
        known = sorted(set(stored["metric"]))
        raise NoData(f"no training curve '{name}' was stored" + f" (known: {', '.join(known)})" * bool(known))
    seeds = dict(zip(rows["trial_id"], rows["seed"], strict=True))
    points = pd.DataFrame({"x": points["step"], "seed": points["trial_id"].map(seeds), "value": points["value"]})
    return points.astype({"x": float, "value": float}).groupby(["x", "seed"])["value"].mean().reset_index()
