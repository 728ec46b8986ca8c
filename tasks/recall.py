"""Associative recall: remember a value for each of N keys, then return the value of one of them.

The model reads N tokens, one a key in a fixed order, and then the query. A token is [value | one-hot key | seed]: d
uniform bits, the key, and the random bits of the seed, the same on every token. The query's value part is zero. The
mask is causal and the d logits of the last position are read, one a bit. The loss is the binary cross-entropy, averaged
over bits (the paper writes a sum; the published values are means: 0.69 is a guess).

The paper's table gives the network a token size of 15 and no input embedding. Value and seed alone are 15 features, so
as written there is no room for the N features of the key, and that network cannot be built.

Work is shared exactly, for a polynomial model (linear attention, no LayerNorm, no MLP) of two blocks and one head.
What the first block computes from a token before it attends depends on value, key and seed alone, so it is computed
once for every value, key and seed, not once for every input. Only the last position is read, so the second block is
computed for one query, and all projections are folded to the few features of a head or of the output. And causal
linear attention is a running sum of key^T value (Katharopoulos et al., arXiv 2006.16236), which for heads this small
costs less than the pairs of positions.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray
from pydantic import Field

from sweeper.trial import contracts, vectorisation

FILLINGS = 16
"""Random fillings of the other keys, per target value and query, in the evaluation set."""


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
        polynomial = _two_layers(network)
        if polynomial is None:
            return super().losses(network, inputs, seeds)
        logits = _logits(self._tables(network, polynomial, seeds), inputs)
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
        polynomial = _two_layers(network)
        if polynomial is not None:
            tables = self._tables(network, polynomial, seeds)
            return _in_chunks(lambda some: self._outcomes(_logits(tables, some), some), inputs, 512)
        over_seeds = jax.vmap(self.logits, in_axes=(None, None, 0))
        plain = jax.vmap(over_seeds, in_axes=(None, 0, None))
        return _in_chunks(lambda some: self._outcomes(plain(network, some, seeds), some), inputs, 16)

    def abilities(self) -> contracts.Abilities:
        """Votes on every bit and on whole values; `stored_items` as a metric; groups by the key that is asked for."""
        return contracts.Abilities(
            voting=contracts.Voting(
                self._right_bits,
                wrong_answers=2**self.value_bits - 1,
                parts=self.value_bits,
                rules={"majority": "partwise", "majority_tuple": "joint"},
            ),
            own_metrics=self._stored_items,
            groups=contracts.Groups(self.keys, lambda inputs: inputs.query),
        )

    def _right_bits(
        self, inputs: Inputs, answers: Integer[Array, "input voter part"]
    ) -> Bool[Array, "input voter part"]:
        return answers == self._target(inputs)[:, None]

    def _stored_items(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Success times N: the number of keys whose value a network could hold to succeed so often."""
        return {"stored_items": metrics["success"] * self.keys}

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
    ) -> "Tables":
        values = self._bits(jnp.tile(jnp.arange(2**self.value_bits), self.keys))
        nothing = jnp.zeros((self.keys, self.value_bits), int)
        keys = jnp.arange(self.keys)
        repeated = jnp.repeat(keys, 2**self.value_bits)

        def embedded(r: Float[Array, " seed_bit"]) -> tuple[Float[Array, "key value width"], Float[Array, "key width"]]:
            tokens = network.embed(self._tokens(values, repeated, r), repeated)
            last = network.embed(self._tokens(nothing, keys, r), jnp.full(self.keys, self.keys))
            return tokens.reshape(self.keys, 2**self.value_bits, -1), last

        return _expanded(polynomial, *jax.vmap(embedded)(seeds))


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


def _two_layers(network: contracts.Network) -> contracts.Polynomial | None:
    """The network as a polynomial of two layers, which `_expanded` tabulates; None for any other network."""
    polynomial = network.polynomial()
    return polynomial if polynomial is not None and len(polynomial.layers) == 2 else None


class Projections(NamedTuple):
    """The projections of a token that both blocks read before block one has written to it.

    Attributes:
        query: Its query in block one.
        memory: Its key^T value in block one, flattened: what it adds to the running sum.
        key: Its key in block two.
        message: Its value in block two, passed on through output and read-out to the logits.
    """

    query: Float[Array, "..."]
    memory: Float[Array, "..."]
    key: Float[Array, "..."]
    message: Float[Array, "..."]


class Tables(NamedTuple):
    """Everything the logits of a two-block linear-attention network can depend on, per seed.

    Attributes:
        tokens: Of every key with every value; axes are seed, key, feature, value.
        last: Of the last token, for every key that may be asked for; axes are seed, feature, key.
        last_query: Its query in block two.
        direct: Its own share of the logits.
        to_key: Key in block two of what block one writes.
        to_message: Message in block two of what block one writes.
        to_query: Query in block two of what block one writes.
        to_logits: Its share of the logits.
        bias: The read-out's.
    """

    tokens: Projections
    last: Projections
    last_query: Float[Array, "seed feature key"]
    direct: Float[Array, "seed bit key"]
    to_key: Float[Array, "feature feature"]
    to_message: Float[Array, "feature bit"]
    to_query: Float[Array, "feature feature"]
    to_logits: Float[Array, "feature bit"]
    bias: Float[Array, " bit"]


def _expanded(
    polynomial: contracts.Polynomial, h: Float[Array, "seed key value width"], last: Float[Array, "seed key width"]
) -> Tables:
    """Tables for the embedded tokens h and the embedded last tokens.

    With k, v, q the projections of block one, it adds a_t W to token t, where a_t = q_t (sum_{s <= t} k_s^T v_s) has
    the few features of a head and W is the output matrix. Everything after that is linear in h_t + a_t W, but for the
    products of block two, so each of its projections is one of h_t, tabulated, plus one of a_t.
    """
    first, second = polynomial.layers
    readout = polynomial.readout
    write, message = first.output, second.update() @ readout

    def projections(h: Float[Array, "... width"]) -> Projections:
        key, value = h @ first.key, h @ first.value
        memory = (key[..., :, None] * value[..., None, :]).reshape(*key.shape[:-1], -1)
        return Projections(h @ first.query, memory, h @ second.key, h @ message)

    def features_first(x: Float[Array, "... row feature"]) -> Float[Array, "... feature row"]:
        return jnp.swapaxes(x, -1, -2)

    return Tables(
        tokens=jax.tree.map(features_first, projections(h)),
        last=jax.tree.map(features_first, projections(last)),
        last_query=features_first(last @ second.query),
        direct=features_first(last @ readout),
        to_key=write @ second.key,
        to_message=write @ message,
        to_query=write @ second.query,
        to_logits=write @ readout,
        bias=polynomial.bias,
    )


def _logits(tables: Tables, inputs: Inputs) -> Float[Array, "input seed bit"]:
    """Logits of every input and seed.

    Look-ups are products with one-hot matrices, because XLA makes neither gathers nor scatters fast on a CPU, and
    because scatters on a GPU add in any order. The second block needs no scores either: with one query, it reads a sum
    of key^T message over all tokens.

    On a CPU seeds and tokens take turns, and each seed is computed again for the gradient, so that what is in flight
    fits into a core's cache. On an accelerator all seeds and tokens are computed at once.
    """
    values = jax.nn.one_hot(inputs.values.T, tables.tokens.query.shape[-1], axis=1)  # [key, value, input]
    query = jax.nn.one_hot(inputs.query, tables.direct.shape[-1], axis=0)  # [key, input]
    remembered = _remembered_in_turns if vectorisation.in_turns() else _remembered_at_once

    def of_seed(tables: Tables) -> Float[Array, "bit input"]:
        tokens, last = tables.tokens, jax.tree.map(lambda table: _looked_up(table, query), tables.last)
        rows = jnp.concatenate([tokens.query, tokens.memory, tokens.key, tokens.message], axis=1)
        memory, messages = remembered(tables, rows, values)
        attended = _read(last.query, memory + last.memory)
        ask = _looked_up(tables.last_query, query) + tables.to_query.T @ attended
        key, message = last.key + tables.to_key.T @ attended, last.message + tables.to_message.T @ attended
        direct = _looked_up(tables.direct, query) + tables.to_logits.T @ attended + tables.bias[:, None]
        return direct + _read(ask, messages + _outer(key, message))

    per_seed = {"tokens": tables.tokens, "last": tables.last, "last_query": tables.last_query, "direct": tables.direct}
    if vectorisation.in_turns():
        taken = jax.checkpoint(of_seed)
        logits = jax.lax.map(lambda tables_of_seed: taken(tables._replace(**tables_of_seed)), per_seed)
    else:
        logits = jax.vmap(lambda tables_of_seed: of_seed(tables._replace(**tables_of_seed)))(per_seed)
    return jnp.moveaxis(logits, 2, 0)


def _remembered_in_turns(
    tables: Tables, rows: Float[Array, "key feature value"], values: Float[Array, "key value input"]
) -> tuple[Float[Array, "pair input"], Float[Array, "message input"]]:
    """What is left of all tokens before the last, with the tables of one seed.

    Args:
        tables: The matrices between the blocks.
        rows: The projections of every key with every value; query, memory, key and message one after the other.
        values: The value of every key as a one-hot column.

    Returns:
        The sum of key^T value in block one, and the sum of key^T message in block two, both flattened.
    """
    head, bits, inputs = len(tables.to_key), tables.to_message.shape[1], values.shape[2]

    def remember(memories: tuple[Array, Array], token: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        memory, messages = memories
        own, value = token
        own_query, own_memory, own_key, own_message = jnp.split(_looked_up(own, value), _parts(head))
        memory = memory + own_memory
        attended = _read(own_query, memory)
        key, message = own_key + tables.to_key.T @ attended, own_message + tables.to_message.T @ attended
        return (memory, messages + _outer(key, message)), None

    start = jnp.zeros((head**2, inputs)), jnp.zeros((head * bits, inputs))
    return jax.lax.scan(remember, start, (rows, values))[0]


def _remembered_at_once(
    tables: Tables, rows: Float[Array, "key feature value"], values: Float[Array, "key value input"]
) -> tuple[Float[Array, "pair input"], Float[Array, "message input"]]:
    """As `_remembered_in_turns`; the running sum over tokens is a product with a triangular matrix."""
    own = jax.vmap(_looked_up)(rows, values)
    own_query, own_memory, own_key, own_message = jnp.split(own, _parts(len(tables.to_key)), axis=1)
    memory = jnp.einsum("ts,spi->tpi", jnp.tri(len(rows)), own_memory, precision=jax.lax.Precision.HIGHEST)
    attended = jax.vmap(_read)(own_query, memory)
    key, message = own_key + tables.to_key.T @ attended, own_message + tables.to_message.T @ attended
    return memory[-1], jax.vmap(_outer)(key, message).sum(axis=0)


def _parts(head: int) -> tuple[int, int, int]:
    """Where memory, key and message begin in the projections of a token, for `head` features of a head."""
    return head, head + head**2, head + head**2 + head


def _looked_up(table: Float[Array, "feature row"], one_hot: Float[Array, "row input"]) -> Float[Array, "feature input"]:
    """The row of a table that each input names.

    A look-up must return what stands in the table. Where a matrix product rounds its factors by default, as to the 10
    bits of TF32 on a GPU, it would not: hence the highest precision, which a CPU has anyway.
    """
    return jnp.matmul(table, one_hot, precision=jax.lax.Precision.HIGHEST)


# Products over the features of a head, which come first, for many inputs at a time. Their derivatives are written out
# because the ones XLA finds reduce over short leading axes, which it does several times slower than these sums.


@jax.custom_vjp
def _outer(key: Float[Array, "f input"], value: Float[Array, "g input"]) -> Float[Array, "pair input"]:
    """key^T value of every input, flattened."""
    return jnp.repeat(key, len(value), axis=0) * jnp.tile(value, (len(key), 1))


@jax.custom_vjp
def _read(query: Float[Array, "f input"], memory: Float[Array, "pair input"]) -> Float[Array, "g input"]:
    """query @ memory of every input, for a flattened memory."""
    products = jnp.repeat(query, len(memory) // len(query), axis=0) * memory
    return functools.reduce(jnp.add, jnp.split(products, len(query)))


def _read_transposed(memory: Float[Array, "pair input"], attended: Float[Array, "g input"]) -> Float[Array, "f input"]:
    """memory @ attended of every input, for a flattened memory."""
    products = (memory * jnp.tile(attended, (len(memory) // len(attended), 1))).reshape(-1, *attended.shape)
    return functools.reduce(jnp.add, (products[:, column] for column in range(len(attended))))


_outer.defvjp(
    lambda key, value: (_outer(key, value), (key, value)),
    lambda factors, change: (_read_transposed(change, factors[1]), _read(factors[0], change)),
)
_read.defvjp(
    lambda query, memory: (_read(query, memory), (query, memory)),
    lambda factors, change: (_read_transposed(factors[1], change), _outer(factors[0], change)),
)
