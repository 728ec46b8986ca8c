"""Trial-steps per second of the colouring pack by number of lanes, without Ray.

    python -m benchmarks.lanes [--lanes 1,4,16,64] [--chunks 3]

On a GPU ask for more: `--lanes 1,4,16,64,128,256,512`.
"""

import argparse
import os
import time

os.environ.setdefault("PJRT_NPROC", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax

from sweeper.packs.packing import stack
from sweeper.training import gradient
from sweeper.training.compilation import compiled
from sweeper.trial.trial_spec import TrialSpec


def trial_steps_per_second(baseline: str, lanes: int, chunks: int) -> tuple[float, float, float]:
    """Trial-steps per second of wall time and of CPU time, and the seconds of compilation."""
    trials = [
        TrialSpec.model_validate(
            {
                "task": {"name": "coloring"},
                "model": {"name": "transformer"},
                "baseline": baseline,
                "objective": {"q": 10.0, "m": 10},
                "optimizer": {"weight_decay": 0.1},
                "steps": 300_000,
                "seed": seed,
            }
        )
        for seed in range(lanes)
    ]
    stacked = stack(trials)
    begun = time.perf_counter()
    state = compiled(gradient.init, stacked)(stacked)
    advance = compiled(gradient.advance, stacked, state, gradient.STRIDE, static_argnums=2, donate_argnums=1)
    compile_seconds = time.perf_counter() - begun
    state, _ = jax.block_until_ready(advance(stacked, state))
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(chunks):
        state, _ = advance(stacked, state)
    jax.block_until_ready(state)
    steps = lanes * chunks * gradient.STRIDE
    return steps / (time.perf_counter() - wall), steps / (time.process_time() - cpu), compile_seconds


def main() -> None:
    """Print one row per number of lanes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", default="1,4,16,64")
    parser.add_argument("--chunks", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}; chunks of {gradient.STRIDE} steps, {arguments.chunks} timed")
    print("| model | lanes | trial-steps/s | per CPU-second | compile s |\n|---|---|---|---|---|")
    for baseline in ("Aq_R", "Aq_r0"):
        for lanes in map(int, arguments.lanes.split(",")):
            wall, cpu, seconds = trial_steps_per_second(baseline, lanes, arguments.chunks)
            print(f"| {baseline} | {lanes} | {wall:.0f} | {cpu:.0f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
