"""The file of a trial: from the result that a worker commits to one parquet file, and from its columns back to values.

The file has one row (`schema.TRIAL_FILE`): the network and the outcomes, which are large, then the curves and the
columns of `trials`, so that most readers need the end of the file alone.
"""

import dataclasses
import datetime
import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import safetensors
import safetensors.numpy
from safetensors import SafetensorError

from sweeper.events import Status
from sweeper.store.schema import (
    CURVES,
    CURVES_COLUMN,
    EVALUATION_FILE,
    METRICS_COLUMN,
    NETWORK_COLUMN,
    OUTCOMES_COLUMN,
    ROW,
    SCHEMA_VERSION,
    TRIAL_FILE,
)
from sweeper.store.seal import TrialSeal, sealed
from sweeper.trial.columns import METRICS, TIMINGS
from sweeper.trial.provenance import Provenance, without_folders
from sweeper.trial.record import Spec, canonical
from sweeper.trial.trial import Trial, trial_id

LARGEST_NETWORK = 2**30  # bytes of the largest network that is kept

_KEYS = ["outcomes.key_value.key", "curves.key_value.key", "metrics.key_value.key"]
_METRIC = "metrics.key_value.value"
_JSON = ["spec", "extra_metrics", "versions"]
_OUTCOME = "outcomes.key_value.value.list.element"
_POINT = "curves.key_value.value.list.element"
POINT_ENCODING = {f"{_POINT}.step": "DELTA_BINARY_PACKED", f"{_POINT}.value": "BYTE_STREAM_SPLIT"}
"""How the points of curves are encoded, by the path of their columns."""


# Write


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialResult:
    """The result of a trial, or of an evaluation of its network by another protocol, as a worker commits it."""

    trial: Trial
    # Of an evaluation: the seal of the trial whose network was evaluated; `trial` then has the other protocol
    of: TrialSeal | None = None
    status: Status
    # Those in `METRICS` get a column; null is stored of one that is not finite
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    curves: Sequence[tuple[int, str, float]] = ()  # step, metric and value of every point
    # Values by name, one for every evaluation input in order, stored in single precision; None if they are not kept
    outcomes: Mapping[str, np.ndarray] | None = None
    network: Mapping[str, np.ndarray] | None = None  # the weights of the network by name; None if they are not kept
    timings: Mapping[str, float] = dataclasses.field(default_factory=dict)  # some or all of `TIMINGS`
    # For a failed trial: its `kind`, `message` and `step` (None if it failed outside of training)
    error: Mapping[str, Any] | None = None
    provenance: Provenance  # where the result comes from
    pack_id: str
    lanes: int  # number of trials that one program trained at once
    device: str  # the device of the training, such as "cpu" or "NVIDIA H100"
    # Digests of the arithmetics of the processes that trained it, with spaces in between; None if none could be asked
    arithmetic: str | None = None
    programs: str | None = None  # digest of the programs that made it, constants included; None where none was built
    data: str | None = None  # digest of the arrays that the experiment's `data` gave
    started: datetime.datetime  # when the work on the trial began, with a time zone
    finished: datetime.datetime  # when it ended

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.timings) - set(TIMINGS)):
            raise ValueError(f"unknown timings {unknown}; known are {', '.join(TIMINGS)}")
        if (self.status == "failed") != (self.error is not None):
            raise ValueError(f"a trial has an error if and only if it failed, not {self.status} with {self.error}")


def trial_file(result: TrialResult) -> tuple[TrialSeal, bytes]:
    """The file of a result, and its seal; a `ValueError` about a network that cannot be kept."""
    if result.of is not None:
        return _evaluation(result, result.of)
    trial, key = result.trial, trial_id(result.trial)
    network = None if result.network is None else network_bytes(result.network)
    outcomes = {} if result.outcomes is None else _outcomes(result.outcomes)
    seal = TrialSeal(
        trial_id=key,
        **trial.folder._asdict(),
        status=result.status,
        steps=int(result.timings.get("steps_done", 0)),
        fingerprint=result.provenance.fingerprint(trial),
        outcomes=tuple(outcomes),
        network=None if network is None else network_digest(network),
    )
    return seal, sealed_row(seal, _row(key, result), _curves(result.curves), outcomes, network)


def _evaluation(result: TrialResult, of: TrialSeal) -> tuple[TrialSeal, bytes]:
    protocol = result.trial.protocol
    seal = evaluation_seal(of, protocol, result.provenance.fingerprint(result.trial))
    own = {
        "protocol": json_text(canonical(protocol)),
        "metrics": json_text(finite(result.metrics)),
        "network": of.network,
        "quantiles": [(name, quantiles(values)) for name, values in (result.outcomes or {}).items()],
    }
    return seal, sealed_evaluation(seal, pa.Table.from_pylist([_row(of.trial_id, result) | own], EVALUATION_FILE))


QUANTILES = 1000
"""Most quantiles that an evaluation keeps of an outcome."""


def quantiles(values: np.ndarray) -> np.ndarray:
    """The values of an outcome over the inputs, rising; of many inputs quantiles, each for an equal share of them."""
    if len(values) <= QUANTILES:
        return np.sort(values)
    return np.quantile(values, (np.arange(QUANTILES) + 0.5) / QUANTILES)


def evaluation_seal(of: TrialSeal, protocol: Spec | None, fingerprint: str) -> TrialSeal:
    """The seal of an evaluation of the network of a trial by a protocol, computed by the code with a fingerprint."""
    return TrialSeal(
        kind="evaluation",
        trial_id=of.trial_id,
        task=of.task,
        baseline=of.baseline,
        network=of.network,
        protocol=protocol_id(protocol),
        fingerprint=fingerprint,
    )


def protocol_id(protocol: Spec | None) -> str:
    """Twenty hexadecimal digits that name a protocol."""
    return hashlib.sha256(json_text(canonical(protocol)).encode()).hexdigest()[:20]


def sealed_evaluation(seal: TrialSeal, row: pa.Table) -> bytes:
    """The file of an evaluation, from its row with the columns `EVALUATION_FILE`."""
    return sealed(row, seal, {"use_dictionary": False, "write_statistics": False, "compression": "none"})


def sealed_row(
    seal: TrialSeal, row: Mapping[str, Any], curves: pa.Array, outcomes: Mapping[str, np.ndarray], network: bytes | None
) -> bytes:
    """The file with these parts: values by column of `ROW`, one value of `curves`, outcomes that are rounded already,
    and the bytes of a safetensors file.
    """
    columns = {
        "network": pa.array([network], NETWORK_COLUMN.type),
        "outcomes": _outcomes_column(outcomes),
        "curves": curves,
        "metrics": pa.array([list(metrics_of(row).items())], METRICS_COLUMN.type),
    }
    columns |= {field.name: pa.array([row.get(field.name)], field.type) for field in ROW}
    return sealed(pa.table(columns, TRIAL_FILE), seal, _OPTIONS)


_OPTIONS: dict[str, Any] = {
    # For single values but long texts dictionaries, statistics and compression cost more than they save.
    "write_statistics": False,
    "use_dictionary": [_OUTCOME],
    "column_encoding": POINT_ENCODING,
    "compression": dict.fromkeys(["network", *ROW.names, _METRIC], "none")
    | dict.fromkeys([*_KEYS, *_JSON, _OUTCOME, *POINT_ENCODING], "zstd"),
}


def _row(key: str, result: TrialResult) -> dict[str, Any]:
    """The value of every column of `ROW`; a column without a value may be left out."""
    trial, provenance = result.trial, result.provenance
    metrics = finite(result.metrics)
    error = result.error or {}
    return {
        "trial_id": key,
        "status": result.status,
        **trial.columns,
        "seed": trial.seed,
        "steps": trial.steps,
        "spec": json_text(canonical(trial)),
        **{name: metrics.get(name) for name in METRICS},
        "extra_metrics": json_text({k: value for k, value in metrics.items() if value is None or k not in METRICS}),
        **{
            name: int(result.timings[name]) if kind == "int64" else float(result.timings[name])
            for name, kind in TIMINGS.items()
            if name in result.timings
        },
        "error_kind": error.get("kind"),
        "error_message": error.get("message"),
        "error_step": error.get("step"),
        "pack_id": result.pack_id,
        "lanes": result.lanes,
        "device": result.device,
        "arithmetic": result.arithmetic,
        "programs": result.programs,
        "data": result.data,
        **provenance.columns(),
        "command": without_folders(provenance.command),
        "started": result.started,
        "finished": result.finished,
        "schema_version": SCHEMA_VERSION,
        "fingerprint": provenance.fingerprint(trial),
        **{f"{part}_version": version for part, version in trial.versions().items()},
    }


def metrics_of(row: Mapping[str, Any]) -> dict[str, float | None]:
    """All metrics of a row by name: those with a column, and those in `extra_metrics`; None if it was not finite."""
    own = {name: row[name] for name in METRICS if row.get(name) is not None}
    further = json.loads(row.get("extra_metrics") or "{}").items()
    return own | {name: None if value is None else float(value) for name, value in further}


def json_text(values: Mapping[str, Any]) -> str:
    """The values of a column that holds JSON, always in one form; infinity and NaN are refused."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Metrics as a store has them: null stands for a value that is not finite."""
    return {name: float(value) if math.isfinite(value) else None for name, value in metrics.items()}


def _curves(points: Sequence[tuple[int, str, float]]) -> pa.Array:
    curves: dict[str, list[dict[str, float]]] = {}
    for step, name, value in points:
        curves.setdefault(name, []).append({"step": step, "value": float(value)})
    return pa.array([list(curves.items())], CURVES_COLUMN.type)


def _outcomes_column(values: Mapping[str, np.ndarray]) -> pa.Array:
    offsets = np.cumsum([0, *map(len, values.values())], dtype=np.int32)
    lists = pa.ListArray.from_arrays(offsets, pa.array(np.concatenate([np.zeros(0, np.float32), *values.values()])))
    names = pa.array(list(values), pa.string())
    return pa.MapArray.from_arrays([0, len(values)], names, lists).cast(OUTCOMES_COLUMN.type)


DISTINCT = 4096  # an outcome of more different values than this is continuous: it is rounded

MANTISSA_BITS = 12
"""Of the 23 bits of a single-precision mantissa; a relative error of at most 2^-13, far below that of 100 seeds."""


def _outcomes(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Outcomes as they are stored: of few values first, which share a small dictionary; continuous ones rounded."""
    single = {name: np.ascontiguousarray(column, np.float32) for name, column in values.items()}
    if len({len(column) for column in single.values()}) > 1:
        raise ValueError(f"outcomes of different numbers of inputs: { {name: len(c) for name, c in single.items()} }")
    distinct = {name: len(np.unique(column)) for name, column in single.items()}
    return {
        name: single[name] if distinct[name] <= DISTINCT else _rounded(single[name])
        for name in sorted(single, key=lambda name: distinct[name] > DISTINCT)
    }


def _rounded(values: np.ndarray) -> np.ndarray:
    """Single-precision values with a short mantissa."""
    drop = 23 - MANTISSA_BITS
    bits = values.view(np.uint32)
    rounded = ((bits + np.uint32(1 << (drop - 1))) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)).view(np.float32)
    return np.where(np.isfinite(values) & np.isfinite(rounded), rounded, values)


# Networks


WEIGHT_TYPES: Mapping[str, Any] = {
    **{"BOOL": np.bool_, "U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64},
    **{"I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64},
    **{"F16": np.float16, "F32": np.float32, "F64": np.float64, "C64": np.complex64},
    **{"BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2},
}
"""The types that the weights of a network may have, by their names in a safetensors file.

The library's own reader for numpy lacks the types of the last line.
"""


def network_bytes(weights: Mapping[str, np.ndarray]) -> bytes:
    """The weights of a network as a safetensors file; equal weights give equal bytes.

    A network that `check_network` refuses, or that could not be read back, is a `ValueError`.
    """
    check_network(weights.values())
    tensors = {name: np.ascontiguousarray(values).reshape(np.shape(values)) for name, values in weights.items()}
    try:
        data = safetensors.numpy.save(tensors)
        network_weights(data)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ValueError(f"the network cannot be kept ({_LEFT_OUT}): {error}") from error
    return data


def network_weights(network: bytes) -> dict[str, np.ndarray]:
    """The weights in a safetensors file by name."""
    return {
        name: np.frombuffer(tensor["data"], WEIGHT_TYPES[tensor["dtype"]]).reshape(tensor["shape"])
        for name, tensor in safetensors.deserialize(network)
    }


_LEFT_OUT = "resources.networks: false leaves it out"


def check_network(weights: Collection[Any]) -> None:
    """Refuse weights that are too large to be kept, or of none of `WEIGHT_TYPES`, with a `ValueError`.

    Only their shapes and types are looked at.
    """
    known = {np.dtype(kept) for kept in WEIGHT_TYPES.values()}
    if strange := [str(weight.dtype) for weight in weights if np.dtype(weight.dtype) not in known]:
        raise ValueError(f"a network with weights of type {strange[0]} cannot be kept ({_LEFT_OUT})")
    size = sum(math.prod(weight.shape) * np.dtype(weight.dtype).itemsize for weight in weights)
    if size > LARGEST_NETWORK:
        raise ValueError(
            f"a network of {len(weights):,} tensors and {size:,} bytes is too large to be kept ({_LEFT_OUT})"
        )


def network_digest(network: bytes) -> str:
    """What names the content of a network's bytes: BLAKE2b of 16 bytes, in hexadecimal digits."""
    return hashlib.blake2b(network, digest_size=16).hexdigest()


# Curves and outcomes of rows


def points(rows: pa.Table) -> pa.Table:
    """The curves of trials with one row a point, from the columns `trial_id`, `task`, `baseline` and `curves`."""
    if not rows.num_rows:
        return CURVES.empty_table()
    maps = rows["curves"].combine_chunks()
    offsets = maps.offsets.to_numpy()
    lists = maps.items.slice(offsets[0], offsets[-1] - offsets[0])
    names = maps.keys.slice(offsets[0], offsets[-1] - offsets[0])
    lengths = lists.value_lengths().fill_null(0).to_numpy()
    curve = np.repeat(np.arange(len(lists)), lengths)
    trial = np.repeat(np.arange(rows.num_rows), np.diff(offsets))[curve]
    values = lists.flatten()
    whose = rows.select(["trial_id", "task", "baseline"]).take(pa.array(trial))
    columns = [*whose.columns, values.field("step"), names.take(pa.array(curve)), values.field("value")]
    return pa.table(columns, CURVES)


def outcome_values(row: pa.Table) -> dict[str, np.ndarray]:
    """The outcomes of a trial by name, float32, one value for every input, from its column `outcomes`."""
    maps = row["outcomes"].combine_chunks()
    if not maps.is_valid()[0].as_py():
        return {}
    start, stop = maps.offsets[0].as_py(), maps.offsets[1].as_py()
    lists, names = maps.items, maps.keys.to_pylist()
    return {names[place]: lists[place].values.to_numpy() for place in range(start, stop)}
