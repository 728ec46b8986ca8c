"""How many seeds r must vote so that the most frequent answer is right.

**Whole answers.** Let a model answer right with probability p and give its most likely wrong answer with probability
p', and let D = p - p' be its margin. Over k independent votes the count of right answers less that of one wrong answer
is a sum of k independent numbers between -1 and 1, each of mean D or more, so by Hoeffding's inequality it is 0 or less
with a probability of at most exp(-k D^2 / 2). Summed over all wrong answers, the vote fails with a probability of at
most

    |wrong answers| exp(-k D^2 / 2),

which is at most delta for k >= (2 / D^2) ln(|wrong answers| / delta). The paper (arXiv 2408.10818) prints the logarithm
upside down, which would make the bound negative. Where several answers are right, p belongs to the likeliest of them.

**Part by part.** Let an answer have parts, such as bits, on which the same k voters vote one by one. The voted answer
is wrong exactly if the vote on some part is. Let part b be right with probability p_b and D_b = p_b - (1 - p_b) its
margin. If right values outnumber all others together they win, and by the inequality above they fail to with a
probability of at most exp(-k D_b^2 / 2). So the sum is no longer over wrong answers but over parts, each with a single
event "not right": 31 wrong values of five bits become 5 events. The vote fails with a probability of at most

    sum_b exp(-k D_b^2 / 2) <= |parts| exp(-k D^2 / 2)    with D = min_b D_b,

which is at most delta for k >= (2 / D^2) ln(|parts| / delta). The parts of one vote may depend on each other in any
way; only votes must be independent. With two values for a part the margin is exact; with more values the wrong votes
may split among them, and fewer votes may suffice.

Neither bound implies the other. A whole answer that is never given can still win bit by bit, if each bit is mostly
right; and the most frequent answer can have a bit that is mostly wrong.

A tie counts as a failure in both bounds, so that they hold for every way to break ties. A bound for k also holds for
every larger number, odd or even. An even number can do worse than the odd number before it, but not worse than the
bound.
"""

import math

from sweeper.learned_algorithms.contracts import Voting, VotingRule
from sweeper.trial.metrics import Metric

MARGINS: dict[VotingRule, str] = {"joint": Metric("margin").tail.name, "partwise": Metric("part_margin").tail.name}
"""The metric of the margin that decides a vote, by the rule of the vote: its 5th percentile over the inputs."""


def rivals_of(voting: Voting, rule: VotingRule) -> int:
    """How many terms the bound of a vote sums over: one for each wrong answer, or one for each part."""
    return voting.wrong_answers if rule == "joint" else voting.parts


def success_promised(votes: float, margin: float, rivals: int) -> float:
    """Lower bound on the probability that this many independent votes are right, by the bounds above.

    `margin` is D, of whole answers or of the weakest part; the bounds promise nothing where it is not positive.
    """
    return max(0.0, 1 - rivals * math.exp(-votes * margin**2 / 2)) if margin > 0 else 0.0
