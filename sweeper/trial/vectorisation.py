"""Whether a program computes like cases in turns or all at once: a CPU and an accelerator are fast at different forms.

A core is fast while its data fit into its cache. There, seeds, tokens and lanes take turns, each with little in flight.
An accelerator starts a kernel for every operation of every turn, and each start costs microseconds. There, the same
numbers are computed in few large operations.

The form is chosen while a program is traced, by the platform for which it is made. A choice at lowering, by
`jax.lax.platform_dependent`, would trace and differentiate both forms for every platform. And the form for an
accelerator could not run on a CPU, where tests hold it against the definition (`tests/plugins/test_conformance.py`).
"""

import contextlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_platform = jax.make_user_context(None)
"""The platform that programs are made for; None is the default backend. It is a part of the key of jit's cache."""


def built_for(platform: str) -> contextlib.AbstractContextManager[None]:
    """A context in which programs are traced for a platform, such as `cpu` or `cuda`, whatever this machine has."""
    return _platform(platform)


def in_turns() -> bool:
    """Whether the program that is being traced computes like cases in turns; it is made for a CPU then."""
    platform = _platform.value
    if platform is None and (device := jax.config.values["jax_default_device"]) is not None:
        platform = device if isinstance(device, str) else device.platform
    return (platform or jax.default_backend()) == "cpu"


def product(x: Float[Array, "... row inner"], y: Float[Array, "... inner column"]) -> Float[Array, "... row column"]:
    """The matrix product, where a sum has few terms.

    For a GPU it is written as a sum, which XLA fuses with what is before and after it. A product would be a kernel of
    its own, and so would every transposition and slice around it.
    """
    return x @ y if in_turns() else (x[..., None] * y[..., None, :, :]).sum(axis=-2)


def products(x: Float[Array, "... inner"], matrices: Sequence[Float[Array, "inner _"]]) -> list[Float[Array, "... _"]]:
    """x @ matrix for each matrix, for an accelerator by a single product."""
    if in_turns():
        return [x @ matrix for matrix in matrices]
    ends = np.cumsum([matrix.shape[1] for matrix in matrices])[:-1]
    return jnp.split(x @ jnp.concatenate(matrices, axis=1), ends, axis=-1)
