"""Associative recall: remember a value for each of N keys, then return the value of one of them.

The model reads N tokens, one a key in a fixed order, and then the query. A token is [value | one-hot key | seed]: d
uniform bits, the key, and the random bits of the seed, the same on every token. The query's value part is zero. The
mask is causal and the d logits of the last position are read, one a bit. The loss is the binary cross-entropy, averaged
over bits (the paper writes a sum; the published values are means: 0.69 is a guess).

The paper's table gives the network a token size of 15 and no input embedding. Value and seed alone are 15 features, so
as written there is no room for the N features of the key, and that network cannot be built.

Work is shared exactly, for a polynomial model (linear attention, no LayerNorm, no MLP) of two blocks and one head
(`tasks.recall.polynomial_logits`).
"""

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray
from pydantic import Field

from sweeper.learned_algorithms import contracts
from sweeper.trial import vectorisation
from tasks.recall.polynomial_logits import JoinedTables, Tables, expanded, joined, table_logits

FILLINGS = 16
"""Random fillings of the other keys, per target value and query, in the evaluation set."""


MOST_LISTED_BITS = 12
"""Of seeds with more bits an evaluation takes a sample only."""


class Inputs(NamedTuple):
    """Sequences to remember, with their query.

    Attributes:
        values: The value of each key, as the number whose binary digits are its bits, lowest first.
        query: The key that is asked for.
    """

    values: Int[Array, "*batch key"]
    query: Int[Array, "*batch"]


class Task(contracts.Task):
    """Associative recall.

    Attributes:
        keys: Number N of keys, which is also the number of tokens before the query.
        value_bits: Bits d of a value. The evaluation set grows with 2^d.
        seed_bits: Random bits of a seed; with 0 every seed is the same.
    """

    SHORT_SUMS: ClassVar[bool] = True

    name: Literal["recall"] = "recall"
    keys: Annotated[int, Field(ge=1)] = 20
    value_bits: Annotated[int, Field(ge=1, le=8)] = 5
    seed_bits: Annotated[int, Field(ge=0)] = 10

    def token_size(self) -> int:
        return self.value_bits + self.keys + self.seed_bits

    def output_size(self) -> int:
        return self.value_bits

    def context_size(self) -> int:
        return self.keys + 1

    def sample_inputs(self, key: PRNGKeyArray, count: int) -> Inputs:
        """`count` sequences of uniform values, each with a uniform query."""
        values, query = jax.random.split(key)
        return Inputs(
            jax.random.randint(values, (count, self.keys), 0, 2**self.value_bits),
            jax.random.randint(query, (count,), 0, self.keys),
        )

    def sample_seeds(self, key: PRNGKeyArray, count: int) -> Float[Array, "seed seed_bit"]:
        """`count` draws of uniform bits, as zeros and ones."""
        return jax.random.bernoulli(key, 0.5, (count, self.seed_bits)).astype(jnp.float32)

    def logits(self, network: contracts.Network, x: Inputs, r: Float[Array, " seed_bit"]) -> Float[Array, " bit"]:
        """Logits of the plain network for one input and one seed."""
        bits = jnp.concatenate([self._bits(x.values), jnp.zeros((1, self.value_bits), int)])
        tokens = self._tokens(bits, jnp.append(jnp.arange(self.keys), x.query), r)
        return network(tokens, jnp.tri(self.keys + 1, dtype=bool))[-1]

    def loss(self, network: contracts.Network, x: Inputs, r: Float[Array, " seed_bit"]) -> Float[Array, ""]:
        """Binary cross-entropy of the queried value, averaged over its bits."""
        return _cross_entropy(self.logits(network, x, r), self._target(x)).mean()

    def losses(
        self, network: contracts.Network, inputs: Inputs, seeds: Float[Array, "seed seed_bit"]
    ) -> Float[Array, "input seed"]:
        polynomial = contracts.polynomial_of(network, 2)
        if polynomial is None:
            return super().losses(network, inputs, seeds)
        logits = table_logits(self._tables(network, polynomial, seeds), *inputs)
        return _cross_entropy(logits, self._target(inputs)[:, None]).mean(axis=-1)

    def evaluation_inputs(self) -> Inputs:
        """Every target value, at every query, among `FILLINGS` independent fillings of the other keys."""
        shape = (2**self.value_bits, self.keys, FILLINGS)
        values = jax.random.randint(jax.random.key(0), (*shape, self.keys), 0, 2**self.value_bits)
        target, query, _ = jnp.indices(shape)
        values = jnp.where(jnp.arange(self.keys) == query[..., None], target[..., None], values)
        return Inputs(values.reshape(-1, self.keys), query.reshape(-1))

    def outcomes(
        self, network: contracts.Network, inputs: Inputs, seeds: Float[Array, "seed seed_bit"]
    ) -> contracts.Outcomes:
        """Outcomes of every input and seed; `answers` has one part a bit."""
        polynomial = contracts.polynomial_of(network, 2)
        if polynomial is not None:
            tables = self._tables(network, polynomial, seeds)
            return _in_chunks(lambda some: self._outcomes(table_logits(tables, *some), some), inputs, 512)
        over_seeds = jax.vmap(self.logits, in_axes=(None, None, 0))
        plain = jax.vmap(over_seeds, in_axes=(None, 0, None))
        return _in_chunks(lambda some: self._outcomes(plain(network, some, seeds), some), inputs, 16)

    def abilities(self) -> contracts.Abilities:
        """Votes on every bit and on whole values, groups by the key that is asked for, metrics of what is stored."""
        return contracts.Abilities(
            voting=contracts.Voting(
                self._right_bits,
                wrong_answers=2**self.value_bits - 1,
                parts=self.value_bits,
                rules={"majority": "partwise", "majority_tuple": "joint"},
            ),
            own_metrics=self._stored_items,
            pair_metrics=self._choice,
            groups=contracts.Groups(self.keys, lambda inputs: inputs.query),
            all_seeds=self._all_seeds if self.seed_bits <= MOST_LISTED_BITS else None,
        )

    def _all_seeds(self) -> Float[np.ndarray, "seed seed_bit"]:
        """Every combination of bits once, in a fixed random order: seeds that vote together stand side by side."""
        numbers = np.random.default_rng(0).permutation(2**self.seed_bits)
        return (numbers[:, None] >> np.arange(self.seed_bits) & 1).astype(np.float32)

    def _right_bits(
        self, inputs: Inputs, answers: Integer[Array, "input voter part"]
    ) -> Bool[Array, "input voter part"]:
        return answers == self._target(inputs)[:, None]

    def _stored_items(self, metrics: Mapping[str, float]) -> dict[contracts.Metric, float]:
        """Success times N: the number of keys whose value a network could hold to succeed so often."""
        return {contracts.Metric("stored_items"): metrics["success"] * self.keys}

    def _choice(self, inputs: Inputs, outcomes: contracts.Outcomes) -> dict[contracts.Metric, Float[Array, ""]]:
        """What the success p of each pair of a seed r and a key tells, over the inputs that ask for the key.

        `bimodality` is the mean of (2p - 1)^2: 1 if every seed stores each key or loses it, 0 if each success is a
        half. It is the sum of three parts: `seed_choice`, 4 times the variance of p over the seeds, on average over
        the keys, is 1 if seeds choose keys like fair coins; `key_choice`, 4 times the variance over the keys of their
        average success, is what training has chosen for all seeds; the rest comes from the average success.
        `pairs_stored`, `pairs_blurred` and `pairs_lost` are the shares of pairs with p above .95, from .3 to .7, and
        below .05.
        """
        right = jax.ops.segment_sum(outcomes.correct.astype(jnp.float32), inputs.query, self.keys)
        success = right / jnp.bincount(inputs.query, length=self.keys)[:, None]
        statistics = {
            "bimodality": ((2 * success - 1) ** 2).mean(),
            "seed_choice": 4 * success.var(axis=1).mean(),
            "key_choice": 4 * success.mean(axis=1).var(),
            "pairs_stored": (success > 0.95).mean(),
            "pairs_blurred": ((success >= 0.3) & (success <= 0.7)).mean(),
            "pairs_lost": (success < 0.05).mean(),
        }
        return {contracts.Metric(name): value for name, value in statistics.items()}

    def _outcomes(self, logits: Float[Array, "input seed bit"], inputs: Inputs) -> contracts.Outcomes:
        cross_entropy = _cross_entropy(logits, self._target(inputs)[:, None])
        answers = (logits > 0).astype(jnp.uint8)
        return contracts.Outcomes(
            correct=self._right_bits(inputs, answers).all(axis=-1),
            # Bits are sampled independently, and exp(-cross entropy) is the probability of the right one.
            sampled=jnp.exp(-cross_entropy.sum(axis=-1)),
            loss=cross_entropy.mean(axis=-1),
            answers=answers,
            variance=jax.nn.sigmoid(logits).var(axis=1).mean(axis=-1),
        )

    def _bits(self, values: Integer[Array, "*batch"]) -> Integer[Array, "*batch bit"]:
        return values[..., None] >> jnp.arange(self.value_bits) & 1

    def _target(self, inputs: Inputs) -> Integer[Array, "*batch bit"]:
        return self._bits(jnp.take_along_axis(inputs.values, inputs.query[..., None], axis=-1)[..., 0])

    def _tokens(
        self, bits: Integer[Array, "token bit"], keys: Int[Array, " token"], r: Float[Array, " seed_bit"]
    ) -> Float[Array, "token feature"]:
        seed = jnp.broadcast_to(r, (len(keys), self.seed_bits))
        return jnp.concatenate([bits, jax.nn.one_hot(keys, self.keys), seed], axis=1)

    def _tables(
        self, network: contracts.Network, polynomial: contracts.Polynomial, seeds: Float[Array, "seed seed_bit"]
    ) -> Tables | JoinedTables:
        assert isinstance(network, contracts.EmbeddingNetwork)
        values = self._bits(jnp.tile(jnp.arange(2**self.value_bits), self.keys))
        nothing = jnp.zeros((self.keys, self.value_bits), int)
        keys = jnp.arange(self.keys)
        repeated = jnp.repeat(keys, 2**self.value_bits)

        if not vectorisation.in_turns():
            bits, of = jnp.concatenate([values, nothing]), jnp.concatenate([repeated, keys])
            positions = jnp.concatenate([repeated, jnp.full(self.keys, self.keys)])
            embed = jax.vmap(lambda r: network.embed(self._tokens(bits, of, r), positions))
            return joined(polynomial, embed(seeds), self.keys)

        def embedded(r: Float[Array, " seed_bit"]) -> tuple[Float[Array, "key value width"], Float[Array, "key width"]]:
            tokens = network.embed(self._tokens(values, repeated, r), repeated)
            last = network.embed(self._tokens(nothing, keys, r), jnp.full(self.keys, self.keys))
            return tokens.reshape(self.keys, 2**self.value_bits, -1), last

        return expanded(polynomial, *jax.vmap(embedded)(seeds))


def _cross_entropy(
    logits: Float[Array, "*batch bit"], target: Integer[Array, "*#batch bit"]
) -> Float[Array, "*batch bit"]:
    return jax.nn.softplus(jnp.where(target == 1, -logits, logits))


def _in_chunks(function: Callable[[Inputs], contracts.Outcomes], inputs: Inputs, size: int) -> contracts.Outcomes:
    """`function` of `size` inputs at a time; the last chunk is filled up with inputs from the front."""
    count = len(inputs.query)
    index = jnp.arange(-(-count // size) * size).reshape(-1, size) % count
    chunks = jax.lax.map(function, jax.tree.map(lambda leaf: leaf[index], inputs))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], chunks)
