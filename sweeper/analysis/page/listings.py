"""The page's lists: trials with settings, metrics and cost, failures, what made the trials, and starts of sweeps."""

import collections
import datetime
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sweeper.analysis.page.page_table import Row, TrialKinds, ended, kinds_of
from sweeper.analysis.ranking import Goal
from sweeper.analysis.results import abilities_of, extra_metrics
from sweeper.analysis.sweeps import annotation_fields, moment
from sweeper.analysis.table import (
    CODE,
    COUNT,
    LONG,
    MOMENT,
    NUMBER,
    PER_CENT,
    REVISION,
    SECONDS,
    STATUS,
    TEXT,
    VALUE,
    Column,
    Field,
    Form,
    Table,
    tabulated,
    without_empty_columns,
)
from sweeper.messages import redacted
from sweeper.store.annotations import NO_ANNOTATIONS, Annotations
from sweeper.store.store import SweepRecord
from sweeper.trial.columns import TIMINGS
from sweeper.trial.entry_names import column_name, entries, varying
from sweeper.trial.metrics import metric_named

MAX_TRIALS = 2_000
"""Trials listed on a page. A browser lays out some thousand rows at once; the store answers for the others."""

ORDER = ("task", "baseline", "model", "q", "m", "steps", "seed", "trial_id")

MAX_FAILURES = 200  # failed trials listed with their messages

MAX_MESSAGE = 2_000
"""Characters of a message: the reason stands in the first lines of it, or in the last of a traceback."""

MAX_VARYING = 8  # columns for entries that differ between the trials listed

METRICS = (
    "success", "success_p5", "success_worst5", "failed_inputs", "majority_30", "majority_30_p5", "loss", "loss_p95",
)  # fmt: skip
"""Metrics listed with the trials, where any trial has them."""

SPEED = Form("{:,.4g}".format, numeric=True)


def _column(name: str, title: str | None = None, form: Form = VALUE) -> Field[Row]:
    """A column of the store."""
    return Column(title or name, form), lambda row: row[name]


_KIND = (_column("task", form=TEXT), _column("baseline", form=TEXT), _column("model", form=TEXT))


def failed_trials(rows: Iterable[Row], most: int = MAX_FAILURES) -> tuple[Table, list[TrialKinds]]:
    """The failed trials with their messages, the newest first, and the kind of each."""
    failed = sorted((row for row in rows if row["status"] == "failed"), key=ended, reverse=True)
    listed = failed[:most]
    fields: tuple[Field[Row], ...] = (
        _column("trial_id", "trial", CODE),
        *_KIND,
        _column("q"),
        _column("m", form=COUNT),
        _column("seed"),
        _column("error_step", "step", COUNT),
        _column("error_kind", "kind", TEXT),
        (Column("message", LONG), lambda row: _clipped(row["error_message"] or "no reason given")),
    )
    note = f"The latest {most:,} of {len(failed):,} failed trials." if len(failed) > most else ""
    return tabulated("Failed trials", fields, listed, note), [kinds_of([row]) for row in listed]


def _clipped(message: str) -> str:
    message, half = redacted(message.strip()), MAX_MESSAGE // 2
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[:half]}\n… {len(message) - 2 * half:,} characters …\n{message[-half:]}"


def trials(
    rows: Sequence[Row],
    annotations: Mapping[str, Annotations],
    asked_for: Sequence[str] = (),
    goal: Goal | None = None,
    most: int = MAX_TRIALS,
) -> tuple[Table, list[TrialKinds]]:
    """The trials with their settings, metrics, cost, tags and notes, and the kind of each.

    Where there are more than `most`, the failed trials are listed, and then the newest. The metrics that search
    spaces ask for have columns, and with a goal the best trials stand first.
    """
    listed = sorted(rows, key=lambda row: (row["status"] != "failed", -ended(row)))[:most]
    listed.sort(key=lambda row: [(row[name] is not None, row[name]) for name in ORDER])
    if goal is not None:
        worst, sign = math.inf, -1 if goal.mode == "max" else 1
        listed.sort(key=lambda row: worst if (value := _metric(row, goal.metric)) is None else sign * value)
    differing = _differing(listed)
    own: list[Field[Row]] = [
        (Column(column_name(path), VALUE), lambda row, path=path: entries(row["spec"]).get(path))
        for path in differing[:MAX_VARYING]
    ]
    fields: tuple[Field[Row], ...] = (
        _column("trial_id", "trial", CODE),
        _column("status", form=STATUS),
        *_KIND,
        _column("q"),
        _column("m"),
        *own,
        _column("seed"),
        _column("steps", form=COUNT),
        *_metrics(listed, asked_for),
        _column("wall_seconds", "time", SECONDS),
        _column("steps_per_second", "steps/s", SPEED),
        _column("device", form=TEXT),
        _column("finished", "ended", MOMENT),
        (Column("commit", REVISION), lambda row: (row["commit"], row["dirty"])),
        *annotation_fields(listed, lambda row: annotations.get(row["trial_id"], NO_ANNOTATIONS)),
    )
    notes = []
    if len(listed) < len(rows):
        notes.append(
            f"{len(listed):,} of {len(rows):,} trials: the failed ones and then the newest. All of them answer to "
            'python -m sweeper.query "SELECT * FROM trials" --format csv.'
        )
    if left_out := [column_name(path) for path in differing[MAX_VARYING:]]:
        notes.append(f"Entries that differ too, without a column: {', '.join(left_out)}.")
    table = without_empty_columns(tabulated("Trials", fields, listed, " ".join(notes)))
    return table, [kinds_of([row]) for row in listed]


def _metrics(rows: Sequence[Row], asked_for: Sequence[str]) -> list[Field[Row]]:
    """The metrics that any trial has: those of every page, those asked for, and the measures of the tasks.

    A task may have measured nothing of these.
    """
    specs = {row["task"]: row["spec"] for row in rows}.values()
    own = [measure.name for spec in specs for measure in abilities_of(spec).measures]
    further = sorted({name for row in rows for name in extra_metrics(row["extra_metrics"])})
    measured = {name for row in rows for name, value in row.items() if value is not None}.union(further) - {*TIMINGS}
    listed = [name for name in dict.fromkeys([*METRICS, *asked_for, *own]) if name in measured]

    def field(name: str) -> Field[Row]:
        form = PER_CENT if metric_named(name).is_share else NUMBER
        return Column(name, form), lambda row: _metric(row, name)

    return list(map(field, listed or further[: len(METRICS)]))


def _metric(row: Row, name: str) -> float | None:
    extra = extra_metrics(row["extra_metrics"])
    value = extra.get(name, row.get(name))
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else None


_ALWAYS = {"baseline", "objective.q", "objective.m", "task.name", "model.name", "seed", "steps"}


def _differing(rows: Sequence[Row]) -> list[str]:
    """Paths of the entries without a column of their own that differ between trials of one task, its own first."""
    by_task: dict[str, list[Mapping[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        by_task[row["task"]].append(entries(row["spec"]))
    paths = {path for records in by_task.values() for path in varying(records)} - _ALWAYS
    return sorted(paths, key=lambda path: (not path.startswith("task."), path))


_SHARED = ("commit", "dirty", "lock_hash", "versions", "device", "command")


def trial_origins(rows: Iterable[Row]) -> tuple[Table, list[TrialKinds]]:
    """What made the trials, the newest first, and the kinds of the trials behind each row.

    Trials that share commit, versions, device and command are one row.
    """
    groups: dict[tuple[Any, ...], list[Row]] = collections.defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in _SHARED)].append(row)
    listed = sorted(groups.values(), key=lambda alike: max(map(ended, alike)), reverse=True)
    fields: tuple[Field[list[Row]], ...] = (
        (Column("commit", REVISION), lambda alike: (alike[0]["commit"], alike[0]["dirty"])),
        (Column("trials", COUNT), len),
        (Column("first start", MOMENT), lambda alike: min(_moments(alike, "started"), default=None)),
        (Column("last end", MOMENT), lambda alike: max(_moments(alike, "finished"), default=None)),
        (Column("device"), lambda alike: alike[0]["device"]),
        (Column("lock", CODE), lambda alike: (alike[0]["lock_hash"] or "")[:10]),
        (Column("versions"), lambda alike: _versions(alike[0]["versions"])),
        (Column("command", CODE), lambda alike: redacted(alike[0]["command"] or "")),
    )
    note = "“+ changes”: the files differed from the commit. The lock is the hash of the locked dependencies."
    return tabulated("What made the trials", fields, listed, note), [kinds_of(alike) for alike in listed]


def _moments(rows: Iterable[Row], name: str) -> list[datetime.datetime]:
    return [row[name] for row in rows if row[name]]


def _versions(text: str | None) -> str:
    try:
        return ", ".join(f"{name} {version}" for name, version in sorted(json.loads(text or "{}").items()))
    except (ValueError, AttributeError):
        return text or ""


def launches(starts: Mapping[str, Sequence[SweepRecord]]) -> Table:
    fields: tuple[Field[SweepRecord], ...] = (
        (Column("sweep"), lambda record: record.name),
        (Column("when", MOMENT), lambda record: moment(record.provenance.captured)),
        (Column("trials", COUNT), lambda record: len(record.trial_ids)),
        (Column("commit", REVISION), lambda record: (record.provenance.commit, record.provenance.dirty)),
        (Column("command", CODE), lambda record: redacted(record.provenance.command)),
    )
    return tabulated("Starts of sweeps", fields, [record for records in starts.values() for record in records])
