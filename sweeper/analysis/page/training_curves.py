"""The training curves of a sweep as charts of the page: a line and a band for every setting, a line for every trial.

The curves of finished, stopped and failed trials are those of the store. The curves of unfinished trials are
those of their checkpoints, so a page that is written again and again shows how they go on.

A chart has matplotlib's ticks, and lines as SVG for the page's template, which gives them the colours of the page, and
the marks by which its script filters and finds what is under the pointer. Matplotlib's own SVG takes twice the time,
and its styles stand inside every element, where the page's content security policy forbids them.
"""

import collections
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sweeper.analysis.figures.style import Scale
from sweeper.analysis.page.page_table import TrialKind
from sweeper.analysis.ranking import best_first, goal_of, recorded_space
from sweeper.analysis.results import named, value_order
from sweeper.analysis.settings_table import settings
from sweeper.analysis.table import value_text
from sweeper.messages import counted, inflected
from sweeper.packs.checkpointed_trials import unfinished_curves
from sweeper.space.problems import SearchSpaceError
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import TRIALS, Store, SweepRecord
from sweeper.trial.entry_names import entries, entries_of, named_values, varying
from sweeper.trial.record import canonical
from sweeper.trial.start_from import OF_A_SEED
from sweeper.trial.trial import Trial

METRIC = "train_loss"

LEFT, RIGHT, TOP, BOTTOM = 52.0, 472.0, 10.0, 226.0
"""Sides of the plotting area in the picture's own units; the picture is 480 wide and 260 high."""


class Limits(NamedTuple):
    """How much a chart shows at most."""

    settings: int = 8  # so many colours can be told apart
    trials: int = 50  # of a setting
    points: int = 40  # of a line; a reader sees no more on a screen


LIMITS = Limits()


class TrialCurve(NamedTuple):
    """The curve of a trial: its value at each step of its setting, NaN where it has no point. The script draws it."""

    trial_id: str
    seed: int
    status: str
    values: list[float]


class SettingCurves(NamedTuple):
    """The curves of a setting, at the steps at which any of its trials has a point."""

    label: str  # the entries in which it differs from the other settings of the chart
    kind: TrialKind  # of its trials
    steps: list[int]
    means: list[float]  # over the trials that train that long; NaN where one of them has no point
    line: str  # the means as SVG
    band: str  # from the lowest to the highest trial as SVG; empty for a single trial
    trials: tuple[TrialCurve, ...]


class Chart(NamedTuple):
    """The settings of one sweep and task, with the scales of steps and losses; the note says what was left out."""

    title: str
    across: Scale
    up: Scale
    series: tuple[SettingCurves, ...]
    note: str


class _Trial(NamedTuple):
    trial_id: str
    status: str  # of its row; `unfinished` without a row
    spec: Mapping[str, Any]  # entries by dotted path
    place: int  # of its setting, the best first; unfinished trials come before them
    points: dict[int, float]  # losses by step


def charts(
    store: Store, latest: Mapping[str, SweepRecord], rows: Iterable[Mapping[str, Any]], limits: Limits = LIMITS
) -> list[Chart]:
    """The charts of the latest starts of sweeps, one for each sweep and task with a curve, from all rows of a store."""
    by_id = {row["trial_id"]: row for row in rows}
    made = []
    for name, record in latest.items():
        space = recorded_space(record, store)
        trials, best = _committed(store, [by_id[key] for key in record.trial_ids if key in by_id], space, limits)
        trials += _unfinished(store, space, by_id)
        tasks = sorted({trial.spec["task.name"] for trial in trials})
        for task in tasks:
            of_task = [trial for trial in trials if trial.spec["task.name"] == task]
            made.append(_chart(name if len(tasks) == 1 else f"{name}: {task}", name, of_task, best, limits))
    return made


def _committed(
    store: Store, rows: Sequence[Mapping[str, Any]], space: SweepSpec | None, limits: Limits
) -> tuple[list[_Trial], str]:
    """The trials of the best settings, with the curves that the store has, and what the best are."""
    if not rows:
        return [], ""
    frame = named(pa.Table.from_pylist(rows, schema=TRIALS)).to_pandas()
    chosen, best = [], set[str]()
    for _, of_task in frame.groupby("task"):
        goal = goal_of(None if space is None else space.search, of_task)
        best.add(goal.text())
        # A setting and a trial more than a chart shows, so that the chart can say that it left some out.
        for place, setting in enumerate(best_first(settings(of_task), goal)[: 2 * limits.settings]):
            few = setting.rows.head(limits.trials + 1)[["trial_id", "status", "spec"]].itertuples(index=False)
            chosen += [_Trial(key, status, entries(spec), place, {}) for key, status, spec in few]
    by_id = {trial.trial_id: trial for trial in chosen}
    table = store.curves(by_id)
    columns = (table[name].to_pylist() for name in ("trial_id", "step", "metric", "value"))
    for trial_id, step, metric, value in zip(*columns, strict=True):
        if metric == METRIC and value is not None and math.isfinite(value):
            by_id[trial_id].points[step] = value
    return [trial for trial in chosen if trial.points], " or ".join(sorted(best))


def _unfinished(store: Store, space: SweepSpec | None, committed: Collection[str]) -> list[_Trial]:
    """The trials of a sweep that have a checkpoint and no row."""
    if space is None or space.search.ADAPTS or not store.listing("checkpoints"):
        return []  # to expand a large space takes seconds
    try:
        expansion = space.expand()
    except SearchSpaceError:
        return []
    planned = zip(expansion.trial_ids, expansion.trials, strict=True)
    pending: dict[str, Trial] = {key: trial for key, trial in planned if key not in committed}
    return [
        _Trial(key, "unfinished", entries_of(canonical(pending[key])), -1, losses)
        for key, points in unfinished_curves(store, pending).items()
        if (losses := {step: value for step, name, value in points if name == METRIC and math.isfinite(value)})
    ]


def _setting(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in spec.items() if path not in OF_A_SEED}


def _chart(title: str, sweep: str, trials: Sequence[_Trial], best: str, limits: Limits) -> Chart:
    groups: dict[str, list[_Trial]] = collections.defaultdict(list)
    for trial in sorted(trials, key=lambda trial: trial.place):
        groups[json.dumps(_setting(trial.spec), sort_keys=True)].append(trial)
    shown = [group[: limits.trials] for group in list(groups.values())[: limits.settings]]
    shown.sort(key=lambda group: [value_order(value) for value in _setting(group[0].spec).values()])
    drawn = [trial for group in shown for trial in group]
    values = np.array([value for trial in drawn for value in trial.points.values()])
    across = Scale(0.0, max(step for trial in drawn for step in trial.points), False, LEFT, RIGHT)
    up = Scale.over(values, bool(values.min() > 0 and values.max() > 3 * values.min()), BOTTOM, TOP)
    names = varying([_setting(group[0].spec) for group in shown])
    series = tuple(_series(group, sweep, names, across, up, limits.points) for group in shown)
    notes = []
    if unfinished := sum(trial.status == "unfinished" for trial in drawn):
        verb = inflected(unfinished, "is", "are")
        notes.append(f"{counted(unfinished, 'trial')} {verb} unfinished: dashed, up to the last checkpoint.")
    if len(groups) > len(shown):
        notes.append(
            f"Of more than {len(shown)} settings, the chart has the unfinished ones and then the best: {best}."
        )
    if any(len(group) > limits.trials for group in groups.values()):
        notes.append(f"Of more than {limits.trials} trials of a setting, it has {limits.trials}.")
    return Chart(title, across, up, series, " ".join(notes))


def _series(
    trials: Sequence[_Trial], sweep: str, names: Sequence[str], across: Scale, up: Scale, most_points: int
) -> SettingCurves:
    trials = sorted(trials, key=lambda trial: trial.spec["seed"])
    every = sorted({step for trial in trials for step in trial.points})
    steps = [every[at] for at in np.linspace(0, len(every) - 1, min(len(every), most_points)).round().astype(int)]
    values = np.array([[trial.points.get(step, np.nan) for step in steps] for trial in trials])
    # The last point of a checkpoint may stand between the points of other trials. A mean there would be of this trial
    # alone: line and band have no point where a trial that trains that long has none.
    ends = np.array([max(trial.points) for trial in trials])
    known = ~(np.isnan(values) & (steps <= ends[:, None])).any(axis=0)
    means = np.full(len(steps), np.nan)
    means[known] = np.nanmean(values[:, known], axis=0)
    x, band = across.place(np.array(steps)), ""
    if len(trials) > 1:
        highest, lowest = np.nanmax(values[:, known], axis=0), np.nanmin(values[:, known], axis=0)
        around = np.concatenate([x[known], x[known][::-1]])
        band = _path(around, up.place(np.concatenate([highest, lowest[::-1]]))) + "Z"
    curves = tuple(
        TrialCurve(trial.trial_id, trial.spec["seed"], trial.status, own.tolist())
        for trial, own in zip(trials, values, strict=True)
    )
    spec = trials[0].spec
    kind = TrialKind(spec["task.name"], spec["baseline"], spec["model.name"], sweep)
    # Such as "Aq_R q=10"; the only setting is called by its baseline.
    words = named_values(names, lambda path: value_text(spec[path]) if path in spec else "")
    label = " ".join(words) or spec["baseline"]
    return SettingCurves(label, kind, steps, means.tolist(), _path(x, up.place(means)), band, curves)


def _path(x: np.ndarray, y: np.ndarray) -> str:
    """A line through all points that have a value."""
    seen = ~np.isnan(y)
    points = zip(x[seen].tolist(), y[seen].tolist(), strict=True)
    return "M" + "L".join(f"{across:.1f},{up:.1f}" for across, up in points)
