"""How far the sweeps of a store are, why trials of them failed or are not finished, and which drivers run.

The state of a sweep is the state of the trials that its latest start planned. Two sweeps that plan the same trial share
its row.
"""

import collections
import datetime
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from pydantic_core import from_json

from sweeper.analysis.table import revision_text
from sweeper.events import TrialsLost
from sweeper.listeners.heartbeats import Driver
from sweeper.messages import counted, duration, inflected, one_line, printable
from sweeper.store.annotations import NO_ANNOTATIONS, Annotations
from sweeper.store.store import Status, Store, SweepRecord
from sweeper.tables import table, value_text
from sweeper.trial.entry_names import column_name, entries, varying

STATES = ("finished", "stopped", "failed", "pending")


def starts_by_name(records: Sequence[SweepRecord]) -> dict[str, list[SweepRecord]]:
    starts: dict[str, list[SweepRecord]] = {}
    for record in records:
        starts.setdefault(record.name, []).append(record)
    return starts


def overview(
    starts: Mapping[str, Sequence[SweepRecord]], committed: Mapping[str, Status], annotations: Mapping[str, Annotations]
) -> pd.DataFrame:
    """How far the latest start of every sweep is, with the tags and notes of the sweeps if there are any."""
    rows = []
    for name, records in starts.items():
        counts = collections.Counter(committed.get(trial_id, "pending") for trial_id in records[-1].trial_ids)
        start = records[-1].provenance
        rows.append(
            {"sweep": name, "planned": len(records[-1].trial_ids), **{state: counts[state] for state in STATES}}
            | {"starts": len(records), "last start": datetime.datetime.fromisoformat(start.captured)}
            | {"commit": revision_text(start.commit, start.dirty)}
        )
    formats = {"last start": "moment", "commit": "code", "notes": "long"}
    formats |= dict.fromkeys(("planned", *STATES, "starts"), "count")
    return table(rows, formats=formats).assign(**annotation_columns(annotations.get(name) for name in starts))


def annotation_columns(annotations: Iterable[Annotations | None]) -> dict[str, pd.Series]:
    """The tags and the notes of all rows; a column that would be empty is left out."""
    every = [each or NO_ANNOTATIONS for each in annotations]
    columns = {
        "tags": pd.Series([", ".join(each.tags) for each in every], dtype=object),
        "notes": pd.Series(["\n".join(each.notes) or None for each in every], dtype=object),
    }
    return {head: cells for head, cells in columns.items() if cells.any()}


def remarks(store: Store, starts: Mapping[str, Sequence[SweepRecord]], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines about the sweeps: why trials failed, what is odd about their numbers, and trials that no sweep plans.

    `rows` are those of all trials of the store, with `trial_id`, `status`, and the columns of `odd_numbers`.
    """
    lines, unplanned = [], {row["trial_id"]: row for row in rows}
    every = dict(unplanned)
    for name, records in starts.items():
        own = [every[key] for key in records[-1].trial_ids if key in every]
        failures = _failures(store, [row["trial_id"] for row in own if row["status"] == "failed"])
        lines += [f"{name}: {count:,} failed: {reason}" for reason, count in failures.most_common()]
        lines += [f"{name}: {line}" for line in odd_numbers(own)]
        for key in records[-1].trial_ids:
            unplanned.pop(key, None)
    if unplanned:
        verb = inflected(len(unplanned), "is", "are")
        lines.append(f"{counted(len(unplanned), 'committed trial')} {verb} not, or no longer, planned by a sweep")
    return lines


def _failures(store: Store, failed: Sequence[str]) -> collections.Counter[str]:
    rows = store.trials(failed).select(["error_kind", "error_message", "error_step"]).to_pylist() if failed else []
    return collections.Counter(map(one_line, map(_reason, rows)))


def _reason(row: Mapping[Any, Any]) -> str:
    """Why a trial failed, in the same words for all steps."""
    kind, message, step = row["error_kind"] or "", row["error_message"] or "", row["error_step"]
    if step is not None and math.isfinite(step):
        message = message.replace(f" at step {step:.0f}", "")
    return message if message.startswith(kind) else ": ".join(filter(None, (kind, message))) or "no reason given"


def odd_numbers(rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Lines about trials of several programs, data or arithmetics (docs/architecture.md), and metrics not finite.

    The rows have the columns `ODD`.
    """
    lines = [
        f"{words} by one code, so that trials of one setting are not alike: {'; '.join(parts)}"
        for column, words in (("programs", "computed with several programs"), ("data", "trained on several data"))
        if (parts := _several(rows, column))
    ]
    counts = collections.Counter(row["arithmetic"] for row in rows if isinstance(row["arithmetic"], str))
    if len({digest for each in counts for digest in each.split()}) > 1:
        parts = [f"{counted(count, 'trial')} by {', then '.join(each.split())}" for each, count in counts.most_common()]
        lines.append(f"computed with several arithmetics, so that last bits differ: {printable('; '.join(parts))}")
    trials: dict[str, list[str]] = {}
    for row in rows:
        for name, value in from_json(row["extra_metrics"]).items():
            if value is None:
                trials.setdefault(name, []).append(row["trial_id"])
    parts = [
        f"{name} was not finite in {counted(len(of), 'trial')} ({of[0]}{f' and {len(of) - 1:,} more' * (len(of) > 1)})"
        for name, of in sorted(trials.items(), key=lambda item: -len(item[1]))[:MAX_REASONS]
    ]
    return [*lines, *(f"{printable(part)}, and is null there" for part in parts)]


ODD = ("trial_id", "fingerprint", "programs", "data", "device", "arithmetic", "extra_metrics")
"""The columns of `odd_numbers`."""


def _several(rows: Sequence[Mapping[Any, Any]], column: str) -> list[str]:
    """How many trials have which digest, of those whose structure, code and device others share with another digest."""
    groups: dict[Any, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row in rows:
        if isinstance(row["programs"], str) and isinstance(row[column], str):
            structure = row["programs"].partition("-")[0]
            groups[row["fingerprint"], structure, row["device"]][row[column]] += 1
    odd = [counts for counts in groups.values() if len(counts) > 1]
    return [
        f"{counted(count, 'trial')} by {printable(digest.rpartition('-')[2])}"
        for digest, count in sum(odd, collections.Counter[str]()).most_common()
    ]


MAX_REASONS = 20  # largest number of reasons that are printed, the most frequent first
_NO_ROW = "no row, although its worker reported the end"
_EARLY = "stopped early by another sweep, and not run to the end"


def unfinished(
    planned: Iterable[str], rows: pd.DataFrame, done: Collection[str], lost: Iterable[TrialsLost], early: str | None
) -> dict[str, list[str]]:
    """The planned trials that are not finished when a start ends, by the reason for it.

    `done` are the statuses, beside "finished", with which the sweep does not run a trial again. A trial that workers
    have `lost` and that has a row by now is not unfinished. `early` says why the start ended before all were run.
    """
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    explained = set(rows.loc[rows["status"].isin(["finished", *done]), "trial_id"])
    for row in rows[rows["status"] == "failed"].to_dict("records"):
        reasons[_reason(row)].append(row["trial_id"])
        explained.add(row["trial_id"])
    stopped = rows.loc[rows["status"] == "stopped", "trial_id"]
    further = early or _NO_ROW
    losses = [(loss.trial_ids, loss.reason) for loss in lost]
    for trial_ids, reason in (*losses, (stopped, _EARLY), (planned, further)):
        if left := [trial_id for trial_id in trial_ids if trial_id not in explained]:
            reasons[reason] += left
            explained.update(left)
    return dict(reasons)


def unfinished_lines(reasons: Mapping[str, Sequence[str]], rows: pd.DataFrame) -> list[str]:
    """A line for each reason, with the number of trials, what the failed ones share, and the id of the first.

    `rows` are those of all trials of the sweep that have one.
    """
    lines = []
    for reason, trial_ids in sorted(reasons.items(), key=lambda item: -len(item[1]))[:MAX_REASONS]:
        more = f" and {len(trial_ids) - 1:,} more" if len(trial_ids) > 1 else ""
        said = printable(", ".join([reason, *_shared(trial_ids, rows)]))
        lines.append(f"{len(trial_ids):,} x {said} (trial {trial_ids[0]}{more})")
    return lines


def _shared(trial_ids: Sequence[str], rows: pd.DataFrame) -> list[str]:
    """At which steps trials failed, and the entries that they share and others do not: "all model = transformer"."""
    own = rows["trial_id"].isin(trial_ids) & (rows["status"] == "failed")
    if not own.any():
        return []
    steps = rows["error_step"][own].dropna().astype(int)
    ends = [f"{step:,}" for step in sorted({steps.min(), steps.max()})] if len(steps) else []
    parts = [f"{inflected(len(ends), 'step', 'steps')} {' to '.join(ends)}"] if ends else []
    if own.sum() > 1:
        records = [entries(spec) for spec in rows["spec"]]
        failed = [record for record, is_own in zip(records, own, strict=True) if is_own]
        for path in varying(records):
            values = {record.get(path) for record in failed}
            if len(values) == 1:
                parts.append(f"all {column_name(path)} = {value_text(*values)}")
    return parts


LONGEST_LEFT = 365 * 86400.0  # seconds; of a longer time nobody reads the hour of its end


def sentence(driver: Driver) -> str:
    heartbeat = driver.heartbeat
    where = f"on {heartbeat.place}"
    if not driver.lives:
        # A program of Python that calls `sweeper.train` is no command of ours.
        again = "the same program" if heartbeat.command.startswith("sweeper.") else "this command"
        carry = f"what it has committed stays; {again} carries on: {heartbeat.command}"
        silent = "has died" if heartbeat.has_died else f"has given no heartbeat for {duration(driver.age)}"
        return f"{driver.sweep}: the driver {where} {silent}; {carry}"
    line = printable(heartbeat.line)
    return f"{driver.sweep}: {heartbeat.state} {where} · {line}{_clock(heartbeat.seconds_left)}"


def _clock(seconds_left: float | None) -> str:
    """When that will be, by the clock of the reader, such as " (20:14)"; the day too if it is another."""
    if not seconds_left or seconds_left > LONGEST_LEFT:
        return ""
    now = datetime.datetime.now()
    end = now + datetime.timedelta(seconds=seconds_left)
    return f" ({end:%H:%M})" if end.date() == now.date() else f" ({end:%a %d %b %H:%M})"


def packs_table(drivers: Iterable[Driver]) -> pd.DataFrame:
    """The running packs of the drivers that live."""
    rows = [{"sweep": driver.sweep} | pack for driver in drivers if driver.lives for pack in driver.heartbeat.packs]
    if not any(row["nothing new for"] for row in rows):
        rows = [{name: value for name, value in row.items() if name != "nothing new for"} for row in rows]
    formats = {"lanes": "count", "step": "count", "of": "count", "loss": "number", "nothing new for": "seconds"}
    return table(rows, formats=formats)
