"""The table of the settings of a sweep: one row for each setting, with means and deviations over its training seeds.

Entries that differ between the settings are columns, those first that the space leaves open or writes; entries that all
settings share stand in the title. A mean
never joins trials of different status: a stopped trial was trained for fewer steps, a failed trial has no metrics.

A metric may be 0 for some training seeds and 1 for others (`Metric.jumps`), such as a percentile over inputs. The mean
of a 0 and a 1 describes no training, so the cell then says "0 to 1".
"""

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from sweeper.analysis.recorded_spaces import NOTHING, Asked
from sweeper.analysis.results import specs_of_tasks, tables_of_row
from sweeper.messages import counted, typed
from sweeper.tables import table, titled
from sweeper.trial.entry_names import NAMELESS, by_entries, column_name, shown_entries, value_order, varying
from sweeper.trial.metrics import Metric, equal_but_rounding
from sweeper.trial.trial import traits_of

MAX_ROWS = 100  # largest number of settings in a table for people
MAX_ENTRIES = 8  # largest number of columns for entries that differ between settings
MAX_METRICS = 6  # largest number of columns for metrics

STATUSES = ("finished", "stopped", "failed")


class Mean(NamedTuple):
    """A metric over the training seeds of a setting."""

    mean: float
    deviation: float | None  # standard deviation of a sample; None of a single training seed
    jumps: bool = False  # whether the metric is 0 for some training seeds and 1 for others

    def __float__(self) -> float:
        return self.mean

    def __str__(self) -> str:
        """Such as "0.784 ± 0.012", or "0 to 1" where the metric jumps."""
        return "0 to 1" if self.jumps else with_deviation(self.mean, self.deviation)


def with_deviation(mean: float, deviation: float | None) -> str:
    """A mean with its deviation, with the digits that the deviation leaves significant.

    The deviation has one digit, or two where the first is a 1.
    """
    if not deviation or not (math.isfinite(mean) and math.isfinite(deviation)):
        return f"{mean:.3g}" if deviation is None else f"{mean:.3g} ± {deviation:.1g}"
    scale = math.floor(math.log10(abs(mean))) if mean else 0
    if not -4 < scale < 5:
        return f"({_fixed(mean / 10.0**scale, deviation / 10.0**scale)})e{scale:+d}"
    return _fixed(mean, deviation)


def _fixed(mean: float, deviation: float) -> str:
    exponent = math.floor(math.log10(deviation))
    digits = -exponent + (deviation < 2 * 10.0**exponent)
    most = 4 if not mean else 3 - math.floor(math.log10(abs(mean)))  # no mean has more than four digits
    if digits > most:
        return f"{mean:.{max(most, 0)}f} ± {deviation:.1g}"
    return f"{mean:.{max(digits, 0)}f} ± {deviation:.{max(digits, 0)}f}"


def mean_of(metric: Metric, values: Iterable[float]) -> Mean | None:
    """The metric over training seeds with these values; None if no training seed has a value."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return None
    lowest, highest = min(known), max(known)
    deviation = statistics.stdev(known) if len(known) > 1 and math.isfinite(highest - lowest) else None
    if deviation is not None and equal_but_rounding(lowest, highest):
        deviation = 0.0
    return Mean(statistics.fmean(known), deviation, metric.has_no_mean(lowest, highest))


@dataclass(frozen=True)
class Setting:
    """The trials of one setting and one status, one for each training seed, with named columns."""

    entries: Mapping[str, Any]  # all but the training seed, and the variables of the space, by dotted path
    status: str
    rows: pd.DataFrame
    rank: int | None = None  # among the settings of a sweep, if it has one (`ranking`)
    _means: dict[str, Mean | None] = field(default_factory=dict, repr=False)  # those that were asked for

    @property
    def key(self) -> tuple[tuple[str, Any], ...]:
        """The setting alone, whatever became of its trials."""
        return tuple(self.entries.items())

    def mean(self, metric: str) -> Mean | None:
        """The metric over the training seeds; None if no trial has it."""
        if metric not in self._means:
            measured = tables_of_row(self.rows["spec"].iloc[0]).metric(metric)
            self._means[metric] = mean_of(measured, self.rows[metric].astype(float)) if metric in self.rows else None
        return self._means[metric]

    def cells(self, paths: Iterable[str], metrics: Iterable[str]) -> dict[str, Any]:
        """The row of a table, with columns for these entries and metrics."""
        entries = {column_name(path): self.entries.get(path) for path in paths}
        means = {metric: self.mean(metric) for metric in metrics}
        return {"rank": self.rank, **entries, "seeds": len(self.rows), "status": self.status, **means}


def settings(trials: pd.DataFrame) -> list[Setting]:
    """The settings of trials with named columns, in the order of their entries."""
    grouped = [
        Setting(shared, str(status), every if every["status"].nunique() == 1 else every[every["status"] == status])
        for shared, every in by_entries(trials)
        for status in every["status"].unique()
    ]
    paths = varying([setting.entries for setting in grouped])

    def order(setting: Setting) -> list[Any]:
        return [*(value_order(setting.entries.get(path)) for path in paths), STATUSES.index(setting.status)]

    return sorted(grouped, key=order)


def metrics_of(trials: pd.DataFrame, asked: Sequence[str] = ()) -> list[str]:
    """The metrics of a table of these trials, the most important first; each has a value in some trial."""
    listed = [tables_of_row(spec).of_settings(traits_of(spec), trials, asked) for spec in specs_of_tasks(trials)]
    names = dict.fromkeys(itertools.chain(*listed))
    columns = [name for name in names if name in trials and pd.api.types.is_numeric_dtype(trials[name])]
    return [name for name in columns if trials[name].notna().any()]


def with_note(settings: pd.DataFrame, note: str) -> pd.DataFrame:
    """The table with a further note, if that is not empty."""
    settings.attrs["note"] = "; ".join(filter(None, (settings.attrs["note"], note)))
    return settings


def settings_table(
    listed: Sequence[Setting], first: str = "", asked: Asked = NOTHING, most: int | None = MAX_ROWS
) -> pd.DataFrame:
    """At least one setting as a table, in the order given.

    `first` is the first metric, and those that a space has `asked` for are added. A cell of a metric is a `Mean`, and
    the format of its column is called `mean`. People get the first rows and metrics, and the entries that tell most
    (`shown_entries`); without `most` the table has all.
    """
    trials, records = pd.concat([setting.rows for setting in listed]), [setting.entries for setting in listed]
    paths = shown_entries(records, asked.entries)
    metrics = list(dict.fromkeys([*[first] * (first in trials), *metrics_of(trials, asked.metrics)]))
    shown = paths, metrics
    if most is not None:
        paths = shown_entries(records, asked.entries, len(paths))
        shown = shown_entries(records, asked.entries, MAX_ENTRIES), metrics[:MAX_METRICS]
    frame = table(setting.cells(*shown) for setting in listed[:most])
    one_status = trials["status"].nunique() == 1
    frame = frame.drop(columns=[*["rank"] * bool(frame["rank"].isna().all()), *["status"] * one_status])
    notes = []
    if any(mean and mean.deviation is not None for mean in frame[shown[1]].to_numpy().flat):
        notes.append("mean ± standard deviation over training seeds")
    if (len(frame), *map(len, shown)) != (len(listed), len(paths), len(metrics)):
        notes.append(
            f"{counted(len(listed), 'setting')} in all; {typed('query', 'best')}, --format csv, has all columns"
        )
    return titled(frame, _title(listed), "; ".join(notes), {"status": "status"} | dict.fromkeys(metrics, "mean"))


def _title(listed: Sequence[Setting]) -> str:
    """The entries that all settings share, such as "sine · 5,000 steps · finished"."""

    def values(path: str) -> set[Any]:
        return {setting.entries.get(path) for setting in listed}

    steps = {counted(count, "step") for count in values("steps")}
    parts = [
        *map(values, NAMELESS),
        steps,
        {setting.status for setting in listed},
    ]
    return " · ".join(part for shared in parts if len(shared) == 1 for part in shared if part is not None)
