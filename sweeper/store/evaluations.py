"""Evaluations of stored networks by other protocols: rows of their own, one file for each trial and protocol.

    evaluations/task=<t>/baseline=<b>/<trial_id>-<protocol>.parquet

The file names the network by digest. An evaluation counts while the trial has the same network: when the trial has been
trained again, its old evaluations are ignored. An evaluation may be replaced, for instance by newer code. A damaged
file is moved to `quarantine/`, and the trial stays committed.
"""

import dataclasses
import datetime
import hashlib
import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from sweeper.store.files import DurableFiles, in_threads
from sweeper.store.schema import SCHEMA_VERSION, evaluated_trial, evaluation_file_name
from sweeper.store.seal import DamagedError, EvaluationSeal, row_of, sealed, set_aside, unsealed
from sweeper.store.store import Store
from sweeper.store.trial_file import finite, json_text
from sweeper.trial.provenance import Provenance
from sweeper.trial.record import Spec, canonical
from sweeper.trial.trial import Trial, trial_id

logger = logging.getLogger(__name__)

IN_FILE = pa.schema([
    ("trial_id", pa.string()), ("protocol", pa.string()), ("metrics", pa.string()), ("network", pa.string()),
    ("evaluation_seconds", pa.float64()), ("cpu_seconds", pa.float64()), ("peak_memory_bytes", pa.int64()),
    ("device", pa.string()), ("commit", pa.string()), ("dirty", pa.bool_()), ("lock_hash", pa.string()),
    ("versions", pa.string()), ("command", pa.string()), ("fingerprint", pa.string()),
    ("finished", pa.timestamp("us", tz="UTC")), ("schema_version", pa.int64()), ("arithmetic", pa.string()),
    ("sources", pa.string()),
])  # fmt: skip
"""Columns of an evaluation: `protocol` and `metrics` are JSON, `network` is the digest of the network."""


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """The result of an evaluation of the network with a digest, as a worker commits it; `costs` are
    `evaluation_seconds`, `cpu_seconds` and `peak_memory_bytes`."""

    trial: Trial
    protocol: Spec
    network: str
    metrics: Mapping[str, float]
    costs: Mapping[str, float]
    provenance: Provenance
    device: str
    finished: datetime.datetime
    arithmetic: str | None = None  # of the process that evaluated it


class StoredEvaluation(NamedTuple):
    """An evaluation in the store: its seal, its file, and its row with the columns `IN_FILE`."""

    seal: EvaluationSeal
    data: bytes
    row: pa.Table


def protocol_id(protocol: Spec) -> str:
    """Twenty hexadecimal digits that name a protocol."""
    return hashlib.sha256(json_text(canonical(protocol)).encode()).hexdigest()[:20]


def commit_evaluation(store: Store, result: EvaluationResult) -> None:
    """Publish an evaluation, in place of an earlier one of the same trial and protocol."""
    trial, fingerprint = result.trial, result.provenance.fingerprint(result.trial)
    seal = EvaluationSeal(
        trial_id=trial_id(trial),
        **trial.folder._asdict(),
        protocol=protocol_id(result.protocol),
        network=result.network,
        fingerprint=fingerprint,
    )
    row = {
        "trial_id": seal.trial_id,
        "protocol": json_text(canonical(result.protocol)),
        "metrics": json_text(finite(result.metrics)),
        "network": result.network,
        **result.costs,
        "device": result.device,
        "arithmetic": result.arithmetic,
        **result.provenance.columns(),
        "fingerprint": fingerprint,
        "finished": result.finished,
        "schema_version": SCHEMA_VERSION,
    }
    store.write_bytes(seal.name, evaluation_file(pa.Table.from_pylist([row], schema=IN_FILE), seal))


def evaluation_file(row: pa.Table, seal: EvaluationSeal) -> bytes:
    options = {"use_dictionary": False, "write_statistics": False, "compression": "none"}
    return sealed(row, seal, options)


def stored_evaluation(store: Store, trial: Trial, protocol: Spec) -> EvaluationSeal | None:
    """The seal of a trial's evaluation by a protocol; None if there is no sound evaluation."""
    name = evaluation_file_name(*trial.folder, trial_id(trial), protocol_id(protocol))
    data = store.read_bytes(name)
    try:
        return None if data is None else _sound(data, name).seal
    except DamagedError:
        return None


def stored_evaluations(store: Store, networks: Mapping[str, str | None]) -> list[StoredEvaluation]:
    """The evaluations of these networks, which are digests by trial id, in the order of their names.

    Damaged files are set aside, with one warning each.
    """
    names = []
    for name in sorted(store.files.listing("evaluations")):
        trial = evaluated_trial(name)
        if trial is None:
            logger.warning("%r is not a file of this store: ignored", name)
        elif trial in networks:
            names.append(name)
    found = in_threads(lambda name: _read(store.files, name), names)
    return [each for each in found if each is not None and each.seal.network == networks[each.seal.trial_id]]


def evaluations_table(evaluations: Iterable[StoredEvaluation]) -> pa.Table:
    return pa.concat_tables([IN_FILE.empty_table(), *(each.row for each in evaluations)]).combine_chunks()


def _read(files: DurableFiles, name: str) -> StoredEvaluation | None:
    """The evaluation of this name; None if it is gone, or damaged and set aside."""
    data = files.read(name)
    try:
        return None if data is None else _sound(data, name)
    except DamagedError as error:
        set_aside(files, name, error)
        return None


def _sound(data: bytes, name: str) -> StoredEvaluation:
    """The evaluation in a file; a damaged one is a `DamagedError`."""
    file = pa.BufferReader(data)
    return StoredEvaluation(unsealed(file, EvaluationSeal, name), data, row_of(file, IN_FILE, IN_FILE.names))
