"""The arithmetic of this process: a digest of the bits that a small fixed program computes here.

The kind of CPU or GPU, variables of the environment, settings of JAX, a library that a plug-in has changed: each of
them may choose other kernels, or another program, and so other last bits. No list of causes is complete, so the effect
is measured, once plug-ins are loaded and again when others are. Two processes of one digest compute equal bits, as far
as the operations of the program tell.
"""

import functools
import hashlib
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.training import compilation
from sweeper.trial import jax_settings, plugins, vectorisation

_others: dict[str, None] = {}


def own() -> str:
    """Ten hexadecimal digits, for the settings of JAX and the plug-ins of this process as they are now.

    The first measurement takes .8 CPU seconds, or .3 if the program is kept. After the import of a plug-in a further
    one takes .1, as it compiles nothing unless something has changed.
    """
    return _measured(repr(jax.config.values), plugins.load.cache_info().misses)


@functools.lru_cache
def _measured(settings: str, loaded: int) -> str:
    values = _values()
    with jax_settings.one_thread():
        results = [*_of_numpy(values), *compilation.results(_program, values)]
    return hashlib.blake2b(b"".join(map(_bytes, results)), digest_size=5).hexdigest()


def used() -> list[str]:
    """The arithmetics of this process, and of those that have computed for it."""
    return list(dict.fromkeys([own(), *_others]))


def note(others: Iterable[str]) -> None:
    """Note that processes of these arithmetics compute for this one."""
    _others.update(dict.fromkeys(others))


def _values() -> np.ndarray:
    """Numbers from -.5 to .5, the same on every machine: division is exact to the last bit."""
    n = np.arange(256 * 200)
    values = ((n * n * 7919 + n * 104729) % 10007 / 10007 - 0.5).astype(np.float32)
    values[::1000] *= np.float32(2.0**-128)  # below the normal numbers, which some libraries have flushed to zero
    return values.reshape(256, 200)


def _program(values: jax.Array) -> list[jax.Array]:
    """Products, sums, functions and a sort; on a CPU factors of matrices too, whose library takes memory of a GPU."""
    line, square = values[0], values[:64, :64] + 64 * jnp.eye(64)
    results = [
        values.T @ values,  # at the default precision, and large enough for oneDNN, which knows kinds of CPU
        jnp.matmul(values.T, values, precision="highest"),
        values @ line,
        jnp.sum(values),
        jnp.sum(values, axis=0),
        jnp.cumsum(1 / jnp.arange(1, 1000)),  # in the default type
        jax.random.normal(jax.random.key(0), (7,)),
        jax.nn.softmax(values[:64]),
        jnp.exp(line),
        jnp.tanh(line),
        jnp.sort(jnp.tanh(line)),
    ]
    if vectorisation.in_turns():
        factors, _, _ = jax.lax.linalg.lu(square)
        solved = jax.scipy.linalg.solve_triangular(factors, values[:64, :8])
        results += [factors, solved, jax.lax.linalg.cholesky(square @ square.T)]
    return results


def _of_numpy(values: np.ndarray) -> list[np.ndarray]:
    """The same kinds of operations by numpy, as tasks compute their data; in single and in double precision."""
    return [
        part
        for each in (values, values.astype(np.float64))
        for part in (
            each.T @ each,
            each.sum(axis=1),
            np.exp(each),
            np.tanh(each),
            np.sin(each),
            np.linalg.solve(each[:64, :64] + 64 * np.eye(64, dtype=each.dtype), each[:64, :8]),
        )
    ]


def _bytes(values: Any) -> bytes:
    return np.ascontiguousarray(values).tobytes()
