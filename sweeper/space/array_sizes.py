"""Sizes that no machine has, told before anything is allocated.

A setting with a very large number is traced by shapes. If an array of its programs would be larger than `MOST_BYTES`,
or the programs cannot be traced, the number is refused where the author has written it.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax

from sweeper.messages import one_line
from sweeper.space.problems import Problem
from sweeper.space.yaml_tree import Node, descendant
from sweeper.training.kind import kind_of
from sweeper.trial import jax_settings, vectorisation
from sweeper.trial.contract_checks import ContractError, attributed
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, leaf_values

LARGE = 50_000
"""A setting whose structure has no larger number is not traced."""

MOST_BYTES = 2**37
"""Of one array."""


def too_large(trial: Trial, document: Node) -> Iterator[Problem]:
    """The problem of a trial with an array that no machine holds, at the largest number in its structure."""
    structure = canonical(jax.tree.map(lambda _: None, trial.for_programs()))
    numbers = {path: value for path, value in leaf_values(structure) if isinstance(value, int) and path != "steps"}
    path, value = max(numbers.items(), key=lambda item: item[1], default=("", 0))
    if value <= LARGE:
        return
    try:
        size = _largest_array(trial)
        why = f"an array of {size / 1e9:,.0f} GB" if size > MOST_BYTES else None
    except ContractError as error:
        why = one_line(str(error))
    if why is not None:
        at = descendant(document, ("trial", *path.split(".")))
        yield Problem(f"trial.{path}", f"{value:,} is too large: {why}", at.where)


def _largest_array(trial: Trial) -> int:
    """Bytes of the largest array in the programs of a trial; a `ContractError` if they cannot be traced."""
    sizes = [0]

    def traced(plugin: Any, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        with attributed(plugin, method):
            jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(kind_of(trial).by_shapes(trial), *arguments)
        sizes.extend(_sizes(jaxpr.jaxpr))
        return shapes

    with vectorisation.built_for("cpu"), jax_settings.one_thread():  # to ask for the platform would start JAX
        kind_of(trial).trace_programs(trial, traced)
    return max(sizes)


def _sizes(jaxpr: Any) -> Iterator[int]:
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            kind = getattr(variable.aval, "dtype", None)
            yield math.prod(getattr(variable.aval, "shape", ())) * getattr(kind, "itemsize", 4)
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, tuple | list) else (parameter,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _sizes(inner)
