"""Variables of the environment by which libraries take other kernels than those that are best for this CPU.

Other kernels are other numbers, and no trial has one of these variables. An administrator may set one for all programs
of a machine, for instance for an old OpenBLAS. So `import sweeper` removes them from the environment, for this process
and those that it starts, if it comes before the libraries that read them. If it comes later, a start is refused
(`sweeper.trial.jax_settings`).
"""

import os
import sys

VARIABLES = (
    "BLIS_ARCH_TYPE", "DNNL_CPU_ISA_HINTS", "DNNL_DEFAULT_FPMATH_MODE", "DNNL_MAX_CPU_ISA", "MKL_CBWR",
    "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES",
    "ONEDNN_CPU_ISA_HINTS", "ONEDNN_DEFAULT_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_BLOCK_FACTOR",
    "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE",
)  # fmt: skip
"""What no list has is measured (`sweeper.training.arithmetic`)."""

_READERS = {"jaxlib", "numpy", "scipy"}

removed: dict[str, str] = {}
"""What this process removed from its environment, with the values."""


def remove() -> None:
    """Remove the variables, unless a library of this process may have read them."""
    if not _READERS & sys.modules.keys():
        removed.update({name: os.environ.pop(name) for name in VARIABLES if os.environ.get(name)})


def remarks() -> list[str]:
    """A line about the variables that were removed, if there are any."""
    listed = ", ".join(f"{name}={value}" for name, value in removed.items())
    return [f"ignored, as all trials have the kernels of their CPU: {listed}"] * bool(removed)
