"""What this platform costs an experiment: against scripts written by hand, and against Ray Tune.

    python -m benchmarks.experiments [--rounds 9] [--no-sweep]

The experiment is a small network (two layers of 32 units, batches of 64, Adam) in 64 lanes. The first table has the CPU
time of a step of a lane on one thread: of this platform, and of the script that a person would write for the same, with
a call for every 1,000 steps. All four forms run in this process, in turns, and ratios are medians over rounds of ratios
within a round, so that a drift of the machine hits all.

The second table has the wall time of a whole sweep of 64 trials, from the command to the last commit: by this platform,
and by plain Ray Tune with one trial a process, which is measured with 8 trials and scaled: its start once, and eight
times the rest.
"""

import os

os.environ |= {"JAX_PLATFORMS": "cpu", "PJRT_NPROC": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
os.environ["SWEEPER_PROJECT"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mlp")

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.mlp import by_hand
from benchmarks.mlp.by_hand import LENGTH
from sweeper.packs.packing import stack
from sweeper.training import experiments
from sweeper.training.kinds import trainer_of
from sweeper.trial.experiment_trial import ExperimentTrial

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = REPOSITORY / "benchmarks" / "mlp"
LANES = 64
STEPS = 20_000
"""Steps of a trial of the whole sweep."""

TUNE_TRIALS = 8

SPACE = f"""
name: benchmark
trial:
  experiment: {{name: NAME, learning_rate: {{logspace: [1e-4, 1e-2, {LANES}]}}}}
  steps: {STEPS}
resources: {{lanes: {LANES // 2}}}
"""


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


def sweep_seconds(name: str) -> float:
    """Wall seconds of a sweep by this platform, from its command to its end."""
    with tempfile.TemporaryDirectory() as folder:
        space = Path(folder, "space.yaml")
        space.write_text(SPACE.replace("NAME", name))
        command = ("sweeper", "run", str(space), "--results", str(Path(folder, "results")), "--address", "local")
        return _wall([sys.executable, "-m", *command])[0]


def tune_seconds() -> tuple[float, float]:
    """Wall seconds of Ray Tune: until it has started, and of `TUNE_TRIALS` trials until the process ends."""
    begun = time.time()
    with tempfile.TemporaryDirectory() as folder:
        wall, printed = _wall([sys.executable, str(PROJECT / "tune.py"), str(TUNE_TRIALS), str(STEPS), folder])
    started = float(next(line for line in printed.splitlines() if line.startswith("started")).split()[1]) - begun
    return started, wall - started


def _wall(command: list[str]) -> tuple[float, str]:
    with tempfile.TemporaryDirectory() as temporary:  # empty, so that no earlier start has left compiled programs
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "TMPDIR": temporary}
        begun = time.monotonic()
        ended = subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - begun
    if ended.returncode:
        sys.exit(f"{' '.join(command[:4])} … has failed:\n{ended.stdout}{ended.stderr}")
    return seconds, ended.stdout


def print_sweeps() -> None:
    """The table of whole sweeps."""
    started, trials = tune_seconds()
    by_tune = started + trials * LANES / TUNE_TRIALS
    together, in_turns = (sweep_seconds(name) for name in ("mlp_together", "mlp_in_turns"))
    print(f"| {LANES} trials of {STEPS:,} steps on two cores | wall s | Ray Tune takes |\n|---|---|---|")
    print(f"| this platform, lanes together | {together:.0f} | {by_tune / together:.1f} x |")
    print(f"| this platform, lanes in turns | {in_turns:.0f} | {by_tune / in_turns:.1f} x |")
    measured = f"{started:.0f} s start, {trials:.0f} s for {TUNE_TRIALS} trials"
    print(f"| Ray Tune, a trial a process | {by_tune:.0f} ({measured}; scaled) | |", flush=True)


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
