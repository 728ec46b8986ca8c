"""The bounds on the number of votes, held against simulated elections."""

import itertools
import math

import numpy as np
import pytest

from sweeper.learned_algorithms.vote_bounds import success_promised, votes_needed

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


def test_the_bounds_have_the_right_order():
    """A tenth of the votes fails more often than promised where two answers are close: no bound is idle."""
    assert _failures(0.55, [0.45], int(votes_needed(0.1, 1) / 10)) > 0.05
    assert _partwise_failures(_independent(*[0.6] * 5), int(votes_needed(0.2, 5) / 10)) > 0.05


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
    voters = int(votes_needed(float(min(2 * right - 1)), len(right), failure))
    for count in (voters, voters + 1):  # one of them is even, so that ties count against it
        assert _partwise_failures(answers, count) <= failure


def test_a_vote_bit_by_bit_can_win_where_no_number_of_whole_answers_does_and_the_other_way_round():
    assert votes_needed(0.1 - 0.3, 3) == math.inf
    assert votes_needed(0.4, 3) == math.ceil(12.5 * math.log(60))
    assert _partwise_failures(ONE_BIT_WRONG, 52) <= 0.05
    first_bit_mostly_wrong = {(1, 1): 0.4, (0, 1): 0.3, (0, 0): 0.3}
    assert votes_needed(0.1, 2) < math.inf
    assert votes_needed(2 * 0.4 - 1, 2) == math.inf
    assert _partwise_failures(first_bit_mostly_wrong, 1001) > 0.99


def test_more_is_asked_for_the_closer_the_rival_and_the_more_of_them():
    assert votes_needed(0.0, 31) == votes_needed(-0.1, 31) == math.inf
    assert votes_needed(0.1, 31) > votes_needed(0.2, 31) > votes_needed(0.2, 3)
    assert votes_needed(1.0, 1, failure=0.9) == 1


@pytest.mark.parametrize(
    "arguments", [(1.1, 3, 0.05), (0.5, 0, 0.05), (0.5, 3, 0.0), (0.5, 3, 1.0), (math.nan, 3, 0.05)]
)
def test_values_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match="not all in range"):
        votes_needed(*arguments)


@pytest.mark.parametrize("margin", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("rivals", [1, 31, 58_023])
def test_what_is_promised_of_so_many_votes_is_what_they_were_needed_for(margin, rivals):
    votes = votes_needed(margin, rivals, 0.05)
    assert success_promised(votes, margin, rivals) >= 0.95
    assert success_promised(votes - 1, margin, rivals) < 0.95
    assert success_promised(1, -margin, rivals) == success_promised(1, 0.0, rivals) == 0
