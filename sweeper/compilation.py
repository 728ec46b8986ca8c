"""How programs are compiled: one setting for every place that compiles, so that one trial has one set of numbers.

On a CPU, LLVM at its highest optimisation level takes two to three times as long over these programs as at level 1, and
the code it makes is no faster (measured in docs/performance); a sweep of short trainings is mostly compilation.
"""

from collections.abc import Callable
from typing import Any

import jax


def compiler_options() -> dict[str, Any]:
    """XLA options for the default backend."""
    return {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else {}


def compiled(function: Callable[..., Any], *arguments: Any, **jit_options: Any) -> Any:
    """The executable of `function` for the shapes and static values of `arguments`."""
    return jax.jit(function, **jit_options).lower(*arguments).compile(compiler_options=compiler_options())
