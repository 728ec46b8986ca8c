"""Ahead-of-time compilation, in one place, so that a trial is always run by the same code.

Programs are kept for the life of the process, so that a worker compiles once for many packs. A program that runs once,
such as the initialisation of weights, is compiled for the CPU at LLVM level 1: this takes a third of the time, and the
speed of such a program does not matter.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_programs: dict[Any, Any] = {}
_seconds = 0.0
_cpu_seconds = 0.0


def compiled(function: Callable[..., Any], *arguments: Any, runs_once: bool = False, **jit_options: Any) -> Any:
    """The executable of `function` for the shapes and static values of `arguments`."""
    quick = runs_once and jax.default_backend() == "cpu"
    options: dict[str, Any] = {"xla_backend_optimization_level": 1} if quick else {}
    return jax.jit(function, **jit_options).lower(*arguments).compile(compiler_options=options)


def kept(function: Callable[..., Any], *arguments: Any, static: tuple[Any, ...] = (), **options: Any) -> Any:
    """As `compiled`, but once in this process for all arguments of equal structure, shapes and types.

    Args:
        function: What to compile; called as `function(*arguments, *static)`, and the program with `arguments` alone.
        arguments: Traced.
        static: Further arguments that the program is made for.
        options: Of `compiled`.
    """
    global _seconds, _cpu_seconds
    leaves, structure = jax.tree.flatten(arguments)
    key = (function, structure, static, tuple((np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves))
    if key not in _programs:
        begun, cpu_begun = time.monotonic(), time.process_time()
        positions = tuple(range(len(arguments), len(arguments) + len(static)))
        _programs[key] = compiled(function, *arguments, *static, static_argnums=positions, **options)
        _seconds += time.monotonic() - begun
        _cpu_seconds += time.process_time() - cpu_begun
    return _programs[key]


def seconds() -> float:
    """Time that `kept` has spent compiling in this process."""
    return _seconds


def cpu_seconds() -> float:
    """CPU time of all threads of this process while `kept` was compiling."""
    return _cpu_seconds
