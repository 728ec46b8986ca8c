"""Paging: faults by hand and by brute force, and the exact ratios against a game tree and a linear programme."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError
from scipy.optimize import linprog

from sweeper.learned_algorithms.contracts import Network
from sweeper.learned_algorithms.contracts import Task as BaseTask
from tasks.paging import Task


class Evictor(Network):
    """Evicts the page that the seed names for each request."""

    def __init__(self, task):
        self.noise, self.pages = task.noise, task.pages

    def __call__(self, tokens, mask):
        return jax.nn.one_hot(tokens[0, : self.noise].astype(int), self.pages)


def _sequences(cache: int, requests: int) -> list[tuple[int, ...]]:
    every = itertools.product(range(cache + 1), repeat=requests - 1)
    sequences = [(cache, *rest) for rest in every]
    return [each for each in sequences if all(page != after for page, after in itertools.pairwise(each))]


def _faults(sequence, choices) -> int:
    """Faults of somebody who evicts `choices[t]` if request t is a fault; infinity if that is the page itself."""
    missing, faults = sequence[0], 0
    for page, leaves in zip(sequence, choices, strict=True):
        if page == missing:
            if leaves == page:
                return 10**6
            missing, faults = leaves, faults + 1
    return faults


@functools.cache
def _fewest(sequence, cache: int) -> int:
    return min(_faults(sequence, choices) for choices in itertools.product(range(cache + 1), repeat=len(sequence)))


@pytest.mark.slow
@pytest.mark.parametrize(("cache", "requests"), [(1, 3), (2, 5), (3, 4)])
def test_losses_are_faults_over_the_fewest_that_any_choice_of_evictions_has(cache, requests):
    task = Task(cache=cache, requests=requests, noise=requests)
    inputs = task.evaluation_inputs()
    assert sorted(map(tuple, inputs.tolist())) == sorted(_sequences(cache, requests))
    seeds = np.array([*itertools.product(range(cache + 1), repeat=requests)])[::7]
    losses = jax.jit(lambda seeds: BaseTask.losses(task, Evictor(task), inputs, seeds))(jnp.asarray(seeds, jnp.float32))

    def leaves(sequence, seed):  # the page of a request cannot leave: then it is the first of the others
        first = [min({*range(cache + 1)} - {page}) for page in sequence]
        return [other if page == named else named for page, named, other in zip(sequence, seed, first, strict=True)]

    expected = [
        [_faults(sequence, leaves(sequence, seed)) / _fewest(sequence, cache) for seed in seeds.tolist()]
        for sequence in map(tuple, inputs.tolist())
    ]
    np.testing.assert_allclose(losses, expected, rtol=1e-6)


def _deterministic(cache: int, requests: int) -> float:
    """The value of the game in which an adversary who sees the cache chooses every request."""

    def value(sequence, missing, faults):
        if len(sequence) == requests:
            return faults / _fewest(sequence, cache)
        worst = 0.0
        for page in {*range(cache + 1)} - {sequence[-1]}:
            after = (*sequence, page)
            if page == missing:
                worst = max(worst, min(value(after, leaves, faults + 1) for leaves in {*range(cache + 1)} - {page}))
            else:
                worst = max(worst, value(after, missing, faults))
        return worst

    return min(value((cache,), leaves, 1) for leaves in range(cache))


def _randomised(cache: int, requests: int) -> float:
    """The least ratio that no sequence exceeds, over the probabilities of every page to be missing after every prefix.

    After a request the page is in the cache, and a page that was missing stays so or was requested: the probability
    that another page is missing can only grow.
    """
    prefixes = [each for length in range(1, requests) for each in _sequences(cache, length)]
    column = {case: n for n, case in enumerate((h, page) for h in prefixes for page in range(cache + 1))}
    ratio = len(column)
    rows, limits, equal = [], [], []

    def row(*terms):
        coefficients = np.zeros(ratio + 1)
        for case, factor in terms:
            coefficients[case] += factor
        return coefficients

    for prefix in prefixes:
        equal.append((row(*((column[prefix, page], 1) for page in range(cache + 1))), 1))
        equal.append((row((column[prefix, prefix[-1]], 1)), 0))
        if len(prefix) > 1:
            for page in {*range(cache + 1)} - {prefix[-1]}:
                rows.append(row((column[prefix[:-1], page], 1), (column[prefix, page], -1)))
                limits.append(0)
    for sequence in _sequences(cache, requests):
        missing = [(column[sequence[:t], sequence[t]], 1) for t in range(1, requests)]
        rows.append(row(*missing, (ratio, -_fewest(sequence, cache))))
        limits.append(-1)  # the first request is a fault
    sides, values = zip(*equal, strict=True)
    return linprog(row((ratio, 1)), A_ub=rows, b_ub=limits, A_eq=sides, b_eq=values).fun


@pytest.mark.slow
@pytest.mark.parametrize(("cache", "requests"), [(1, 2), (2, 3), (2, 6), (3, 4)])
def test_the_exact_values_are_those_of_a_game_tree_and_a_linear_programme(cache, requests):
    values = Task(cache=cache, requests=requests).abilities().exact_values()
    assert values["best_deterministic"] == pytest.approx(_deterministic(cache, requests))
    assert values["best_randomised"] == pytest.approx(_randomised(cache, requests))


@pytest.mark.slow
def test_a_batch_of_all_sequences_holds_each_once():
    task = Task(cache=3, requests=4)
    batch = task.sample_inputs(jax.random.key(0), 27).tolist()
    assert sorted(map(tuple, batch)) == sorted(_sequences(3, 4))


@pytest.mark.parametrize("requests", [3, 12])
def test_sequences_without_a_whole_phase_and_too_many_are_refused(requests):
    with pytest.raises(ValidationError, match="requests:"):
        Task(cache=3, requests=requests)
