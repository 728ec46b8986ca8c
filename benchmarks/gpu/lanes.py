"""The speed and the memory of training by number of lanes."""

import functools
import math
import statistics
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from benchmarks.shipped_trials import EXPERIMENTS, shipped_experiment, shipped_trial
from sweeper.learned_algorithms import evolution, gradient
from sweeper.learned_algorithms.strategy_contract import EvolutionStrategy
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs.device_memory import out_of_memory
from sweeper.packs.packing import stack
from sweeper.training import compilation, experiments
from sweeper.training.kind import trainer_of
from sweeper.trial.experiment_trial import ExperimentTrial


def _seconds(work: Callable[[], Any], repeats: int) -> float:
    """Median time of a computation, without compilation."""
    jax.block_until_ready(work())
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


class Kind(NamedTuple):
    """Trials whose speed is measured."""

    name: str  # of `SPACES` or of `EXPERIMENTS`
    rows: int  # how many of the first numbers of lanes are measured
    single_seed: bool = False  # whether trials of a task have a single seed r

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
    print(
        "| lanes | trials | steps or generations/s, all lanes | one, ms | memory, MB | compilation, s |"
        "\n|---|---|---|---|---|---|"
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
                print(f"{title} | {' | '.join(row(kind, lanes, toy))} |", flush=True)
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


def row(kind: Kind, lanes: int, toy: bool) -> list[str]:
    """What is measured of one kind of trials with a number of lanes, as the cells of the table."""
    trial = kind.trial(toy)
    stacked = stack([trial.model_copy(update={"seed": seed}) for seed in range(lanes)])
    if isinstance(stacked, TrialSpec) and isinstance(stacked.optimizer, EvolutionStrategy):
        one = _generation(stacked, toy)
    else:
        one = _step(stacked, toy)
    speed = [f"{lanes / one.seconds:,.4g}", f"{1e3 * one.seconds:.3g}"]
    return [*speed, f"{one.memory / 1e6:,.1f}", f"{one.compilation:.1f}"]


class Measured(NamedTuple):
    """What one step, or one generation, of all lanes takes."""

    seconds: float  # its median time
    memory: int  # bytes of the device, as the compiler says
    compilation: float  # seconds


def _step(stacked: TrialSpec | ExperimentTrial, toy: bool) -> Measured:
    trainer = trainer_of(stacked)
    state, length = trainer.start(stacked), 5 if toy else trainer.stride_steps
    of_experiment = isinstance(stacked, ExperimentTrial)
    advance = experiments.advance if of_experiment else gradient.advance
    data = (experiments.data_of(stacked),) if of_experiment else ()
    begun = time.perf_counter()
    program = compilation.compiled(functools.partial(advance, length=length), stacked, state, *data, donate_argnums=1)
    compiling = time.perf_counter() - begun

    def stride() -> Any:
        nonlocal state
        state, _ = program(stacked, state, *data)  # which takes the memory of the old state
        return state

    seconds = _seconds(stride, 1 if toy else 3) / length
    return Measured(seconds, compilation.memory_bytes(program), compiling)


def _generation(stacked: TrialSpec, toy: bool) -> Measured:
    begun = time.perf_counter()
    memory = evolution.memory(stacked)
    compiling = time.perf_counter() - begun
    state = evolution.start(stacked)
    seconds = _seconds(lambda: evolution.stride(stacked, state, 1, evaluate=evolution.in_process), 1 if toy else 3)
    return Measured(seconds, memory, compiling)
