"""The best ratio with K seeds r, which `search_spaces/seed_bank.yaml` has as numbers, by linear programmes.

K seeds r are K deterministic strategies with probabilities. Ski rental has one for each day. Paging has far more, but
on sequences of one phase none is better than an order in which pages are evicted. So the best K orders on these bound
the ratio from below, whatever the length; played anew in each phase they also attain it.
"""

import itertools

import numpy as np
import pytest
import yaml
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from sweeper.trial import plugins
from tasks.paging import Task as Paging
from tasks.ski_rental import Task as SkiRental
from tests.plugins.test_paging import _fewest, _sequences
from tests.plugins.test_ski_rental import _ratios

PANELS = yaml.safe_load((plugins.ROOT / "search_spaces" / "seed_bank.yaml").read_text())["panels"]


def _written(panel: str) -> dict[int, float]:
    return next(each["published"][0]["values"] for each in PANELS if each["name"] == panel)


def _best(ratios: np.ndarray) -> float:
    """The value of the game with all these strategies; the axes are input and strategy."""
    inputs, strategies = ratios.shape
    return linprog(
        np.append(np.zeros(strategies), 1),
        A_ub=np.hstack([ratios, -np.ones((inputs, 1))]), b_ub=np.zeros(inputs),
        A_eq=[np.append(np.ones(strategies), 0)], b_eq=[1],
    ).fun  # fmt: skip


def _best_of_few(ratios: np.ndarray, count: int) -> float:
    """The same with at most `count` strategies: each has a probability and a whole number, which is 1 if it plays."""
    inputs, strategies = ratios.shape
    nothing, one = np.zeros((inputs, strategies)), np.eye(strategies)
    solved = milp(
        np.concatenate([np.zeros(2 * strategies), [1]]),
        constraints=[
            LinearConstraint(np.hstack([ratios, nothing, -np.ones((inputs, 1))]), -np.inf, 0),
            LinearConstraint(np.hstack([one, -one, np.zeros((strategies, 1))]), -np.inf, 0),
            LinearConstraint(np.append(np.repeat([1, 0], strategies), 0), 1, 1),
            LinearConstraint(np.append(np.repeat([0, 1], strategies), 0), 0, count),
        ],
        integrality=np.repeat([0, 1, 0], [strategies, strategies, 1]),
        bounds=Bounds(0, np.inf),
        options={"mip_rel_gap": 1e-6},
    )
    assert solved.success
    return solved.fun


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_ski_rental(count):
    ratios = _ratios(10, 20)
    assert _written("ski rental")[count] == pytest.approx(_best_of_few(ratios, count), abs=2e-5)


def _faults(order: tuple[int, ...], sequence: tuple[int, ...], cache: int) -> int:
    """Faults of who evicts the first page of an order that the phase has not requested; pages count from its first."""
    missing, faults, seen = sequence[0], 0, [sequence[0]]
    for page in sequence:
        if page not in seen:
            seen = [*seen, page] if len(seen) < cache else [page]
        if page == missing:
            pages = [(seen[0] + step) % (cache + 1) for step in order]
            missing, faults = next(each for each in pages if each not in seen), faults + 1
    return faults


def _of_orders(sequences: list[tuple[int, ...]], cache: int) -> np.ndarray:
    orders = [*itertools.permutations(range(1, cache + 1))]
    return np.array([[_faults(order, each, cache) / _fewest(each, cache) for order in orders] for each in sequences])


@pytest.mark.slow
@pytest.mark.parametrize("requests", [4, 5])
def test_paging(requests):
    every = _sequences(3, requests)
    of_phase = [each for each in every if len(set(each[:3])) == 3 and _fewest(each, 3) == 1]
    for count, value in _written("paging").items():
        for sequences in (every, of_phase) if requests == 4 else (every,):
            ratios = _of_orders(sequences, 3)
            subsets = itertools.combinations(range(6), min(count, 6))
            best = min(_best(ratios[:, list(subset)]) for subset in subsets)
            assert best == pytest.approx(value, abs=1e-5)


def test_with_enough_seeds_the_ratio_is_the_best_randomised():
    for panel, task, enough in (("ski rental", SkiRental(), 16), ("paging", Paging(cache=3), 8)):
        best = task.abilities().exact_values()["best_randomised"]
        values = [value for count, value in _written(panel).items() if count >= enough]
        assert values == pytest.approx([best] * len(values), abs=1e-5)
