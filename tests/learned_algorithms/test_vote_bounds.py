"""The bounds on the success of votes, held against simulated elections."""

import itertools
import math

import numpy as np
import pytest

from sweeper.learned_algorithms.vote_bounds import success_promised

ELECTIONS = 20_000


def _needed(margin: float, rivals: int, failure: float) -> int:
    """The least number of votes for which the bound promises that they fail no more often."""
    votes = max(1, math.ceil(2 / margin**2 * math.log(rivals / failure)))
    assert success_promised(votes, margin, rivals) >= 1 - failure
    return votes


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
    assert _failures(right, wrong, _needed(right - max(wrong), len(wrong), failure)) <= failure


def _partwise_failures(answers: dict[tuple[int, ...], float], voters: int) -> float:
    """Share of simulated votes on which some bit is not won by 1, whole answers having these probabilities."""
    draws = np.random.default_rng(0).multinomial(voters, list(answers.values()), ELECTIONS)
    ones = draws @ np.array(list(answers))
    return float((2 * ones <= voters).any(axis=1).mean())


def _independent(*right: float) -> dict[tuple[int, ...], float]:
    """Answers whose bits are 1 with these probabilities, independently of each other."""
    bits = itertools.product((0, 1), repeat=len(right))
    return {answer: math.prod(p if bit else 1 - p for bit, p in zip(answer, right, strict=True)) for answer in bits}


ONE_BIT_WRONG = {(1, 1, 1): 0.1, (0, 1, 1): 0.3, (1, 0, 1): 0.3, (1, 1, 0): 0.3}
TOGETHER = {(1, 1, 1): 0.7, (0, 0, 0): 0.3}


@pytest.mark.parametrize(
    "answers",
    [ONE_BIT_WRONG, TOGETHER, _independent(0.8, 0.8, 0.8, 0.8, 0.8), _independent(0.6, 0.9, 1.0), {(1,): 1.0}],
    ids=["never more than one bit wrong", "bits wrong together", "recall at N = 20", "one weak bit", "certain"],
)
@pytest.mark.parametrize("failure", [0.3, 0.05, 0.01])
def test_so_many_votes_part_by_part_fail_no_more_often_than_promised(answers, failure):
    right = np.array(list(answers.values())) @ np.array(list(answers))
    voters = _needed(float(min(2 * right - 1)), len(right), failure)
    for count in (voters, voters + 1):  # one of them is even, so that ties count against it
        assert _partwise_failures(answers, count) <= failure


def test_the_bounds_have_the_right_order():
    """A tenth of the votes fails more often than promised where two answers are close: no bound is idle."""
    assert _failures(0.55, [0.45], _needed(0.1, 1, 0.05) // 10) > 0.05
    assert _partwise_failures(_independent(*[0.6] * 5), _needed(0.2, 5, 0.05) // 10) > 0.05
