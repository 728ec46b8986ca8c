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
from sweeper.trial.vectorisation import product


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
    write, message = first.output, second.update() @ readout

    def features_first(x: Float[Array, "... row feature"]) -> Float[Array, "... feature row"]:
        return jnp.swapaxes(x, -1, -2)

    def under(h: Float[Array, "... row width"], *matrices: Float[Array, "width _"]) -> list[Float[Array, "... _ row"]]:
        """h @ matrix for each matrix, features first."""
        products = [h @ matrix for matrix in matrices]
        return [features_first(part) for part in products]

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
        to_key=write @ second.key,
        to_message=write @ message,
        to_query=write @ second.query,
        to_logits=write @ readout,
        bias=polynomial.bias,
    )


class JoinedTables(NamedTuple):
    """The same tables, one after the other in few arrays: for an accelerator, with a kernel for each array.

    Attributes:
        tokens: The projections of every key with every value.
        last: Those of the last token, for every key that may be asked for; then its query in block two, and its own
            share of the logits.
        written: Key, message and query in block two, and the share of the logits, of what block one writes.
        bias: The read-out's.
    """

    tokens: Float[Array, "seed key projection value"]
    last: Float[Array, "seed feature key"]
    written: Float[Array, "_projection head"]
    bias: Float[Array, " bit"]


def joined(polynomial: contracts.Polynomial, h: Float[Array, "seed token width"], keys: int) -> JoinedTables:
    """As `expanded`, for all tokens: every key with every value, then the last tokens for each of `keys` keys."""
    first, second = polynomial.layers
    head, message = first.key.shape[1], product(second.update(), polynomial.readout)
    block_two = second.key, message, second.query, polynomial.readout
    matrices = jnp.concatenate([first.query, first.key, first.value, *block_two], axis=1)
    projected = matrices.T @ jnp.swapaxes(h, 1, 2)
    query, key, value, rest = jnp.split(projected, [head, 2 * head, 3 * head], axis=1)
    memory = (key[:, :, None] * value[:, None]).reshape(len(h), head**2, -1)
    features = jnp.concatenate([query, memory, rest], axis=1)
    tokens = features[:, : _parts(head)[-1] + message.shape[1], :-keys]
    tokens = jnp.swapaxes(tokens.reshape(*tokens.shape[:2], keys, -1), 1, 2)
    written = product(first.output, jnp.concatenate(block_two, axis=1)).T
    # XLA would put these together within the look-up, and has no tiles for such a product.
    last = jax.lax.optimization_barrier(features[:, :, -keys:])
    return JoinedTables(tokens, last, written, polynomial.bias)


def table_logits(
    tables: Tables | JoinedTables, values: Int[Array, "input key"], queries: Int[Array, " input"]
) -> Float[Array, "input seed bit"]:
    """Logits of every input and seed.

    Look-ups are products with one-hot matrices, because XLA makes neither gathers nor scatters fast on a CPU, and
    because scatters on a GPU add in any order. The second block needs no scores either: with one query, it reads a sum
    of key^T message over all tokens.

    On a CPU seeds and tokens take turns, and each seed is computed again for the gradient, so that what is in flight
    fits into a core's cache. On an accelerator all seeds and tokens are computed at once.
    """
    rows = tables.tokens.shape[-1] if isinstance(tables, JoinedTables) else tables.tokens.query.shape[-1]
    chosen = jax.nn.one_hot(values.T, rows, axis=1)  # [key, value, input]
    asked = jax.nn.one_hot(queries, values.shape[1], axis=0)  # [key, input]
    if isinstance(tables, JoinedTables):
        of_seed = functools.partial(_logits_at_once, tables, chosen=chosen, asked=asked)
        return jnp.moveaxis(jax.vmap(of_seed)(tables.tokens, tables.last), 2, 0)

    def in_turn(tables: Tables) -> Float[Array, "bit input"]:
        tokens, last = tables.tokens, jax.tree.map(lambda table: _looked_up(table, asked), tables.last)
        rows = jnp.concatenate([tokens.query, tokens.memory, tokens.key, tokens.message], axis=1)
        memory, messages = _remembered(tables, rows, chosen)
        attended = _read(last.query, memory + last.memory)
        ask = _looked_up(tables.last_query, asked) + tables.to_query.T @ attended
        key = last.key + tables.to_key.T @ attended
        message = last.message + tables.to_message.T @ attended
        direct = _looked_up(tables.direct, asked) + tables.to_logits.T @ attended + tables.bias[:, None]
        return direct + _read(ask, messages + _outer(key, message))

    per_seed = {"tokens": tables.tokens, "last": tables.last, "last_query": tables.last_query, "direct": tables.direct}
    taken = jax.checkpoint(in_turn)
    logits = jax.lax.map(lambda tables_of_seed: taken(tables._replace(**tables_of_seed)), per_seed)
    return jnp.moveaxis(logits, 2, 0)


def _logits_at_once(
    tables: JoinedTables,
    tokens: Float[Array, "key projection value"],
    last: Float[Array, "feature key"],
    chosen: Float[Array, "key value input"],
    asked: Float[Array, "key input"],
) -> Float[Array, "bit input"]:
    """The logits of one seed; the running sum over tokens is a product with a triangular matrix."""
    head, bits = tables.written.shape[1], len(tables.bias)
    to_memory, to_rest, _ = _parts(head)
    own, own_last = jax.vmap(_looked_up)(tokens, chosen), _looked_up(last, asked)
    memory = jnp.einsum(
        "ts,spi->tpi", jnp.tri(len(own)), own[:, to_memory:to_rest], precision=jax.lax.Precision.HIGHEST
    )
    attended = jax.vmap(_read)(own[:, :to_memory], memory)
    rest = own[:, to_rest:] + product(tables.written[: head + bits], attended)
    messages = jax.vmap(_outer)(rest[:, :head], rest[:, head:]).sum(axis=0)
    attended = _read(own_last[:to_memory], memory[-1] + own_last[to_memory:to_rest])
    rest = own_last[to_rest:] + product(tables.written, attended)
    key, message, ask, direct = jnp.split(rest, [head, head + bits, 2 * head + bits])
    return direct + tables.bias[:, None] + _read(ask, messages + _outer(key, message))


def _remembered(
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
    written = jnp.concatenate([tables.to_key, tables.to_message], axis=1).T
    to_memory, to_rest, _ = _parts(head)

    def remember(memories: tuple[Array, Array], token: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        memory, messages = memories
        own, value = token
        query, own_memory, rest = jnp.split(_looked_up(own, value), [to_memory, to_rest])
        memory = memory + own_memory
        rest = rest + written @ _read(query, memory)
        return (memory, messages + _outer(rest[:head], rest[head:])), None

    start = jnp.zeros((head**2, inputs)), jnp.zeros((head * bits, inputs))
    return jax.lax.scan(remember, start, (rows, values))[0]


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
