"""Seals as commits up to 2fef4ed wrote them: lists whose places have a meaning.

Such stores stay readable. Their rows name curves and outcomes by size only, so no digest is known.
"""

from collections.abc import Callable
from typing import Any


def _own(values: list[Any]) -> dict[str, Any]:
    """The keyed seal of a trial's own file.

    Raises:
        ValueError, TypeError: the list has another length, or an entry another type.
    """
    kind, schema_version, trial_id, task, baseline, status, curves_bytes, outcomes_bytes, outcome_columns = values
    return {
        "version": 2,
        "kind": kind,
        "schema_version": schema_version,
        "trial_id": trial_id,
        "task": task,
        "baseline": baseline,
        "status": status,
        "curves": _detail(curves_bytes),
        "outcomes": _detail(outcomes_bytes),
        "outcome_columns": outcome_columns,
    }


def _compacted(values: list[Any]) -> dict[str, Any]:
    """The keyed seal of a compacted file; errors are those of `_own`."""
    kind, schema_version, title, task, baseline, curves_bytes, members = values
    return {
        "version": 2,
        "kind": kind,
        "schema_version": schema_version,
        "title": title,
        "task": task,
        "baseline": baseline,
        "curves": _detail(curves_bytes),
        "members": [_member(member) for member in members],
    }


def _member(values: list[Any]) -> dict[str, Any]:
    trial_id, status, curves_group, outcomes_bytes, outcome_columns = values
    return {
        "trial_id": trial_id,
        "status": status,
        "curves_group": curves_group,
        "outcomes": _detail(outcomes_bytes),
        "outcome_columns": outcome_columns,
    }


def _detail(size: int | None) -> dict[str, Any] | None:
    return None if size is None else {"bytes": size, "digest": None}


OLDER: dict[str, Callable[[list[Any]], dict[str, Any]]] = {"seal": _own, "compacted": _compacted}
"""From the list to the keyed seal, for either word."""
