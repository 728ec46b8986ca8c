"""Questions to a store that need no SQL: the best settings of a sweep, all about one trial, the curves of one trial.

An answer is tables for people, and what makes the values of the first as Arrow columns for programs.
"""

from collections.abc import Callable, Iterable, Sequence

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import from_json

from sweeper.analysis.importance import importance
from sweeper.analysis.ranking import Ranking, goal_of, ranked_settings, ranking, repetition, trials_of
from sweeper.analysis.recorded_spaces import Asked, asked_of
from sweeper.analysis.results import column, current, named, named_frame, with_variables
from sweeper.analysis.sql import QueryError
from sweeper.analysis.table import first_rows, format_of
from sweeper.analysis.views import TEXTS, annotated
from sweeper.messages import counted
from sweeper.store.store import Store, SweepRecord
from sweeper.tables import table
from sweeper.trial.columns import METRICS
from sweeper.trial.entry_names import column_name, entries, varying
from sweeper.trial.trial import traits_of

Answer = tuple[Sequence[pd.DataFrame], Callable[[], pa.Table]]


def best(store: Store, sweep: str | None = None) -> Answer:
    """The settings of a sweep, or of the only sweep of the store, best first, and what its entries explain.

    A `QueryError` if no sweep is named and there are several, or if none of its settings has finished.
    """
    name, ranked, asked = _ranked(store, sweep)

    def programs() -> pa.Table:
        every = ranked_settings(name, ranked, asked, most=None)
        columns: dict[str, pa.Array] = {}
        for head, cells in every.items():
            if format_of(every, head) == "mean":  # a mean and its deviation are two columns
                columns[str(head)] = column([mean and mean.mean for mean in cells])
                columns[f"{head}_deviation"] = column([mean and mean.deviation for mean in cells])
            else:
                columns[str(head)] = column(list(cells))
        return pa.table(columns)

    explained = importance(name, ranked, asked.varied)
    shown = ranked_settings(name, ranked, asked)
    return [shown] if explained is None else [shown, explained], programs


def best_as_space(store: Store, sweep: str | None = None) -> str:
    """A search space that trains the best setting of a sweep again with other training seeds; raises as `best` does."""
    name, ranked, asked = _ranked(store, sweep)
    return repetition(name, ranked, asked.resources)


def results_of(store: Store, sweep: str) -> pd.DataFrame:
    """The trials of a sweep as a narrow frame, see `sweeper.results`; a `QueryError` if none is committed."""
    record = store.latest_starts((sweep,))[sweep]
    rows = annotated(store, current(store.trials(record.trial_ids)))
    if not rows.num_rows:
        raise _nothing(store, record)
    trials = with_variables(named_frame(rows.to_pandas()), record.variables)
    whole = [entries(spec) for spec in trials["spec"]]
    varied = [path for path in varying(whole) if path != "seed"] + [
        name for name in map(str, trials) if name.startswith("variables.")
    ]
    measured = dict.fromkeys(name for extra in trials["extra_metrics"] for name in from_json(extra))
    first = ["trial_id", "status", *map(column_name, varied), "seed", *METRICS, *measured]
    trials = trials.rename(columns=column_name)
    for name in ("tags", "notes"):
        trials[name] = pd.Series([tuple(each) or None for each in trials[name]], trials.index, object)
    shown = dict.fromkeys(name for name in [*first, *map(str, trials.columns)] if name in trials)
    return trials[[*shown]].drop(columns=["spec", "extra_metrics"]).dropna(axis="columns", how="all")


def _nothing(store: Store, record: SweepRecord) -> QueryError:
    """Why a sweep has no trial of the current versions."""
    if others := len(store.trials(record.trial_ids)):
        versions = f"{counted(others, 'trial')} of the sweep '{record.name}' are of versions that this code has not"
        return QueryError(f"{versions}; all_trials in a query has them")
    return QueryError(f"no trial of the sweep '{record.name}' is committed")


def other_versions(results: str) -> str:
    """How many trials of a store the view `trials` does not show; empty if it shows all."""
    rows = Store.existing(results).trials()
    others = rows.num_rows - current(rows).num_rows
    return f"{counted(others, 'trial')} of versions that this code has not: all_trials has them" if others else ""


def _ranked(store: Store, sweep: str | None) -> tuple[str, Ranking, Asked]:
    latest = store.latest_starts(() if sweep is None else (sweep,))
    if sweep is None and len(latest) != 1:
        raise QueryError(f"name a sweep: best NAME (known: {', '.join(latest) or 'none'})")
    record = latest[sweep or next(iter(latest))]
    trials = trials_of(store, record)
    if not len(trials):
        raise _nothing(store, record)
    asked = asked_of(record)
    ranked = ranking(trials, goal_of(asked.goal, trials))
    if not ranked.settings:
        unread = traits_of(trials["spec"].iloc[0]) is None
        reason = "; the plug-ins of its trials are not here, or read them no longer: write SQL" * unread
        raise QueryError(
            f"no setting of the sweep '{record.name}' has a finished trial with {ranked.goal.metric}{reason}"
        )
    return record.name, ranked, asked


def trial_with_prefix(store: Store, prefix: str) -> str:
    """The id of the one committed trial that begins with the prefix; raises `QueryError` unless there is one."""
    return _with_prefix(store.committed(), prefix)


def _with_prefix(trial_ids: Iterable[str], prefix: str) -> str:
    matching = sorted(trial_id for trial_id in trial_ids if trial_id.startswith(prefix))
    if not matching:
        raise QueryError(f"no committed trial has an id that begins with '{prefix}'")
    if len(matching) > 1:
        raise QueryError(f"'{prefix}' begins the ids of {counted(len(matching), 'trial')}, such as {matching[0]}")
    return matching[0]


def show(store: Store, prefix: str) -> Answer:
    """All that the store has about the one trial whose id begins with the prefix, and the sweeps that plan it."""
    rows = store.trials()
    trial_id = _with_prefix(rows["trial_id"].to_pylist(), prefix)
    sweeps = [name for name, record in store.latest_starts().items() if trial_id in record.trial_ids]
    of_trial = annotated(store, named(rows.filter(pc.field("trial_id") == trial_id)))
    programs = of_trial.append_column("sweeps", pa.array([sweeps], TEXTS))
    (values,) = programs.to_pylist()
    values |= {name: "not finite" for name, value in from_json(values["extra_metrics"]).items() if value is None}
    shown = {name: value for name, value in values.items() if name not in ("spec", "extra_metrics")}
    rows = ({"name": name, "value": value} for name, value in shown.items() if value not in (None, []))
    return [table(rows)], lambda: programs


def curves(store: Store, prefix: str) -> Answer:
    """The training curves of the one trial whose id begins with the prefix, one row a step and one column a curve."""
    trial_id = trial_with_prefix(store, prefix)
    points = store.curves([trial_id]).to_pandas()
    if not len(points):
        raise QueryError(f"the store has no curves of the trial {trial_id}")
    wide = points.pivot(index="step", columns="metric", values="value").reset_index()
    programs = pa.Table.from_pandas(wide, preserve_index=False)
    return [first_rows(programs, trial_id)], lambda: programs


QUESTIONS = {"best": best, "show": show, "curves": curves}
