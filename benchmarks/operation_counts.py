"""The arithmetic of a program, counted as the program is traced, before XLA.

Loops count by their length, a product of an (m, k) and a (k, n) matrix as 2 m k n operations, sums by their terms, all
other arithmetic by its results. What only moves numbers (gathers, scatters, reshapes, copies) counts as nothing.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.extend

JAXPRS = (jax.extend.core.Jaxpr, jax.extend.core.ClosedJaxpr)
SPECIAL = {
    "exp",
    "exp2",
    "log",
    "log1p",
    "expm1",
    "tanh",
    "sin",
    "cos",
    "erf",
    "erf_inv",
    "logistic",
    "pow",
    "rsqrt",
    "sqrt",
}
MOVES = {
    *("broadcast_in_dim", "reshape", "transpose", "slice", "squeeze", "concatenate", "pad", "split", "tile", "gather"),
    *("scatter", "scatter-add", "scatter_add", "dynamic_slice", "dynamic_update_slice", "select_n", "copy", "iota"),
    *("convert_element_type", "bitcast_convert_type", "stack", "expand_dims", "rev", "stop_gradient"),
}


class Operations(NamedTuple):
    """Operations of a program.

    Attributes:
        products: Additions and multiplications of matrix products.
        arithmetic: Of everything else.
        special: Exponentials, logarithms and the like.
    """

    products: float
    arithmetic: float
    special: float


def operations(jaxpr: Any, turns: Sequence[float] = ()) -> Operations:
    """The operations of a traced program.

    Args:
        jaxpr: The program.
        turns: Of every loop that ends by what it computes, in the order of the program.
    """
    counts: Counter[str] = Counter()
    _count(jaxpr, 1, counts, iter(turns))
    return Operations(counts["products"], counts["arithmetic"], counts["special"])


def _count(jaxpr: Any, times: float, counts: Counter[str], turns: Iterator[float]) -> None:
    for equation in jaxpr.eqns:
        name, parameters = equation.primitive.name, equation.params
        results = sum(variable.aval.size for variable in equation.outvars)
        inner = [getattr(value, "jaxpr", value) for value in parameters.values() if isinstance(value, JAXPRS)]
        if name == "while":
            _count(parameters["body_jaxpr"].jaxpr, times * next(turns), counts, turns)
        elif name == "cond":
            branches: list[Counter[str]] = []
            for branch in parameters["branches"]:
                branches.append(Counter())
                _count(branch.jaxpr, times, branches[-1], turns)
            counts.update(max(branches, key=Counter.total))
        elif name == "dot_general":
            (contracted, _), _ = parameters["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            terms = math.prod(shape[axis] for axis in contracted)
            counts["products"] += times * 2 * terms * results  # pyright: ignore[reportArgumentType]
        elif inner:
            _count(inner[-1], times * (parameters["length"] if name == "scan" else 1), counts, turns)
        elif name in SPECIAL:
            counts["special"] += times * results  # pyright: ignore[reportArgumentType]
        elif name not in MOVES:
            terms = equation.invars[0].aval.size if name.startswith(("reduce", "arg")) else results
            counts["arithmetic"] += times * terms  # pyright: ignore[reportArgumentType]
