"""What this platform costs an experiment: against scripts written by hand, and against Ray Tune.

    python -m benchmarks.experiments [--rounds 9] [--no-sweep]

The experiment is a small network (two layers of 32 units, batches of 64, Adam) in 64 lanes. The first table has the CPU
time of a step of a lane on one thread: of this platform, and of the script that a person would write for the same, with
a call for every 1,000 steps. All four forms run in this process, in turns, and ratios are medians over rounds of ratios
within a round, so that a drift of the machine hits all.

The second table has whole sweeps, from the command to the last commit: by this platform, and by plain Ray Tune with one
trial a process and a trial on each core, which trains the same by the script and reports its results. Nothing is
compiled beforehand. CPU seconds are of all processes, those of Ray included. Tune is measured
with 16 trials and scaled: the wall seconds of its start once, and all else in proportion.
"""

import os

os.environ |= {"JAX_PLATFORMS": "cpu", "PJRT_NPROC": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
os.environ["SWEEPER_PROJECT"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mlp")

import argparse
import functools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.mlp import by_hand
from benchmarks.mlp.by_hand import LENGTH
from benchmarks.process_tree import ProcessTree
from sweeper.packs.packing import stack
from sweeper.training import experiments
from sweeper.training.kinds import trainer_of
from sweeper.trial.experiment_trial import ExperimentTrial

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = REPOSITORY / "benchmarks" / "mlp"
LANES = 64
STEPS = 20_000
"""Steps of a trial; the rate of a step does not depend on them."""

SPACE = """
name: benchmark
trial:
  experiment: {{name: {name}, learning_rate: {{logspace: [1e-4, 1e-2, {trials}]}}}}
  steps: {steps}
resources: {{lanes: 32}}
"""

SWEEPS = (("mlp_together", 64, 2_000), ("mlp_together", 640, 2_000), ("mlp_together", 64, 20_000),
          ("mlp_in_turns", 64, 20_000))  # fmt: skip
"""Experiment, trials and steps of the sweeps of the second table."""

TUNE_TRIALS = 16

LOOK_SECONDS = 0.2


# Steps


def by_platform(name: str) -> Callable[[], Any]:
    """`LENGTH` steps of all lanes by the platform, in programs of its own length."""
    trials = [
        ExperimentTrial.model_validate({"experiment": {"name": name}, "steps": STEPS, "seed": seed})
        for seed in range(LANES)
    ]
    stacked = stack(trials)
    trainer = trainer_of(stacked)
    now = [trainer.start(stacked)]

    def run() -> Any:
        for _ in range(LENGTH // experiments.STRIDE):
            now[0], _ = trainer.stride(stacked, now[0], experiments.STRIDE)
        return now[0]

    return run


def by_vmap() -> Callable[[], Any]:
    """The same by hand: one program of all lanes."""
    rates, seeds, points = jnp.full(LANES, 1e-3), jnp.arange(LANES), by_hand.data()
    program = jax.jit(jax.vmap(by_hand.train, in_axes=(0, 0, 0, None, None)), donate_argnums=2)
    now, done = [jax.jit(jax.vmap(by_hand.start))(rates, seeds)], [0]

    def run() -> Any:
        now[0], _ = program(rates, seeds, now[0], done[0], points)
        done[0] += LENGTH
        return now[0]

    return run


def by_calls() -> Callable[[], Any]:
    """The same by hand: a call for each lane."""
    points, program = by_hand.data(), jax.jit(by_hand.train, donate_argnums=2)
    lanes, done = [by_hand.start(1e-3, seed) for seed in range(LANES)], [0]

    def run() -> Any:
        for seed, state in enumerate(lanes):
            lanes[seed], _ = program(1e-3, seed, state, done[0], points)
        done[0] += LENGTH
        return lanes

    return run


def steps(rounds: int) -> dict[str, list[float]]:
    """Microseconds of CPU of a step of a lane, by form, in every round."""
    forms = {
        "a": by_platform("mlp_together"),
        "b": by_platform("mlp_in_turns"),
        "c": by_vmap(),
        "d": by_calls(),
    }
    for run in forms.values():
        jax.block_until_ready(run())
        jax.block_until_ready(run())
    measured: dict[str, list[float]] = {form: [] for form in forms}
    for _ in range(rounds):
        for form, run in forms.items():
            begun = time.process_time()
            jax.block_until_ready(run())
            measured[form].append((time.process_time() - begun) / LANES / LENGTH * 1e6)
    return measured


def print_steps(rounds: int) -> None:
    """The table of steps."""
    measured = steps(rounds)
    ratio = {
        form: statistics.median(mine / plain for mine, plain in zip(measured[form], measured[other], strict=True))
        for form, other in (("a", "c"), ("b", "d"))
    }
    rows = {
        "a": ("this platform, lanes together", f"{ratio['a']:.2f} of c"),
        "b": ("this platform, lanes in turns", f"{ratio['b']:.2f} of d"),
        "c": ("`jax.vmap` by hand", ""),
        "d": (f"{LANES} calls of a jitted scan by hand", ""),
    }
    print("| | form | CPU µs of a step of a lane | ratio |\n|---|---|---|---|")
    for form, (words, compared) in rows.items():
        print(f"| {form} | {words} | {statistics.median(measured[form]):.1f} | {compared} |", flush=True)


# Sweeps


class Cost(NamedTuple):
    """Seconds of a process and all that it has started."""

    wall: float
    cpu: float


def by_sweeper(name: str, trials: int, steps: int) -> Cost:
    """A sweep by this platform, from its command to its end."""
    with tempfile.TemporaryDirectory() as folder:
        space = Path(folder, "space.yaml")
        space.write_text(SPACE.format(name=name, trials=trials, steps=steps))
        command = ("sweeper", "run", str(space), "--results", str(Path(folder, "results")), "--address", "local")
        return _cost([sys.executable, "-m", *command])[0]


@functools.cache
def by_tune(steps: int) -> tuple[Cost, float]:
    """A sweep of `TUNE_TRIALS` by Ray Tune, and how many of its wall seconds were its start."""
    begun = time.time()
    with tempfile.TemporaryDirectory() as folder:
        cost, printed = _cost([sys.executable, str(PROJECT / "tune.py"), str(TUNE_TRIALS), str(steps), folder])
    started = next(line for line in printed.splitlines() if line.startswith("started"))
    return cost, float(started.split()[1]) - begun


def _cost(command: list[str]) -> tuple[Cost, str]:
    with tempfile.TemporaryDirectory() as temporary:  # empty, so that no earlier start has left compiled programs
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "TMPDIR": temporary}
        begun = time.monotonic()
        with Path(temporary, "printed").open("w+") as printed:
            process = subprocess.Popen(command, env=environment, cwd=PROJECT, stdout=printed, stderr=subprocess.STDOUT)
            tree = ProcessTree(process.pid)
            while process.poll() is None:
                tree.look()
                time.sleep(LOOK_SECONDS)
            cost = Cost(time.monotonic() - begun, tree.seconds)
            printed.seek(0)
            text = printed.read()
    if process.returncode:
        sys.exit(f"{' '.join(command[:4])} … has failed:\n{text}")
    return cost, text


def print_sweeps() -> None:
    """The table of whole sweeps."""
    print("| lanes | trials | steps | wall s | CPU s | Ray Tune, scaled: wall s | CPU s | wall ratio | CPU ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, trials, steps in SWEEPS:
        (wall, cpu), started = by_tune(steps)
        scale = trials / TUNE_TRIALS
        tune = Cost(started + (wall - started) * scale, cpu * scale)
        own = by_sweeper(name, trials, steps)
        costs = f"{own.wall:.0f} | {own.cpu:.0f} | {tune.wall:,.0f} | {tune.cpu:,.0f}"
        ratios = f"{tune.wall / own.wall:.1f} | {tune.cpu / own.cpu:.1f}"
        print(
            f"| {name.removeprefix('mlp_').replace('_', ' ')} | {trials} | {steps:,} | {costs} | {ratios} |", flush=True
        )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-sweep", action="store_true", help="steps only")
    arguments = parser.parse_args()
    print_steps(arguments.rounds)
    if not arguments.no_sweep:
        print()
        print_sweeps()


if __name__ == "__main__":
    main()
