"""How far the sweeps of a store are, and why trials of them failed."""

import collections
from collections.abc import Mapping

from sweeper.store.store import Status, Store, SweepRecord


def progress(record: SweepRecord, committed: Mapping[str, Status]) -> collections.Counter[Status | str]:
    """Number of planned trials by status, those without a row as `pending`."""
    return collections.Counter(committed.get(trial_id, "pending") for trial_id in record.trial_ids)


def failures(store: Store, record: SweepRecord, committed: Mapping[str, Status]) -> collections.Counter[str]:
    """Number of failed trials of a sweep by reason."""
    failed = [trial_id for trial_id in record.trial_ids if committed.get(trial_id) == "failed"]
    rows = store.trials(failed).select(["error_kind", "error_message"]).to_pylist() if failed else []
    return collections.Counter(_reason(row["error_kind"], row["error_message"]) for row in rows)


def _reason(kind: str | None, message: str | None) -> str:
    lines = (message or "").strip().splitlines()
    return ": ".join(part for part in (kind, lines[0] if lines else None) if part) or "no reason given"
