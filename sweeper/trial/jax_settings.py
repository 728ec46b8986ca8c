"""Settings of JAX and XLA that decide numbers: those that people set have one value for all trials.

A setting comes from the environment, from the program around `import sweeper`, or from a plug-in that changes it when
it is imported or traced. A start refuses `PINNED` settings of other values by name, and a plug-in that changes one is
refused too; its change is undone, so that it reaches no other trial of the process. `flags` may differ between starts
and are part of every fingerprint. What neither names is measured (`sweeper.training.arithmetic`).

Threads decide numbers as well, since kernels cut sums into parts by their number, and jax's own CPU device has the
threads that the environment said when somebody first used it. So all programs for CPUs, and what plug-ins compute while
they are imported, run on a CPU device that this module makes, with a single thread. Then neither the environment, nor
the cores of a worker, nor what a notebook did before changes a number. More cores serve more packs.
"""

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

import jax
from jaxlib import xla_client

from sweeper.messages import UserError

PINNED: dict[str, object] = {
    "jax_debug_infs": False,
    "jax_debug_nans": False,
    "jax_default_matmul_precision": None,
    "jax_default_prng_impl": "threefry2x32",
    "jax_disable_jit": False,
    "jax_enable_x64": False,
    "jax_numpy_dtype_promotion": "standard",
    "jax_threefry_partitionable": True,
}
"""What people set, and what decides numbers or makes an exception of a number; with the values of all trials."""

VARIABLES = ("LIBTPU_INIT_ARGS", "NVIDIA_TF32_OVERRIDE", "XLA_FLAGS")
"""Variables of the environment that decide numbers, and are read once in a process."""

ONE_THREAD = {"PJRT_NPROC": "1", "NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""The environment in which libraries compute with one thread; they read it when they are loaded."""

HASH_SEED = "0"
"""That of Python in workers: it decides the order of sets of texts."""

_NO_NUMBERS = ("--xla_cpu_multi_thread_eigen", "--xla_dump_", "--xla_force_host_platform_device_count")
"""Flags of XLA that change no number, as programs run on a CPU device of their own (`one_thread`)."""


class SettingsError(UserError, ValueError):
    """A setting that decides numbers has another value than in all trials; the message is a sentence for the user."""


def _of_environment() -> dict[str, str]:
    return {name: " ".join(os.environ.get(name, "").split()) for name in VARIABLES}


environment = _of_environment()
"""`VARIABLES` as XLA reads them in this process; its workers get them."""


def flags() -> dict[str, str]:
    """The variables that enter fingerprints: of repeated flags the last, in alphabetical order."""
    words = {word.partition("=")[0]: word for word in environment["XLA_FLAGS"].split()}
    counted = {"XLA_FLAGS": " ".join(words[name] for name in sorted(words) if not name.startswith(_NO_NUMBERS))}
    return {name: value for name, value in (environment | counted).items() if value}


def changed() -> dict[str, str]:
    """The value of every setting, by name, that has not the value of all trials, or not that of the environment."""
    now = {name: jax.config.values.get(name, value) for name, value in PINNED.items()}
    texts = {name: str(getattr(value, "value", value)) for name, value in now.items()} | _of_environment()
    return {name: text for name, text in texts.items() if text != str((PINNED | environment)[name])}


def put_back() -> None:
    """Give every setting the value of all trials."""
    for name in changed():
        if name in PINNED:
            jax.config.update(name, PINNED[name])
        else:
            os.environ[name] = environment[name]


def require() -> None:
    """Refuse settings of other values, with a `SettingsError` that names each."""
    if different := changed():
        ours = PINNED | environment
        listed = ", ".join(f"{name} is {value!r} instead of {str(ours[name])!r}" for name, value in different.items())
        names = " and ".join(map(str.upper, different))
        raise SettingsError(
            f"what decides numbers differs from that of all trials: {listed}; unset {names} in the environment, or "
            "remove what changes it in this process"
        )


def undone(culprit: str) -> None:
    """Undo changes of settings, with a `SettingsError` that names what has run since they were right, the `culprit`."""
    if different := changed():
        put_back()
        listed = ", ".join(f"{name} to {value!r}" for name, value in different.items())
        raise SettingsError(f"{culprit} sets {listed}, for all trials of the process; the change was undone")


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """A context in which JAX computes with one thread, and so do libraries that are loaded in it."""
    with variables(ONE_THREAD), jax.default_device(_device()):
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
