"""From the result of a trial to tables, and how the tables are encoded in parquet."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sweeper.store.schema import IN_FILE, METRICS, OUTCOMES, SCHEMA_VERSION, TIMINGS, TableKind, TrialResult
from sweeper.trial import trial_spec


def json_text(values: Mapping[str, Any]) -> str:
    """The values of a column that holds JSON, always in one form.

    Raises:
        ValueError: a number is infinite or NaN.
    """
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def spelt_out(metrics: Mapping[str, float]) -> dict[str, float | str]:
    """Metrics for JSON, which has no infinity and no NaN: they are spelt out, as in the canonical spec."""
    return {name: value if math.isfinite(value) else str(value) for name, value in metrics.items()}


def trial_table(trial_id: str, result: TrialResult) -> pa.Table:
    trial, provenance = result.trial, result.provenance
    metrics = {name: float(value) for name, value in result.metrics.items()}
    extra = spelt_out({name: value for name, value in metrics.items() if name not in METRICS})
    error = result.error or {}
    row = {
        "trial_id": trial_id,
        "status": result.status,
        "model": trial.model.name,
        "objective": trial.objective.name,
        "q": getattr(trial.objective, "q", None),
        "m": trial.objective.m,
        "seed": trial.seed,
        "steps": trial.steps,
        "batch_size": trial.batch_size,
        "optimizer": trial.optimizer.name,
        "learning_rate": getattr(trial.optimizer, "learning_rate", None),
        "spec": json_text(trial_spec.canonical(trial)),
        **{name: metrics.get(name) for name in METRICS},
        "extra_metrics": json_text(extra),
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
        "versions": json_text(provenance.versions),
        "started": result.started,
        "finished": result.finished,
        "schema_version": SCHEMA_VERSION,
        "fingerprint": provenance.fingerprint(trial),
        **{f"{part}_version": version for part, version in trial_spec.versions(trial)._asdict().items()},
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


ENCODINGS: dict[TableKind, Callable[[pa.Table], dict[str, Any]]] = {
    "trials": _trial_encoding,
    "curves": _curve_encoding,
    "outcomes": _outcome_encoding,
}
