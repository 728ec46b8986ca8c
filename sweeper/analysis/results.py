"""The rows of a store as a table with a named column for every entry, metric and cost of a trial.

A row of the store has fixed columns, and two columns of JSON: `spec`, the specification of the trial, and
`extra_metrics`, the metrics without a column of their own. This module alone turns the two into named columns. SQL,
figures, page and the table at the end of a sweep all read these columns.

`sweeper.trial.entry_names` has the columns of entries. Numbers are numbers, also the infinities and NaN that JSON
spells out, and lists are tuples. An entry that a trial does not have is None.
"""

import contextlib
import functools
import itertools
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic_core import from_json

from sweeper.store.schema import EVALUATION_FILE
from sweeper.store.store import CURVES, TRIALS, Store
from sweeper.trial import plugins
from sweeper.trial.columns import METRICS
from sweeper.trial.entry_names import LEADING, column_name, decoded, entries, is_number
from sweeper.trial.kinds import Goal, KindTables, declared_with
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, numerics_version, plugin_version, traits_of, trial_id

CACHED = 2**14  # largest number of tasks that are cached, and of values of an outcome that are not rounded

NO_SWEEP = "no sweep"  # in the place of a name, of trials that the latest start of no sweep planned


def current(rows: pa.Table) -> pa.Table:
    """The rows of the versions of plug-ins and numerics that this checkout has.

    A plug-in that this checkout lacks has no current version, and its rows stay.
    """
    here = functools.cache(_version)
    of_rows = [declared_with(from_json(spec)) for spec in rows["spec"].to_pylist()]
    agree = [version == numerics_version() for version in rows["numerics_version"].to_pylist()]
    for own in {of.module: of for of in of_rows}.values():
        for part, kind in own.parts.items():
            column = own.carried.get(f"{part}.name", "")
            if f"{column}_version" in rows.column_names:
                written = zip(rows[column].to_pylist(), rows[f"{column}_version"].to_pylist(), strict=True)
                for place, (name, version) in enumerate(written):
                    agree[place] &= of_rows[place] is not own or here(kind, name) in (None, version)
    return rows if all(agree) else rows.filter(pa.array(agree, pa.bool_()))


def _version(kind: plugins.Kind, name: str) -> int | None:
    """The version of a plug-in; None if this checkout does not have it."""
    try:
        return plugin_version(kind, name)
    except plugins.PluginError:
        return None


def named(rows: pa.Table) -> pa.Table:
    """Rows of a store with the columns of entries and metrics added, each of the narrowest type for its values."""
    further, metrics = _further(rows.column_names, rows["spec"].to_pylist(), rows["extra_metrics"].to_pylist())
    for name, values in further.items():
        rows = rows.append_column(name, column(values))
    for name, values in metrics.items():
        rows = rows.append_column(name, pa.array(values, pa.float64()))
    return rows


def named_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """As `named`, for rows in a pandas frame, which may lack columns of the store."""
    further, metrics = _further(list(rows.columns), rows["spec"].tolist(), rows["extra_metrics"].tolist())
    added = [pd.DataFrame(further, rows.index), pd.DataFrame(metrics, rows.index, dtype=float)]
    return pd.concat([rows, *added], axis=1)


def with_variables(trials: pd.DataFrame, variables: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of a sweep with a column for each variable of its space, named by the path, such as `variables.x`.

    `variables` are those of `SweepRecord`.
    """
    of_trials = [variables.get(key, {}) for key in trials["trial_id"]]
    paths = dict.fromkeys(path for own in of_trials for path in own)
    values = {path: [decoded(own.get(path)) for own in of_trials] for path in paths}
    return pd.concat([trials, pd.DataFrame(values, index=trials.index, dtype=object)], axis=1)


def foreign_columns(spec: str) -> set[str]:
    """Columns that begin the labels of other kinds of trial: if a trial of this kind has a value there, it is no entry
    of it."""
    own = declared_with(from_json(spec)).leading
    return {column_name(path) for path in LEADING} - {column_name(path) for path in own}


def _further(
    present: Collection[str], specs: Iterable[str], extras: Iterable[str]
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The values of the added columns of entries and of metrics by name, for rows that have the columns `present`."""
    records, metrics = [entries(spec) for spec in specs], [from_json(extra) for extra in extras]
    columns = {path: column_name(path) for path in dict.fromkeys(path for record in records for path in record)}
    further = {name: [record.get(path) for record in records] for path, name in columns.items() if name not in present}
    taken = {*present, *further}
    own = dict.fromkeys(metric for record in metrics for metric in record if metric not in taken)
    return further, {metric: [record.get(metric) for record in metrics] for metric in own}


def column(values: Sequence[Any]) -> pa.Array:
    """Plain data as a column of the narrowest type that holds all values; without a common type it is JSON text."""
    present = [value for value in values if value is not None]
    if any(isinstance(value, float) for value in present) and all(map(is_number, present)):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if len({type(value) for value in present}) <= 1:
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return pa.array(values)
    return pa.array([None if value is None else json.dumps(canonical(value)) for value in values])


@functools.lru_cache(CACHED)
def tables_of_row(spec: str) -> KindTables:
    """What tables show of trials of this specification."""
    return declared_with(from_json(spec)).tables


def specs_of_tasks(trials: pd.DataFrame) -> list[str]:
    """A specification of each task or experiment of some trials."""
    return trials.drop_duplicates("task")["spec"].tolist()


def goals_of(trials: pd.DataFrame) -> Sequence[Goal]:
    """What at least one trial with named columns is ranked by, the first unless a space says it."""
    spec = trials["spec"].iloc[0]
    measured = trials.notna().any()
    return tables_of_row(spec).goals(traits_of(spec), [str(name) for name in measured.index[measured]])


def finite_values(store: Store, chosen: Iterable[Trial], metric: str) -> list[float] | None:
    """The finite values of the metric, of the finished trials among these; None if one of them was stopped early."""
    rows = named(store.trials(map(trial_id, chosen)))
    statuses = rows["status"].to_pylist()
    if "stopped" in statuses:
        return None
    pairs = zip(statuses, rows[metric].to_pylist(), strict=True) if metric in rows.column_names else ()
    return [value for status, value in pairs if status == "finished" and value is not None and math.isfinite(value)]


@dataclass(frozen=True)
class Results:
    """Finished trials, one row each with named columns; all else is read when it is asked for."""

    trials: pd.DataFrame
    # The value of an outcome for every input, by the trial's id and the outcome's name; None if not stored
    outcomes: Callable[[str, str], np.ndarray | None]
    # Training curves of the trials with these ids, with columns `trial_id`, `step`, `metric`, `value`
    curves: Callable[[Sequence[str]], pd.DataFrame]
    # Quantiles over the inputs of an outcome of a trial, as many for every trial, of an evaluation of its network by
    # the trial's own protocol; None if there is none
    quantiles: Callable[[str, str], np.ndarray | None] = lambda trial_id, name: None
    # All evaluations of stored networks, with the columns of `trials`
    evaluations: Callable[[], pd.DataFrame] = pd.DataFrame
    _distributions: dict[tuple[str, str], tuple[np.ndarray, np.ndarray] | None] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of_store(cls, store: Store, rows: pa.Table | None = None) -> "Results":
        """The finished trials of the current versions; `rows` are the rows of the store, if they are read already."""
        trials = current(store.trials() if rows is None else rows)

        @functools.lru_cache(maxsize=1)  # the steps of a walk are columns of one table
        def table(trial_id: str) -> pa.Table:
            return store.outcomes([trial_id])

        def outcomes(trial_id: str, name: str) -> np.ndarray | None:
            stored = table(trial_id)
            return stored[name].to_numpy() if stored.num_rows and name in stored.column_names else None

        @functools.cache  # panels share it
        def evaluations() -> pd.DataFrame:
            return named_frame(evaluations_of(store, trials).to_pandas())

        @functools.cache
        def evaluated_again() -> dict[str, dict[str, list[float]]]:
            return _quantiles(store, trials)

        def quantiles(trial_id: str, name: str) -> np.ndarray | None:
            values = evaluated_again().get(trial_id, {}).get(name)
            return None if values is None else np.asarray(values)

        made = cls.of_frame(trials.to_pandas(), outcomes, lambda trial_ids: store.curves(trial_ids).to_pandas())
        return replace(made, evaluations=evaluations, quantiles=quantiles)

    @classmethod
    def of_frame(
        cls,
        rows: pd.DataFrame,
        outcomes: Callable[[str, str], np.ndarray | None],
        curves: Callable[[Sequence[str]], pd.DataFrame] = lambda _: pd.DataFrame(columns=CURVES.names),
    ) -> "Results":
        """The finished trials among rows of a store in a pandas frame."""
        every = named_frame(rows)
        finished = every[every["status"] == "finished"].sort_values("trial_id").reset_index(drop=True)
        return cls(finished, outcomes, curves)

    def only(self, trial_ids: Iterable[str]) -> "Results":
        return replace(self, trials=self.trials[self.trials["trial_id"].isin(set(trial_ids))].reset_index(drop=True))

    def of_evaluations(self) -> "Results":
        """Evaluations of the networks of these trials in place of the trials, without outcomes of inputs."""
        rows = self.evaluations()
        if rows.empty:
            return replace(self, trials=self.trials[:0])
        nothing = {"outcomes": lambda trial_id, name: None, "quantiles": lambda trial_id, name: None}
        return replace(self, trials=rows, **nothing).only(self.trials["trial_id"])

    def distribution(self, trial_id: str, outcome: str) -> tuple[np.ndarray, np.ndarray] | None:
        """The different values of an outcome of a trial, rising, and how many inputs have each; None if not stored.

        Of outcomes that were not kept the quantiles stand for the inputs. If there are many different values, they are
        rounded.
        """
        key = (trial_id, outcome)
        if key not in self._distributions:
            stored = self.outcomes(trial_id, outcome)
            stored = self.quantiles(trial_id, outcome) if stored is None else stored
            values = np.asarray([] if stored is None else stored, float)
            values = values[~np.isnan(values)]
            distinct, counts = np.unique(values, return_counts=True)
            if len(distinct) > CACHED:
                distinct, counts = np.unique(values.round(3), return_counts=True)
            self._distributions[key] = (distinct, counts) if len(distinct) else None
        return self._distributions[key]


def _quantiles(store: Store, rows: pa.Table) -> dict[str, dict[str, list[float]]]:
    """The quantiles of the outcomes, by trial and name, of the evaluations by the trials' own protocols."""
    specs = {row["trial_id"]: from_json(row["spec"]) for row in rows.select(["trial_id", "spec"]).to_pylist()}
    protocols = {trial_id: spec.get(declared_with(spec).protocol) for trial_id, spec in specs.items()}
    return {
        row["trial_id"]: dict(row["quantiles"])
        for _, table in store.evaluations(store.seals(specs))
        for row in table.select(["trial_id", "protocol", "quantiles"]).to_pylist()
        if from_json(row["protocol"]) == protocols[row["trial_id"]]
    }


OF_EVALUATION = [name for name in EVALUATION_FILE.names if name in TRIALS.names and name != "schema_version"]
"""Columns that an evaluation has under the name that they have in a row of a trial."""


def evaluations_of(store: Store, rows: pa.Table) -> pa.Table:
    """All evaluations of the networks of the trials of some rows, see `evaluation_rows`."""
    return evaluation_rows(rows, (row for _, row in store.evaluations(store.seals(rows["trial_id"].to_pylist()))))


def evaluation_rows(rows: pa.Table, evaluations: Iterable[pa.Table]) -> pa.Table:
    """Evaluations of stored networks as rows like those of trials, so that panels and tables read both alike.

    Such a row has the other protocol in its specification, the metrics, costs and origin of the evaluation, and all
    else of its trial. `rows` are those of the trials.
    """
    trials = {row["trial_id"]: row for row in rows.to_pylist()}
    answer = []
    for evaluation in itertools.chain.from_iterable(each.to_pylist() for each in evaluations):
        if evaluation["trial_id"] not in trials:
            continue  # deleted meanwhile
        row, metrics = trials[evaluation["trial_id"]], json.loads(evaluation["metrics"])
        spec = json.loads(row["spec"])
        spec |= {declared_with(spec).protocol: json.loads(evaluation["protocol"])}
        further = {name: value for name, value in metrics.items() if name not in METRICS}
        numbers = {name: metrics.get(name) for name in METRICS if name != "train_loss"}
        answer.append(
            row
            # JSON spells out infinities and NaN as words.
            | {name: None if value is None else float(value) for name, value in numbers.items()}
            | {name: evaluation[name] for name in OF_EVALUATION}
            | {"spec": json.dumps(spec, sort_keys=True, separators=(",", ":")), "extra_metrics": json.dumps(further)}
        )
    return pa.Table.from_pylist(answer, schema=TRIALS)
