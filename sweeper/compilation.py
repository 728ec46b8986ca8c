"""Ahead-of-time compilation, in one place so that a trial is always run by the same code.

A program that runs once, such as the initialisation of weights, is compiled for the CPU at LLVM level 1: it is built
three times as fast, and how fast it runs does not matter.
"""

from collections.abc import Callable
from typing import Any

import jax


def compiled(function: Callable[..., Any], *arguments: Any, runs_once: bool = False, **jit_options: Any) -> Any:
    """The executable of `function` for the shapes and static values of `arguments`."""
    quick = runs_once and jax.default_backend() == "cpu"
    options: dict[str, Any] = {"xla_backend_optimization_level": 1} if quick else {}
    return jax.jit(function, **jit_options).lower(*arguments).compile(compiler_options=options)
