"""Ahead-of-time compilation, in one place, so that a trial is always run by the same code.

The latest programs are kept, so that a worker compiles once for many packs. Trials that differ in nothing that a
program sees share a program (`Trial.for_programs`). A program that runs once, such as the initialisation of
weights, is compiled for the CPU at LLVM level 1: this takes a third of the time, and the speed of such a program does
not matter.

The first argument of every program is a trial, or trials stacked along a lane axis, and the trial says how exact matrix
products are. A GPU would round their factors to ten bits by default; a CPU computes them in full whatever is asked for.
"""

import contextlib
import fcntl
import functools
import hashlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from sweeper.trial import jax_settings, vectorisation
from sweeper.trial.private_folder import private_folder
from sweeper.trial.trial import Trial

PROGRAMS = 32
"""The most programs that a process keeps; a pack needs about four. On a CPU a program has hundreds of memory mappings,
and Linux kills a process that asks for more than 65,530."""


EMITTERS = {"xla_cpu_use_fusion_emitters": True} if jax.__version_info__ < (0, 11) else {}
"""How XLA writes loops for a CPU, whatever `XLA_FLAGS` says. In its older way, which compiles twice as fast and which
later versions do not have, the numbers of a trial would depend on how many are trained beside it."""


SHORT_SUMS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_DOT"}
"""For a step whose sums have few terms: XLA's library YNNPACK gets products alone. It needs 30 ns for each number of a
sum of three, and is the faster one at long sums (imitation takes 1.02 times as long without it)."""


LEAST_COMPILE_SECONDS = 0.1  # programs that compile faster are not kept on disk


def keep_on_this_machine() -> None:
    """Have jax keep the programs of this process in a folder of this machine, where later processes find them.

    The folder holds machine code: a folder that other users may write to, or have made, is not used.
    """
    if (folder := private_folder("jax-cache")) is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_COMPILE_SECONDS)


class Program:
    """A compiled program that takes the trial itself, whatever its structure has that programs do not see."""

    def __init__(self, executable: jax.stages.Compiled, digest: str):
        self._executable = executable
        self.digest = digest  # of its text before it was compiled, constants included

    def __call__(self, trial: Trial, *arguments: Any) -> Any:
        """Run it."""
        return self._executable(trial.for_programs(), *arguments)

    def memory_bytes(self) -> int:
        """Memory of the device that it needs, as the compiler says."""
        return memory_bytes(self._executable)


_programs: dict[Any, Program] = {}  # the latest used last
_fixed: dict[str, jax.stages.Compiled] = {}  # those of `results`, by their text
_seconds = 0.0


def traced(function: Callable[..., Any], trial: Trial, *arguments: Any, **jit_options: Any) -> jax.stages.Traced:
    """`function` for the shapes and static values of its arguments, before it is lowered for a platform."""
    with jax.default_matmul_precision(trial.matmul_precision), _device():
        return jax.jit(function, **jit_options).trace(trial, *arguments)


def _device() -> contextlib.AbstractContextManager[None]:
    """The context in which a program is traced and compiled: its constants may be computed then."""
    return jax_settings.one_thread() if vectorisation.in_turns() else contextlib.nullcontext()


def compiled(
    function: Callable[..., Any],
    trial: Trial,
    *arguments: Any,
    runs_once: bool = False,
    trains: bool = False,
    **jit_options: Any,
) -> Program:
    """The program of `function` for the shapes and static values of its arguments.

    One that `trains` is compiled by the `training_options` of the trial too. A setting that decides numbers and was
    changed, before or by `function`, is put back, with a `SettingsError`.
    """
    jax_settings.undone("code that ran since the last program was compiled")
    own: dict[str, Any] = {}
    if vectorisation.in_turns():
        own = ({"xla_backend_optimization_level": 1} if runs_once else {}) | (training_options(trial) if trains else {})
    try:
        with _device():
            lowered = traced(function, trial, *arguments, **jit_options).lower()
            digest = hashlib.blake2b(lowered.as_text().encode(), digest_size=5).hexdigest()
            return Program(executable(lowered, _options() | own), digest)
    finally:
        plugins = (f"the {kind} '{plugin.name}'" for kind, plugin in trial.plug_ins)
        jax_settings.undone(" or ".join(plugins))


def training_options(trial: Trial) -> dict[str, str]:
    """XLA's options for the programs that train a trial on a CPU, beside those of all: a part of what made its row."""
    return SHORT_SUMS if trial.short_sums else {}


def _options() -> dict[str, Any]:
    return {"xla_cpu_multi_thread_eigen": False, **EMITTERS} if vectorisation.in_turns() else {}


def results(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives that belongs to no trial, compiled as those of trials are, once for each program.

    It is traced at every call, by the settings and the libraries as they are then.
    """
    with _device():
        lowered = jax.jit(functools.partial(function)).trace(*arguments).lower()  # jax knows no new object
        text = lowered.as_text()
        if text not in _fixed:
            _fixed[text] = executable(lowered, _options())
        return jax.device_get(_fixed[text](*arguments))


def executable(lowered: jax.stages.Lowered, options: dict[str, Any] | None = None) -> jax.stages.Compiled:
    """The executable of a program; a `JaxRuntimeError` if it cannot be compiled.

    XLA's kernels for matrix products on a GPU, by Triton, have no tiles that fit some products. Then a library computes
    them all.
    """
    options = options or {}
    with _after_others(lowered):
        try:
            return lowered.compile(compiler_options=options)
        except jax.errors.JaxRuntimeError as error:
            if "output tile sizes" not in str(error):
                raise
            return lowered.compile(compiler_options=options | {"xla_gpu_enable_triton_gemm": False})


@contextlib.contextmanager
def _after_others(lowered: jax.stages.Lowered) -> Iterator[None]:
    """Wait while another process of this machine compiles the program, which is then found in the folder of programs.

    Workers that start together need the same programs at once. A program is a byte of one file, locked while it is
    compiled, so that nothing is left by a process that dies.
    """
    folder = private_folder("compiling") if jax.config.values["jax_compilation_cache_dir"] else None
    if folder is None:
        yield
        return
    byte = int.from_bytes(hashlib.sha256(lowered.as_text().encode()).digest()[:6])
    with (folder / "lock").open("w") as file:
        with contextlib.suppress(OSError):  # a disk without locks
            fcntl.lockf(file, fcntl.LOCK_EX, 1, byte)
        yield


def kept(
    function: Callable[..., Any],
    trial: Trial,
    *arguments: Any,
    static: tuple[Any, ...] = (),
    trains: bool = False,
    **options: Any,
) -> Program:
    """As `compiled`, but once for all arguments of equal structure, shapes and types, while the program is kept.

    The structure of a trial is that of `Trial.for_programs`. What is compiled is the call
    `function(trial, *arguments, *static)`, for one trial or for stacked trials. The program is called without `static`.
    An array among `arguments` may be a `jax.ShapeDtypeStruct`.
    """
    global _seconds
    seen = trial.for_programs()
    leaves, structure = jax.tree.flatten((seen, *arguments))
    shapes = tuple((getattr(leaf, "shape", ()), jnp.result_type(leaf)) for leaf in leaves)
    key = (function, structure, static, shapes, vectorisation.in_turns(), trains)
    program = _programs.pop(key, None)
    if program is None:
        begun = time.monotonic()
        positions = tuple(range(1 + len(arguments), 1 + len(arguments) + len(static)))
        program = compiled(function, seen, *arguments, *static, static_argnums=positions, trains=trains, **options)
        _seconds += time.monotonic() - begun
    _programs[key] = program
    if len(_programs) > PROGRAMS:
        for oldest in list(_programs)[: -PROGRAMS // 2]:
            del _programs[oldest]
        jax.clear_caches()  # which hold each program too
    return program


def memory_bytes(program: Any) -> int:
    """Memory of the device that a compiled program needs: its arguments, its results and what is in between."""
    memory = program.memory_analysis()
    size = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return size - memory.alias_size_in_bytes


def seconds() -> float:
    """Time that `kept` has spent compiling in this process."""
    return _seconds
