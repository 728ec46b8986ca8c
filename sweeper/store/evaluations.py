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
import pyarrow.parquet as pq
from pydantic_core import from_json

from sweeper.store.files import DurableFiles, in_threads
from sweeper.store.schema import SCHEMA_VERSION, evaluated_trial, evaluation_file_name
from sweeper.store.seal import LARGEST_TAIL, DamagedError, EvaluationSeal, proven_whole, sealed, set_aside
from sweeper.store.store import Store
from sweeper.store.trial_file import ROW_LIMIT, json_text, spelt_out
from sweeper.trial.provenance import Provenance
from sweeper.trial.record import canonical
from sweeper.trial.trial import trial_id
from sweeper.trial.trial_spec import Evaluation, TrialSpec

logger = logging.getLogger(__name__)

IN_FILE = pa.schema([
    ("trial_id", pa.string()), ("protocol", pa.string()), ("metrics", pa.string()), ("network", pa.string()),
    ("evaluation_seconds", pa.float64()), ("cpu_seconds", pa.float64()), ("peak_memory_bytes", pa.int64()),
    ("device", pa.string()), ("commit", pa.string()), ("dirty", pa.bool_()), ("lock_hash", pa.string()),
    ("versions", pa.string()), ("command", pa.string()), ("fingerprint", pa.string()),
    ("finished", pa.timestamp("us", tz="UTC")), ("schema_version", pa.int64()),
])  # fmt: skip
"""Columns of an evaluation: `protocol` and `metrics` are JSON, `network` is the digest of the network."""


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """The result of an evaluation of the network with a digest, as a worker commits it; `costs` are
    `evaluation_seconds`, `cpu_seconds` and `peak_memory_bytes`."""

    trial: TrialSpec
    protocol: Evaluation
    network: str
    metrics: Mapping[str, float]
    costs: Mapping[str, float]
    provenance: Provenance
    device: str
    finished: datetime.datetime


class StoredEvaluation(NamedTuple):
    """An evaluation in the store: its seal, its file, and its row with the columns `IN_FILE`."""

    seal: EvaluationSeal
    data: bytes
    row: pa.Table


def protocol_id(protocol: Evaluation) -> str:
    """Twenty hexadecimal digits that name a protocol."""
    return _id_of_text(json_text(canonical(protocol)))


def _id_of_text(protocol: str) -> str:
    return hashlib.sha256(protocol.encode()).hexdigest()[:20]


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
        "metrics": json_text(spelt_out({name: float(value) for name, value in result.metrics.items()})),
        "network": result.network,
        **result.costs,
        "device": result.device,
        **result.provenance.model_dump(include={"commit", "dirty", "lock_hash", "command"}),
        "versions": json_text(result.provenance.versions),
        "fingerprint": fingerprint,
        "finished": result.finished,
        "schema_version": SCHEMA_VERSION,
    }
    store.write_bytes(seal.name, evaluation_file(pa.Table.from_pylist([row], schema=IN_FILE), seal))


def evaluation_file(row: pa.Table, seal: EvaluationSeal) -> bytes:
    options = {"use_dictionary": False, "write_statistics": False, "compression": "none"}
    return sealed(row, seal, options, first_of_tail="trial_id")


def stored_evaluation(store: Store, trial: TrialSpec, protocol: Evaluation) -> EvaluationSeal | None:
    """The seal of a trial's evaluation by a protocol; None if there is no sound evaluation."""
    name = evaluation_file_name(*trial.folder, trial_id(trial), protocol_id(protocol))
    data = store.read_bytes(name)
    try:
        return None if data is None else proven_whole(data, EvaluationSeal, name)
    except DamagedError:
        return None


def stored_evaluations(store: Store, networks: Mapping[str, str | None]) -> list[StoredEvaluation]:
    """The evaluations of these networks, which are digests by trial id, in the order of their names.

    Damaged files are set aside, with one warning each.
    """
    names = []
    for name, state in sorted(store.files.listing("evaluations").items()):
        trial = evaluated_trial(name)
        if trial is None:
            logger.warning("%r is not a file of this store: ignored", name)
        elif state.size > LARGEST_TAIL:
            set_aside(store.files, name, f"has {state.size:,} bytes, too many for an evaluation")
        elif trial in networks:
            names.append(name)
    found = in_threads(lambda name: _read(store.files, name), names)
    return [each for each in found if each is not None and each.seal.network == networks[each.seal.trial_id]]


def evaluations_table(evaluations: Iterable[StoredEvaluation]) -> pa.Table:
    return pa.concat_tables([IN_FILE.empty_table(), *(each.row for each in evaluations)]).combine_chunks()


def _read(files: DurableFiles, name: str) -> StoredEvaluation | None:
    """The evaluation of this name; None if it is gone, or damaged and set aside."""
    data = files.read(name)
    if data is None:
        return None
    try:
        seal = proven_whole(data, EvaluationSeal, name)
        return StoredEvaluation(seal, data, _decoded(data, seal))
    except (DamagedError, pa.ArrowException, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        set_aside(files, name, error)
        return None


def _decoded(data: bytes, seal: EvaluationSeal) -> pa.Table:
    """The row of an evaluation. A row that disagrees with the seal is a `DamagedError`; pyarrow's errors pass."""
    file = pq.ParquetFile(pa.BufferReader(data))
    group = file.metadata.row_group(0) if file.metadata.num_row_groups == 1 else None
    if file.metadata.num_rows != 1 or group is None or group.total_byte_size > ROW_LIMIT:
        raise DamagedError("is no single row, or has too many bytes")
    table = file.read(IN_FILE.names, use_threads=False).replace_schema_metadata(None).select(IN_FILE.names)
    (row,) = table.cast(IN_FILE).to_pylist()
    if row["trial_id"] != seal.trial_id or row["network"] != seal.network:
        raise DamagedError("has another trial or network than its seal")
    if _id_of_text(row["protocol"]) != seal.protocol:
        raise DamagedError("has another protocol than its seal")
    if not all(isinstance(from_json(row[name]), dict) for name in ("protocol", "metrics")):
        raise DamagedError("has no readable protocol or metrics")
    return table.cast(IN_FILE)
