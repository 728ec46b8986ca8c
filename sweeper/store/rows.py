"""What a trial leaves behind, as tables: their schema, their encodings in parquet, and how a result fills them.

The schema is declared and has a version, because readers take theirs from it: a file may lack the newest columns, and
has no others. Names of columns and metrics are the contract with every query that was ever written.
"""

import dataclasses
import datetime
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sweeper.trial import trial_spec
from sweeper.trial.provenance import Provenance

SCHEMA_VERSION = 1
"""Grows when a column changes its meaning or goes away; a new column that may be null needs no new version."""

Status = Literal["finished", "failed", "stopped"]
Detail = Literal["curves", "outcomes"]
Kind = Literal["trials", Detail]

METRICS = (
    "success", "success_p5", "success_worst5", "failed_inputs", "sampled", "sampled_p5", "majority_5", "majority_5_p5",
    "majority_30", "majority_30_p5", "any_seed", "any_seed_p5", "loss", "loss_p95", "variance", "train_loss",
)  # fmt: skip
"""Metrics with a column of their own; any other metric is kept in `extra_metrics`."""

TIMINGS = {
    "steps_done": pa.int64(), "wall_seconds": pa.float64(), "compile_seconds": pa.float64(),
    "train_seconds": pa.float64(), "evaluation_seconds": pa.float64(), "cpu_seconds": pa.float64(),
    "steps_per_second": pa.float64(), "peak_memory_bytes": pa.int64(),
}  # fmt: skip
"""What was done for a trial and what it cost, with the types of the columns."""

_TIME = pa.timestamp("us", tz="UTC")
PARTITION = pa.schema([("task", pa.string()), ("baseline", pa.string())])

TRIALS = pa.schema([
    ("trial_id", pa.string()), ("status", pa.string()), *PARTITION,
    ("model", pa.string()), ("q", pa.float64()), ("m", pa.int64()), ("seed", pa.int64()), ("steps", pa.int64()),
    ("batch_size", pa.int64()), ("optimizer", pa.string()), ("learning_rate", pa.float64()), ("spec", pa.string()),
    *((name, pa.float64()) for name in METRICS), ("extra_metrics", pa.string()),
    *TIMINGS.items(),
    ("error_kind", pa.string()), ("error_message", pa.string()), ("error_step", pa.int64()),
    ("pack_id", pa.string()), ("lanes", pa.int64()), ("device", pa.string()),
    ("commit", pa.string()), ("dirty", pa.bool_()), ("lock_hash", pa.string()), ("versions", pa.string()),
    ("command", pa.string()), ("started", _TIME), ("finished", _TIME), ("schema_version", pa.int64()),
])  # fmt: skip
"""Columns of `trials`, one row a trial. `task` and `baseline` are in the folder's name, not in the file."""

CURVES = pa.schema([
    ("trial_id", pa.string()), *PARTITION, ("step", pa.int64()), ("metric", pa.string()), ("value", pa.float64()),
])  # fmt: skip
"""Columns of `curves`, one row per trial, step and metric."""

OUTCOMES = pa.schema([("trial_id", pa.string()), *PARTITION, ("input", pa.int32())])
"""Columns that every `outcomes` file has, one row per trial and input; the float32 columns depend on the task."""

SCHEMAS: dict[Kind, pa.Schema] = {"trials": TRIALS, "curves": CURVES, "outcomes": OUTCOMES}
IN_FILE = {
    kind: pa.schema([field for field in schema if field.name not in PARTITION.names])
    for kind, schema in SCHEMAS.items()
}


@dataclasses.dataclass(frozen=True)
class TrialResult:
    """What a worker commits.

    Attributes:
        trial: What was trained.
        status: `finished`, `stopped` (early, but evaluated), or `failed`.
        metrics: Value by name; those of `METRICS` get a column.
        curves: Step, metric and value of every point.
        outcomes: Per evaluation input: an `input` column of integers, and columns of floats between which only single
            precision matters. None if they are not kept.
        timings: Value by name, some or all of `TIMINGS`.
        error: For a failed trial: its `kind`, `message` and `step` (None if it failed outside of training).
        provenance: Where the result comes from.
        pack_id: The pack it was trained in.
        lanes: Number of trials in that pack.
        device: What it was trained on, such as "cpu" or "NVIDIA H100".
        started: When the work on it began, with a time zone.
        finished: When it ended.
    """

    trial: trial_spec.TrialSpec
    status: Status
    metrics: Mapping[str, float]
    curves: Sequence[tuple[int, str, float]]
    outcomes: pa.Table | None
    timings: Mapping[str, float]
    error: Mapping[str, Any] | None
    provenance: Provenance
    pack_id: str
    lanes: int
    device: str
    started: datetime.datetime
    finished: datetime.datetime

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.timings) - set(TIMINGS)):
            raise ValueError(f"unknown timings {unknown}; known are {', '.join(TIMINGS)}")
        if (self.status == "failed") != (self.error is not None):
            raise ValueError(f"a trial has an error if and only if it failed, not {self.status} with {self.error}")


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def trial_table(trial_id: str, result: TrialResult) -> pa.Table:
    trial, provenance = result.trial, result.provenance
    metrics = {name: float(value) for name, value in result.metrics.items()}
    # JSON has no infinity and no NaN; as in the canonical spec, they are spelt out.
    extra = {
        name: value if math.isfinite(value) else str(value) for name, value in metrics.items() if name not in METRICS
    }
    error = result.error or {}
    row = {
        "trial_id": trial_id,
        "status": result.status,
        "model": trial.model.name,
        "q": trial.objective.q,
        "m": trial.objective.m,
        "seed": trial.seed,
        "steps": trial.steps,
        "batch_size": trial.batch_size,
        "optimizer": trial.optimizer.name,
        "learning_rate": getattr(trial.optimizer, "learning_rate", None),
        "spec": _json(trial_spec.canonical(trial)),
        **{name: metrics.get(name) for name in METRICS},
        "extra_metrics": _json(extra),
        **{
            name: int(result.timings[name]) if pa.types.is_integer(kind) else float(result.timings[name])
            for name, kind in TIMINGS.items()
            if name in result.timings
        },
        "error_kind": error.get("kind"),
        "error_message": error.get("message"),
        "error_step": error.get("step"),
        "pack_id": result.pack_id,
        "lanes": result.lanes,
        "device": result.device,
        **provenance.model_dump(include={"commit", "dirty", "lock_hash", "command"}),
        "versions": _json(provenance.versions),
        "started": result.started,
        "finished": result.finished,
        "schema_version": SCHEMA_VERSION,
    }
    return pa.Table.from_pylist([row], schema=IN_FILE["trials"])


def curves_table(trial_id: str, curves: Sequence[tuple[int, str, float]]) -> pa.Table:
    steps, metrics, values = zip(*curves, strict=True) if curves else ((), (), ())
    columns = [[trial_id] * len(curves), steps, metrics, [float(value) for value in values]]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, IN_FILE["curves"], strict=True)],
                    schema=IN_FILE["curves"])  # fmt: skip


def outcomes_table(trial_id: str, outcomes: pa.Table) -> pa.Table:
    """The outcomes in the store's types, with continuous columns rounded."""
    columns = {
        "trial_id": pa.array([trial_id] * outcomes.num_rows, pa.string()),
        "input": outcomes["input"].cast(pa.int32()),
    }
    for name in outcomes.column_names:
        if name not in columns:
            columns[name] = pa.array(_rounded(outcomes[name].cast(pa.float32()).to_numpy()))
    return pa.table(columns)


DISTINCT = 4096
"""A column of more different values than this is continuous: it is rounded."""

MANTISSA_BITS = 12
"""Of the 23 bits of a single-precision mantissa; a relative error of at most 2^-13, far below that of 100 seeds."""


def _rounded(values: np.ndarray) -> np.ndarray:
    """Single-precision values as they are if few differ (shares of seeds, votes), else with a short mantissa."""
    if not _continuous(values):
        return values
    drop = 23 - MANTISSA_BITS
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = ((bits + np.uint32(1 << (drop - 1))) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)).view(np.float32)
    return np.where(np.isfinite(values) & np.isfinite(rounded), rounded, values)


def _continuous(values: np.ndarray) -> bool:
    return len(np.unique(values)) > DISTINCT


def _trial_encoding(table: pa.Table) -> dict[str, Any]:
    # For a single row dictionaries, statistics and compression cost more than they save, in bytes and in time.
    return {"use_dictionary": False, "write_statistics": False, "compression": "none"}


def _curve_encoding(table: pa.Table) -> dict[str, Any]:
    return {
        "use_dictionary": ["trial_id", "metric"],
        "column_encoding": {"step": "DELTA_BINARY_PACKED", "value": "BYTE_STREAM_SPLIT"},
        "compression": "zstd",
    }


def _outcome_encoding(table: pa.Table) -> dict[str, Any]:
    floats = [name for name in table.column_names if name not in OUTCOMES.names]
    continuous = [name for name in floats if _continuous(table[name].to_numpy())]
    return {
        "use_dictionary": ["trial_id", *(name for name in floats if name not in continuous)],
        "column_encoding": {"input": "DELTA_BINARY_PACKED", **dict.fromkeys(continuous, "BYTE_STREAM_SPLIT")},
        "compression": "zstd",
    }


ENCODINGS: dict[Kind, Callable[[pa.Table], dict[str, Any]]] = {
    "trials": _trial_encoding,
    "curves": _curve_encoding,
    "outcomes": _outcome_encoding,
}
