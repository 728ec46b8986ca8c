"""Evaluations of stored networks by other protocols: rows of their own, one file for each trial and protocol.

    evaluations/task=<t>/baseline=<b>/<trial_id>-<protocol>.parquet

The file names the network by digest. An evaluation counts while the trial's row names the same network: when the trial
has been trained again, its old evaluations are ignored. An evaluation may be replaced, for instance by newer code. A
damaged file is moved to `quarantine/`, and the trial stays committed.
"""

import dataclasses
import datetime
import hashlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import from_json

from sweeper.store.committed_rows import LARGEST_ROW, Entry
from sweeper.store.decoded_size import ROWS_LIMIT, decoded_bytes
from sweeper.store.file_names import is_evaluation_name
from sweeper.store.files import DurableFiles
from sweeper.store.quarantine import EvaluationDamage
from sweeper.store.rows import ENCODINGS, json_text, spelt_out
from sweeper.store.schema import SCHEMA_VERSION
from sweeper.store.seal import DamagedError, EvaluationSeal
from sweeper.store.sealed_parquet import sealed, unsealed_evaluation
from sweeper.store.store import Store
from sweeper.store.threads import in_threads
from sweeper.trial.provenance import Provenance
from sweeper.trial.record import canonical
from sweeper.trial.trial_spec import Evaluation, TrialSpec, trial_id

logger = logging.getLogger(__name__)

IN_FILE = pa.schema([
    ("trial_id", pa.string()), ("protocol", pa.string()), ("metrics", pa.string()), ("network", pa.string()),
    ("evaluation_seconds", pa.float64()), ("cpu_seconds", pa.float64()), ("peak_memory_bytes", pa.int64()),
    ("device", pa.string()), ("commit", pa.string()), ("dirty", pa.bool_()), ("lock_hash", pa.string()),
    ("versions", pa.string()), ("command", pa.string()), ("fingerprint", pa.string()),
    ("finished", pa.timestamp("us", tz="UTC")), ("schema_version", pa.int64()),
])  # fmt: skip
"""Columns of an evaluation: `protocol` and `metrics` are JSON, `network` is the digest of the network's file."""


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """The result of an evaluation, as a worker commits it.

    Attributes:
        trial: The trial.
        protocol: How its network was evaluated.
        network: Digest of the network.
        metrics: Value by name.
        costs: `evaluation_seconds`, `cpu_seconds` and `peak_memory_bytes`.
        provenance: Where the result comes from.
        device: The device of the evaluation.
        finished: Time at which the evaluation ended.
    """

    trial: TrialSpec
    protocol: Evaluation
    network: str
    metrics: Mapping[str, float]
    costs: Mapping[str, float]
    provenance: Provenance
    device: str
    finished: datetime.datetime


class StoredEvaluation(NamedTuple):
    """An evaluation in the store.

    Attributes:
        seal: The seal of its file.
        data: The bytes of its file.
    """

    seal: EvaluationSeal
    data: bytes


def protocol_id(protocol: Evaluation) -> str:
    """Twenty hexadecimal digits that name a protocol."""
    return _id_of_text(_protocol_text(protocol))


def _protocol_text(protocol: Evaluation) -> str:
    return json_text(canonical(protocol))


def _id_of_text(protocol: str) -> str:
    return hashlib.sha256(protocol.encode()).hexdigest()[:20]


def commit_evaluation(store: Store, result: EvaluationResult) -> None:
    """Publish an evaluation, in place of an earlier one of the same trial and protocol.

    Raises:
        StoreError: the store cannot be written.
    """
    trial, fingerprint = result.trial, result.provenance.fingerprint(result.trial)
    seal = EvaluationSeal(
        "evaluations", SCHEMA_VERSION, trial_id(trial), trial.task.name, trial.baseline, protocol_id(result.protocol),
        result.network, fingerprint,
    )  # fmt: skip
    row = {
        "trial_id": seal.trial_id,
        "protocol": _protocol_text(result.protocol),
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
    table = pa.Table.from_pylist([row], schema=IN_FILE)
    store.write_bytes(f"evaluations/{seal.name}", sealed([table], seal, ENCODINGS["trials"](table)).data)


def stored_evaluation(store: Store, trial: TrialSpec, protocol: Evaluation) -> EvaluationSeal | None:
    """The seal of a trial's evaluation by a protocol; None if there is no sound evaluation."""
    seal = EvaluationSeal(
        "evaluations", SCHEMA_VERSION, trial_id(trial), trial.task.name, trial.baseline, protocol_id(protocol), "", None
    )
    data = store.read_bytes(f"evaluations/{seal.name}")
    try:
        return None if data is None else unsealed_evaluation(data, seal.name)
    except DamagedError:
        return None


def stored_evaluations(store: Store, entries: Iterable[Entry]) -> list[StoredEvaluation]:
    """The evaluations of the networks that the rows of these trials name, in the order of their names.

    Damaged files are set aside, with one warning each.

    Raises:
        StoreError: the store cannot be read.
    """
    networks = {entry.seal.trial_id: entry.seal.networks.digest for entry in entries if entry.seal.networks is not None}
    listed = store.files.listing("evaluations")
    names, damages = [], []
    for path, state in sorted(listed.items()):
        name = path.removeprefix("evaluations/")
        if not is_evaluation_name(name):
            logger.warning("%r is not a file of this store: ignored", path)
        elif state.size > LARGEST_ROW:
            damages.append(EvaluationDamage(name, f"has {state.size:,} bytes, too many for an evaluation"))
        else:
            names.append(name)
    evaluations = []
    for reading in in_threads(lambda name: _read(store.files, name), names):
        if isinstance(reading, EvaluationDamage):
            damages.append(reading)
        elif reading is not None and reading.seal.network == networks.get(reading.seal.trial_id):
            evaluations.append(reading)
    store.set_aside_evaluations(damages)
    return evaluations


def evaluations_table(store: Store, evaluations: Iterable[StoredEvaluation]) -> pa.Table:
    """The rows of evaluations, with the columns of `IN_FILE`; damaged files are set aside and left out."""
    rows = in_threads(_decoded, list(evaluations))
    store.set_aside_evaluations([row for row in rows if isinstance(row, EvaluationDamage)])
    tables = [row for row in rows if isinstance(row, pa.Table)]
    return pa.concat_tables([IN_FILE.empty_table(), *tables]).combine_chunks()


def _read(files: DurableFiles, name: str) -> StoredEvaluation | EvaluationDamage | None:
    """The evaluation of this name; None if it is gone."""
    data = files.read(f"evaluations/{name}")
    if data is None:
        return None
    try:
        return StoredEvaluation(unsealed_evaluation(data, name), data)
    except DamagedError as error:
        return EvaluationDamage(name, str(error))


def _decoded(evaluation: StoredEvaluation) -> pa.Table | EvaluationDamage:
    """The row of an evaluation; a damage if it cannot be decoded, or disagrees with the seal."""
    seal = evaluation.seal
    try:
        file = pq.ParquetFile(pa.BufferReader(evaluation.data))
        size = decoded_bytes(file.metadata)
        if size > ROWS_LIMIT:
            raise DamagedError(f"would take {size:,} bytes, too many for a row")
        table = file.read(use_threads=False).replace_schema_metadata(None).select(IN_FILE.names)
        (row,) = table.cast(IN_FILE).to_pylist()
        if row["trial_id"] != seal.trial_id or row["network"] != seal.network:
            raise DamagedError("has another trial or network than its seal")
        text = row["protocol"]
        if _id_of_text(text) != seal.protocol:
            raise DamagedError("has another protocol than its seal")
        if not _is_mapping(text) or not _is_mapping(row["metrics"]):
            raise DamagedError("has no readable protocol or metrics")
        return table.cast(IN_FILE)
    except (DamagedError, pa.ArrowException, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return EvaluationDamage(seal.name, str(error))


def _is_mapping(text: Any) -> bool:
    return isinstance(from_json(text), dict)
