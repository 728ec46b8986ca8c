"""How far the sweeps of a store are, and why trials of them failed.

The state of a sweep is the state of the trials that its latest start planned. Two sweeps that plan the same trial share
its row.
"""

import collections
import datetime
from collections.abc import Callable, Mapping, Sequence

from sweeper.analysis.table import COUNT, LONG, MOMENT, REVISION, Column, Field, Form, RecordT, Table, tabulated
from sweeper.messages import one_line
from sweeper.store.annotations import NO_ANNOTATIONS, Annotations
from sweeper.store.store import Status, Store, SweepRecord

STATES = ("finished", "stopped", "failed", "pending")

PROGRESS = Form(
    lambda counts: ", ".join(f"{count:,} {state}" for state, count in counts.items() if count), look="bar", drawn=True
)
"""Number of trials by state; the page draws it as a bar."""


def starts_by_name(records: Sequence[SweepRecord]) -> dict[str, list[SweepRecord]]:
    """The starts of every sweep, in the order in which the records are given."""
    starts: dict[str, list[SweepRecord]] = collections.defaultdict(list)
    for record in records:
        starts[record.name].append(record)
    return dict(starts)


def progress(record: SweepRecord, committed: Mapping[str, Status]) -> collections.Counter[Status | str]:
    """Number of planned trials by status, those without a row as `pending`."""
    return collections.Counter(committed.get(trial_id, "pending") for trial_id in record.trial_ids)


def overview(
    starts: Mapping[str, Sequence[SweepRecord]], committed: Mapping[str, Status], annotations: Mapping[str, Annotations]
) -> Table:
    """How far the latest start of every sweep is, with the tags and notes of the sweeps if there are any."""
    latest = [(name, records[-1], len(records)) for name, records in starts.items()]
    counts = {name: progress(record, committed) for name, record, _ in latest}

    def state_field(state: str) -> Field[tuple[str, SweepRecord, int]]:
        return Column(state, COUNT), lambda sweep: counts[sweep[0]][state]

    fields: tuple[Field[tuple[str, SweepRecord, int]], ...] = (
        (Column("sweep"), lambda sweep: sweep[0]),
        (Column("progress", PROGRESS), lambda sweep: {state: counts[sweep[0]][state] for state in STATES}),
        (Column("planned", COUNT), lambda sweep: len(sweep[1].trial_ids)),
        *map(state_field, STATES),
        (Column("starts", COUNT), lambda sweep: sweep[2]),
        (Column("last start", MOMENT), lambda sweep: moment(sweep[1].provenance.captured)),
        (Column("commit", REVISION), lambda sweep: (sweep[1].provenance.commit, sweep[1].provenance.dirty)),
        *annotation_fields(latest, lambda sweep: annotations.get(sweep[0], NO_ANNOTATIONS)),
    )
    note = "A sweep is as far as the trials that its latest start planned. Sweeps that plan the same trial share it."
    return tabulated("Sweeps", fields, latest, note)


def annotation_fields(
    records: Sequence[RecordT], annotations: Callable[[RecordT], Annotations]
) -> list[Field[RecordT]]:
    """Columns for the tags and the notes of records; a column that would be empty is left out."""
    every = [annotations(record) for record in records]
    fields: list[Field[RecordT]] = []
    if any(each.tags for each in every):
        fields.append((Column("tags"), lambda record: ", ".join(annotations(record).tags)))
    if any(each.notes for each in every):
        fields.append((Column("notes", LONG), lambda record: "\n".join(annotations(record).texts) or None))
    return fields


def moment(text: str) -> datetime.datetime | str:
    """The moment that a text spells; a text that spells none as it is."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return text


def failures(store: Store, record: SweepRecord, committed: Mapping[str, Status]) -> collections.Counter[str]:
    """Number of failed trials of a sweep by reason."""
    failed = [trial_id for trial_id in record.trial_ids if committed.get(trial_id) == "failed"]
    rows = store.trials(failed).select(["error_kind", "error_message"]).to_pylist() if failed else []
    return collections.Counter(_reason(row["error_kind"], row["error_message"]) for row in rows)


def _reason(kind: str | None, message: str | None) -> str:
    return ": ".join(part for part in (kind, one_line(message or "")) if part) or "no reason given"
