"""The logits of a polynomial network of two blocks, from tables: work that inputs of associative recall share.

What the first block computes from a token before it attends depends on value, key and seed alone, so it is computed
once for every value, key and seed, not once for every input. Only the last position is read, so the second block is
computed for one query, and all projections are folded to the few features of a head or of the output. And causal
linear attention is a running sum of key^T value (Katharopoulos et al., arXiv 2006.16236), which for heads this small
costs less than the pairs of positions.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sweeper.learned_algorithms import contracts
from sweeper.trial.vectorisation import in_turns, product, products


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


def expanded(
    polynomial: contracts.Polynomial, h: Float[Array, "seed key value width"], last: Float[Array, "seed key width"]
) -> Tables:
    """Tables for the embedded tokens h and the embedded last tokens.

    With k, v, q the projections of block one, it adds a_t W to token t, where a_t = q_t (sum_{s <= t} k_s^T v_s) has
    the few features of a head and W is the output matrix. Everything after that is linear in h_t + a_t W, but for the
    products of block two, so each of its projections is one of h_t, tabulated, plus one of a_t.
    """
    first, second = polynomial.layers
    readout = polynomial.readout
    write, message = first.output, product(second.update(), readout)

    def features_first(x: Float[Array, "... row feature"]) -> Float[Array, "... feature row"]:
        return jnp.swapaxes(x, -1, -2)

    def under(h: Float[Array, "... row width"], *matrices: Float[Array, "width _"]) -> list[Float[Array, "... _ row"]]:
        """h @ matrix for each matrix, features first."""
        return [features_first(part) for part in products(h, matrices)]

    def projections(key: Array, value: Array, query: Array, *second: Array) -> Projections:
        pairs = features_first(key)[..., :, None] * features_first(value)[..., None, :]
        return Projections(query, features_first(pairs.reshape(*pairs.shape[:-2], -1)), *second)

    matrices = first.key, first.value, first.query, second.key, message
    tokens = projections(*under(h, *matrices))
    *of_last, last_query, direct = under(last, *matrices, second.query, readout)
    return Tables(
        tokens=tokens,
        last=projections(*of_last),
        last_query=last_query,
        direct=direct,
        to_key=product(write, second.key),
        to_message=product(write, message),
        to_query=product(write, second.query),
        to_logits=product(write, readout),
        bias=polynomial.bias,
    )


def table_logits(
    tables: Tables, values: Int[Array, "input key"], queries: Int[Array, " input"]
) -> Float[Array, "input seed bit"]:
    """Logits of every input and seed.

    Look-ups are products with one-hot matrices, because XLA makes neither gathers nor scatters fast on a CPU, and
    because scatters on a GPU add in any order. The second block needs no scores either: with one query, it reads a sum
    of key^T message over all tokens.

    On a CPU seeds and tokens take turns, and each seed is computed again for the gradient, so that what is in flight
    fits into a core's cache. On an accelerator all seeds and tokens are computed at once.
    """
    chosen = jax.nn.one_hot(values.T, tables.tokens.query.shape[-1], axis=1)  # [key, value, input]
    asked = jax.nn.one_hot(queries, tables.direct.shape[-1], axis=0)  # [key, input]
    remembered = _remembered_in_turns if in_turns() else _remembered_at_once

    def of_seed(tables: Tables) -> Float[Array, "bit input"]:
        tokens, last = tables.tokens, jax.tree.map(lambda table: _looked_up(table, asked), tables.last)
        rows = jnp.concatenate([tokens.query, tokens.memory, tokens.key, tokens.message], axis=1)
        memory, messages = remembered(tables, rows, chosen)
        attended = _read(last.query, memory + last.memory)
        ask = _looked_up(tables.last_query, asked) + product(tables.to_query.T, attended)
        key = last.key + product(tables.to_key.T, attended)
        message = last.message + product(tables.to_message.T, attended)
        direct = _looked_up(tables.direct, asked) + product(tables.to_logits.T, attended) + tables.bias[:, None]
        return direct + _read(ask, messages + _outer(key, message))

    per_seed = {"tokens": tables.tokens, "last": tables.last, "last_query": tables.last_query, "direct": tables.direct}
    if in_turns():
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
    key, message = own_key + product(tables.to_key.T, attended), own_message + product(tables.to_message.T, attended)
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
