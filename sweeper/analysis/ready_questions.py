"""Questions to a store that need no SQL: the best settings of a sweep, all about one trial, the curves of one trial.

An answer is a table for people, and the same values as Arrow columns for programs.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from sweeper.analysis.answer_formats import JSON_COLUMNS, PROVENANCE
from sweeper.analysis.ranking import goal_of, ranked_settings, ranking, trials_of
from sweeper.analysis.recorded_spaces import asked_of
from sweeper.analysis.results import column, extra_metrics, foreign_columns, named
from sweeper.analysis.settings_table import fitting
from sweeper.analysis.sql import QueryError
from sweeper.analysis.table import format_of
from sweeper.analysis.views import TEXTS, annotated
from sweeper.messages import counted
from sweeper.store.store import TRIALS, Store
from sweeper.store.sweep_records import latest_starts
from sweeper.tables import table
from sweeper.trial.columns import METRICS, TIMINGS

SHOWN_STEPS = 40  # largest number of points of a curve that are shown to people


def best(store: Store, sweep: str | None, width: int) -> tuple[pd.DataFrame, pa.Table]:
    """The settings of a sweep, or of the only sweep of the store, best first; the table fits into `width` columns.

    A `QueryError` if no sweep is named and there are several, or if none of its settings has finished.
    """
    latest = latest_starts(store.sweeps(), () if sweep is None else (sweep,))
    if sweep is None and len(latest) != 1:
        raise QueryError(f"name a sweep: best NAME (known: {', '.join(latest) or 'none'})")
    record = latest[sweep or next(iter(latest))]
    trials = trials_of(store, record)
    if not len(trials):
        raise QueryError(f"no trial of the sweep '{record.name}' is committed")
    asked = asked_of(record)
    ranked = ranking(trials, goal_of(asked.goal, trials))
    if not ranked.settings:
        raise QueryError(f"no setting of the sweep '{record.name}' has a finished trial with {ranked.goal.metric}")
    every = ranked_settings(record.name, ranked, asked.metrics, most=len(ranked.settings))
    return fitting(ranked_settings(record.name, ranked, asked.metrics), width), _columns(every)


def _columns(settings: pd.DataFrame) -> pa.Table:
    """The values of a table of settings; a mean and its deviation are two columns."""
    columns: dict[str, pa.Array] = {}
    for head, cells in settings.items():
        if format_of(settings, head) == "mean":
            columns[str(head)] = column([mean and mean.mean for mean in cells])
            columns[f"{head}_deviation"] = column([mean and mean.deviation for mean in cells])
        else:
            columns[str(head)] = column(list(cells))
    return pa.table(columns)


def trial_with_prefix(store: Store, prefix: str) -> str:
    """The id of the one committed trial that begins with the prefix; raises `QueryError` unless there is one."""
    ids = sorted(store.committed())
    matching = [trial_id for trial_id in ids if trial_id.startswith(prefix)]
    if len(matching) == 1 or prefix in matching:
        return prefix if prefix in matching else matching[0]
    if not matching:
        raise QueryError(f"no committed trial has an id that begins with '{prefix}'")
    shown = ", ".join(matching[:5]) + (", …" if len(matching) > 5 else "")
    raise QueryError(f"'{prefix}' begins the ids of {counted(len(matching), 'trial')}: {shown}")


def show(store: Store, prefix: str) -> tuple[pd.DataFrame, pa.Table]:
    """All that the store has about the one trial whose id begins with the prefix, and the sweeps that plan it."""
    trial_id = trial_with_prefix(store, prefix)
    row = named(store.trials([trial_id]))
    sweeps = [name for name, record in latest_starts(store.sweeps()).items() if trial_id in record.trial_ids]
    programs = annotated(store, row).append_column("sweeps", pa.array([sweeps], TEXTS))
    lists = programs.column_names[row.num_columns :]
    (values,) = programs.to_pylist()
    own = [name for name in row.column_names if name not in TRIALS.names]
    further = extra_metrics(values["extra_metrics"])
    metrics = list(dict.fromkeys([*METRICS, *further]))
    values |= {name: "not finite" for name, value in further.items() if value is None}
    sections = {
        "trial": ["trial_id", "status", *lists, "error_kind", "error_message", "error_step"],
        "setting": [],
        "metrics": metrics,
        "cost": list(TIMINGS),
        "provenance": list(PROVENANCE),
    }
    elsewhere = {*JSON_COLUMNS, *foreign_columns(values["spec"])}.union(*sections.values())
    sections["setting"] = [name for name in (*TRIALS.names, *own) if name not in elsewhere]
    rows = [
        {"": section if place == 0 else None, "name": name, "value": values[name]}
        for section, names in sections.items()
        for place, name in enumerate(name for name in names if values[name] not in (None, []))
    ]
    return table(rows), programs


def curves(store: Store, prefix: str) -> tuple[pd.DataFrame, pa.Table]:
    """The training curves of the one trial whose id begins with the prefix, one row a step and one column a curve."""
    trial_id = trial_with_prefix(store, prefix)
    points = store.curves([trial_id]).to_pandas()
    if not len(points):
        raise QueryError(f"the store has no curves of the trial {trial_id}")
    wide = points.pivot(index="step", columns="metric", values="value").reset_index()
    programs = pa.Table.from_pandas(wide, preserve_index=False)
    places = np.linspace(0, programs.num_rows - 1, min(programs.num_rows, SHOWN_STEPS)).round().astype(int)
    note = f"{len(places)} of {programs.num_rows:,} points; --format csv, json or parquet prints all"
    formats = {name: "count" if name == "step" else "number" for name in programs.column_names}
    rows = programs.take(places).to_pylist()
    return table(rows, trial_id, note if len(places) < programs.num_rows else "", formats), programs
