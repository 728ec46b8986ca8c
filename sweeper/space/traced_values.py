"""Values of a trial that the float32 and int32 of a compiled program cannot hold.

`Traced` values are inputs of the program. In float32 a learning rate of 1e-50 is 0, which trains nothing, and in int32
3e9 steps of warm-up are no number at all. Such values are mistakes of the search space, reported with their path before
anything runs. `trial.steps` is no input of the program, but the program counts steps in int32.
"""

import math
from typing import Any

import jax
import numpy as np
from pydantic import ValidationError

from sweeper.space.problems import Problem, shown
from sweeper.space.yaml_tree import Node, contains, descendant
from sweeper.trial.trial_spec import TrialSpec

_MAX_INTEGER = int(np.iinfo(np.int32).max)
_MAX_FLOAT, _MIN_FLOAT = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)

Checked = set[tuple[Any, ...]]


def unrepresentable(trial: TrialSpec, tree: Node, checked: Checked) -> list[Problem]:
    """The values written in `tree` that float32 or int32 cannot hold.

    Args:
        trial: The trial of the tree.
        tree: A tree without holes.
        checked: Values that earlier calls have checked, and that are skipped; the values of this tree are added.
    """
    records = type(trial.task), type(trial.model), type(trial.objective), type(trial.optimizer)
    leaves = [(tuple(key.name for key in path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(trial)]
    problems = []
    for location, leaf in [(("steps",), trial.steps), *leaves]:
        if not contains(tree, location):
            continue
        # The value as written: a baseline may replace it, but another baseline of the space uses it.
        at = descendant(tree, location)
        if not isinstance(at.value, int | float) or (records, location, at.value) in checked:
            continue
        checked.add((records, location, at.value))
        if message := _mistake(trial, location, type(leaf)(at.value)):
            problems.append(Problem(at.path, message, at.where))
    return problems


def _mistake(trial: TrialSpec, location: tuple[Any, ...], value: int | float) -> str | None:
    if isinstance(value, int):
        return f"must be at most {_MAX_INTEGER:,}, got {shown(value)}" if value > _MAX_INTEGER else None
    if math.isinf(value):
        return None
    if abs(value) > _MAX_FLOAT:
        return f"must be at most {_MAX_FLOAT:.3g} in single precision, got {shown(value)}"
    # Processors may round numbers below the smallest normal number to 0.
    if 0 < abs(value) < _MIN_FLOAT:
        return f"is 0 in single precision, got {shown(value)}; the smallest number above 0 is {_MIN_FLOAT:.3g}"
    rounded = float(np.float32(value))
    try:
        TrialSpec.model_validate(_with(trial.model_dump(), location, rounded))
    except ValidationError:
        return f"is {rounded:g} in single precision, which is out of bounds, got {shown(value)}"
    return None


def _with(data: dict[str, Any], location: tuple[Any, ...], value: int | float) -> dict[str, Any]:
    """The data of a record with another value at a location."""
    key, *rest = location
    return data | {key: _with(data[key], tuple(rest), value) if rest else value}
