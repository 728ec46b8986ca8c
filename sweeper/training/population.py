"""The contract of what evaluates the population of an evolution strategy."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, PyTree

from sweeper.trial.trial_spec import TrialSpec


class Distribution(NamedTuple):
    """The search distribution over flattened weights, and the state of the objective that ranks individuals."""

    center: Float[Array, "*lane weight"]
    std: Float[Array, "*lane weight"]
    objective: PyTree


Evaluator = Callable[[TrialSpec, Distribution, np.ndarray], list[np.ndarray]]
"""Objectives of all blocks, in order, of the stacked trials, their distributions and their generation counters."""
