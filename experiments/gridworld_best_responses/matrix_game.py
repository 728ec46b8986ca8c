"""A game of mixtures against an adversary, as a program of JAX: shares of rows against the worst of few columns.

A row has a cost in each column. Shares of the rows give an expected cost in each column, of which the largest is to be
small. `solved` follows the central path of this linear programme and of its dual, the adversary's shares of the columns
(Wright, Primal-Dual Interior-Point Methods, 1997). Both stay feasible, so their difference bounds the error. `few`
needs fewer rows for the same costs, and `parts` rounds shares to whole numbers of equally likely parts.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

ROUNDS = 30
"""Most Newton steps. Each leaves about a third of the gap."""

RIDGE = 1e-6
"""Added to the diagonal, which is 1, of the equations of a step, so that single precision solves them."""

CENTRING = 0.25
"""Share of the mean gap that a step aims at."""

GAP = 2e-3
"""Gap, in units of cost, at which the path ends: single precision gives little more."""

SWAPS = 100
"""Most parts that move from a row to another at each of the `SHARPNESSES`."""

SHARPNESSES = (0.1, 0.3, 1.0)
"""Of the soft maximum over columns that moves improve, per part."""


class Game(NamedTuple):
    """Shares of rows and of columns, and the costs that they guarantee."""

    value: Float[Array, ""]  # the largest expected cost of a column under the shares of the rows
    bound: Float[Array, ""]  # the least expected cost of a row under the shares of the columns: no mixture costs less
    rows: Float[Array, " row"]
    columns: Float[Array, " column"]


def solved(costs: Float[Array, "row column"]) -> Game:
    """Both optimal mixtures, up to a small gap between `value` and `bound`."""
    count = sum(costs.shape)
    middle = costs.mean()
    costs = costs - middle  # single precision is for the differences

    def value_of(rows: Array) -> Array:
        return (rows @ costs).max()

    def bound_of(columns: Array) -> Array:
        return (costs @ columns).min()

    def newton(now: tuple[Array, ...]) -> tuple[Array, ...]:
        turn, rows, columns, value, bound = now
        over, under = costs @ columns - bound, value - rows @ costs  # both positive
        target = CENTRING * (value - bound) / count
        ratio = rows / over
        step = target / over - rows
        mean = (ratio @ costs) / ratio.sum()
        centred = costs - mean  # takes the change of `bound` out of the equations
        matrix = (centred * ratio[:, None]).T @ centred + jnp.diag(under / columns)
        wanted = target / columns - under + step @ centred
        scale = jax.lax.rsqrt(jnp.diagonal(matrix))
        matrix = matrix * scale * scale[:, None] + RIDGE * jnp.eye(len(scale))
        sides = scale[:, None] * jnp.stack([wanted, jnp.ones_like(wanted)], axis=1)
        both = scale[:, None] * jax.scipy.linalg.solve(matrix, sides, assume_a="pos")
        value_change = both[:, 0].sum() / both[:, 1].sum()
        columns_change = both[:, 0] - value_change * both[:, 1]
        bound_change = columns_change @ mean - step.sum() / ratio.sum()
        rows_change = step - ratio * (costs @ columns_change - bound_change)
        over_change, under_change = costs @ columns_change - bound_change, value_change - rows_change @ costs
        length = jnp.minimum(1.0, 0.9 * jnp.minimum(
            jnp.minimum(_longest(rows, rows_change), _longest(columns, columns_change)),
            jnp.minimum(_longest(over, over_change), _longest(under, under_change)),
        ))  # fmt: skip
        rows, columns = rows + length * rows_change, columns + length * columns_change
        rows, columns = rows / rows.sum(), columns / columns.sum()
        # Rounding must not make a slack negative.
        value = jnp.maximum(value + length * value_change, value_of(rows) + 1e-6)
        bound = jnp.minimum(bound + length * bound_change, bound_of(columns) - 1e-6)
        after = rows, columns, value, bound
        # Where single precision cannot solve the equations any more, the last point of the path is the answer.
        sound = jnp.stack([jnp.isfinite(part).all() for part in after]).all()
        rows, columns, value, bound = (jnp.where(sound, new, old) for new, old in zip(after, now[1:], strict=True))
        return jnp.where(sound, turn + 1, ROUNDS), rows, columns, value, bound

    rows, columns = (jnp.full(size, 1 / size) for size in costs.shape)
    start = jnp.int32(0), rows, columns, value_of(rows) + 1.0, bound_of(columns) - 1.0
    _, rows, columns, *_ = jax.lax.while_loop(lambda now: (now[0] < ROUNDS) & (now[3] - now[4] > GAP), newton, start)
    return Game(value_of(rows) + middle, bound_of(columns) + middle, rows, columns)


def _longest(values: Float[Array, " some"], change: Float[Array, " some"]) -> Float[Array, ""]:
    """How far all values may change until the first is 0."""
    return jnp.where(change < 0, -values / jnp.minimum(change, -1e-30), jnp.inf).min()


def few(costs: Float[Array, "row column"], rows: Float[Array, " row"]) -> Float[Array, " row"]:
    """Shares of fewer rows with the same expected costs: of one more than there are columns at most.

    Of two rows more than columns some combination costs nothing in any column (Carathéodory); it is added until a row
    has no share, again and again.
    """
    many = costs.shape[1] + 2
    table = jnp.concatenate([costs - costs.mean(), jnp.full((len(costs), 1), costs.std())], axis=1)

    def with_one_less(_: Int[Array, ""], rows: Array) -> Array:
        least = jnp.argsort(jnp.where(rows > 0, rows, jnp.inf))[:many]
        change = jnp.linalg.svd(table[least].T, full_matrices=True)[2][-1]  # its sum is 0, so some entries are positive
        room = jnp.where(change > 1e-6, rows[least] / jnp.maximum(change, 1e-6), jnp.inf)
        changed = jnp.maximum(rows[least] - room.min() * change, 0.0).at[room.argmin()].set(0.0)
        return jnp.where((rows > 0).sum() >= many, rows.at[least].set(changed), rows)

    return jax.lax.fori_loop(0, max(0, len(costs) - many + 1), with_one_less, rows)


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
