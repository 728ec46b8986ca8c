"""The bound on the number of votes, held against simulated elections."""

import math

import numpy as np
import pytest

from sweeper.votes import votes_needed

ELECTIONS = 20_000


def _failures(right: float, wrong: list[float], voters: int) -> float:
    """Share of simulated votes that the right answer does not win alone."""
    draws = np.random.default_rng(0).multinomial(voters, [right, *wrong], ELECTIONS)
    return float((draws[:, 0] <= draws[:, 1:].max(axis=1)).mean())


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (0.4, [0.6 / 31] * 31),  # recall at N = 20: the wrong values evenly spread
        (0.4, [0.3] + [0.3 / 30] * 30),  # one strong rival
        (0.55, [0.45]),
        (0.2, [0.1] * 8),
        (1.0, [0.0]),
    ],
)
@pytest.mark.parametrize("failure", [0.3, 0.05, 0.01])
def test_so_many_votes_fail_no_more_often_than_promised(right, wrong, failure):
    voters = int(votes_needed(right - max(wrong), len(wrong), failure))
    assert _failures(right, wrong, voters) <= failure


def test_the_bound_has_the_right_order():
    """A tenth of the votes fails more often than promised where two answers are close: the bound is not idle."""
    assert _failures(0.55, [0.45], int(votes_needed(0.1, 1) / 10)) > 0.05


def test_without_a_margin_no_number_of_votes_suffices():
    assert votes_needed(0.0, 31) == votes_needed(-0.1, 31) == math.inf


def test_more_is_asked_for_the_closer_the_rival_and_the_more_of_them():
    assert votes_needed(0.1, 31) > votes_needed(0.2, 31) > votes_needed(0.2, 3)
    assert votes_needed(1.0, 1, failure=0.9) == 1


@pytest.mark.parametrize(
    "arguments", [(1.1, 3, 0.05), (0.5, 0, 0.05), (0.5, 3, 0.0), (0.5, 3, 1.0), (math.nan, 3, 0.05)]
)
def test_values_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match="not all in range"):
        votes_needed(*arguments)
