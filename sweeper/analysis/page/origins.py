"""Where the trials of the page come from: commits, versions, devices and commands, and the starts of the sweeps."""

import collections
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sweeper.analysis.page.trial_filter import Row, TrialKinds, kinds_of
from sweeper.analysis.sweeps import moment
from sweeper.analysis.table import CODE, COUNT, MOMENT, REVISION, Column, Field, Table, tabulated
from sweeper.messages import redacted
from sweeper.store.store import SweepRecord

_SHARED = ("commit", "dirty", "lock_hash", "versions", "device", "command")


class Origin(NamedTuple):
    """Trials that share commit, versions, device and command."""

    shared: Mapping[str, Any]
    rows: tuple[Row, ...]

    def first_start(self) -> datetime.datetime | None:
        """When the first of the trials began."""
        return min((row["started"] for row in self.rows if row["started"]), default=None)

    def last_end(self) -> datetime.datetime | None:
        """When the last of the trials ended."""
        return max((row["finished"] for row in self.rows if row["finished"]), default=None)


def trial_origins(rows: Iterable[Row]) -> tuple[Table, list[TrialKinds]]:
    """What made the trials, the newest first, and the kinds of the trials behind each row."""
    groups: dict[tuple[Any, ...], list[Row]] = collections.defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in _SHARED)].append(row)
    listed = [Origin(dict(zip(_SHARED, key, strict=True)), tuple(members)) for key, members in groups.items()]
    listed.sort(key=lambda origin: end.timestamp() if (end := origin.last_end()) else 0.0, reverse=True)
    fields: tuple[Field[Origin], ...] = (
        (Column("commit", REVISION), lambda origin: (origin.shared["commit"], origin.shared["dirty"])),
        (Column("trials", COUNT), lambda origin: len(origin.rows)),
        (Column("first start", MOMENT), Origin.first_start),
        (Column("last end", MOMENT), Origin.last_end),
        (Column("device"), lambda origin: origin.shared["device"]),
        (Column("lock", CODE), lambda origin: (origin.shared["lock_hash"] or "")[:10]),
        (Column("versions"), lambda origin: _versions(origin.shared["versions"])),
        (Column("command", CODE), lambda origin: redacted(origin.shared["command"] or "")),
    )
    note = "“+ changes”: the files differed from the commit. The lock is the hash of the locked dependencies."
    return tabulated("What made the trials", fields, listed, note), [kinds_of(origin.rows) for origin in listed]


def _versions(text: str | None) -> str:
    try:
        return ", ".join(f"{name} {version}" for name, version in sorted(json.loads(text or "{}").items()))
    except (ValueError, AttributeError):
        return text or ""


def launches(starts: Mapping[str, Sequence[SweepRecord]]) -> Table:
    """Every start of every sweep, with its command."""
    fields: tuple[Field[SweepRecord], ...] = (
        (Column("sweep"), lambda record: record.name),
        (Column("when", MOMENT), lambda record: moment(record.provenance.captured)),
        (Column("trials", COUNT), lambda record: len(record.trial_ids)),
        (Column("commit", REVISION), lambda record: (record.provenance.commit, record.provenance.dirty)),
        (Column("command", CODE), lambda record: redacted(record.provenance.command)),
    )
    return tabulated("Starts of sweeps", fields, [record for records in starts.values() for record in records])
