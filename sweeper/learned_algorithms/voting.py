"""Votes of seeds r: margins, the disjoint groups of the paper, and the success of k votes estimated from all seeds.

In this module every seed is a seed r of an evaluation. The paper cuts K seeds into disjoint groups of k and lets every
group vote (`vote_success`). With K = 100 and k = 30 an input then has three votes, so that its success is 0, 1/3, 2/3
or 1.

`estimates` uses all seeds many times. The seeds are shuffled and cut into disjoint groups of k, and again, until there
are at least `GROUPS` groups. For every input the share of the groups whose vote is right is an unbiased estimate of the
success of k fresh seeds, an incomplete U-statistic (Blom, Biometrika 63, 1976). All inputs share the groups.

Ties: the answer cast first wins. In votes on whole answers a group has a random order, so that every tied answer is the
first with equal probability: the vote counts with the share of right answers among the tied answers. In votes part by
part the order must not differ between parts, and the first vote is that of the seed drawn first.

The standard error of an average over inputs. Let H(S) be the average success of group S, U the mean of H over all
groups, and P the mean of H(S) H(T) over the pairs of groups of one shuffle. Groups of one shuffle share no seed, so
H(S) and H(T) are independent, and the expectation of P is the square of the true success. Hence U^2 - P is an unbiased
estimate of the variance of U (as in Wang and Lindsay, Statistica Sinica 24, 2014). The estimate covers both the draw
of the seeds and the choice of the groups. It needs two groups in a shuffle, so that only sizes of up to half of the
seeds are estimated. The estimate of the variance may be negative; then there is no standard error.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, PyTree

from sweeper.learned_algorithms.contracts import Voting, VotingRule
from sweeper.trial import vectorisation

SIZES = (1, 3, 10, 20, 50, 100, 200, 300)
"""Numbers of votes that are always estimated, beside those that the trial names."""

GROUPS = 75
"""Least number of groups of an estimate, hence of steps of an input's share: three in each bin of 4 %."""

INPUTS_IN_TURNS, INPUTS_AT_ONCE = 256, 65_536
"""Inputs that vote at once on a CPU, where their counts should stay in a core's cache, and elsewhere."""

ROUNDING = 1e-18
"""Variances of averages below this are rounding."""

BYTES_OF_A_REGISTER = 64
"""Groups are filled up to a multiple of so many bytes, the width of a vector register."""


class Share(NamedTuple):
    """A share of each input as two numbers, whose quotient is exactly 1 where all is right.

    A program that divides by a constant multiplies by its inverse, and then 100 of 100 may be 0.99999994.
    """

    amount: Int[Array, " input"] | Float[Array, " input"]
    whole: Int[Array, ""]

    def values(self) -> np.ndarray:
        """The shares in single precision."""
        return (np.asarray(self.amount, np.float64) / float(self.whole)).astype(np.float32)

    @classmethod
    def of_seeds(cls, right: Bool[Array, "input seed"]) -> "Share":
        """The share of seeds."""
        return cls(right.sum(axis=1), jnp.asarray(right.shape[1]))


# Margins, and the disjoint groups of the paper


def part_margin(right: Bool[Array, "input seed part"]) -> Share:
    """For the part of the answer that the fewest seeds have right: share of seeds with it right, less the share wrong.

    Where this margin is positive, votes on each part by itself are right in the limit of many seeds.
    """
    seeds = right.shape[1]
    return Share((2 * right.sum(axis=1) - seeds).min(axis=-1), jnp.asarray(seeds))


def vote_success(
    voting: Voting, inputs: PyTree, answers: Integer[Array, "input seed part"], group: int, rule: VotingRule
) -> Share:
    """Share of the disjoint groups of `group` seeds whose vote is right.

    `joint` takes the most frequent whole answer, `partwise` the most frequent value of each part; among equally
    frequent answers or values the first cast wins. Seeds left over after the last full group do not vote.
    """
    groups = answers.shape[1] // group

    def winners(ballots: Integer[Array, "seed part"]) -> Integer[Array, "group part"]:
        cast = ballots[: groups * group].reshape(groups, group, -1)
        agrees = cast[:, :, None] == cast[:, None]
        if rule == "joint":
            first = agrees.all(axis=-1).sum(axis=2).argmax(axis=1)
            return jnp.take_along_axis(cast, first[:, None, None], axis=1)[:, 0]
        first = agrees.sum(axis=2).argmax(axis=1)
        return jnp.take_along_axis(cast, first[:, None], axis=1)[:, 0]

    voted = jax.lax.map(winners, answers, batch_size=_batch())
    return Share.of_seeds(voting.right(inputs, voted))


# The success of k votes


class Estimate(NamedTuple):
    """The success of k votes."""

    by_input: Share  # the success on every input
    # The success of every group, averaged over inputs; the groups of a shuffle have no seed in common
    by_group: Float[Array, "shuffle group"]


class Ballots(NamedTuple):
    """The results of `count_ballots` for each input; see there."""

    margin: Share  # lead of the most frequent right answer over the most frequent wrong answer
    wrong_entropy: Float[Array, " input"]  # entropy of the wrong answers in bits, 0 where none is wrong
    estimates: dict[int, Estimate]  # the success of votes on whole answers, by number of votes


class VoterGroups(NamedTuple):
    """Random groups of several sizes."""

    sizes: tuple[int, ...]
    shuffles: tuple[int, ...]  # how often the seeds are shuffled, for each size
    # int8 `[seed, group]`, 1 where a seed belongs to a group. Groups stand by size, then by shuffle; at the end some
    # stand again, up to a multiple of `BYTES_OF_A_REGISTER`.
    members: np.ndarray
    first: np.ndarray  # `[group]`, the seed of each group that is drawn first

    @property
    def seeds(self) -> int:
        return self.members.shape[0]

    def counts(self) -> list[int]:
        """Number of groups of each size."""
        return [shuffles * (self.seeds // size) for size, shuffles in zip(self.sizes, self.shuffles, strict=True)]

    def size_of_group(self) -> np.ndarray:
        """Float32 `[group, size]`, 1 where a group has the size; a repeated group has none."""
        places = np.repeat(np.arange(len(self.sizes)), self.counts())
        sizes = np.zeros((self.members.shape[1], len(self.sizes)), np.float32)
        sizes[np.arange(len(places)), places] = 1
        return sizes


def sizes_of(seeds: int, named: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of votes whose success is estimated: `SIZES` and the named sizes, up to half the number of seeds."""
    return tuple(size for size in sorted({*SIZES, *named}) if 2 * size <= seeds)


@functools.cache
def random_groups(seeds: int, sizes: tuple[int, ...]) -> VoterGroups:
    """At least `GROUPS` groups of every size but 1; see the module's text.

    The groups are a part of the protocol, and the same for all trials, whose seeds are drawn independently of them.
    """
    sizes = tuple(size for size in sizes if size > 1)
    shuffles = tuple(-(-GROUPS // (seeds // size)) for size in sizes)
    random = np.random.default_rng(0)
    groups = [
        group
        for size, count in zip(sizes, shuffles, strict=True)
        for _ in range(count)
        for group in random.permutation(seeds)[: seeds // size * size].reshape(-1, size)
    ]
    filled = -(-len(groups) // BYTES_OF_A_REGISTER) * BYTES_OF_A_REGISTER
    members = np.zeros((seeds, filled), np.int8)
    for number in range(filled):
        members[groups[number % len(groups)], number] = 1
    return VoterGroups(sizes, shuffles, members, members.argmax(axis=0))


def count_ballots(
    correct: Bool[Array, "input seed"], answers: Integer[Array, "input seed part"], groups: VoterGroups
) -> Ballots:
    """How the seeds of each input are divided among whole answers, and how groups of them vote.

    The ballots of an input are sorted once, so that equal answers stand side by side. One pass over them counts the
    answers of all seeds and of all groups. Equal answers are equally right.

    `margin` is the share of seeds that give the most frequent right answer, less the share that give the most frequent
    wrong answer: where it is positive, votes are right in the limit of many seeds (the paper's section 2). Of
    `wrong_entropy`: the more the wrong answers are spread, the fewer right answers win a vote. With n wrong answers the
    entropy is at most log2(n), so that few seeds underestimate the entropy.
    """
    seeds = groups.seeds
    count_type = jnp.int8 if max(groups.sizes, default=1) < 128 else jnp.int16
    members = jnp.asarray(groups.members, count_type)
    terms = jnp.asarray([0.0, *(count * np.log2(count) for count in range(1, seeds + 1))], jnp.float32)

    def vote(case: tuple[Array, Array]) -> tuple[Float[Array, "input group"], dict[str, Array]]:
        seed, right, last = _sorted(*case)
        nothing = jnp.zeros((len(seed), members.shape[1]), count_type)
        none = jnp.zeros(len(seed), jnp.int32)

        def count(carry: Any, ballot: Any) -> tuple[Any, None]:
            (votes, most, rights, wrongs), (run, leading, bits) = carry
            seed, right, last = ballot
            run = run + 1
            leading = jnp.maximum(leading, jnp.where(jnp.stack([right, ~right]), run, 0))
            bits = bits + jnp.where(last & ~right, terms[run], 0.0)
            votes = votes + members[seed]
            right, last = right[:, None], last[:, None]
            more, same = last & (votes > most), last & (votes == most)
            rights = jnp.where(more, right.astype(count_type), rights + (same & right))
            wrongs = jnp.where(more, (~right).astype(count_type), wrongs + (same & ~right))
            most = jnp.where(more, votes, most)
            ended = jnp.where(last, count_type(0), votes), jnp.where(last[:, 0], 0, run)
            return ((ended[0], most, rights, wrongs), (ended[1], leading, bits)), None

        start = (nothing, nothing, nothing, nothing), (none, jnp.stack([none, none]), none.astype(jnp.float32))
        ((_, _, rights, wrongs), (_, leading, bits)), _ = jax.lax.scan(count, start, (seed.T, right.T, last.T))
        wrong = seeds - right.sum(axis=1)
        # With c seeds for each wrong answer the entropy is log2(wrong) less the mean of c log2(c) / wrong.
        entropy = (terms[wrong] - bits) / jnp.maximum(wrong, 1)
        rights, wrongs = rights.astype(jnp.float32), wrongs.astype(jnp.float32)
        return rights / (rights + wrongs), {"lead": leading[0] - leading[1], "entropy": entropy}

    estimates, rest = _in_chunks(vote, (correct, answers), groups)
    return Ballots(Share(rest["lead"], jnp.asarray(seeds)), rest["entropy"], estimates)


def partwise_estimates(right: Bool[Array, "input seed part"], groups: VoterGroups) -> dict[int, Estimate]:
    """The success of votes on each part of the answers by itself, by number of votes.

    A majority of right votes wins a part, and the seed drawn first decides a tie. If a part has more than two values,
    the right value can also win without a majority, when wrong votes split; as in `part_margin` this is not counted.
    """
    # Half a vote more for the seed drawn first decides ties and nothing else.
    half = 0.5 * (np.arange(groups.seeds)[:, None] == groups.first)
    weights = jnp.asarray(groups.members + half, jnp.float32)
    enough = weights.sum(axis=0) / 2

    def vote(case: tuple[Array]) -> tuple[Float[Array, "input group"], dict[str, Array]]:
        (right,) = case
        votes = jnp.einsum("isp,sl->ipl", right.astype(jnp.float32), weights, precision="highest")
        return (votes > enough).all(axis=1).astype(jnp.float32), {}

    return _in_chunks(vote, (right,), groups)[0]


def single_votes(correct: Bool[Array, "input seed"]) -> Estimate:
    """The success of single seeds: every seed is a group."""
    return Estimate(Share.of_seeds(correct), correct.mean(axis=0)[None])


def standard_error(by_group: np.ndarray) -> float | None:
    """Standard error of the mean of `by_group`, whose axes are shuffle and group; see the module's text.

    None where the estimate of the variance is negative.
    """
    shuffles, groups = by_group.shape
    values = by_group.astype(np.float64)
    values -= values.mean()  # U = 0, and equal values leave nothing but rounding
    products = (values.sum(axis=1) ** 2 - (values**2).sum(axis=1)).sum() / (shuffles * groups * (groups - 1))
    return None if products > ROUNDING else float(np.sqrt(max(0.0, -products)))


def _sorted(
    correct: Bool[Array, "input seed"], answers: Integer[Array, "input seed part"]
) -> tuple[Int[Array, "input seed"], Bool[Array, "input seed"], Bool[Array, "input seed"]]:
    """The seeds of each input in an order in which equal answers are neighbours, whether each is right, and whether
    it is the last of its answer."""
    seeds = jnp.broadcast_to(jnp.arange(answers.shape[1], dtype=jnp.uint32), answers.shape[:2])
    if answers.shape[2] == 1 and answers.dtype in (jnp.uint8, jnp.uint16) and answers.shape[1] < 2**15:
        # Numbers are sorted several times faster than rows.
        code = jnp.sort((answers[..., 0].astype(jnp.uint32) << 16) | (correct.astype(jnp.uint32) << 15) | seeds)
        parts, right, seed = [code >> 16], (code >> 15) % 2 == 1, code % 2**15
    else:
        columns = [answers[..., part] for part in range(answers.shape[2])]
        *parts, right, seed = jax.lax.sort((*columns, correct, seeds), num_keys=len(columns))
    differs = jnp.stack([part[:, 1:] != part[:, :-1] for part in parts]).any(axis=0)
    return seed.astype(jnp.int32), right, jnp.pad(differs, ((0, 0), (0, 1)), constant_values=True)


def _batch() -> int:
    return INPUTS_IN_TURNS if vectorisation.in_turns() else INPUTS_AT_ONCE


def _in_chunks(
    vote: Any, cases: tuple[Array, ...], groups: VoterGroups
) -> tuple[dict[int, Estimate], dict[str, Array]]:
    """The votes of all inputs, some at a time: estimates by number of votes, and further columns.

    All arrays have the leading axis input; `vote` gives of some cases the success of every group, `[input, group]`, and
    the further columns.
    """
    inputs = len(cases[0])
    size = min(_batch(), inputs)
    place = jnp.arange(-(-inputs // size) * size).reshape(-1, size)
    of_size = groups.size_of_group()

    def of_chunk(total: Float[Array, " group"], place: Int[Array, " input"]) -> tuple[Array, Any]:
        success, rest = vote(tuple(case[place % inputs] for case in cases))
        counted = (place < inputs).astype(jnp.float32)
        return total + jnp.matmul(counted, success, precision="highest"), (
            jnp.matmul(success, of_size, precision="highest"),
            rest,
        )

    total, (by_size, rest) = jax.lax.scan(of_chunk, jnp.zeros(groups.members.shape[1]), place)
    by_size, rest = jax.tree.map(lambda leaf: leaf.reshape(place.size, *leaf.shape[2:])[:inputs], (by_size, rest))
    estimates, begin = {}, 0
    for index, (size, shuffles, count) in enumerate(zip(groups.sizes, groups.shuffles, groups.counts(), strict=True)):
        by_group = (total[begin : begin + count] / inputs).reshape(shuffles, -1)
        estimates[size] = Estimate(Share(by_size[:, index], jnp.asarray(count)), by_group)
        begin += count
    return estimates, rest
