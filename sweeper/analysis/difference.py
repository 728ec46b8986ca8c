"""Two sweeps, or two stores, compared: which settings differ, which trials they share, how the metrics moved.

Settings are compared by all of their entries. An entry that has a single value in A and another single value in B, such
as the number of steps, is named once and ignored when settings are matched.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from sweeper.analysis.ranking import trials_of
from sweeper.analysis.results import current, named_frame
from sweeper.analysis.settings_table import MAX_ROWS, Setting, metrics_of, settings, with_deviation
from sweeper.messages import UserError, counted, instead, redacted
from sweeper.store.store import Store, StoreError
from sweeper.store.sweep_records import latest_starts
from sweeper.tables import Amount, table, titled, values_text
from sweeper.trial.columns import METRICS
from sweeper.trial.entry_names import column_name, value_order, varying
from sweeper.trial.metrics import equal_but_rounding


class Side(NamedTuple):
    """One of the two sweeps or stores: its name as typed, and its committed trials of the current versions."""

    name: str
    trials: pd.DataFrame


def side(name: str, results: str) -> Side:
    """The sweep of this name in the store `results`, or else the store at this folder or URL.

    A name that is neither, or has no trial, is a `UserError`.
    """
    store = Store.open(results)
    sweeps = latest_starts(store.sweeps()) if store.exists() else {}
    if name in sweeps:
        trials = trials_of(store, sweeps[name])
    else:
        try:
            trials = named_frame(current(Store.existing(name).trials()).to_pandas())
        except StoreError as error:
            neither = f"'{redacted(name)}' is no store, and no sweep of {redacted(results)}"
            raise UserError(f"{neither}{instead(name, sweeps)}") from error
    if not len(trials):
        raise UserError(f"'{redacted(name)}' has no committed trial")
    return Side(redacted(name), trials)


def shared_trials(a: Side, b: Side) -> list[str]:
    """Sentences on the trials that both sides have, and on the trials that only one side has."""
    left, right = (frame.set_index("trial_id") for frame in (a.trials, b.trials))
    both = left.index.intersection(right.index)
    only = [f"{len(frame) - len(both):,} only in {name}" for name, frame in ((a.name, left), (b.name, right))]
    lines = [f"{counted(len(both), 'trial')} in both, {', '.join(only)}"]
    names = ["status", *METRICS]
    differ = int((left.loc[both, names].fillna(-1) != right.loc[both, names].fillna(-1)).any(axis=1).sum())
    if differ:
        lines.append(f"{differ:,} of the trials in both have other numbers in {b.name} than in {a.name}")
    return lines


MAX_VALUES = 6  # of an entry in one cell; of more its ends are told


def differing_entries(a: Side, b: Side) -> pd.DataFrame:
    """The entries that have a value in only one of the two sides."""
    left, right = ([setting.entries for setting in settings(side.trials)] for side in (a, b))
    rows = []
    for path in varying([*left, *right]):
        in_a, in_b = _values(left, path), _values(right, path)
        if in_a != in_b:
            parts = {f"only in {a.name}": in_a - in_b, "in both": in_a & in_b, f"only in {b.name}": in_b - in_a}
            texts = {head: values_text(sorted(part, key=value_order), MAX_VALUES) for head, part in parts.items()}
            rows.append({"entry": column_name(path)} | texts)
    return table(rows, "Which settings differ", "" if rows else "every entry has the same values in both")


def _values(records: Sequence[Mapping[str, Any]], path: str) -> set[Any]:
    return {record.get(path) for record in records}


def moved_metrics(a: Side, b: Side) -> pd.DataFrame:
    """The metrics of the settings that both sides have, with the spread between training seeds."""
    left, right = (settings(side.trials[side.trials["status"] == "finished"]) for side in (a, b))
    partners = _partners(left, right)
    pairs = [pair for pair in partners if not _same_rows(*pair)]
    same, unpaired = len(partners) - len(pairs), (len(left) - len(partners), len(right) - len(partners))
    notes = [f"{counted(same, 'setting')} with the same trials and numbers in both, left out"] if same else []
    if any(unpaired):
        notes.append(f"without a partner: {counted(unpaired[0], 'setting')} of {a.name}, {unpaired[1]:,} of {b.name}")
    title = "How the metrics moved"
    if not pairs:
        return table([], title, "; ".join(notes))
    paths = varying([setting.entries for setting, _ in pairs])
    metrics = metrics_of(pd.concat([a.trials, b.trials]))
    heads = [*map(column_name, paths), "metric", a.name, b.name, "moved", "seeds"]
    rows = [
        (*(first.entries.get(path) for path in paths), metric, first.mean(metric), second.mean(metric), moved, seeds)
        for first, second in pairs
        for seeds in [", ".join(map(str, dict.fromkeys((len(first.rows), len(second.rows)))))]
        for metric in metrics
        if (moved := _moved(first, second, metric)) is not None
    ]
    notes.insert(0, "mean ± standard deviation over training seeds; moved ± its standard error, * beyond two of them")
    if len(rows) > MAX_ROWS:
        notes.append(f"and {counted(len(rows) - MAX_ROWS, 'row')} more")
    return titled(pd.DataFrame(rows[:MAX_ROWS], columns=heads, dtype=object), title, "; ".join(notes))


def _partners(left: Sequence[Setting], right: Sequence[Setting]) -> list[tuple[Setting, Setting]]:
    """The settings of two sides that are equal in all entries, but for those with one value on each side."""
    sides = [[setting.entries for setting in side] for side in (left, right)]
    paths = {path for side in sides for entries in side for path in entries}
    fixed = {path for path in paths if all(len(_values(side, path)) == 1 for side in sides)}

    def key(setting: Setting) -> frozenset[tuple[str, Any]]:
        return frozenset((path, value) for path, value in setting.entries.items() if path not in fixed)

    partners = {key(setting): setting for setting in right}
    return [(setting, partners[shared]) for setting in left if (shared := key(setting)) in partners]


def _same_rows(first: Setting, second: Setting) -> bool:
    left, right = (setting.rows.set_index("trial_id")[list(METRICS)].sort_index() for setting in (first, second))
    return left.equals(right)


def _moved(first: Setting, second: Setting, metric: str) -> Amount | None:
    """How far the mean moved, and the standard error of that from the spread between training seeds.

    Such as "+0.020 ± 0.004 *"; the star marks a move beyond two standard errors. None if a side has no value.
    """
    left, right = first.mean(metric), second.mean(metric)
    if left is None or right is None:
        return None
    error = None
    if left.deviation is not None and right.deviation is not None:
        error = math.sqrt(left.deviation**2 / len(first.rows) + right.deviation**2 / len(second.rows))
    moved = 0.0 if equal_but_rounding(left.mean, right.mean) else right.mean - left.mean
    star = " *" if error is not None and abs(moved) > 2 * error else ""
    return Amount(moved, f"{'+' if moved > 0 else ''}{with_deviation(moved, error)}{star}")
