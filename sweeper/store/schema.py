"""The schema of a store: the names and columns of its files, statuses, and the result that a worker commits.

The schema is declared here and has a version. All files of trials have the same columns, whatever their task. Names of
columns and metrics are a contract with every query that was ever written.

To add a column to `trials`: add its name and type to `columns.COLUMNS` of the room `trial`, and its value to
`trial_file`. The value may be null, because files of older programs have none. Neither `SCHEMA_VERSION` nor any other
module changes; old and new files are read together.
"""

import dataclasses
import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sweeper.events import Status
from sweeper.store.files import StoreError
from sweeper.trial.columns import COLUMNS, TIMINGS
from sweeper.trial.plugins import IDENTIFIER
from sweeper.trial.provenance import Provenance
from sweeper.trial.trial import Trial

SCHEMA_VERSION = 1
"""Grows when a column changes its meaning or goes away; a new column that may be null needs no new version."""

PARTITION = pa.schema([("task", pa.string()), ("baseline", pa.string())])
"""Columns that are in the name of a file's folder, `task=<t>/baseline=<b>`, and not in the file."""

_TYPES = {
    "string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}  # fmt: skip

TRIALS = pa.schema([(name, _TYPES[kind]) for name, kind in COLUMNS.items()])
"""Columns of the view `trials`, one row a trial."""

CURVES = pa.schema([
    ("trial_id", pa.string()), *PARTITION, ("step", pa.int64()), ("metric", pa.string()), ("value", pa.float64()),
])  # fmt: skip
"""Columns of the view `curves`, one row per trial, step and metric."""

OUTCOMES = pa.schema([("trial_id", pa.string()), *PARTITION, ("input", pa.int32())])
"""Columns that the view `outcomes` always has, one row per trial and input; its float32 columns depend on the tasks."""

ROW = pa.schema([field for field in TRIALS if field.name not in PARTITION.names])
"""Columns of `trials` that are inside the file of a trial."""

_POINT = pa.struct([("step", pa.int64()), ("value", pa.float64())])
CURVES_COLUMN = pa.field("curves", pa.map_(pa.string(), pa.list_(_POINT)))
OUTCOMES_COLUMN = pa.field("outcomes", pa.map_(pa.string(), pa.list_(pa.float32())))
METRICS_COLUMN = pa.field("metrics", pa.map_(pa.string(), pa.float64()))
NETWORK_COLUMN = pa.field("network", pa.binary())

TRIAL_FILE = pa.schema([NETWORK_COLUMN, OUTCOMES_COLUMN, CURVES_COLUMN, METRICS_COLUMN, *ROW])
"""Columns of the file of a trial, the largest first, so that the row and its curves are the end of the file.

`network` is a safetensors file, `outcomes` has the values of every evaluation input in order, by name, and `curves` the
points of every curve by its name. A trial without one of them has null there. `metrics` has every metric by name,
also those with a column of their own, so that files of all kinds of trial are asked in one way. Null stands for a
metric that was not finite. Such a metric is in `extra_metrics` too, also one with a column.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialResult:
    """The result of a trial, as a worker commits it."""

    trial: Trial
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
    started: datetime.datetime  # when the work on the trial began, with a time zone
    finished: datetime.datetime  # when it ended

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.timings) - set(TIMINGS)):
            raise ValueError(f"unknown timings {unknown}; known are {', '.join(TIMINGS)}")
        if (self.status == "failed") != (self.error is not None):
            raise ValueError(f"a trial has an error if and only if it failed, not {self.status} with {self.error}")


def check_version(version: Any, what: str) -> None:
    """Refuse what a newer program has written; what is no version at all is a `ValueError`."""
    if type(version) is not int:
        raise ValueError(f"{version!r} is not a schema version")
    if version > SCHEMA_VERSION:
        raise StoreError(f"{what!r} has schema version {version}, this program knows up to {SCHEMA_VERSION}: update it")


# Names of files, relative to the root of a store

TRIAL_ID = r"[0-9a-f]{20}"

_PLACE = rf"task=({IDENTIFIER})/baseline=({IDENTIFIER})"
_TRIAL = re.compile(rf"trials/{_PLACE}/({TRIAL_ID})\.parquet")
_EVALUATION = re.compile(rf"evaluations/{_PLACE}/({TRIAL_ID})-{TRIAL_ID}\.parquet")

SNAPSHOT_FILE = "snapshots/trials.parquet"


def trial_file_name(task: str, baseline: str, trial_id: str) -> str:
    return f"trials/task={task}/baseline={baseline}/{trial_id}.parquet"


def evaluation_file_name(task: str, baseline: str, trial_id: str, protocol: str) -> str:
    """The file of an evaluation; `protocol` is the id of the protocol."""
    return f"evaluations/task={task}/baseline={baseline}/{trial_id}-{protocol}.parquet"


def named_trial(name: str) -> tuple[str, str, str] | None:
    """Task, baseline and id of the trial whose file has this name; None for any other name."""
    return (match[1], match[2], match[3]) if (match := _TRIAL.fullmatch(name)) else None


def evaluated_trial(name: str) -> str | None:
    """The trial whose evaluation has this name; None for any other name."""
    return match[3] if (match := _EVALUATION.fullmatch(name)) else None
