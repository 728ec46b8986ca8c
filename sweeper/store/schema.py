"""The schema of a store: the columns of its tables, kinds of files, statuses, and the result that a worker commits.

The schema is declared here and has a version. Every reader takes the schema from here, and not from a file: a file of
an older program may lack the newest columns, and no file has other columns. Names of columns and metrics are a contract
with every query that was ever written.

To add a column to `trials`: add its name and type to `TRIALS`, and its value to `rows.trial_table`. The value may be
null, because rows of older programs have none. Neither `SCHEMA_VERSION` nor any other module changes; old and new rows
are read and compacted together.
"""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from sweeper.events import Status
from sweeper.trial import trial_spec
from sweeper.trial.provenance import Provenance

SCHEMA_VERSION = 1
"""Grows when a column changes its meaning or goes away; a new column that may be null needs no new version."""

DetailTable = Literal["curves", "outcomes"]
Detail = Literal[DetailTable, "networks"]
"""The details that a trial may have beside its row: two tables, and the weights of its network."""

TableKind = Literal["trials", DetailTable]
FileKind = Literal["trials", Detail]
FILE_KINDS: tuple[FileKind, ...] = get_args(FileKind)
"""Folders of a store whose files belong to trials."""

RANK: dict[Status, int] = {"failed": 0, "stopped": 1, "finished": 2}
"""Of two rows of one trial the row of the higher rank stands."""

PARTITION = pa.schema([("task", pa.string()), ("baseline", pa.string())])
"""Columns that are in the name of a file's folder, `task=<t>/baseline=<b>`, and not in the file."""

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
"""The work and the costs of a trial, with the types of the columns."""

_TIME = pa.timestamp("us", tz="UTC")

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
    ("fingerprint", pa.string()), ("task_version", pa.int64()), ("model_version", pa.int64()),
    ("numerics_version", pa.int64()), ("objective", pa.string()), ("objective_version", pa.int64()),
])  # fmt: skip
"""Columns of `trials`, one row a trial."""

CURVES = pa.schema([
    ("trial_id", pa.string()), *PARTITION, ("step", pa.int64()), ("metric", pa.string()), ("value", pa.float64()),
])  # fmt: skip
"""Columns of `curves`, one row per trial, step and metric."""

OUTCOMES = pa.schema([("trial_id", pa.string()), *PARTITION, ("input", pa.int32())])
"""Columns that every `outcomes` file has, one row per trial and input; the float32 columns depend on the task."""

SCHEMAS: dict[TableKind, pa.Schema] = {"trials": TRIALS, "curves": CURVES, "outcomes": OUTCOMES}
IN_FILE = {
    kind: pa.schema([field for field in schema if field.name not in PARTITION.names])
    for kind, schema in SCHEMAS.items()
}
"""Columns of each kind that are inside the files."""


@dataclasses.dataclass(frozen=True)
class TrialResult:
    """The result of a trial, as a worker commits it.

    Attributes:
        trial: The trial.
        status: `finished`, `stopped` or `failed`.
        metrics: Value by name; the metrics in `METRICS` get a column.
        curves: Step, metric and value of every point.
        outcomes: Per evaluation input: an `input` column of integers, and columns of floats, stored in single
            precision. None if they are not kept.
        network: The weights of the network by name. None if they are not kept.
        timings: Value by name, some or all of `TIMINGS`.
        error: For a failed trial: its `kind`, `message` and `step` (None if it failed outside of training).
        provenance: Where the result comes from.
        pack_id: The pack of the trial.
        lanes: Number of trials that one program trained at once.
        device: The device of the training, such as "cpu" or "NVIDIA H100".
        started: Time at which the work on the trial began, with a time zone.
        finished: Time at which the work ended.
    """

    trial: trial_spec.TrialSpec
    status: Status
    metrics: Mapping[str, float]
    curves: Sequence[tuple[int, str, float]]
    outcomes: pa.Table | None
    network: Mapping[str, np.ndarray] | None
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
