"""Bins of a histogram over inputs that the values of its column can fill.

A success is a share of seeds or of votes, so that it has few values: votes of 5 among 100 seeds reach multiples of 5 %
only, and leave every fifth bin of 4 % empty. Such a column gets one bin for each of its values.
"""

import numpy as np

from sweeper.analysis.figures.style import number

BINS = 25
"""Number of equal bins, unless a panel gives another or the values cannot fill them."""

FEWEST, MOST = 10, 50
"""Steps between 0 and 1 for which every value gets a bin: with fewer, values stand apart in any bins; with more, equal
bins hold two values or more."""

SLACK = 4e-6
"""Shares of seeds are of single precision, so that 0.29 is a little below 29 %: they must not slip into a neighbour."""


def edges(values: np.ndarray, bins: int | None) -> np.ndarray:
    """The edges of the bins of [0, 1].

    Args:
        values: The different values of a column, each in [0, 1].
        bins: Number of equal bins, if the panel gives one.
    """
    if bins is None:
        steps = _steps(values)
        if steps is not None and steps >= FEWEST and steps % BINS:
            return np.concatenate([[0.0], (np.arange(steps) + 0.5) / steps, [1.0]])
    return np.linspace(0, 1, (bins or BINS) + 1)


def _steps(values: np.ndarray) -> int | None:
    """The smallest number of equal steps from 0 to 1 on which all values lie, if it is not larger than `MOST`."""
    for steps in range(1, MOST + 1):
        if np.all(np.abs(values * steps - np.round(values * steps)) < 1e-4):
            return steps
    return None


def index(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The bin of each value; the value 1 is in the last bin."""
    return np.searchsorted(edges[1:-1], np.asarray(values) + SLACK, side="right")


def shares(values: np.ndarray, counts: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Share of the inputs in each bin, where `counts` inputs have each of the `values`."""
    return np.bincount(index(values, edges), weights=counts, minlength=len(edges) - 1) / counts.sum()


def description(edges: np.ndarray) -> str:
    """Such as "bins of 4 %"."""
    if np.isclose(edges[1], edges[2] - edges[1]):
        return f"bins of {number(100 * edges[1])} %"
    return f"a bin for each of {len(edges) - 1} values"
