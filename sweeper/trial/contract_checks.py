"""Checks of what plug-ins give against their contracts; a mistake is told with the line of the plug-in."""

import contextlib
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from sweeper.messages import UserError, message_of, one_line
from sweeper.trial import plugins


class ContractError(UserError, ValueError):
    """A plug-in gives what its contract excludes; the message has file, line and method, what came and what must."""


Method = TypeVar("Method", bound=Callable[..., Any])


def made_of(method: str) -> Callable[[Method], Method]:
    """Mark a method of a contract that is made of another one, which the author of a plug-in has written."""

    def marked(general: Method) -> Method:
        general.made_of = method  # type: ignore[attr-defined]
        return general

    return marked


ROUNDING = 1e-4
"""A number that must not be negative may be so much below 0, by rounding; a share may be so much above 1."""


def place(plugin: object, method: str) -> str:
    """File and line of a method of a plug-in or network.

    Of a method that the contract makes of another one (`made_of`) it is the place of the other.
    """
    defined = getattr(type(plugin), method)
    if (other := getattr(defined, "made_of", None)) is not None:
        return place(plugin, other)
    function = plugins.function_of(defined)
    assert function is not None, "methods of plug-ins are written in Python"
    frame = traceback.FrameSummary(function.__code__.co_filename, function.__code__.co_firstlineno, method)
    return f"{plugins.line_of_ours([frame]) or f'{frame.filename}, line {frame.lineno}'}: {method}"


def broken(plugin: object, method: str, gives: str, must: str) -> ContractError:
    """The error about a method that gives one thing and must give another."""
    return ContractError(f"{place(plugin, method)} gives {gives}, must be {must}")


@contextlib.contextmanager
def attributed(plugin: object, method: str) -> Iterator[None]:
    """Words whatever a method raises as a `ContractError`, with the line of the plug-in that raised."""
    try:
        yield
    except ContractError:
        raise
    except Exception as error:
        line = plugins.line_of_ours(traceback.extract_tb(error.__traceback__))
        reason = _of_traced(error) or one_line(message_of(error).partition("\n\n")[0])
        said = f"{place(plugin, method)} raises {type(error).__name__}: {reason}" + (f" ({line})" if line else "")
        raise ContractError(said) from error


_NEEDS_A_VALUE = (
    jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError,
)  # fmt: skip


def _of_traced(error: Exception) -> str | None:
    """What to do about Python code that needs a value while a program is traced, or has one of another trace.

    None for any other error.
    """
    if isinstance(error, jax.errors.UnexpectedTracerError):
        return (
            "it uses a value that JAX made while another program was traced: a function with functools.cache, or a "
            "global, must keep arrays of numpy, none of JAX"
        )
    in_shape = isinstance(error, TypeError) and "concrete values of integer type" in str(error)
    if not in_shape and not isinstance(error, _NEEDS_A_VALUE):
        return None
    first, _, rest = message_of(error).partition("\n")
    if in_shape:
        return "a shape is known only while the program runs: declare its field without Traced"
    advice = "no `if`, float(), int() or .item() sees it: write jnp.where or jax.lax.cond, and keep arrays"
    if field := re.search(r"\btrials?\.([\w.]*\w)", rest):
        advice += f". It depends on {field[1]}, which is Traced; declared without Traced, that is a plain number"
    return f"{one_line(first).rstrip('.')}; {advice}"


def check_array(plugin: object, method: str, what: str, value: Any, kind: type, **axes: int | None) -> None:
    """Refuse an array, or a number, that a method of a plug-in or a network gives, with a `ContractError`.

    While a program is traced type and shape are known. `what` is the array in words, nothing if it is all that the
    method gives; `kind` is one of numpy's abstract types, and an axis of length None may have any.
    """
    expected = ", ".join(name if length is None else f"{length} {name}s" for name, length in axes.items())
    of, form = f"{what} of " if what else "", f"[{expected}]" if axes else "a number"
    kind_name = kind.__name__.strip("_")
    if not isinstance(value, bool | int | float | complex | np.ndarray | np.generic | jax.Array | jax.ShapeDtypeStruct):
        raise broken(plugin, method, f"{of}type {type(value).__name__}", f"{form} ({kind_name})")
    shape, lengths = np.shape(value), list(axes.values())
    if len(shape) != len(lengths) or any(b not in (None, a) for a, b in zip(shape, lengths, strict=True)):
        raise broken(plugin, method, f"{of}shape {list(shape)}", form)
    if not jax.numpy.issubdtype(jax.numpy.result_type(value), kind):
        raise broken(plugin, method, f"{of}type {jax.numpy.result_type(value)}", kind_name)


def check_name(plugin: object, method: str, name: Any, others: Iterable[str] = ()) -> None:
    """Refuse a name of a metric, curve or outcome that no column could have, or that another column has.

    `others` are names beside it. SQL does not see capitals, so no two may differ in these alone.
    """
    from sweeper.trial import columns  # asks the kinds of trial, which are made of this module

    must = None
    if not isinstance(name, str) or re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*(/[A-Za-z0-9_]+)*", name) is None:
        must = "a word of letters, digits and _, a letter first, or several with / between them"
    elif name.lower() in columns.TAKEN or name.lower().startswith(columns.OF_ENTRIES):
        must = "another name: tables have, or may have, such a column"
    elif alike := {other for other in map(str, (*columns.METRICS, *others)) if other.lower() == name.lower()} - {name}:
        must = f"another name: it differs from {min(alike)!r} in capitals alone"
    if must is not None:
        raise broken(plugin, method, f"the name {name!r}", must)


def check_batch(plugin: object, method: str, batch: PyTree, count: int | None = None) -> int:
    """The number of inputs or seeds that a task's method gives.

    It is a `ContractError` if there are not `count`, or the leading axes of the leaves differ.
    """
    lengths = {np.shape(leaf)[0] if np.ndim(leaf) else None for leaf in jax.tree.leaves(batch)}
    if len(lengths) != 1 or None in lengths or (count is not None and lengths != {count}):
        shapes = ", ".join(f"shape {list(np.shape(leaf))}" for leaf in jax.tree.leaves(batch)) or "nothing"
        expected = "arrays with one leading axis" if count is None else f"arrays with the leading axis {count}"
        raise broken(plugin, method, shapes, expected)
    (length,) = lengths
    return length or 0
