"""The numerics on a GPU, in under ten minutes and without Ray: whether they are right, how fast, and what limits them.

    python -m benchmarks.gpu [--parts agreement,profile,lanes] [--seconds 540] [--lanes 1,2,4,...,512] [--toy]

Prints, as Markdown:

1. Agreement: the numbers of the accelerator beside those of the CPU of the same machine, from the same keys, for every
   task, with the bound on their difference.
2. A profile: the operations on which some steps of colouring and of recall spend most time.
3. Lanes: trial-steps or generations a second by number of lanes, memory, and the least time that a step can take by its
   operations, by its bytes, and by the start of its kernels, at the peaks measured in the same process. Then the time
   that the whole of search_spaces/coloring.yaml would take on this one device, with the packs that it has there.

What fails is told, and the rest goes on. Exits with 1 if a bound is not kept, if anything failed, or if there was no
time to compare a task. `--toy` makes everything small, and runs on a CPU too, in the form for an accelerator: that
shows that this file works, and nothing about a GPU. Programs are kept in the folder of JAX_COMPILATION_CACHE_DIR, if it
is set, so that a second call compiles nothing.
"""

import argparse
import functools
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.lowered_program import kernels
from benchmarks.operation_counts import operations
from benchmarks.operation_times import operation_times
from sweeper.packs.device_lanes import out_of_memory
from sweeper.packs.packing import packs, stack
from sweeper.space import search_space
from sweeper.training import compilation, evaluation, evolution, gradient
from sweeper.trial import vectorisation
from sweeper.trial.trial_spec import PGPE, TrialSpec, canonical

SPACES = {
    "colouring": "coloring",
    "recall": "recall",
    "imitation": "gridworld_imitation",
    "grid world": "gridworld_compact",
    "ski rental": "ski_rental",
}
RESERVED = 60
"""Seconds that are kept for what comes after the lanes."""

STEPS = 10
"""Training steps after which weights are compared: rounding has had little time to grow."""

TOY = {
    "colouring": {"task": {"name": "coloring", "vertices": 5}},
    "recall": {"task": {"name": "recall", "keys": 3, "value_bits": 2, "seed_bits": 3}},
    "imitation": {"task": {"name": "gridworld_imitation", "height": 2, "width": 3, "horizon": 6, "noise": 3}},
    "grid world": {"task": {"name": "gridworld", "height": 2, "width": 3, "horizon": 6, "noise": 3}},
    "ski rental": {"task": {"name": "ski_rental", "price": 3, "longest": 6, "noise": 4}},
}
TOY_SIZES = {"batch_size": 4, "evaluation": {"seeds": 10, "votes": [3]}}


def main(arguments: list[str] | None = None) -> int:
    """Print all parts; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=540.0, help="begin nothing after so many seconds")
    parser.add_argument("--lanes", default="1,2,4,8,16,32,64,128,256,512")
    parser.add_argument("--parts", default="agreement,profile,lanes")
    parser.add_argument("--toy", action="store_true")
    options = parser.parse_args(arguments)
    until = time.monotonic() + options.seconds
    device = jax.devices()[0]
    if device.platform == "cpu" and not options.toy:
        print("JAX has no accelerator here (see locks/gpu.lock, and the driver); --toy runs on a CPU", file=sys.stderr)
        return 2
    form = "cuda" if device.platform == "cpu" else device.platform
    print(f"# {device.device_kind}, {device.platform}, JAX {jax.__version__}\n")
    # The end of the last part evaluates two networks on all cycles, and compiles for that.
    numbers, rows_until = [int(text) for text in options.lanes.split(",")], until - RESERVED
    parts: dict[str, Callable[[], bool]] = {
        "agreement": lambda: _print_agreement(options.toy, until),
        "profile": lambda: _print_profiles(options.toy, until),
        "lanes": lambda: _print_lanes_and_whole_space(numbers, options.toy, rows_until, until),
    }
    with vectorisation.built_for(form):
        right = [_attempted(part, parts[part]) for part in options.parts.split(",")]
    return 0 if all(right) else 1


def _attempted(title: str, work: Callable[[], bool]) -> bool:
    """Whether the work was done and right; an exception is told, and ends only this work."""
    try:
        return work()
    except Exception as error:  # any bug of a compiler, a library or this project
        _tell_failure(title, error)
        return False


def _tell_failure(title: str, error: Exception) -> None:
    traceback.print_exception(error)
    sentence = f"{type(error).__name__}: {error}".splitlines()[0]
    print(f"\n{title} FAILED: {sentence}\n", flush=True)


def shipped_trial(name: str, toy: bool = False, single_seed: bool = False) -> TrialSpec:
    """The last trial with fresh seeds, or with a single one, in the shipped space of a task, or a small one like it."""
    trials = search_space.read(Path("search_spaces", f"{SPACES[name]}.yaml"), ()).expand().trials
    trial = [trial for trial in trials if trial.single_seed == single_seed][-1]
    if not toy:
        return trial
    fields: dict[str, Any] = canonical(trial) | TOY[name] | TOY_SIZES
    if isinstance(trial.optimizer, PGPE):
        fields["optimizer"] |= {"population": 4}
    return TrialSpec.model_validate(fields)


# --------------------------------------------------------------------------------------------------------------------
# Agreement with the CPU
# --------------------------------------------------------------------------------------------------------------------


class Bound(NamedTuple):
    """How far the numbers of two devices may differ.

    Attributes:
        largest: Largest difference of a number, relative to the largest number of its array.
        differing: Share of the numbers of an array that may differ more.
    """

    largest: float
    differing: float = 0.0


BOUNDS = {
    "losses": Bound(1e-5),
    # An action is an argmax: where two logits are close, an agent may turn the other way.
    "losses of individuals": Bound(1e-5, differing=0.02),
    "objectives of a generation": Bound(1e-5, differing=0.02),
    "centre and deviations after it": Bound(1e-3, differing=0.02),
    # Adam divides by the size of a gradient: where a gradient is next to nothing, rounding may turn a step around. The
    # running means of the gradients show wrong gradients, and the changes show a wrong step.
    f"gradients of {STEPS} steps, running means": Bound(1e-4),
    f"changes of weights by {STEPS} steps": Bound(1e-2, differing=0.02),
    "success of every input": Bound(1e-5, differing=0.02),
}


def _print_agreement(toy: bool, until: float) -> bool:
    print("| task | numbers | largest difference | share beyond it | bound | kept |\n|---|---|---|---|---|---|")
    all_kept = True
    for name in SPACES:
        if time.monotonic() > until:
            print(f"| {name} | no time left | | | | NO |")
            all_kept = False
            continue
        all_kept &= _attempted(f"agreement of {name}", functools.partial(_print_agreement_of, name, toy))
    print()
    return all_kept


def _print_agreement_of(name: str, toy: bool) -> bool:
    trial, all_kept = shipped_trial(name, toy), True
    here = _numbers(trial)
    with jax.default_device(jax.devices("cpu")[0]), vectorisation.built_for("cpu"):
        defined = _numbers(trial)
    for numbers, bound in BOUNDS.items():
        if numbers not in here:
            continue
        expected = defined[numbers]
        difference = np.abs(here[numbers] - expected) / max(1e-30, float(np.abs(expected).max()))
        beyond = float((~(difference <= bound.largest)).mean())  # NaN is beyond any bound
        kept = beyond <= bound.differing and bool(np.isfinite(here[numbers]).all() and np.isfinite(expected).all())
        all_kept &= kept
        limit = f"{bound.largest:g}" + (f" but for {bound.differing:.0%}" if bound.differing else "")
        print(
            f"| {name} | {numbers} | {difference.max():.1e} | {beyond:.2%} | {limit} | {'yes' if kept else 'NO'} |",
            flush=True,
        )
    return all_kept


def _numbers(trial: TrialSpec) -> dict[str, np.ndarray]:
    """The numbers to compare, computed on the default device in the form that is being built."""

    def losses(trial: TrialSpec) -> Any:
        network = trial.model.build(trial.task, trial.keys().weights)
        inputs = trial.task.sample_inputs(trial.keys().training, trial.batch_size)
        return trial.task.losses(network, inputs, trial.task.sample_seeds(trial.keys().evaluation, 10))

    computed = np.asarray(compilation.compiled(losses, trial)(trial))
    stacked = stack([trial])
    _, columns = evaluation.evaluate(trial, trial.model.build(trial.task, trial.keys().weights))
    success = {"success of every input": columns["success"]}
    if isinstance(trial.optimizer, PGPE):
        begun = evolution.start(stacked)
        objectives = evolution.in_process(stacked, begun.distribution(), np.asarray(begun.step))
        told, _ = compilation.compiled(evolution.tell, stacked, begun, objectives)(stacked, begun, objectives)
        return success | {
            "losses of individuals": computed,
            "objectives of a generation": np.concatenate([np.ravel(block) for block in objectives]),
            "centre and deviations after it": _flat(told.distribution()),
        }
    begun = gradient.start(stacked)
    ended, _ = compilation.compiled(gradient.advance, stacked, begun, STEPS, static_argnums=2)(stacked, begun)
    return success | {
        "losses": computed,
        f"gradients of {STEPS} steps, running means": _flat(optax.tree.get(ended.optimizer, "mu")),
        f"changes of weights by {STEPS} steps": _flat(ended.network) - _flat(begun.network),
    }


def _flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


# --------------------------------------------------------------------------------------------------------------------
# Lanes, and the least time that they can take
# --------------------------------------------------------------------------------------------------------------------


class DevicePeaks(NamedTuple):
    """The highest rates of the device.

    Attributes:
        operations: Operations a second of exact float32 matrix products.
        bytes: Bytes a second that a copy reads and writes.
        kernel: Seconds that one turn of a loop with a single small kernel takes.
    """

    operations: float
    bytes: float
    kernel: float


def _peaks(toy: bool) -> DevicePeaks:
    size, count, turns = (256, 2**18, 50) if toy else (8192, 2**28, 2000)
    matrix = jnp.ones((size, size))
    product = jax.jit(lambda x: jnp.matmul(x, x, precision=jax.lax.Precision.HIGHEST))
    numbers = jnp.ones(count)
    copied = jax.jit(lambda x: x + 1)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, turns, lambda _, y: jnp.sin(y), x))
    return DevicePeaks(
        operations=2 * size**3 / _seconds(lambda: product(matrix)),
        bytes=2 * numbers.nbytes / _seconds(lambda: copied(numbers)),
        kernel=_seconds(lambda: loop(numbers[:8])) / turns,
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
        name: Of `SPACES`.
        single_seed: Whether they have a single seed r.
        every: Of so many numbers of lanes, the first is measured.
    """

    name: str
    single_seed: bool
    every: int


KINDS = (
    Kind("colouring", single_seed=False, every=1),
    Kind("colouring", single_seed=True, every=1),
    Kind("recall", single_seed=False, every=3),
    Kind("grid world", single_seed=False, every=3),
)

Rates = dict[Kind, dict[int, float]]
"""Trial-steps, or trial-generations, a second, by the number of lanes."""


def _print_lanes_and_whole_space(numbers: list[int], toy: bool, rows_until: float, until: float) -> bool:
    rates, right = _print_lanes(numbers, toy, rows_until)
    return _attempted("the whole of coloring.yaml", lambda: _print_whole_space(rates, toy, until)) and right


def _print_lanes(numbers: list[int], toy: bool, until: float) -> tuple[Rates, bool]:
    """Prints the table, all kinds with one number of lanes before the next; the rates, and whether no row failed."""
    rates: Rates = {kind: {} for kind in KINDS}
    if time.monotonic() > until:
        print("Lanes: no time left.\n")
        return rates, True
    peaks = _peaks(toy)
    print(
        f"Peaks: {peaks.operations / 1e12:.3g} TFLOP/s, {peaks.bytes / 1e9:.4g} GB/s, "
        f"{1e6 * peaks.kernel:.3g} µs a turn of a loop.\n"
    )
    for kind in KINDS:
        trial = shipped_trial(kind.name, toy, kind.single_seed)
        print(f"- {kind.name}, {trial.baseline}: m = {trial.objective.m}, batch {trial.batch_size}")
    print(
        "\n| lanes | trials | steps or generations/s, all lanes | one, ms | least by operations, ms | by bytes "
        "| by kernels | memory, MB | compilation, s |\n|---|---|---|---|---|---|---|---|---|"
    )
    spent: dict[Kind, float] = dict.fromkeys(KINDS, 0.0)
    open_kinds, right = set(KINDS), True
    for place, lanes in enumerate(numbers):
        for kind in [kind for kind in KINDS if kind in open_kinds and place % kind.every == 0]:
            title = f"| {lanes} | {kind.name}, {shipped_trial(kind.name, toy, kind.single_seed).baseline}"
            begun = time.monotonic()
            # Twice as many lanes may take twice the time, also for compilation.
            if begun + 2 * spent[kind] > until:
                print(f"{title} | no time left |")
                open_kinds.remove(kind)
                continue
            try:
                # To count the bytes costs a second compilation.
                rates[kind][lanes] = _print_row(title, kind, lanes, peaks, toy, with_bytes=place % 4 == 0)
            except Exception as error:  # any bug of a compiler, a library or this project
                open_kinds.remove(kind)
                if out_of_memory(error):
                    print(f"{title} | out of memory |", flush=True)
                else:
                    right = False
                    _tell_failure(f"{lanes} lanes of {kind.name}", error)
            spent[kind] = time.monotonic() - begun
    print()
    return rates, right


def _print_row(title: str, kind: Kind, lanes: int, peaks: DevicePeaks, toy: bool, with_bytes: bool) -> float:
    trial = shipped_trial(kind.name, toy, kind.single_seed)
    stacked = stack([trial.model_copy(update={"seed": seed}) for seed in range(lanes)])
    measure = _generation if isinstance(trial.optimizer, PGPE) else _steps
    program = measure(stacked, toy, with_bytes)
    columns = [
        f"{lanes / program.seconds:,.4g}",
        f"{1e3 * program.seconds:.3g}",
        f"{1e3 * program.operations / peaks.operations:.2g}",
        f"{1e3 * program.bytes / peaks.bytes:.2g}" if program.bytes else "",
        f"{1e3 * program.kernels * peaks.kernel:.2g}",
        f"{program.memory / 1e6:,.1f}",
        f"{program.compilation:.1f}",
    ]
    print(f"{title} | {' | '.join(columns)} |", flush=True)
    return lanes / program.seconds


class Measured(NamedTuple):
    """What one step, or one generation, of all lanes takes.

    Attributes:
        seconds: Its median time.
        operations: Operations in the traced program.
        bytes: Bytes that the compiled program reads and writes, as XLA says; 0 if not asked for or unknown.
        kernels: Kernels, estimated from the lowered program.
        memory: Bytes of the device, as the compiler says.
        compilation: Seconds.
    """

    seconds: float
    operations: float
    bytes: float
    kernels: int
    memory: int
    compilation: float


def _steps(stacked: TrialSpec, toy: bool, with_bytes: bool) -> Measured:
    state, length = gradient.start(stacked), 5 if toy else gradient.STRIDE
    begun = time.perf_counter()
    program = compilation.compiled(gradient.advance, stacked, state, length, static_argnums=2)
    compiling = time.perf_counter() - begun
    one = compilation.traced(gradient.advance, stacked, state, 1, static_argnums=2)
    lowered = one.lower()
    return Measured(
        seconds=_seconds(lambda: program(stacked, state), 1 if toy else 3) / length,
        operations=sum(operations(one.jaxpr.jaxpr)),
        bytes=_bytes(lowered) if with_bytes else 0.0,
        kernels=kernels(lowered),
        memory=compilation.memory_bytes(program),
        compilation=compiling,
    )


def _generation(stacked: TrialSpec, toy: bool, with_bytes: bool) -> Measured:
    begun = time.perf_counter()
    _, of_block, of_tell = evolution.first_generation(stacked)
    memory = evolution.memory(stacked)
    compiling = time.perf_counter() - begun
    parts = [(evolution.blocks(stacked), evolution.block_objectives, of_block), (1, evolution.tell, of_tell)]
    traced = [(times, compilation.traced(function, *arguments)) for times, function, arguments in parts]
    lowered = [(times, program.lower()) for times, program in traced]
    begun_state = evolution.start(stacked)
    return Measured(
        seconds=_seconds(
            lambda: evolution.stride(stacked, begun_state, 1, evaluate=evolution.in_process), 1 if toy else 3
        ),
        operations=sum(times * sum(operations(program.jaxpr.jaxpr)) for times, program in traced),
        bytes=sum(times * _bytes(program) for times, program in lowered) if with_bytes else 0.0,
        kernels=sum(times * kernels(program) for times, program in lowered),
        memory=memory,
        compilation=compiling,
    )


def _bytes(lowered: jax.stages.Lowered) -> float:
    # Not the operations that XLA reports: on a GPU it does not know those of products that a library computes.
    return (lowered.compile().cost_analysis() or {}).get("bytes accessed", 0.0)


def _print_whole_space(rates: Rates, toy: bool, until: float) -> bool:
    """The time of coloring.yaml with its packs on a GPU, each at the rate of as many lanes, or the next fewer measured.

    Trials with as many seeds r have as many steps each.
    """
    measured = {kind.single_seed: rate for kind, rate in rates.items() if kind.name == "colouring" and rate}
    if len(measured) < 2 or time.monotonic() > until:
        print("The whole of coloring.yaml: no time left.\n")
        return True
    spec = search_space.read(Path("search_spaces/coloring.yaml"), ("resources.gpus=1",))
    trials = spec.expand().trials
    training = evaluating = 0.0
    told: list[str] = []
    for pack in packs(trials, spec.pack_lanes):
        rate_of = measured[pack.trials[0].single_seed]
        lanes = max((number for number in rate_of if number <= len(pack.trials)), default=min(rate_of))
        training += sum(trial.steps for trial in pack.trials) / rate_of[lanes]
        told.append(f"{len(pack.trials)} lanes ({pack.trials[0].baseline}) at the rate of {lanes}")
    for single_seed in (False, True):
        trial = shipped_trial("colouring", toy, single_seed)
        network = trial.model.build(trial.task, trial.keys().weights)
        evaluation.evaluate(trial, network)
        begun = time.perf_counter()
        evaluation.evaluate(trial, network)
        alike = sum(trial.single_seed == single_seed for trial in trials)
        evaluating += alike * (time.perf_counter() - begun)
    print(
        f"The {len(trials)} trials of coloring.yaml on this one device, pack after pack: {training / 3600:.2g} h of "
        f"training and {evaluating / 3600:.2g} h of evaluation. Its packs: {'; '.join(told)}.\n"
    )
    return True


# --------------------------------------------------------------------------------------------------------------------
# Profile
# --------------------------------------------------------------------------------------------------------------------


PROFILED = {"colouring": 64, "recall": 8}
"""Lanes of the profiled programs."""


def _print_profiles(toy: bool, until: float) -> bool:
    profiles = {name: functools.partial(_print_profile, name, toy, until) for name in PROFILED}
    right = [_attempted(f"profile of {name}", work) for name, work in profiles.items()]
    return all(right)


def _print_profile(name: str, toy: bool, until: float) -> bool:
    """The operations of some steps that take most time."""
    if time.monotonic() > until:
        print(f"Profile of {name}: no time left.\n")
        return True
    lanes = 2 if toy else PROFILED[name]
    stacked = stack([shipped_trial(name, toy).model_copy(update={"seed": seed}) for seed in range(lanes)])
    state = gradient.start(stacked)
    program = compilation.compiled(gradient.advance, stacked, state, 5, static_argnums=2)
    times = operation_times(lambda: program(stacked, state))
    whole = sum(times.values())
    print(f"Five steps of {name} with {lanes} lanes, by operation:\n\n| operation | ms | share |\n|---|---|---|")
    for operation, seconds in list(times.items())[:12]:
        print(f"| {operation[:80]} | {1e3 * seconds:.3g} | {seconds / whole:.0%} |")
    print()
    return True


if __name__ == "__main__":
    sys.exit(main())
