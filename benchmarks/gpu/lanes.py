"""The speed of training by number of lanes, and the least time that a step or a generation can take."""

import functools
import math
import statistics
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.compiled_program import run_counts
from benchmarks.operation_counts import operations
from benchmarks.shipped_trials import EXPERIMENTS, shipped_experiment, shipped_trial
from sweeper.learned_algorithms import evolution, gradient
from sweeper.learned_algorithms.strategy_contract import EvolutionStrategy
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs.device_memory import out_of_memory
from sweeper.packs.packing import stack
from sweeper.training import compilation, experiments
from sweeper.training.kinds import trainer_of
from sweeper.trial.experiment_trial import ExperimentTrial


class DevicePeaks(NamedTuple):
    """The highest rates of the device.

    Attributes:
        operations: Operations a second of exact float32 matrix products.
        bytes: Bytes a second that a copy reads and writes.
        kernel: Seconds of a small kernel in a loop, which has the kernels that `benchmarks.compiled_program` counts.
    """

    operations: float
    bytes: float
    kernel: float


def measured_peaks(toy: bool) -> DevicePeaks:
    """The peaks of the default device, from a large product, a large copy and a loop of small kernels."""
    size, count, turns = (256, 2**18, 50) if toy else (8192, 2**28, 2000)
    # Not ones: a device that computes with few set bits draws less power, and runs faster.
    matrix = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(lambda x: jnp.matmul(x, x, precision=jax.lax.Precision.HIGHEST))
    numbers = jnp.ones(count)
    copied = jax.jit(lambda x: x + 1)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, turns, lambda _, y: jnp.sin(y), x))
    return DevicePeaks(
        operations=2 * size**3 / _seconds(lambda: product(matrix)),
        bytes=2 * numbers.nbytes / _seconds(lambda: copied(numbers)),
        kernel=_seconds(lambda: loop(numbers[:8])) / run_counts(loop.lower(numbers[:8]).compile()).kernels,
    )


def _seconds(work: Callable[[], Any], repeats: int = 5) -> float:
    """Median time of a computation, without compilation."""
    jax.block_until_ready(work())
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


class Kind(NamedTuple):
    """Trials whose speed is measured.

    Attributes:
        name: Of `SPACES` or of `EXPERIMENTS`.
        rows: How many of the first numbers of lanes are measured.
        single_seed: Whether trials of a task have a single seed r.
    """

    name: str
    rows: int
    single_seed: bool = False

    def trial(self, toy: bool) -> TrialSpec | ExperimentTrial:
        """One of them."""
        if self.name in EXPERIMENTS:
            return shipped_experiment(self.name, toy)
        return shipped_trial(self.name, toy, self.single_seed)

    def title(self, toy: bool) -> str:
        """What rows call them."""
        trial = self.trial(toy)
        return f"{self.name}, {trial.baseline}" if isinstance(trial, TrialSpec) else self.name


KINDS = (
    Kind("colouring", rows=10),
    Kind("colouring", rows=10, single_seed=True),
    Kind("recall", rows=4),
    Kind("grid world", rows=4),
    *(Kind(name, rows=3) for name in EXPERIMENTS),
)


def print_lanes(numbers: list[int], toy: bool, until: float) -> bool:
    """Print the table, all kinds with one number of lanes before the next; whether no row failed."""
    peaks = measured_peaks(toy)
    print(
        f"Peaks: {peaks.operations / 1e12:.3g} TFLOP/s, {peaks.bytes / 1e9:.4g} GB/s, "
        f"{1e6 * peaks.kernel:.3g} µs a kernel.\n"
    )
    for kind in KINDS:
        trial = kind.trial(toy)
        if isinstance(trial, TrialSpec):
            print(f"- {kind.title(toy)}: m = {trial.objective.m}, batch {trial.batch_size}")
    print(
        "\n| lanes | trials | steps or generations/s, all lanes | one, ms | least by operations, ms | by bytes "
        "| by kernels | memory, MB | compilation, s |\n|---|---|---|---|---|---|---|---|---|"
    )
    bounds = dict.fromkeys(KINDS, math.inf)  # of the lanes of each: a device out of memory, or a failure
    last: dict[Kind, tuple[int, float]] = dict.fromkeys(KINDS, (1, 0.0))  # lanes and seconds of the last row of each
    right = True
    for place, lanes in enumerate(numbers):
        for kind in [kind for kind in KINDS if place < kind.rows and lanes < bounds[kind]]:
            title, begun = f"| {lanes} | {kind.title(toy)}", time.monotonic()
            if begun + last[kind][1] * max(1.0, lanes / last[kind][0]) > until:
                print(f"{title} | no time left |")
                continue
            try:
                print(f"{title} | {' | '.join(row(kind, lanes, peaks, toy))} |", flush=True)
                last[kind] = lanes, time.monotonic() - begun
            except Exception as error:  # any bug of a compiler, a library or this project
                full = out_of_memory(error)
                right &= full
                bounds[kind] = lanes if full else 0
                if not full:
                    traceback.print_exception(error)
                print(f"{title} | {'out of memory' if full else f'FAILED: {type(error).__name__}'} |", flush=True)
    print()
    return right


def row(kind: Kind, lanes: int, peaks: DevicePeaks, toy: bool) -> list[str]:
    """What is measured of one kind of trials with a number of lanes, as the cells of the table."""
    trial = kind.trial(toy)
    stacked = stack([trial.model_copy(update={"seed": seed}) for seed in range(lanes)])
    if isinstance(stacked, TrialSpec) and isinstance(stacked.optimizer, EvolutionStrategy):
        program = _generation(stacked, toy)
    else:
        program = _steps(stacked, toy)
    return [
        f"{lanes / program.seconds:,.4g}",
        f"{1e3 * program.seconds:.3g}",
        f"{1e3 * program.operations / peaks.operations:.2g}",
        f"{1e3 * program.bytes / peaks.bytes:.2g}",
        f"{1e3 * program.kernels * peaks.kernel:.2g}",
        f"{program.memory / 1e6:,.1f}",
        f"{program.compilation:.1f}",
    ]


class Measured(NamedTuple):
    """What one step, or one generation, of all lanes takes.

    Attributes:
        seconds: Its median time.
        operations: Operations in the traced program.
        bytes: Bytes that its kernels read and write, if nothing stays in a cache.
        kernels: Kernels, counted in the compiled program.
        memory: Bytes of the device, as the compiler says.
        compilation: Seconds.
    """

    seconds: float
    operations: float
    bytes: float
    kernels: float
    memory: int
    compilation: float


def _steps(stacked: TrialSpec | ExperimentTrial, toy: bool) -> Measured:
    trainer = trainer_of(stacked)
    state, length = trainer.start(stacked), 5 if toy else trainer.stride_steps
    of_experiment = isinstance(stacked, ExperimentTrial)
    advance = experiments.advance if of_experiment else gradient.advance
    data = (experiments.data_of(stacked),) if of_experiment else ()
    begun = time.perf_counter()
    program = compilation.compiled(functools.partial(advance, length=length), stacked, state, *data, donate_argnums=1)
    compiling = time.perf_counter() - begun
    one = compilation.traced(functools.partial(advance, length=1), stacked, state, *data)

    def stride() -> Any:
        nonlocal state
        state, _ = program(stacked, state, *data)  # which takes the memory of the old state
        return state

    seconds = _seconds(stride, 1 if toy else 3) / length
    run = run_counts(program)
    return Measured(
        seconds=seconds,
        operations=operations(one.jaxpr.jaxpr),
        bytes=run.moved / length,
        kernels=run.kernels / length,
        memory=compilation.memory_bytes(program),
        compilation=compiling,
    )


def _generation(stacked: TrialSpec, toy: bool) -> Measured:
    begun = time.perf_counter()
    _, parts = evolution.first_generation(stacked)
    memory = evolution.memory(stacked)
    compiling = time.perf_counter() - begun
    traced = [(times, compilation.traced(function, *arguments)) for times, function, arguments in parts]
    runs = [(times, run_counts(program.lower().compile())) for times, program in traced]
    state = evolution.start(stacked)
    seconds = _seconds(lambda: evolution.stride(stacked, state, 1, evaluate=evolution.in_process), 1 if toy else 3)
    return Measured(
        seconds=seconds,
        operations=sum(times * operations(program.jaxpr.jaxpr) for times, program in traced),
        bytes=sum(times * run.moved for times, run in runs),
        kernels=sum(times * run.kernels for times, run in runs),
        memory=memory,
        compilation=compiling,
    )
