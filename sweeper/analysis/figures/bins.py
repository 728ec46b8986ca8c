"""Histograms over inputs, in bins that the values of their column can fill.

A success is a share of seeds or of votes, so that it has few values: votes of 5 among 100 seeds reach multiples of 5 %
only, and leave every fifth bin of 4 % empty. Such a column gets one bin for each of its values.
"""

import numpy as np
import pandas as pd

from sweeper.analysis.figures.selection import NoData
from sweeper.analysis.figures.style import number
from sweeper.analysis.results import Results

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


def edges_of(results: Results, rows: pd.DataFrame, name: str, count: int | None) -> np.ndarray:
    """Edges of bins of [0, 1] for an outcome of these trials: `count` equal bins, or bins that its values can fill.

    Raises:
        NoData: no trial has stored the outcome.
    """
    stored = [results.distribution(str(trial_id), name) for trial_id in rows["trial_id"]]
    values = [distribution[0] for distribution in stored if distribution is not None]
    if not values:
        raise NoData(f"the outcome '{name}' of its inputs was not stored")
    return edges(np.unique(np.concatenate(values)), count)


def shares_by_seed(results: Results, rows: pd.DataFrame, name: str, edges: np.ndarray) -> dict[int, np.ndarray]:
    """Histogram over inputs of an outcome for each training seed, as shares of the inputs, shape `(bins,)`.

    Raises:
        NoData: no trial has stored the outcome.
    """
    by_seed: dict[int, list[np.ndarray]] = {}
    for trial_id, seed in zip(rows["trial_id"], rows["seed"], strict=True):
        distribution = results.distribution(str(trial_id), name)
        if distribution is not None:
            by_seed.setdefault(int(seed), []).append(shares(*distribution, edges))
    if not by_seed:
        raise NoData(f"the outcome '{name}' of its inputs was not stored")
    return {seed: np.mean(histograms, axis=0) for seed, histograms in sorted(by_seed.items())}


def description(edges: np.ndarray) -> str:
    """Such as "bins of 4 %"."""
    if np.isclose(edges[1], edges[2] - edges[1]):
        return f"bins of {number(100 * edges[1])} %"
    return f"a bin for each of {len(edges) - 1} values"
