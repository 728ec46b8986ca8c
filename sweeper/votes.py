"""How many seeds must vote so that the most frequent answer is right.

Let a model answer right with probability p and give its most likely wrong answer with probability p', and let
D = p - p' be its margin. By Hoeffding's inequality k independent votes count fewer right answers than of one wrong
answer with a probability of at most exp(-k D^2 / 2), as each vote changes the difference of the two counts by at most
one either way; ties included. Summed over all wrong answers, the vote fails with a probability of at most

    |wrong answers| exp(-k D^2 / 2),

which is at most delta for k >= (2 / D^2) ln(|wrong answers| / delta). The paper (arXiv 2408.10818) prints the logarithm
upside down, which would make the bound negative. Where several answers are right, p is that of the likeliest of them.
"""

import math


def votes_needed(margin: float, wrong_answers: int, failure: float = 0.05) -> float:
    """Number k of independent votes that suffices for a majority to be wrong with at most probability `failure`.

    Args:
        margin: D, probability of the right answer less that of the most likely wrong one, at most 1.
        wrong_answers: How many wrong answers there are, at least 1.
        failure: delta, between 0 and 1.

    Returns:
        A whole number of at least 1; infinity where the margin is not positive, as more votes do not help there.

    Raises:
        ValueError: an argument is outside its range.
    """
    if not margin <= 1 or wrong_answers < 1 or not 0 < failure < 1:
        raise ValueError(f"margin {margin}, wrong answers {wrong_answers} and failure {failure} are not all in range")
    if margin <= 0:
        return math.inf
    return float(max(1, math.ceil(2 / margin**2 * math.log(wrong_answers / failure))))
