"""The numerics on a GPU, in under ten minutes and without Ray: whether they are right, how fast, and what limits them.

    python -m benchmarks.gpu [--seconds 540] [--lanes 1,2,4,8,16,32,64,128,256,512] [--toy]

Prints, as Markdown:

1. Agreement: the numbers of the accelerator beside those of the CPU of the same machine, from the same keys, for every
   task, with the bound on their difference.
2. A profile: the operations on which one stride of training spends most time.
3. Lanes: trial-steps a second of colouring by number of lanes, memory, and the least time that a step can take by its
   operations, by its bytes, and by the start of its kernels, at the peaks measured in the same process.
4. The time that the whole of search_spaces/coloring.yaml would take on this one device.

Without an accelerator the CPU runs the programs in the form for an accelerator. That shows that this file works, and
nothing about a GPU. `--toy` makes everything small. Exits with 1 if a bound is not kept, or if there was no time to
compare a task.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.lowered_program import kernels
from benchmarks.operation_counts import operations
from benchmarks.operation_times import operation_times
from sweeper.packs.device_lanes import out_of_memory
from sweeper.packs.packing import lane, stack
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
    parser.add_argument("--toy", action="store_true")
    options = parser.parse_args(arguments)
    until = time.monotonic() + options.seconds
    device = jax.devices()[0]
    form = "cuda" if device.platform == "cpu" else device.platform
    print(f"# {device.device_kind}, {device.platform}, JAX {jax.__version__}\n")
    with vectorisation.built_for(form):
        right = _print_agreement(options.toy, until)
        _print_profile(options.toy, until)
        # The last parts evaluate two networks on all cycles, and compile for that.
        rates = _print_lanes([int(text) for text in options.lanes.split(",")], options.toy, until - RESERVED)
        _print_whole_space(rates, options.toy, until)
    return 0 if right else 1


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
    f"weights after {STEPS} steps": Bound(1e-3),
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
        trial = shipped_trial(name, toy)
        here = _numbers(trial)
        with jax.default_device(jax.devices("cpu")[0]), vectorisation.built_for("cpu"):
            defined = _numbers(trial)
        for numbers, bound in BOUNDS.items():
            if numbers not in here:
                continue
            expected = defined[numbers]
            difference = np.abs(here[numbers] - expected) / max(1e-30, float(np.abs(expected).max()))
            beyond = float((difference > bound.largest).mean())
            kept = beyond <= bound.differing and bool(np.isfinite(here[numbers]).all())
            all_kept &= kept
            limit = f"{bound.largest:g}" + (f" but for {bound.differing:.0%}" if bound.differing else "")
            print(
                f"| {name} | {numbers} | {difference.max():.1e} | {beyond:.2%} | {limit} | {'yes' if kept else 'NO'} |",
                flush=True,
            )
    print()
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
        distribution = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(told.distribution())])
        return success | {
            "losses of individuals": computed,
            "objectives of a generation": np.concatenate([np.ravel(block) for block in objectives]),
            "centre and deviations after it": distribution,
        }
    state = gradient.start(stacked)
    state, _ = compilation.compiled(gradient.advance, stacked, state, STEPS, static_argnums=2)(stacked, state)
    network = lane(state.network, 0)
    weights = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(network)])
    return success | {"losses": computed, f"weights after {STEPS} steps": weights}


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


def _print_lanes(numbers: list[int], toy: bool, until: float) -> dict[bool, float]:
    """Prints the tables; returns the highest rate of trial-steps a second, by whether the trials have a single seed."""
    best: dict[bool, float] = {}
    if time.monotonic() > until:
        print("Lanes: no time left.\n")
        return best
    peaks = _peaks(toy)
    print(
        f"Peaks: {peaks.operations / 1e12:.3g} TFLOP/s, {peaks.bytes / 1e9:.4g} GB/s, "
        f"{1e6 * peaks.kernel:.3g} µs a turn of a loop.\n"
    )
    for single_seed in (False, True):
        trial = shipped_trial("colouring", toy, single_seed)
        print(f"Colouring, {trial.baseline}, m = {trial.objective.m}, batch {trial.batch_size}:\n")
        print(
            "| lanes | trial-steps/s | step, ms | least by operations, ms | by bytes | by kernels | memory, MB "
            "| compilation, s |\n|---|---|---|---|---|---|---|---|"
        )
        spent = 0.0
        for lanes in numbers:
            begun = time.monotonic()
            # A row takes about as long as the row before; twice as many lanes may take twice the time.
            if begun + 2 * spent > until:
                print(f"| {lanes} | no time left |")
                break
            try:
                rate = _print_row(trial, lanes, peaks, strides=1 if toy else 3)
            except jax.errors.JaxRuntimeError as error:
                if not out_of_memory(error):
                    raise
                print(f"| {lanes} | out of memory |")
                break
            spent = time.monotonic() - begun
            best[single_seed] = max(best.get(single_seed, 0.0), rate)
        print()
    return best


def _print_row(trial: TrialSpec, lanes: int, peaks: DevicePeaks, strides: int) -> float:
    stacked = stack([trial.model_copy(update={"seed": seed}) for seed in range(lanes)])
    state, length = gradient.start(stacked), 5 if strides == 1 else gradient.STRIDE
    begun = time.perf_counter()
    program = compilation.compiled(gradient.advance, stacked, state, length, static_argnums=2)
    compiling = time.perf_counter() - begun
    step = _seconds(lambda: program(stacked, state), strides) / length
    one = compilation.traced(gradient.advance, stacked, state, 1, static_argnums=2)
    lowered = one.lower()
    # Not the operations that XLA reports: on a GPU it does not know those of products that a library computes.
    moved = (lowered.compile().cost_analysis() or {}).get("bytes accessed", 0.0)
    columns = [
        f"{lanes / step:,.0f}",
        f"{1e3 * step:.3g}",
        f"{1e3 * sum(operations(one.jaxpr.jaxpr)) / peaks.operations:.2g}",
        f"{1e3 * moved / peaks.bytes:.2g}" if moved > 0 else "unknown",
        f"{1e3 * kernels(lowered) * peaks.kernel:.2g}",
        f"{compilation.memory_bytes(program) / 1e6:,.1f}",
        f"{compiling:.1f}",
    ]
    print(f"| {lanes} | {' | '.join(columns)} |", flush=True)
    return lanes / step


def _print_whole_space(rates: dict[bool, float], toy: bool, until: float) -> None:
    """The time of coloring.yaml at the best rates; trials with as many seeds r have as many steps each."""
    if len(rates) < 2 or time.monotonic() > until:
        print("The whole of coloring.yaml: no time left.\n")
        return
    trials = search_space.read(Path("search_spaces/coloring.yaml"), ()).expand().trials
    training = evaluating = 0.0
    for single_seed, rate in rates.items():
        alike = [trial for trial in trials if trial.single_seed == single_seed]
        training += sum(trial.steps for trial in alike) / rate
        trial = shipped_trial("colouring", toy, single_seed)
        network = trial.model.build(trial.task, trial.keys().weights)
        evaluation.evaluate(trial, network)
        begun = time.perf_counter()
        evaluation.evaluate(trial, network)
        evaluating += len(alike) * (time.perf_counter() - begun)
    print(
        f"The {len(trials)} trials of coloring.yaml at these rates: {training / 3600:.2g} h of training and "
        f"{evaluating / 3600:.2g} h of evaluation, if the lanes are always full.\n"
    )


# --------------------------------------------------------------------------------------------------------------------
# Profile
# --------------------------------------------------------------------------------------------------------------------


def _print_profile(toy: bool, until: float) -> None:
    """The operations of one stride that take most time."""
    if time.monotonic() > until:
        print("Profile: no time left.\n")
        return
    stacked = stack(
        [shipped_trial("colouring", toy).model_copy(update={"seed": seed}) for seed in range(2 if toy else 64)]
    )
    state = gradient.start(stacked)
    program = compilation.compiled(gradient.advance, stacked, state, 5, static_argnums=2)
    times = operation_times(lambda: program(stacked, state))
    whole = sum(times.values())
    print("Five steps, by operation:\n\n| operation | ms | share |\n|---|---|---|")
    for name, seconds in list(times.items())[:12]:
        print(f"| {name[:80]} | {1e3 * seconds:.3g} | {seconds / whole:.0%} |")
    print()


if __name__ == "__main__":
    sys.exit(main())
