"""What it costs to plan a sweep: reading the space, expanding it into trials, hashing them and cutting them into packs.

    python -m benchmarks.planning [--trials 1000,10000,100000]

Every size is planned in a process of its own, first against an empty store, then with every second trial committed.
Prints wall and CPU seconds and the peak memory.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

from sweeper.packs import plan
from sweeper.space import search_space
from sweeper.store.store import Status

SPACE = """
trial:
  task: {{name: coloring}}
  model: {{name: transformer}}
  baseline: {{choice: [Aq_R, AE_R]}}
  objective: {{q: {{choice: [1, 2, 5, 10, 100]}}, m: {{choice: [1, 2, 5, 10, 20]}}}}
  optimizer: {{learning_rate: {{choice: [1.0e-4, 3.0e-4, 1.0e-3, 3.0e-3]}}}}
  steps: 1000
  seed: {{seeds: {seeds}}}
"""
SETTINGS = 4 * 5 * (5 + 1)
"""Settings of the space for one seed; AE_R ignores q."""


def measure(trials: int) -> None:
    """Plan so many trials and print a row."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "planning.yaml")
        file.write_text(SPACE.format(seeds=max(1, trials // SETTINGS)))
        wall, cpu = time.monotonic(), time.process_time()
        spec = search_space.read(file)
        expanded = spec.expand().trials
        done = plan.done_statuses(early_stopping=False, retry_failed=False)
        first = plan.plan(expanded, 64, {}, done)
        planned, used = time.monotonic() - wall, time.process_time() - cpu
        committed: dict[str, Status] = dict.fromkeys(list(first.trials)[::2], "finished")
        wall = time.monotonic()
        again = plan.plan(expanded, 64, committed, done)
        resumed = time.monotonic() - wall
    pending = sum(len(work.pending) for work in again.work)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"| {len(first.trials):,} | {first.packs:,} | {planned:.2f} | {used:.2f} | {resumed:.2f} | {pending:,} | "
        f"{memory:.0f} |",
        flush=True,
    )


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", default="1000,10000,100000")
    arguments = parser.parse_args()
    print("| trials | packs | plan, wall s | plan, CPU s | second plan, wall s | then pending | peak MB |")
    print("|---|---|---|---|---|---|---|")
    for trials in arguments.trials.split(","):
        process = multiprocessing.get_context("spawn").Process(target=measure, args=(int(trials),))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
