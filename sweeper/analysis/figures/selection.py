"""What the figures are made of: the finished trials of a store, and the numbers of one series taken from them.

All kinds of panel choose their trials here, so that a figure, its seed counts and the comparison table cannot disagree
about which trials they show.

Invariants:
    - A training seed counts once at a point, however many trials of it are merged there: trials are averaged within
      their seed first, then over the seeds.
    - Nothing is left out or merged in silence: a series without data raises `NoData` with the reason, and `mixed`
      names what differs between the trials of a series although neither its filter nor its axis mentions it.
    - A metric that a task derives from others (`Task.own_metrics`) and that a row lacks, because an older program made
      it, is derived here by the same function. What cannot be derived is not there.
"""

import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import ValidationError

from sweeper.analysis.figures.style import number, plain
from sweeper.messages import counted, did_you_mean, nearest_name
from sweeper.space.panels import Best, CurveSeries, HistogramSeries, MapSeries, Panel, Where
from sweeper.store.store import Store
from sweeper.trial import plugins
from sweeper.trial.trial_spec import leaf_values

SeriesT = TypeVar("SeriesT", CurveSeries, HistogramSeries, MapSeries)
DrawnT = TypeVar("DrawnT")


CURVE_COLUMNS = ["trial_id", "step", "metric", "value"]


MISS = 0.05
"""A share that is further than this from its published value is a miss."""


class NoData(Exception):
    """Why a series cannot be drawn; written for the author of its panel."""


class Note(NamedTuple):
    """What the reader of a panel must know: a series left out, unlike trials merged, which setting is the best."""

    panel: str
    series: str
    text: str


class Comparison(NamedTuple):
    """One published number beside what was measured; `measured` is None where the store has no answer yet.

    `measured` is the mean over training seeds, `lowest` and `highest` are single seeds. Values are in the store's
    units (success between 0 and 1), and `percent` says whether the panel draws them as per cent. `steps` and `seeds`
    describe the trials behind the number.
    """

    panel: str
    curve: str
    metric: str
    at: float | None
    published: float
    measured: float | None
    lowest: float | None
    highest: float | None
    seeds: int
    steps: str
    percent: bool
    source: str

    @property
    def difference(self) -> float | None:
        return None if self.measured is None else self.measured - self.published

    @property
    def missed(self) -> bool:
        """Whether a measured share is far from its published value."""
        # 0.75 - 0.8 is a little more than 0.05 in floating point.
        return self.percent and self.difference is not None and abs(self.difference) > MISS + 1e-9

    @property
    def both_zero(self) -> bool:
        """Whether a share is 0 where it was published as 0: what fails always, as an untrained network also does."""
        return self.percent and self.measured == 0 == self.published


class Agreement(NamedTuple):
    """How many measured shares are near their published values, those that are 0 in both counted apart."""

    near: int
    compared: int
    zeros: int

    def sentence(self) -> str:
        zeros = f"; {self.zeros:,} more are 0 in both" if self.zeros else ""
        return f"{self.near:,} of {self.compared:,} percentages lie within {100 * MISS:g} points{zeros}"


def agreement(compared: Iterable[Comparison]) -> Agreement:
    """The shares among published numbers that are measured, counted."""
    shares = [one for one in compared if one.percent and one.measured is not None]
    telling = [one for one in shares if not one.both_zero]
    return Agreement(sum(not one.missed for one in telling), len(telling), len(shares) - len(telling))


@dataclass(frozen=True)
class Results:
    """Finished trials and their outcomes, as the kinds of panel want them.

    Attributes:
        trials: One row per finished trial: the columns of the store's `trials` table, and one column for every entry
            of the trial under its dotted path.
        outcomes: Values of an outcome for every input of a trial, or None where they were not stored; called with the
            trial's id and the name of the outcome.
        curves: Training curves of the trials with these ids, with columns `trial_id`, `step`, `metric`, `value`.
    """

    trials: pd.DataFrame
    outcomes: Callable[[str, str], np.ndarray | None]
    curves: Callable[[Sequence[str]], pd.DataFrame]
    _shares: dict[tuple[str, str, int], np.ndarray | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of_store(cls, store: Store, trials: pa.Table | None = None) -> "Results":
        """The finished trials of a store; `trials` are its rows, where they have been read already."""

        @functools.lru_cache(maxsize=1)  # the steps of a walk are columns of one table
        def table(trial_id: str) -> pa.Table:
            return store.outcomes([trial_id])

        def outcomes(trial_id: str, name: str) -> np.ndarray | None:
            found = table(trial_id)
            if name not in found.column_names or not found.num_rows:
                return None
            return found.column(name).to_numpy()

        def curves(trial_ids: Sequence[str]) -> pd.DataFrame:
            return store.curves(trial_ids).to_pandas()

        rows = store.trials() if trials is None else trials
        return cls.of_frame(rows.to_pandas(), outcomes, curves)

    @classmethod
    def of_frame(
        cls,
        trials: pd.DataFrame,
        outcomes: Callable[[str, str], np.ndarray | None],
        curves: Callable[[Sequence[str]], pd.DataFrame] = lambda _: pd.DataFrame(columns=CURVE_COLUMNS),
    ) -> "Results":
        """As `of_store`, from a frame with the columns of `trials`."""
        finished = trials[trials["status"] == "finished"].sort_values("trial_id").reset_index(drop=True)
        extra = [
            _dotted(spec, metrics) for spec, metrics in zip(finished["spec"], finished["extra_metrics"], strict=True)
        ]
        leaves = pd.DataFrame(extra, index=finished.index)
        new = leaves[[name for name in leaves.columns if name not in finished.columns]]
        return cls(pd.concat([finished, new], axis=1), outcomes, curves)

    def only(self, trial_ids: Iterable[str]) -> "Results":
        """Those of the trials that are listed."""
        return replace(self, trials=self.trials[self.trials["trial_id"].isin(set(trial_ids))].reset_index(drop=True))

    def shares(self, trial_id: str, metric: str, bins: int) -> np.ndarray | None:
        """Share of a trial's inputs whose outcome falls into each of `bins` equal bins of [0, 1]; 1 is in the last."""
        key = (trial_id, metric, bins)
        if key not in self._shares:
            values = self.outcomes(trial_id, metric)
            self._shares[key] = None if values is None else _shares(values, bins)
        return self._shares[key]


def _shares(values: np.ndarray, bins: int) -> np.ndarray | None:
    values = np.asarray(values, float)
    values = values[~np.isnan(values)]
    if not values.size:
        return None
    # Fractions of seeds are float32, so that 0.29 * 100 is a little below 29: they must not slip into a neighbour.
    index = np.floor(values * bins + 1e-4).astype(int).clip(0, bins - 1)
    return np.bincount(index, minlength=bins) / values.size


def _dotted(spec: str, extra_metrics: str | None) -> dict[str, Any]:
    entries = {path: _comparable(value) for path, value in leaf_values(json.loads(spec))}
    if isinstance(extra_metrics, str):
        entries.update(json.loads(extra_metrics))
    return entries


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return math.inf if value == "inf" else value


# --------------------------------------------------------------------------------------------------------------------
# Columns and trials
# --------------------------------------------------------------------------------------------------------------------


def column(trials: pd.DataFrame, name: str) -> str:
    """The column of `trials` meant by a name: itself, or the one entry of the trial whose path ends in it.

    Raises:
        NoData: no column is meant, or more than one.
    """
    if name in trials.columns:
        return name
    ends = [known for known in trials.columns if known.endswith(f".{name}")]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise NoData(f"'{name}' could be {' or '.join(sorted(ends))}")
    short = {known.rpartition(".")[2] for known in trials.columns}
    hint = did_you_mean(nearest_name(name, sorted(short | set(trials.columns))))
    raise NoData(f"the trials have no column '{name}'{hint}")


def chosen(results: Results, *conditions: Where) -> pd.DataFrame:
    """The trials that meet all conditions.

    Raises:
        NoData: there are none, or a column does not exist.
    """
    rows = results.trials
    if rows.empty:
        raise NoData("no trial is finished")
    for condition in conditions:
        for name, wanted in condition.items():
            rows = rows[_met(results.trials, name, wanted).loc[rows.index]]
    if rows.empty:
        merged = {name: value for condition in conditions for name, value in condition.items()}
        # What every trial meets is no reason that there is none.
        telling = {name: v for name, v in merged.items() if not _met(results.trials, name, v).all()}
        raise NoData("no finished trial with " + ", ".join(f"{name} = {_value(v)}" for name, v in telling.items()))
    return rows


def _met(trials: pd.DataFrame, name: str, wanted: Any) -> pd.Series:
    return trials[column(trials, name)].isin(wanted if isinstance(wanted, list) else [wanted])


@dataclass(frozen=True)
class Content(Generic[DrawnT]):
    """What a panel shows; it is false without any series.

    Attributes:
        series: Those with data, as their kind draws them.
        notes: What the reader must know of the others, and of series that merge trials which are not alike.
        merged: The entries in which such trials differ.
        best: Where a series shows the best of several settings, which one.
        trials: What is drawn, each trial once.
    """

    series: tuple[DrawnT, ...]
    notes: tuple[Note, ...]
    merged: tuple[str, ...]
    best: tuple[str, ...] = ()
    trials: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __bool__(self) -> bool:
        return bool(self.series)

    def remarks(self) -> list[str]:
        """What the footer of a figure says of its choice of trials."""
        return [*self.best, *(f"merged: {different}" for different in self.merged)]


def gathered(
    panel: Panel,
    declared: Sequence[SeriesT],
    record: type[SeriesT],
    results: Results,
    drawn: Callable[[int, SeriesT, pd.DataFrame], DrawnT],
    mentioned: Sequence[str] = (),
    alike: Sequence[str] = (),
) -> Content[DrawnT]:
    """The series of a panel that have data, with a note for every one that has none.

    Args:
        panel: The panel.
        declared: Its series, as far as it lists them.
        record: Their type.
        results: The trials to choose from.
        drawn: Makes a series of its place in the panel, its declaration and its trials, or raises `NoData`.
        mentioned: Columns of the panel's axes; together with its conditions they may differ within a series.
        alike: Columns that should not differ within a series although they are no entries of a trial.
    """
    try:
        if results.trials.empty:  # the same of all series, so said once
            raise NoData("no trial is finished")
        declared = series_of(panel, declared, record, results)
    except NoData as reason:
        return Content((), (Note(panel.name, "", str(reason)),), ())
    series, notes, merged, best, trials = [], [], [], [], []
    for index, one in enumerate(declared):
        try:
            rows = chosen(results, panel.where, one.where)
            choice = one.best or panel.best
            rows, settings = (rows, "") if choice is None else best_settings(rows, choice, mentioned)
            series.append(drawn(index, one, rows))
        except NoData as reason:
            notes.append(Note(panel.name, one.label, str(reason)))
            continue
        trials.append(rows)
        if settings:
            notes.append(Note(panel.name, one.label, settings))
            best.append(f"{plain(one.label)}: {settings}")
        if different := mixed(rows, [*mentioned, *panel.where, *one.where], alike):
            notes.append(Note(panel.name, one.label, f"merges trials that differ in {different}"))
            merged.append(different)
    shown = pd.concat(trials).drop_duplicates("trial_id") if trials else results.trials[:0]
    return Content(tuple(series), tuple(notes), tuple(dict.fromkeys(merged)), tuple(best), shown)


def best_settings(rows: pd.DataFrame, best: Best, axes: Sequence[str] = ()) -> tuple[pd.DataFrame, str]:
    """The trials of the best setting at each value of the columns `axes`, and a sentence that says which it is.

    Settings with fewer finished training seeds than others do not compete: a single lucky run would beat the mean of
    several.

    Raises:
        NoData: no trial has the metric, or it is not a number.
    """
    metric = column(rows, best.metric)
    try:
        known = rows.dropna(subset=[metric]).astype({metric: float})
    except ValueError:
        raise NoData(f"'{best.metric}' is not a number") from None
    if known.empty:
        raise NoData(f"'{best.metric}' was not measured")
    entries = {
        index: {path: value for path, value in leaf_values(json.loads(spec)) if path != "seed"}
        for index, spec in known["spec"].items()
    }
    known = known.assign(setting=[json.dumps(one, sort_keys=True) for one in entries.values()])
    kept: list[pd.DataFrame] = []
    found: list[tuple[str, float, list[str], int]] = []
    for _, competing in known.groupby([column(rows, axis) for axis in axes], dropna=False) if axes else [((), known)]:
        seeds = competing.groupby("setting")["seed"].nunique()
        complete = competing[competing["setting"].isin(seeds.index[seeds == seeds.max()])]
        # A seed counts once, also where an entry that is no part of the setting made several trials of it.
        means = complete.groupby(["setting", "seed"])[metric].mean().groupby("setting").mean()
        winner = str(means.idxmax() if best.mode == "max" else means.idxmin())
        kept.append(complete[complete["setting"] == winner])
        found.append((winner, float(means[winner]), [str(one) for one in seeds.index], len(means)))
    if max(len(settings) for _, _, settings, _ in found) == 1:
        return pd.concat(kept).drop(columns="setting"), ""
    told = "; ".join(dict.fromkeys(_best_text(*one, best.metric) for one in found))
    return pd.concat(kept).drop(columns="setting"), told


def _best_text(winner: str, mean: float, settings: Sequence[str], competing: int, metric: str) -> str:
    values = json.loads(winner)
    others = [json.loads(one) for one in settings]
    differing = [path for path in values if any(other.get(path) != values[path] for other in others)]
    named = ", ".join(f"{path.rpartition('.')[2]} {_value(values[path])}" for path in sorted(differing))
    fewer = f", {len(settings) - competing} more have fewer seeds" if competing < len(settings) else ""
    return f"best of {competing} settings by {metric} ({mean:.4g}): {named}{fewer}"


def one_training(rows: pd.DataFrame, seed: int | None) -> pd.Series:
    """The trial of one training seed: of `seed`, or of the lowest one.

    Raises:
        NoData: there is none, or more than one.
    """
    seed = int(rows["seed"].min()) if seed is None else seed
    of_seed = rows[rows["seed"] == seed]
    if of_seed.empty:
        raise NoData(f"no finished trial with seed = {seed}")
    if len(of_seed) > 1:
        raise NoData(
            f"{counted(len(of_seed), 'trial')} with seed = {seed} differ in {mixed(of_seed, ())}; one is wanted"
        )
    return of_seed.iloc[0]


def entry(trial: pd.Series, name: str) -> int:
    """A whole number among the columns of a trial, such as a size of its task.

    Raises:
        NoData: there is no such column, or it holds something else.
    """
    value = trial[column(trial.to_frame().T, name)]
    if not isinstance(value, int | float | np.number) or float(value) != int(value):
        raise NoData(f"'{name}' is {value}, not a whole number")
    return int(value)


def curves_per_seed(results: Results, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Mean of a training curve over the trials of each training seed, at each step.

    Returns:
        One row per step and seed, with columns `x`, `seed`, `value`.

    Raises:
        NoData: no trial has the curve.
    """
    found = results.curves(rows["trial_id"].tolist())
    points = found[found["metric"] == metric]
    if points.empty:
        known = sorted(set(found["metric"]))
        raise NoData(f"no training curve '{metric}' was stored" + f" (known: {', '.join(known)})" * bool(known))
    seeds = dict(zip(rows["trial_id"], rows["seed"], strict=True))
    points = pd.DataFrame({"x": points["step"], "seed": points["trial_id"].map(seeds), "value": points["value"]})
    return points.astype({"x": float, "value": float}).groupby(["x", "seed"])["value"].mean().reset_index()


def exact_values(rows: pd.DataFrame) -> list[dict[str, float]]:
    """What the tasks of these trials know exactly, one mapping for every task that is not equal to another."""
    tasks = dict.fromkeys(json.dumps(json.loads(spec)["task"], sort_keys=True) for spec in rows["spec"])
    return [_exact_values(task) for task in tasks]


@functools.cache  # solving a task may take seconds, and many panels ask for the same one
def _exact_values(task: str) -> dict[str, float]:
    fields = json.loads(task)
    try:
        return plugins.load("task", fields["name"]).model_validate(fields).exact_values()
    except (plugins.PluginError, ValidationError):
        return {}  # a store may hold trials of a task that this checkout does not have


def series_of(panel: Panel, declared: Sequence[SeriesT], record: type[SeriesT], results: Results) -> Sequence[SeriesT]:
    """The declared series, or one for every value of the column that the panel splits by.

    Raises:
        NoData: the panel splits, and no trial meets its filter.
    """
    if panel.split is None:
        return declared
    rows = chosen(results, panel.where)
    values = rows[column(results.trials, panel.split)].dropna().unique().tolist()
    values.sort(key=lambda value: (isinstance(value, str), value))
    return [
        record(
            label=str(value) if isinstance(value, str) else f"{panel.split} = {number(value)}",
            where={panel.split: value},
        )
        for value in values
    ]


def mixed(rows: pd.DataFrame, mentioned: Sequence[str], alike: Sequence[str] = ()) -> str:
    """Entries of the trials, and columns in `alike`, that differ between `rows`; empty if there are none.

    Entries in `mentioned` are left out; a name there covers the entry it abbreviates, as in `column`. Training seeds
    may always differ.
    """
    entries = {path for spec in rows["spec"] for path, _ in leaf_values(json.loads(spec))} | set(alike)
    covered = {entry for entry in entries for name in (*mentioned, "seed") if _covers(name, entry)}
    found = []
    for entry in sorted(entries - covered):
        values = rows[entry].drop_duplicates().tolist()
        if len(values) > 1:
            shown = ", ".join(_value(value) for value in sorted(values, key=lambda v: (isinstance(v, str), str(v)))[:4])
            found.append(f"{entry} ({shown}{', …' if len(values) > 4 else ''})")
    return "; ".join(found)


def _covers(name: str, entry: str) -> bool:
    # `task` and `optimizer` are columns that hold the name of a nested record.
    return entry == name or entry.endswith(f".{name}") or entry == f"{name}.name"


def per_seed(rows: pd.DataFrame, metric: str, x: str) -> pd.DataFrame:
    """Mean of a metric over the trials of each training seed at each value of column `x`.

    Returns:
        One row per value and seed, with columns `x`, `seed`, `value`; trials that lack the metric are not in it.

    Raises:
        NoData: no trial has the metric, or either is not a number.
    """
    values = pd.DataFrame({"x": rows[x], "seed": rows["seed"], "value": _measured(rows, metric)}).dropna()
    if values.empty:
        raise NoData(f"'{metric}' was not measured")
    try:
        values = values.astype({"x": float, "value": float})
    except ValueError:
        raise NoData(f"'{x}' and '{metric}' are not both numbers") from None
    return values.groupby(["x", "seed"])["value"].mean().reset_index()


def _measured(rows: pd.DataFrame, metric: str) -> pd.Series:
    """A metric of the trials, derived by their task where their row lacks it and the task can.

    Raises:
        NoData: no column is meant, and no task derives it.
    """
    values = rows[metric] if metric in rows else pd.Series(np.nan, rows.index)
    derived = {index: _own_metrics(rows.loc[index]).get(metric) for index in rows.index[values.isna()]}
    found = {index: value for index, value in derived.items() if value is not None}
    if metric not in rows and not found:
        return rows[column(rows, metric)]
    return values.fillna(pd.Series(found, dtype=float)) if found else values


def _own_metrics(trial: pd.Series) -> dict[str, float]:
    """What the task of a trial derives from the metrics in its row, if it is known here and they are all there."""
    fields = json.loads(trial["spec"])["task"]
    numbers = {
        str(name): float(value)
        for name, value in trial.items()
        if isinstance(value, int | float | np.number) and not np.isnan(value)
    }
    try:
        return plugins.load("task", fields["name"]).model_validate(fields).own_metrics(numbers)
    except (plugins.PluginError, ValidationError, KeyError):
        return {}


def shares_per_seed(results: Results, rows: pd.DataFrame, metric: str, bins: int) -> dict[int, np.ndarray]:
    """Histogram over inputs of an outcome for each training seed, as shares.

    Raises:
        NoData: no trial has stored the outcome.
    """
    by_seed: dict[int, list[np.ndarray]] = {}
    for row in rows.itertuples():
        shares = results.shares(str(row.trial_id), metric, bins)
        if shares is not None:
            by_seed.setdefault(int(row.seed), []).append(shares)  # pyright: ignore[reportArgumentType]
    if not by_seed:
        raise NoData(f"the outcome '{metric}' of its inputs was not stored")
    return {seed: np.mean(found, axis=0) for seed, found in sorted(by_seed.items())}


def steps(rows: pd.DataFrame) -> str:
    """The numbers of training steps among the trials, such as "20000" or "20000, 300000"."""
    return ", ".join(str(count) for count in sorted(rows["steps"].unique()))


def _value(value: Any) -> str:
    if isinstance(value, list) and len(value) > 3:
        return f"{_value(value[0])} ... {_value(value[-1])} ({len(value)} values)"
    if isinstance(value, list):
        return " or ".join(_value(one) for one in value)
    if isinstance(value, float):
        return "inf" if math.isinf(value) else f"{value:g}"
    return str(value)


def summary(values: Mapping[int, float]) -> tuple[float, float, float]:
    """Mean, lowest and highest of the values of the training seeds."""
    found = list(values.values())
    return float(np.mean(found)), min(found), max(found)
