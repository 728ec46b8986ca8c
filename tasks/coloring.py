"""Proper 3-colouring of a cycle by vertices that see only their neighbours.

An input is a Hamiltonian cycle on n labelled vertices, given as the order in which it visits them. Every vertex holds a
token, its one-hot label and one number drawn uniformly from [0, 1]; the noise of a seed serves all cycles. A model
attends along the edges and colours each vertex.

The loss is the expected number of edges with equal colours, divided by 3 n: 1 / (3 n) is exactly one bad edge. (The
paper writes the sum; the published values are on this scale.)

Work is shared exactly, in two ways. After two blocks the logits of a vertex depend on the path of five vertices around
it and on nothing else, of which there are far fewer than pairs of a cycle and a vertex. And for a polynomial model
(linear attention, no LayerNorm, no MLP) every score along an edge is a polynomial in a few n x n tables per seed, so
that a training step reads tables where the plain model multiplies matrices.
"""

import functools
import itertools
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray
from pydantic import Field

from sweeper.learned_algorithms import contracts
from sweeper.trial import vectorisation

COLORS = 3

CYCLES_IN_TURNS, CYCLES_AT_ONCE = 64, 32_768
"""Cycles that an evaluation computes at once on a CPU, where they should stay in a core's cache, and elsewhere."""


class Task(contracts.Task):
    """Cycle 3-colouring.

    Attributes:
        vertices: Number n of vertices of the cycle. The evaluation enumerates all (n - 1)! / 2 cycles.
        training_cycles: Size of a fixed set of random cycles from which training inputs are drawn; None draws from all.
    """

    SHORT_SUMS: ClassVar[bool] = True

    name: Literal["coloring"] = "coloring"
    vertices: Annotated[int, Field(ge=3, le=10)] = 10
    training_cycles: Annotated[int, Field(ge=1)] | None = None

    def token_size(self) -> int:
        return self.vertices + 1

    def output_size(self) -> int:
        return COLORS

    def context_size(self) -> int:
        return self.vertices

    def sample_inputs(self, key: PRNGKeyArray, count: int) -> Int[Array, "input vertex"]:
        """`count` uniformly random cycles, each the order in which it visits the vertices."""
        if self.training_cycles is None:
            return _ranks(jax.random.bits(key, (count, self.vertices)))
        chosen = jax.random.randint(key, (count,), 0, self.training_cycles)
        keys = jax.vmap(functools.partial(jax.random.fold_in, jax.random.key(0)))(chosen)
        return jax.vmap(lambda k: jax.random.permutation(k, self.vertices))(keys)

    def sample_seeds(self, key: PRNGKeyArray, count: int) -> Float[Array, "seed vertex"]:
        """`count` draws of one uniform number per vertex."""
        return jax.random.uniform(key, (count, self.vertices))

    def logits(
        self, network: contracts.Network, cycle: Int[Array, " vertex"], noise: Float[Array, " vertex"]
    ) -> Float[Array, "vertex color"]:
        """Logits of the plain network for one cycle and one seed, by vertex label."""
        following = jnp.zeros((self.vertices, self.vertices), bool).at[cycle, jnp.roll(cycle, -1)].set(True)
        return network(self._tokens(noise), following | following.T)

    def loss(
        self, network: contracts.Network, x: Int[Array, " vertex"], r: Float[Array, " vertex"]
    ) -> Float[Array, ""]:
        """Expected number of edges with equal colours, divided by 3 n."""
        probabilities = jax.nn.softmax(self.logits(network, x, r))[x]
        return (probabilities * jnp.roll(probabilities, -1, axis=0)).sum() / (COLORS * self.vertices)

    def losses(
        self, network: contracts.Network, inputs: Int[Array, "input vertex"], seeds: Float[Array, "seed vertex"]
    ) -> Float[Array, "input seed"]:
        polynomial = contracts.polynomial_of(network, 2)
        if polynomial is None:
            return super().losses(network, inputs, seeds)
        logits = _path_logits(_tables(polynomial, self._embedded(network, seeds)), _paths(inputs))
        probabilities = jax.nn.softmax(logits, axis=2)
        agreement = (probabilities * jnp.roll(probabilities, -1, axis=1)).sum(axis=(1, 2))
        return agreement / (COLORS * self.vertices)

    def evaluation_inputs(self) -> Integer[Array, "input vertex"]:
        """All (n - 1)! / 2 cycles, in lexicographic order."""
        return jnp.asarray(_all_cycles(self.vertices))

    def outcomes(
        self, network: contracts.Network, inputs: Integer[Array, "input vertex"], seeds: Float[Array, "seed vertex"]
    ) -> contracts.Outcomes:
        """Outcomes of every cycle and seed; `answers` holds the colouring as one number in base 3.

        For a depth of up to two the probabilities are computed once for every path of five vertices and then looked up.
        """
        if not isinstance(network, contracts.EmbeddingNetwork) or network.depth > 2:
            logits = jax.vmap(self.logits, in_axes=(None, None, 0), out_axes=-1)

            def of_cycle(cycle: Integer[Array, " vertex"]) -> contracts.Outcomes:
                probabilities = jax.nn.softmax(logits(network, cycle, seeds), axis=1)[cycle]
                return cycle_outcomes(probabilities, probabilities.var(axis=-1).mean(axis=1))

            return jax.lax.map(of_cycle, inputs, batch_size=_batch())

        index = _path_index(self.vertices)
        probabilities = jax.nn.softmax(self._evaluation_logits(network, jnp.asarray(index.paths), seeds), axis=1)
        variance = probabilities.var(axis=-1).mean(axis=1)
        position = jnp.asarray(index.position)
        digits = self.vertices ** jnp.arange(5)

        def of_paths(cycle: Integer[Array, " vertex"]) -> contracts.Outcomes:
            places = position[_paths(cycle.astype(jnp.int32)) @ digits]
            return cycle_outcomes(probabilities[places], variance[places])

        return jax.lax.map(of_paths, inputs, batch_size=_batch())

    def abilities(self) -> contracts.Abilities:
        """Votes on whole colourings; cycles in groups by the neighbours of vertex 0."""
        # The chromatic polynomial of the cycle at 3.
        proper = 2**self.vertices + 2 * (-1) ** self.vertices
        return contracts.Abilities(
            voting=contracts.Voting(self._proper, wrong_answers=COLORS**self.vertices - proper),
            groups=contracts.Groups((self.vertices - 1) * (self.vertices - 2) // 2, self._neighbours_of_zero),
        )

    def _neighbours_of_zero(self, inputs: Integer[Array, "input vertex"]) -> Integer[Array, " input"]:
        """The group of every cycle: the two neighbours of vertex 0, so that all groups have equally many cycles.

        The neighbours a < b are counted in the order (1, 2), (1, 3), (2, 3), (1, 4) ...
        """
        before, after = (jnp.roll(inputs, shift, axis=1) for shift in (1, -1))
        neighbours = jnp.where((inputs == 0)[..., None], jnp.stack([before, after], axis=-1), 0).sum(axis=1)
        low, high = neighbours.min(axis=1), neighbours.max(axis=1)
        return (high - 1) * (high - 2) // 2 + low - 1

    def _proper(
        self, inputs: Integer[Array, "input vertex"], answers: Integer[Array, "input voter 1"]
    ) -> Bool[Array, "input voter 1"]:
        colors = answers // COLORS ** jnp.arange(self.vertices, dtype=answers.dtype) % COLORS
        return (colors != jnp.roll(colors, -1, axis=-1)).all(axis=-1, keepdims=True)

    def _evaluation_logits(
        self, network: contracts.EmbeddingNetwork, paths: Integer[Array, "path 5"], seeds: Float[Array, "seed vertex"]
    ) -> Float[Array, "path color seed"]:
        """Logits of the middle vertex of every path, for a depth of at most two."""
        polynomial = contracts.polynomial_of(network, 2)
        if polynomial is not None:
            return _path_logits(_tables(polynomial, self._embedded(network, seeds)), paths)
        neighbours = jnp.abs(jnp.arange(5)[:, None] - jnp.arange(5)) == 1

        def middle(path: Integer[Array, " 5"], tokens: Float[Array, "vertex feature"]) -> Float[Array, " color"]:
            return network(tokens[path], neighbours, positions=path)[2]

        def of_seed(noise: Float[Array, " vertex"]) -> Float[Array, "path color"]:
            return jax.vmap(middle, in_axes=(0, None))(paths, self._tokens(noise))

        return jnp.moveaxis(jax.lax.map(of_seed, seeds), 0, -1)

    def _tokens(self, noise: Float[Array, " vertex"]) -> Float[Array, "vertex feature"]:
        return jnp.concatenate([jnp.eye(self.vertices), noise[:, None]], axis=1)

    def _embedded(
        self, network: contracts.Network, seeds: Float[Array, "seed vertex"]
    ) -> Float[Array, "seed vertex width"]:
        assert isinstance(network, contracts.EmbeddingNetwork)
        return jax.vmap(lambda noise: network.embed(self._tokens(noise)))(seeds)


def _batch() -> int:
    return CYCLES_IN_TURNS if vectorisation.in_turns() else CYCLES_AT_ONCE


def _ranks(x: Integer[Array, "*batch n"]) -> Int[Array, "*batch n"]:
    """Rank of every entry in its row, ties by position: for random rows a uniform permutation, without a sort."""
    index = jnp.arange(x.shape[-1])
    earlier = (x[..., None, :] < x[..., None]) | ((x[..., None, :] == x[..., None]) & (index < index[:, None]))
    return earlier.sum(-1)


def _paths(cycles: Integer[Array, "*batch vertex"]) -> Integer[Array, "*batch vertex 5"]:
    """The path of five vertices centred at each vertex, in the order of the cycle."""
    return jnp.stack([jnp.roll(cycles, shift, axis=-1) for shift in (2, 1, 0, -1, -2)], axis=-1)


class Tables(NamedTuple):
    """Everything the logits of a two-block linear-attention network can depend on, per seed.

    Attributes:
        near: `near[v, a, b]` is the read-out of vertex v after block one, when its neighbours are a and b.
        score: `score[v, a, b, x]` is the attention of v to its neighbour a in block two, when the path is b v a x.
        value: `value[v, a, x]` is the read-out of what a then sends to v.
    """

    near: Float[Array, "vertex vertex vertex color seed"]
    score: Float[Array, "vertex vertex vertex vertex seed"]
    value: Float[Array, "vertex vertex vertex color seed"]


def _tables(polynomial: contracts.Polynomial, h: Float[Array, "seed vertex width"]) -> Tables:
    """Expand both layers for the embedded tokens h.

    With S the score and Z the update matrix of block one, it gives vertex v with neighbours a and b the state
    h_v + s[v, a] u_a + s[v, b] u_b, where s = h S h^T and u = h Z.
    """
    return (_tables_in_turns if vectorisation.in_turns() else _tables_at_once)(polynomial, h)


def _tables_in_turns(polynomial: contracts.Polynomial, h: Float[Array, "seed vertex width"]) -> Tables:
    """The tables by few operations: the score of block two on the path b v a x,

        (h_v + s[v, a] u_a + s[v, b] u_b) S' (h_a + s[a, v] u_v + s[a, x] u_x)^T,

    is a sum of products of entries of five n x n tables: s and the four of h and u under S'. Read-out is linear and
    is applied to every term alone.
    """
    first, second = polynomial.layers
    u = h @ first.update()
    diagonal = jnp.arange(h.shape[1])

    def pairs(x: Array, matrix: Array, y: Array) -> Float[Array, "vertex vertex seed"]:
        return jnp.einsum("svw,saw->vas", x @ matrix, y)

    s = pairs(h, first.score(), h)
    hh, hu, uh, uu = (pairs(x, second.score(), y) for x, y in itertools.product((h, u), repeat=2))
    back, uh_back, uu_back = (jnp.swapaxes(x, 0, 1) for x in (s, uh, uu))  # back[v, a] = s[a, v]
    # The state of v without its b term meets the state of a without its x term; then the terms of b and x enter.
    inner = hh + back * hu[diagonal, diagonal][:, None] + s * uh[diagonal, diagonal] + s * back * uu_back
    with_x = s[None] * (hu[:, None] + s[:, :, None] * uu[None])  # [v, a, x]
    with_b = s[:, None] * (uh_back[None] + back[:, :, None] * uu_back[:, None])  # [v, a, b]
    with_both = s[:, None, :, None] * s[None, :, None, :] * uu[None, None]
    score = inner[:, :, None, None] + with_b[:, :, :, None] + with_x[:, :, None, :] + with_both

    weight, bias = polynomial.readout, polynomial.bias

    def read(x: Array, matrix: Array) -> Float[Array, "vertex color seed"]:
        return jnp.einsum("svw,wc->vcs", x, matrix)

    from_a = s[:, :, None] * read(u, weight)[None]  # [v, a]
    near = (read(h, weight) + bias[:, None])[:, None, None] + from_a[:, :, None] + from_a[:, None, :]
    sent_h, sent_u = (read(x, second.update() @ weight) for x in (h, u))
    to_v = sent_h[None] + back[:, :, None] * sent_u[:, None]  # [v, a]
    value = to_v[:, :, None] + (s[:, :, None] * sent_u[None])[None]  # [v, a, x]
    return Tables(near, score, value)


def _tables_at_once(polynomial: contracts.Polynomial, h: Float[Array, "seed vertex width"]) -> Tables:
    """The tables by few kernels: the state of v is x[v, a] + x[v, b], with x[v, a] = h_v / 2 + s[v, a] u_a."""
    first, second = polynomial.layers
    h = jnp.moveaxis(h, 0, -1)  # [vertex, width, seed]
    u, left = (vectorisation.product(matrix.T, h) for matrix in (first.update(), first.score()))
    s = (left[:, None] * h).sum(axis=2)
    x = h[:, None] / 2 + s[:, :, None] * u
    message = vectorisation.product(second.update(), polynomial.readout)
    matrices = jnp.concatenate([polynomial.readout, message, second.score()], axis=1)
    read, sent, query = jnp.split(vectorisation.product(matrices.T, x), (COLORS, 2 * COLORS), axis=2)

    def of_v(y: Float[Array, "vertex vertex feature seed"]) -> Float[Array, "vertex vertex vertex feature seed"]:
        return y[:, :, None] + y[:, None]  # [v, a, b]

    def of_a(y: Float[Array, "vertex vertex feature seed"]) -> Float[Array, "vertex vertex vertex feature seed"]:
        return jnp.swapaxes(y, 0, 1)[:, :, None] + y  # [v, a, x]

    score = (of_v(query)[:, :, :, None] * of_a(x)[:, :, None]).sum(axis=4)
    return Tables(of_v(read) + polynomial.bias[:, None], score, of_a(sent))


def _path_logits(tables: Tables, paths: Integer[Array, "*batch 5"]) -> Float[Array, "*batch color seed"]:
    """Logits of the middle vertex of each path."""
    # Read by index, and so exact on every device. Products with one-hot matrices would round the entries where a GPU's
    # matrix products do (`tasks/recall` asks for the highest precision there).
    y, b, v, a, x = jnp.moveaxis(paths, -1, 0)
    if not vectorisation.in_turns():  # a look-up for both neighbours, since the derivative of each takes kernels
        v, near = v[..., None], tables.near[v, a, b]
        ab, ba, xy = (jnp.stack(pair, axis=-1) for pair in ((a, b), (b, a), (x, y)))
        return near + (tables.score[v, ab, ba, xy][..., None, :] * tables.value[v, ab, xy]).sum(axis=-3)
    from_a = tables.score[v, a, b, x][..., None, :] * tables.value[v, a, x]
    from_b = tables.score[v, b, a, y][..., None, :] * tables.value[v, b, y]
    return tables.near[v, a, b] + from_a + from_b


def cycle_outcomes(
    probabilities: Float[Array, "vertex color seed"], variance: Float[Array, " vertex"]
) -> contracts.Outcomes:
    """Outcomes of one cycle; vertices are in the order of the cycle.

    That all edges are proper when colours are drawn independently has the probability trace(T_1 ... T_n) with the
    transfer matrices T_i[c, d] = P_i(d) [c != d]; the product is carried as three row vectors, one per first colour.
    """
    n, _, seeds = probabilities.shape
    following = jnp.roll(probabilities, -1, axis=0)
    colors = probabilities.argmax(axis=1)
    reached = jnp.eye(COLORS)[:, :, None] * probabilities[0]  # [first color, color, seed]
    for vertex in range(1, n):
        reached = probabilities[vertex] * (reached.sum(axis=1, keepdims=True) - reached)
    closed = reached.sum(axis=1) - reached[jnp.arange(COLORS), jnp.arange(COLORS)]
    code = (colors * (COLORS ** jnp.arange(n))[:, None]).sum(axis=0)
    return contracts.Outcomes(
        correct=(colors != jnp.roll(colors, -1, axis=0)).all(axis=0),
        sampled=closed.sum(axis=0),
        loss=(probabilities * following).sum(axis=(0, 1)) / (COLORS * n),
        answers=code.astype(jnp.uint16).reshape(seeds, 1),
        variance=variance.mean(),
    )


@functools.lru_cache
def _all_cycles(n: int) -> np.ndarray:
    """Every Hamiltonian cycle on n labelled vertices once: vertex 0 first, the second smaller than the last."""
    rest = np.zeros((1, 0), np.int8)
    for size in range(1, n):  # permutations of `size` numbers: every first number before those of the others
        first = np.repeat(np.arange(size, dtype=np.int8), len(rest))[:, None]
        others = np.tile(rest, (size, 1))
        rest = np.concatenate([first, others + (others >= first)], axis=1)
    rest = rest[rest[:, 0] < rest[:, -1]] + np.int8(1)
    return np.concatenate([np.zeros((len(rest), 1), np.int8), rest], axis=1)


class PathIndex(NamedTuple):
    """The paths of five vertices that occur in cycles, each in one of its two directions, and where to find them."""

    paths: np.ndarray  # int32 [path, 5]
    position: np.ndarray  # int32 [n^5]: index into `paths` by the digits of a path in base n, for both directions


@functools.lru_cache
def _path_index(n: int) -> PathIndex:
    cycles = _all_cycles(n)
    powers = n ** np.arange(5)
    occurs = np.zeros(n**5, bool)
    for direction in (1, -1):
        steps = zip((2, 1, 0, -1, -2), powers, strict=True)
        occurs[sum(np.roll(cycles, direction * shift, axis=1) * power for shift, power in steps)] = True
    codes = np.flatnonzero(occurs)
    reverse = (codes[:, None] // powers % n)[:, ::-1] @ powers
    kept = codes[codes <= reverse]
    position = np.zeros(n**5, np.int32)
    position[codes] = np.searchsorted(kept, np.minimum(codes, reverse))
    return PathIndex((kept[:, None] // powers % n).astype(np.int32), position)
