"""Settings of JAX and XLA that decide numbers: most have one value for all trials, the others enter fingerprints.

Settings are also the functions of libraries and plug-ins that somebody may replace (`sweeper.trial.patches`).

A setting comes from the environment, from the program around `import sweeper`, or from a plug-in that changes it when
it is imported or traced. A start refuses `PINNED` settings of other values by name, and a plug-in that changes one is
refused too; its change is undone, so that it reaches no other trial of the process. `flags` may differ between starts
and are part of every fingerprint. tests/trial/test_jax_settings.py sorts every setting of the installed JAX.

Threads decide numbers as well, since kernels cut sums into parts by their number, and jax's own CPU device has the
threads that the environment said when somebody first used it. So all programs for CPUs, and what plug-ins compute while
they are imported, run on a CPU device that this module makes, with a single thread. Then neither the environment, nor
the cores of a worker, nor what a notebook did before changes a number. More cores serve more packs.
"""

import contextlib
import ctypes
import enum
import functools
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
from jaxlib import xla_client

from sweeper import kernels
from sweeper.messages import UserError
from sweeper.trial import patches

PINNED: dict[str, object] = {
    "eager_constant_folding": False,
    "jax_accurate_erf_inv": False,
    "jax_allow_f16_reductions": True,
    "jax_bcoo_cusparse_lowering": False,
    "jax_compiler_enable_remat_pass": True,
    "jax_custom_jvp3": False,
    "jax_custom_vjp3": False,
    "jax_debug_infs": False,
    "jax_debug_nans": False,
    "jax_default_matmul_precision": None,
    "jax_default_prng_impl": "threefry2x32",
    "jax_disable_jit": False,
    "jax_disable_most_optimizations": False,
    "jax_embedded_constants_max_bytes": 32,
    "jax_enable_custom_prng": False,
    "jax_enable_pgle": False,
    "jax_enable_x64": False,
    "jax_error_checking_behavior_divide": "ignore",
    "jax_error_checking_behavior_nan": "ignore",
    "jax_error_checking_behavior_oob": "ignore",
    "jax_exec_time_optimization_effort": 0.0,
    "jax_explicit_x64_dtypes": "warn",
    "jax_high_dynamic_range_gumbel": False,
    "jax_memory_fitting_effort": 0.0,
    "jax_memory_fitting_level": "O2",
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_optimization_level": "UNKNOWN",
    "jax_ragged_dot_use_gpu_pallas_triton_lowering": False,
    "jax_ragged_dot_use_ragged_dot_instruction": True,
    "jax_random_seed_offset": 0,
    "jax_remat3": False,
    "jax_remat_barrier_no_cotangents": False,
    "jax_scan3": False,
    "jax_softmax_custom_jvp": False,
    "jax_threefry_gpu_kernel_lowering": False,
    "jax_threefry_partitionable": True,
    "jax_use_direct_linearize": True,
    "jax_use_hlo_logistic_lowering": None,
    "jax_use_magma": "auto",
    "jax_use_rgv3": True,
    "jax_use_shardy_partitioner": True,
    "jax_use_simplified_jaxpr_constants": False,
}
"""What decides numbers, or makes an exception of a number, with the values of all trials; a JAX may lack some."""

VARIABLES = ("LIBTPU_INIT_ARGS", "NVIDIA_TF32_OVERRIDE", "XLA_FLAGS")
"""Variables of the environment that decide numbers, and are read once in a process."""

ONE_THREAD = {"PJRT_NPROC": "1", "NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""The environment in which libraries compute with one thread; they read it when they are loaded."""

HASH_SEED = "0"
"""That of Python in workers: it decides the order of sets of texts."""

_SET_THREADS = tuple(f"{prefix}openblas_set_num_threads{ending}" for prefix in ("", "scipy_") for ending in ("", "64_"))
"""What builds of OpenBLAS call the function that sets their threads."""

_NO_NUMBERS = ("--xla_cpu_multi_thread_eigen", "--xla_dump_", "--xla_force_host_platform_device_count")
"""Flags of XLA that change no number, as programs run on a CPU device of their own (`one_thread`)."""


class SettingsError(UserError, ValueError):
    """A setting that decides numbers has another value than in all trials; the message is a sentence for the user."""


def _of_environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`VARIABLES`, with the text of a file of flags in place of its name."""
    values = {name: " ".join(variables.get(name, "").split()) for name in VARIABLES}
    named = values["XLA_FLAGS"]
    if named and not named.startswith("--") and Path(named).is_file():
        values["XLA_FLAGS"] = " ".join(Path(named).read_text().split())
    return values


def _at_the_begin() -> Mapping[str, str]:
    """The variables of the environment that XLA has read, or will read.

    A program may have used JAX before it imports this package. Then XLA has read its flags, most likely those with
    which the process began; what the program has changed since would be a fingerprint of flags that XLA does not have.
    """
    bridge, begin = sys.modules.get("jax._src.xla_bridge"), Path("/proc/self/environ")
    used = getattr(bridge, "backends_are_initialized", lambda: False)()  # only this private function does not start JAX
    if not used or not begin.exists():
        return os.environ
    entries = os.fsdecode(begin.read_bytes()).split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


environment = _of_environment(_at_the_begin())
"""`VARIABLES` as XLA reads them in this process; its workers get them."""


def flags() -> dict[str, str]:
    """The variables that enter fingerprints: of repeated flags the last, in alphabetical order."""
    words = {word.partition("=")[0]: word for word in environment["XLA_FLAGS"].split()}
    counted = {"XLA_FLAGS": " ".join(words[name] for name in sorted(words) if not name.startswith(_NO_NUMBERS))}
    return {name: value for name, value in (environment | counted).items() if value}


def changed() -> dict[str, str]:
    """The value of every setting, by name, that has not the value of all trials."""
    now = {
        name: value.name.lower() if isinstance(value, enum.Enum) else str(value)
        for name, value in jax.config.values.items()
    }
    wanted = {name: str(value) for name, value in PINNED.items()}
    variables = _of_environment() | {name: os.environ.get(name, "") for name in kernels.VARIABLES}
    return (
        {name: now[name] for name in wanted if now.get(name, wanted[name]) != wanted[name]}
        | {name: variables[name] for name in variables if variables[name] != environment.get(name, "")}
        | patches.changed()
    )


def put_back() -> None:
    """Give every setting the value of all trials."""
    different = changed()
    patches.put_back()
    for name in different:
        if name in PINNED:
            jax.config.update(name, PINNED[name])
        elif environment.get(name):
            os.environ[name] = environment[name]
        elif name in (*VARIABLES, *kernels.VARIABLES):
            os.environ.pop(name, None)


def require() -> None:
    """Refuse settings of other values, with a `SettingsError` that names each, and how to get rid of it."""
    if different := changed() | patches.in_sweeper():
        ours = PINNED | dict.fromkeys(kernels.VARIABLES, "") | environment
        listed = [
            f"{name} is {value!r} instead of {str(ours[name])!r}" if name in ours else f"{name} was replaced by {value}"
            for name, value in different.items()
        ]
        names = " and ".join(name.upper() for name in different if name in ours)
        unset = f"unset {names} in the environment, or " * bool(names)
        earlier = ", or import sweeper before numpy" * bool(different.keys() & {*kernels.VARIABLES})
        raise SettingsError(
            f"what decides numbers differs from that of all trials: {', '.join(listed)}; {unset}remove what changes it "
            f"in this process{earlier}"
        )


def undone(culprit: str) -> None:
    """Undo changes of settings, with a `SettingsError` that names what has run since they were right, the `culprit`."""
    if different := changed():
        put_back()
        listed = ", ".join(f"{name} to {value!r}" for name, value in different.items())
        raise SettingsError(f"{culprit} sets {listed}, for all trials of the process; the change was undone")


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """A context in which JAX computes with one thread, and so do numpy, scipy, and libraries that are loaded in it."""
    with variables(ONE_THREAD), jax.default_device(_device()):
        # XLA calls scipy's LAPACK. numpy and scipy keep their one thread, as what plug-ins compute may come later.
        maps = Path("/proc/self/maps")
        lines = maps.read_text().splitlines() if maps.exists() else []
        for file in {line.split(maxsplit=5)[-1] for line in lines if "openblas" in line}:
            library = ctypes.CDLL(file)
            for name in _SET_THREADS:
                if hasattr(library, name):
                    getattr(library, name)(1)
        yield


@functools.cache
def _device() -> Any:
    """The CPU device of all programs for CPUs; its threads are those that the environment says now."""
    return xla_client.make_cpu_client(num_devices=1).devices()[0]


@contextlib.contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, for this process and for those that it starts meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
