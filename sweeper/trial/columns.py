"""The columns of a trial's row, by name and type: those of the platform, and those that kinds of trial declare.

This is the one list from which the schema of a store is made.

Rooms that know no store use the names, for instance to check the names in a panel.
"""

from sweeper.trial.kinds import declared_kinds

METRICS = tuple(name for kind in declared_kinds() for name in kind.metrics)
"""Metrics with a column of their own; any other metric is kept in `extra_metrics`."""

TIMINGS = {
    "steps_done": "int64", "wall_seconds": "double", "compile_seconds": "double", "train_seconds": "double",
    "evaluation_seconds": "double", "cpu_seconds": "double", "steps_per_second": "double", "peak_memory_bytes": "int64",
}  # fmt: skip
"""The work and the costs of a trial."""

COLUMNS = {
    "trial_id": "string", "status": "string", "task": "string", "baseline": "string",
    **{name: type_name for kind in declared_kinds() for name, type_name in kind.columns.items()},
    "seed": "int64", "steps": "int64", "spec": "string",
    **dict.fromkeys(METRICS, "double"), "extra_metrics": "string",
    **TIMINGS,
    "error_kind": "string", "error_message": "string", "error_step": "int64",
    "pack_id": "string", "lanes": "int64", "device": "string",
    "commit": "string", "dirty": "bool", "versions": "string", "command": "string",
    "started": "timestamp", "finished": "timestamp", "schema_version": "int64",
    "fingerprint": "string", "numerics_version": "int64", "arithmetic": "string",
    "programs": "string", "data": "string",
}  # fmt: skip
"""All columns, in the order of a row. Times are in microseconds, in UTC.

`task` and `baseline` are the folder of a trial (`sweeper.trial.trial.Folder`).
"""

TAKEN = {*COLUMNS, "tags", "notes", "seeds", "step", "metric", "value", "input"} - {*METRICS}
"""Names of tables that no metric, curve or outcome of a plug-in can have."""

OF_ENTRIES = ("experiment_", "task_", "model_", "objective_", "optimizer_", "evaluation_", "start_from", "variables_")
"""How the columns of entries and of variables begin; no metric, curve or outcome of a plug-in does."""
