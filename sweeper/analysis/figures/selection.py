"""Which trials a series of a panel shows.

All kinds of panel choose their trials here, so that a figure, its seed counts and the comparison table cannot disagree
about which trials they show. Nothing is left out or merged in silence: a series without data raises `NoData` with the
reason, and `mixed` names what differs between the trials of a series although neither its filter nor its axis mentions
it.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from sweeper.analysis.figures.style import value_label
from sweeper.analysis.ranking import Ranking, ranking
from sweeper.analysis.results import Results
from sweeper.panels.panel import Panel
from sweeper.panels.series import Best, CurveSeries, Series, Where
from sweeper.tables import values_text
from sweeper.trial.entry_names import column_name, entries, meant, value_order, varying
from sweeper.trial.kinds import Goal
from sweeper.trial.start_from import differs_by_seed


class NoData(Exception):
    """Why a series cannot be drawn; written for the author of its panel."""


def column(trials: pd.DataFrame, name: str) -> str:
    """The column of `trials` with this name, or of the entry with this dotted path; `NoData` if there is none."""
    if (meaning := column_name(name)) in trials.columns:
        return meaning
    raise NoData(f"the trials have no column '{name}'{meant(name, trials.columns)}")


def chosen(results: Results, *conditions: Where) -> pd.DataFrame:
    """The trials that meet all conditions; `NoData` if there are none, or a column does not exist."""
    rows = results.trials
    if rows.empty:
        raise NoData("no trial is finished")
    for condition in conditions:
        for name, wanted in condition.items():
            rows = rows[_met(results.trials, name, wanted).loc[rows.index]]
    if rows.empty:
        merged = {name: value for condition in conditions for name, value in condition.items()}
        # A condition that every trial meets cannot be the reason that no trial is left.
        telling = {name: v for name, v in merged.items() if not _met(results.trials, name, v).all()}
        raise NoData("no finished trial with " + ", ".join(f"{name} = {_value(v)}" for name, v in telling.items()))
    return rows


def _met(trials: pd.DataFrame, name: str, wanted: Any) -> pd.Series:
    return trials[column(trials, name)].isin(wanted if isinstance(wanted, list) else [wanted])


def best_settings(rows: pd.DataFrame, best: Best, axes: Sequence[str] = ()) -> tuple[pd.DataFrame, str]:
    """The trials of the best setting at each value of the columns `axes`, and a sentence that says which it is.

    Settings with fewer finished training seeds than others do not compete: a single lucky run would beat the mean of
    several. `NoData` if no trial has the metric, or it is not a number.
    """
    metric = column(rows, best.metric)
    try:
        values = rows[metric].astype(float)
    except ValueError:
        raise NoData(f"'{best.metric}' is not a number") from None
    if values.isna().all():
        raise NoData(f"'{best.metric}' was not measured")
    groups = rows.groupby([column(rows, axis) for axis in axes], dropna=False) if axes else [((), rows)]
    goal = Goal(metric, best.mode)
    rankings = [(ranked, competing) for _, competing in groups if (ranked := ranking(competing, goal)).settings]
    if not rankings:
        raise NoData(f"no setting has a finite '{best.metric}' for every seed")
    sentence = ""
    if any(len(ranked.settings) + ranked.others > 1 for ranked, _ in rankings):
        sentences = (_best_text(ranked, competing, best.metric) for ranked, competing in rankings)
        sentence = "; ".join(dict.fromkeys(sentences))
    return pd.concat([ranked.settings[0].rows for ranked, _ in rankings]), sentence


def _best_text(ranked: Ranking, competing: pd.DataFrame, metric: str) -> str:
    values = ranked.settings[0].entries
    differing = varying([entries(spec) for spec in competing["spec"]])
    named = ", ".join(f"{column_name(path)} {_value(values[path])}" for path in differing if path in values)
    fewer = f", {ranked.others} more have fewer seeds" * (ranked.others > 0)
    return f"best of {len(ranked.settings)} settings by {metric} ({ranked.best_mean.mean:.4g}): {named}{fewer}"


def series_of(panel: Panel, results: Results) -> Sequence[Series]:
    """The declared series, or one for every value of the column that the panel splits by: `NoData` if there is none."""
    if panel.split is None:
        return panel.series
    rows = chosen(results, panel.where)
    values = rows[column(results.trials, panel.split)].dropna().unique().tolist()
    values.sort(key=value_order)
    return [CurveSeries(label=split_label(panel.split, value), where={panel.split: [value]}) for value in values]


def split_label(name: str, value: Any) -> str:
    """The label of the series with this value of the column by which a panel is split."""
    return value if isinstance(value, str) else f"{name} = {value_label(value)}"


def mixed(rows: pd.DataFrame, mentioned: Sequence[str]) -> list[str]:
    """Entries of the trials that differ between `rows`, with their values.

    Entries whose columns are in `mentioned` are left out. Training seeds may always differ, and so may the trials of a
    setting whose networks trainings need.
    """
    records = [entries(spec) for spec in rows["spec"]]
    left_out, paths = set(map(column_name, mentioned)), {path for record in records for path in record}
    differing = []
    for name in sorted(varying(records)):
        if column_name(name) in left_out or differs_by_seed(name, paths):
            continue
        values = sorted({record.get(name): None for record in records}, key=value_order)
        if len(values) > 1:
            shown = ", ".join(map(_value, values[:4]))
            differing.append(f"{column_name(name)} ({shown}{', …' if len(values) > 4 else ''})")
    return differing


def _value(value: Any) -> str:
    return values_text(value if isinstance(value, list) else [value], 3, " or ")
