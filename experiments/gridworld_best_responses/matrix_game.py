"""A game of mixtures against an adversary, as a program of JAX: shares of rows against the worst of few columns.

A row has a cost in each column. Shares of the rows give an expected cost in each column, of which the largest is to be
small. `solved` is the simplex method on this linear programme (Dantzig 1951, A proof of the equivalence of the
programming problem and the game problem), whose prices are the adversary's shares of the columns. `parts` rounds
shares to whole numbers of equally likely parts.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

PIVOTS = 2000
"""Most steps from a basis to the next; a game of 2,304 rows and 24 columns takes about a hundred."""

TOLERANCE = 2e-5
"""Part of the value that a row must save to enter the basis: single precision tells no less."""

UNEVEN = 1e-4
"""Largest part by which limits of the columns differ in the search for the basis, lest two are reached at once."""

SWAPS = 100
"""Most parts that move from a row to another at each of the `SHARPNESSES`."""

SHARPNESSES = (0.1, 0.3, 1.0)
"""Of the soft maximum over columns that moves improve, per part."""


class Game(NamedTuple):
    """Shares of rows and of columns, and the costs that they guarantee."""

    value: Float[Array, ""]  # the largest expected cost of a column under the shares of the rows
    bound: Float[Array, ""]  # the least expected cost of a row under the shares of the columns: no mixture costs less
    rows: Float[Array, " row"]  # at most as many as there are columns are above 0
    columns: Float[Array, " column"]


def solved(costs: Float[Array, "row column"]) -> Game:
    """Both optimal mixtures, up to rounding between `value` and `bound`.

    With costs above 0, weights x of the rows that cost at most 1 in each column and have the largest sum are the shares
    divided by the value. The basis is inverted anew at each pivot, so rounding does not add up.
    """
    many, few = costs.shape
    table = jnp.concatenate([(costs - costs.min() + 1.0).T, jnp.eye(few)], axis=1)  # [column, variable]
    gain = jnp.concatenate([jnp.ones(many), jnp.zeros(few)])
    limit = 1.0 + UNEVEN * jnp.arange(1, few + 1) / few

    def priced(basis: Int[Array, " column"]) -> tuple[Array, ...]:
        """The inverse of a basis, and what each variable would save."""
        inverse = jnp.linalg.inv(table[:, basis])
        return basis, inverse, gain - gain[basis] @ inverse @ table

    def pivot(now: tuple[Array, ...]) -> tuple[Array, ...]:
        turn, basis, inverse, saved = now
        entering = saved.argmax()
        change = inverse @ table[:, entering]
        room = jnp.maximum(inverse @ limit, 0.0) / jnp.maximum(change, 1e-5)
        after = priced(basis.at[jnp.where(change > 1e-5, room, jnp.inf).argmin()].set(entering))
        # Where single precision cannot invert the basis, the one before is the answer.
        sound = jnp.isfinite(after[2]).all()
        kept = (jnp.where(sound, new, old) for new, old in zip(after, now[1:], strict=True))
        return jnp.where(sound, turn + 1, PIVOTS), *kept

    start = jnp.int32(0), *priced(many + jnp.arange(few))
    _, basis, inverse, _ = jax.lax.while_loop(lambda now: (now[0] < PIVOTS) & (now[3].max() > TOLERANCE), pivot, start)
    weights = jnp.zeros(many + few).at[basis].set(jnp.maximum(inverse.sum(axis=1), 0.0))[:many]
    prices = jnp.maximum(gain[basis] @ inverse, 0.0)
    rows, columns = weights / weights.sum(), prices / prices.sum()
    return Game((rows @ costs).max(), (costs @ columns).min(), rows, columns)


def parts(costs: Float[Array, "row column"], rows: Float[Array, " row"], count: int) -> Int[Array, " row"]:
    """So many equally likely parts, shared among the rows near the given shares, for a small largest cost.

    After rounding, one part moves from a row to another as long as this improves a soft maximum over the columns. Of
    all that was seen the best is returned. Costs are whole numbers, whose sums single precision holds.
    """
    exact = rows * count
    whole = jnp.floor(exact).astype(jnp.int32)
    rank = jnp.argsort(jnp.argsort(whole - exact))
    missing = count - whole.sum()
    start = whole + missing // len(rows) + (rank < missing % len(rows))

    def moved(sharpness: float, now: tuple[Array, ...]) -> tuple[Array, ...]:
        counts, best, least, turn, _ = now
        sums = counts.astype(jnp.float32) @ costs
        after = sums - costs[:, None] + costs  # [from, to, column]
        soft = jax.nn.logsumexp(sharpness * (after - sums.max()), axis=-1)
        soft = jnp.where((counts > 0)[:, None], soft, jnp.inf)
        giver, taker = jnp.unravel_index(soft.argmin(), soft.shape)
        better = soft.min() < jax.nn.logsumexp(sharpness * (sums - sums.max())) - 1e-6
        counts = counts.at[giver].add(-1).at[taker].add(1)
        worst = after[giver, taker].max()
        best = jnp.where(better & (worst < least), counts, best)
        return counts, best, jnp.where(better, jnp.minimum(worst, least), least), turn + 1, better

    best, least = start, (start.astype(jnp.float32) @ costs).max()
    for sharpness in SHARPNESSES:
        begin = best, best, least, jnp.int32(0), jnp.bool_(True)
        _, best, least, *_ = jax.lax.while_loop(
            lambda now: now[4] & (now[3] < SWAPS), lambda now, s=sharpness: moved(s, now), begin
        )
    return best
