"""Starts of sweeps: numbered records that are never overwritten, and the lists of the trials that they planned.

sweeps/<name>/<number>-<random>.json     one start
sweeps/<name>/plans/<hash>.txt           trial ids, one a line; starts of an unchanged sweep share a list
"""

import hashlib
import json
import logging
import re
import secrets

from pydantic import BaseModel, ConfigDict

from sweeper.store.files import DurableFiles, StoreError
from sweeper.store.schema import SCHEMA_VERSION
from sweeper.store.sealed_parquet import check_version
from sweeper.trial.provenance import Provenance

logger = logging.getLogger(__name__)

_SWEEP = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
_START = re.compile(r"sweeps/([A-Za-z0-9_][\w.-]*)/(\d{6,})-[0-9a-f]{8}\.json", re.ASCII)


class SweepRecord(BaseModel):
    """One start of a sweep.

    Attributes:
        name: Name of the sweep: letters, digits, `_`, `-` and `.`.
        text: The search space as it was read.
        overrides: Entries replaced on the command line.
        trial_ids: All trials that the start asked for, done or not.
        provenance: Commit, command and time of the start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    text: str
    overrides: tuple[str, ...]
    trial_ids: tuple[str, ...]
    provenance: Provenance


def write_record(files: DurableFiles, record: SweepRecord) -> None:
    """Add one start to the history of the sweep that the record names.

    Raises:
        StoreError: the name cannot be the name of a folder, or the store cannot be written.
    """
    if not _SWEEP.fullmatch(record.name):
        raise StoreError(f"{record.name!r} cannot name a sweep: letters, digits, '_', '-' and '.' only")
    folder = f"sweeps/{record.name}"
    plan = "\n".join(record.trial_ids).encode()
    plan_hash = _hash(plan)
    files.write(f"{folder}/plans/{plan_hash}.txt", plan)
    entry = {"schema_version": SCHEMA_VERSION, **record.model_dump(exclude={"trial_ids"}), "plan": plan_hash}
    # Numbers order the starts, since clocks jump; the random part keeps two drivers that start at once apart.
    starts = map(_START.fullmatch, files.listing(folder))
    number = max((int(start[2]) for start in starts if start), default=0) + 1
    data = json.dumps(entry, indent=1).encode()
    files.write(f"{folder}/{number:06d}-{secrets.token_hex(4)}.json", data)


def read_records(files: DurableFiles) -> list[SweepRecord]:
    """Every start of every sweep, by name and then in order; a record that cannot be read is left out with a warning.

    Raises:
        StoreError: the store cannot be read, or a newer version of this program wrote it.
    """
    records = []
    for name in sorted(files.listing("sweeps")):
        if start := _START.fullmatch(name):
            try:
                records.append(_record(files, name, start[1]))
            except (ValueError, KeyError, TypeError) as error:
                logger.warning("%r is not the record of a sweep: %s", name, error)
    return records


def _record(files: DurableFiles, name: str, sweep: str) -> SweepRecord:
    entry = json.loads(files.read(name) or b"")
    version, plan_hash = entry.pop("schema_version"), entry.pop("plan")
    check_version(version, name)
    plan = files.read(f"sweeps/{sweep}/plans/{plan_hash}.txt")
    if plan is None or _hash(plan) != plan_hash:
        raise ValueError("its list of planned trials is missing or damaged")
    fields = {**entry, "overrides": tuple(entry["overrides"]), "trial_ids": tuple(plan.decode().split())}
    return SweepRecord.model_validate(fields)


def _hash(plan: bytes) -> str:
    return hashlib.sha256(plan).hexdigest()[:20]
