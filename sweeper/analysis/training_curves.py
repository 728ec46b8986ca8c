"""The training curves of the latest starts of sweeps, as plain data for the charts of the page.

A chart has the settings of a sweep and a task, and a setting has the curves of its trials: of those with a row from the
store, of the others from their checkpoints.
"""

import collections
import contextlib
import itertools
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import colors

from sweeper.analysis.figures.style import Look
from sweeper.analysis.ranking import best_first, goal_of
from sweeper.analysis.recorded_spaces import NOTHING, asked_by, recorded_space
from sweeper.analysis.settings_table import settings
from sweeper.analysis.table import Facets
from sweeper.messages import counted, inflected
from sweeper.packs.checkpointed_trials import unfinished_curves
from sweeper.space.problems import SearchSpaceError
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Store, SweepRecord
from sweeper.tables import value_text
from sweeper.trial.entry_names import LABEL, NAMELESS, by_entries, column_name, shown_entries, value_order
from sweeper.trial.kinds import Goal
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial


class Limits(NamedTuple):
    """How much a chart of training curves shows at most."""

    settings: int = 8  # so many colours can be told apart
    trials: int = 50  # of a setting
    points: int = 40  # of a line; a reader sees no more on a screen


LIMITS = Limits()

METRIC = "train_loss"  # is shown first if there is no curve of what settings are ranked by

MOST_NAMED = 5  # entries in the label of a line, unless more are needed to tell two lines apart

POINT = ["trial_id", "step", "metric", "value"]
"""Columns of the points of training curves."""


class Lines(NamedTuple):
    """What a chart of training curves may show: trials of a sweep and a task."""

    sweep: str
    task: str
    # Shared entries and trials of the settings: those with an unfinished trial, and then the best
    settings: list[tuple[dict[str, Any], pd.DataFrame]]
    goal: Goal | None  # what the best are ranked by; None if neither trials nor the space say it
    entries: tuple[str, ...]  # of the space (`recorded_spaces.Asked`)


OF_LINE = ["trial_id", "status", "task", "seed", "spec"]
"""Columns of the trials of a chart; the status of a trial without a row is `unfinished`."""


def curves(
    store: Store,
    starts: Mapping[str, Sequence[SweepRecord]],
    trials: pd.DataFrame,
    spaces: Iterable[SweepSpec],
    shades: Mapping[str, Mapping[str, str]],
    look: Look,
    limits: Limits = LIMITS,
) -> list[dict[str, Any]]:
    """The training curves of the latest starts of sweeps as plain data, a chart for each sweep and task with a curve.

    The curves of finished, stopped and failed trials are those of the store, of the best settings. The curves of
    unfinished trials are those of their checkpoints, so a page that is written again and again shows how they go on.
    """
    read = {space.name: space for space in spaces}
    listed, points = list[Lines](), list[tuple[str, int, str, float]]()
    for name, records in starts.items():
        space = read.get(name) or recorded_space(records[-1], store)
        unfinished, of_checkpoints = _unfinished(store, space, trials["trial_id"])
        points += of_checkpoints
        committed = trials[trials["trial_id"].isin(records[-1].trial_ids)]
        for task in sorted({*unfinished["task"], *committed["task"]}):
            waiting, done = (rows[rows["task"] == task] for rows in (unfinished, committed))
            listed.append(_lines(name, task, space, waiting, done, limits))
    known = _points(store, listed, points)
    having = {*known["trial_id"]}
    drawn = [lines for lines in (_only(lines, having) for lines in listed) if lines.settings]
    tasks = collections.Counter(lines.sweep for lines in drawn)
    return [
        {"title": lines.sweep if tasks[lines.sweep] == 1 else f"{lines.sweep}: {lines.task}"}
        | _chart(lines, known, shades.get(lines.sweep, {}), look, limits)
        for lines in drawn
    ]


def _lines(
    sweep: str, task: str, space: SweepSpec | None, unfinished: pd.DataFrame, committed: pd.DataFrame, limits: Limits
) -> Lines:
    """The trials that a chart may show. Settings without a curve are among them, so there are more than it shows.

    One trial more of a setting tells that the chart leaves some out.
    """
    rows, asked, goal = [unfinished], NOTHING if space is None else asked_by(space), None
    if len(committed):
        goal = goal_of(asked.goal, committed)
        rows += [setting.rows[OF_LINE] for setting in best_first(settings(committed), goal)]
    chosen = by_entries(pd.concat(rows))[: 2 * limits.settings]
    drawn = [(shared, own.head(limits.trials + 1)) for shared, own in chosen]
    return Lines(sweep, task, drawn, goal or asked.goal, asked.entries)


def _points(
    store: Store, listed: Iterable[Lines], of_checkpoints: Iterable[tuple[str, int, str, float]]
) -> pd.DataFrame:
    """The finite points of the curves that charts may show, each once and by rising steps: of checkpoints and store."""
    every = [rows for lines in listed for _, rows in lines.settings]
    stored = store.curves({key for rows in every for key in rows["trial_id"][rows["status"] != "unfinished"]})
    points = itertools.chain(of_checkpoints, zip(*(stored[name].to_pylist() for name in POINT), strict=True))
    known = pd.DataFrame(points, columns=POINT).astype({"value": float, "trial_id": "category"})
    known = known.drop_duplicates(POINT[:3], keep="last")
    return known[np.isfinite(known["value"])].sort_values("step", kind="stable")


def _only(lines: Lines, trial_ids: Collection[str]) -> Lines:
    kept = [(entries, rows[rows["trial_id"].isin(trial_ids)]) for entries, rows in lines.settings]
    return lines._replace(settings=[(entries, rows) for entries, rows in kept if len(rows)])


def _unfinished(
    store: Store, space: SweepSpec | None, committed: Iterable[str]
) -> tuple[pd.DataFrame, list[tuple[str, int, str, float]]]:
    """The trials of a sweep that have a checkpoint with points of curves, and no row; and these points."""
    pending: dict[str, Trial] = {}
    if space is not None and not space.search.ADAPTS and store.listing("checkpoints"):
        with contextlib.suppress(SearchSpaceError):
            expansion = space.expand()  # which takes seconds if the space is large
            pending = dict(zip(expansion.trial_ids, expansion.trials, strict=True))
    for trial_id in {*committed}.intersection(pending):
        del pending[trial_id]
    found = {key: points for key, points in unfinished_curves(store, pending).items() if points} if pending else {}
    rows = [
        (key, "unfinished", pending[key].folder.task, pending[key].seed, json.dumps(canonical(pending[key])))
        for key in found
    ]
    return pd.DataFrame(rows, columns=OF_LINE), [(key, *point) for key, points in found.items() for point in points]


def _chart(lines: Lines, points: pd.DataFrame, shades: Mapping[str, str], look: Look, limits: Limits) -> dict[str, Any]:
    """The settings of one sweep and task as plain data, and a note that says what was left out."""
    shown = [(spec, rows.head(limits.trials).sort_values("seed")) for spec, rows in lines.settings[: limits.settings]]
    shown.sort(key=lambda setting: list(map(value_order, setting[0].values())))
    named = _labels([spec for spec, _ in shown], lines.entries)
    wanted = [next(filter(None, map(shades.get, rows["trial_id"])), None) for _, rows in shown]
    facets = {"sweep": [lines.sweep], "task": [lines.task]}
    series: list[dict[str, Any]] = [
        _series(rows, points, spec, label, facets, limits.points) | {"colour": colour}
        for (spec, rows), label, colour in zip(shown, named, distinct(wanted, look), strict=True)
    ]
    counts = collections.Counter(
        name for one in series for name, curve in one["curves"].items() for _ in curve["steps"]
    )
    first = lines.goal and lines.goal.metric
    metrics = sorted(counts, key=lambda name: (name != first, name != METRIC, -counts[name], name))
    words = dict.fromkeys(name for each in series for name in each["facets"])
    every = {name: sorted({one for each in series for one in each["facets"].get(name, ())}) for name in words}
    return {"facets": every, "metrics": metrics, "series": series, "note": _note(lines, shown, limits)}


def _note(lines: Lines, shown: Sequence[tuple[Any, pd.DataFrame]], limits: Limits) -> str:
    """What a chart shows of unfinished trials, and what it leaves out."""
    notes = []
    if unfinished := sum(int((rows["status"] == "unfinished").sum()) for _, rows in shown):
        verb = inflected(unfinished, "is", "are")
        notes.append(f"{counted(unfinished, 'trial')} {verb} unfinished: dashed, up to the last checkpoint.")
    if len(lines.settings) > len(shown):
        has = f"the chart has the unfinished ones and then the best: {lines.goal.text() if lines.goal else ''}"
        notes.append(f"Of more than {len(shown)} settings, {has}.")
    if any(len(rows) > limits.trials for _, rows in lines.settings):
        notes.append(f"Of more than {limits.trials} trials of a setting, it has {limits.trials}.")
    return " ".join(notes)


def _labels(specs: Sequence[Mapping[str, Any]], written: Sequence[str]) -> list[str]:
    """A label for each setting, such as "lion learning_rate=0.001": by entries that tell it from the others.

    An entry is named by the end of its path where no other has this end.
    """
    labels: list[str] = []
    for most in (MOST_NAMED, None):
        paths = shown_entries(specs, written, most)
        ends = collections.Counter(path.rpartition(".")[2] for path in paths)
        names = {path: end if ends[end := path.rpartition(".")[2]] == 1 else column_name(path) for path in paths}
        plain = {path for path in paths if path in NAMELESS or path.endswith(".name")}
        labels = [
            " ".join(
                value_text(spec[path]) if path in plain else f"{names[path]}={value_text(spec[path])}"
                for path in paths
                if path in spec
            )
            or [spec[path] for path in LABEL if path in spec][-1]
            for spec in specs
        ]
        if len(set(labels)) == len(labels):
            break
    return labels


def _series(
    lines: pd.DataFrame, points: pd.DataFrame, spec: Mapping[str, Any], label: str, facets: Facets, most: int
) -> dict[str, Any]:
    """The curves of a setting at the steps at which any of its trials has a point, of many steps some.

    Between its own points a curve is linear, so that a point between those of other trials moves no mean; before and
    after its points it has no value.
    """
    found = {}
    for metric, own in points[points["trial_id"].isin(lines["trial_id"])].groupby("metric"):
        steps, values = own["step"].to_numpy(), own["value"].to_numpy()
        every = np.unique(steps)
        some = every[np.linspace(0, len(every) - 1, min(len(every), most)).round().astype(int)]
        places = own.groupby("trial_id", observed=True).indices
        nowhere = np.full(len(some), np.nan)
        of_trials = [
            np.interp(some, steps[places[key]], values[places[key]], np.nan, np.nan) if key in places else nowhere
            for key in lines["trial_id"]
        ]
        rounded = [[None if math.isnan(value) else float(f"{value:.4g}") for value in line] for line in of_trials]
        found[metric] = {"steps": some.tolist(), "values": rounded}
    words_of = {column_name(path): [value] for path, value in spec.items() if isinstance(value, str)}
    trials = lines[["trial_id", "seed", "status"]].rename(columns={"trial_id": "id"})
    return {
        "label": label,
        "facets": {**words_of, **facets},
        "trials": trials.to_dict("records"),
        "curves": found,
    }


def distinct(wanted: Sequence[str | None], look: Look) -> list[str]:
    """A colour for each: the wanted one, lighter where it is taken; without one a free one of the palette.

    If all want the same, the colours are those of the palette, as theirs would tell nothing.
    """
    if len(wanted) > 1 and len(set(wanted)) == 1:
        wanted = [None] * len(wanted)
    every = list(look.shades.values())
    free = [shade for shade in every if shade not in wanted] or every
    missing = iter(range(len(wanted)))
    taken = [shade or free[next(missing) % len(free)] for shade in wanted]
    many, found = collections.Counter(taken), []
    for place, shade in enumerate(taken):
        lighter = 0.75 * taken[:place].count(shade) / many[shade]
        red, green, blue = (part + lighter * (1 - part) for part in colors.to_rgb(shade))
        found.append(colors.to_hex((red, green, blue)))
    return found
