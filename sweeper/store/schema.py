"""The schema of a store: the names and columns of its files.

The schema is declared here and has a version. All files of trials have the same columns, whatever their task. Names of
columns and metrics are a contract with every query that was ever written.

To add a column to `trials`: add its name and type to `columns.COLUMNS` of the room `trial`, and its value to
`trial_file`. `SCHEMA_VERSION` grows, because a file without the very columns of a program is damage to it.
"""

import re
from typing import Any

import pyarrow as pa

from sweeper.store.files import StoreError
from sweeper.trial.columns import COLUMNS
from sweeper.trial.plugins import IDENTIFIER

SCHEMA_VERSION = 1
"""Grows with every change of a column."""

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


EVALUATION_FILE = pa.schema([
    ("trial_id", pa.string()), ("protocol", pa.string()), ("metrics", pa.string()), ("network", pa.string()),
    ("evaluation_seconds", pa.float64()), ("cpu_seconds", pa.float64()), ("peak_memory_bytes", pa.int64()),
    ("device", pa.string()), ("commit", pa.string()), ("dirty", pa.bool_()),
    ("versions", pa.string()), ("command", pa.string()), ("fingerprint", pa.string()),
    ("finished", pa.timestamp("us", tz="UTC")), ("schema_version", pa.int64()), ("arithmetic", pa.string()),
    ("programs", pa.string()), ("data", pa.string()), ("quantiles", OUTCOMES_COLUMN.type),
])  # fmt: skip
"""Columns of the file of an evaluation, those in which it differs from its trial: `protocol` and `metrics` are JSON,
`network` is the digest of the network, and `quantiles` are those of every outcome over the inputs, rising, each for an
equal share of the inputs, at most a thousand.
"""


def check_version(version: Any, what: str) -> None:
    """Refuse what a newer program has written; what is no version at all is a `ValueError`."""
    if type(version) is not int:
        raise ValueError(f"{version!r} is not a schema version")
    if version > SCHEMA_VERSION:
        raise StoreError(f"{what!r} has schema version {version}, this program knows up to {SCHEMA_VERSION}: update it")


# Names of files, relative to the root of a store

TRIAL_ID = r"[0-9a-f]{20}"

_PLACE = rf"task={IDENTIFIER}/baseline={IDENTIFIER}"
_FILE = re.compile(rf"(?:trials/{_PLACE}/({TRIAL_ID})|evaluations/{_PLACE}/({TRIAL_ID})-{TRIAL_ID})\.parquet")

SNAPSHOT_FILE = "snapshots/trials.parquet"


def trial_file_name(task: str, baseline: str, trial_id: str) -> str:
    return f"trials/task={task}/baseline={baseline}/{trial_id}.parquet"


def evaluation_file_name(task: str, baseline: str, trial_id: str, protocol: str) -> str:
    """The file of an evaluation; `protocol` is the id of the protocol."""
    return f"evaluations/task={task}/baseline={baseline}/{trial_id}-{protocol}.parquet"


def named_trial(name: str) -> str | None:
    """The trial whose file, or file of an evaluation, has this name; None for any other name."""
    match = _FILE.fullmatch(name)
    return None if match is None else match[1] or match[2]
