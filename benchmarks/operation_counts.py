"""The arithmetic of a program, counted as the program is traced, before XLA.

Loops count by their length, a product of an (m, k) and a (k, n) matrix as 2 m k n operations, sums by their terms, all
other arithmetic by its results. What only moves numbers (gathers, scatters, reshapes, copies) counts as nothing.
"""

import math
from typing import Any

import jax
import jax.extend

JAXPRS = (jax.extend.core.Jaxpr, jax.extend.core.ClosedJaxpr)
MOVES = {
    *("broadcast_in_dim", "reshape", "transpose", "slice", "squeeze", "concatenate", "pad", "split", "tile", "gather"),
    *("scatter", "scatter-add", "scatter_add", "dynamic_slice", "dynamic_update_slice", "select_n", "copy", "iota"),
    *("convert_element_type", "bitcast_convert_type", "stack", "expand_dims", "rev", "stop_gradient"),
}


def operations(jaxpr: Any) -> float:
    """Number of operations of a traced program, whose loops all have a known length."""
    return sum(_operations(equation) for equation in jaxpr.eqns)


def _operations(equation: Any) -> float:
    name, parameters = equation.primitive.name, equation.params
    results = sum(variable.aval.size for variable in equation.outvars)
    inner = [getattr(value, "jaxpr", value) for value in parameters.values() if isinstance(value, JAXPRS)]
    if name == "while":
        raise ValueError("a loop ends by what it computes")
    if name == "cond":
        return max(operations(branch.jaxpr) for branch in parameters["branches"])
    if name == "dot_general":
        (contracted, _), _ = parameters["dimension_numbers"]
        return 2 * results * math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
    if inner:
        return operations(inner[-1]) * (parameters["length"] if name == "scan" else 1)
    if name in MOVES:
        return 0
    return equation.invars[0].aval.size if name.startswith(("reduce", "arg")) else results
