"""What it costs to resume and to query a store of many trials, without a snapshot and with one.

    python -m benchmarks.compaction [--trials 10000] [--network-bytes 10000] [--folder FOLDER]

Makes a store of colouring trials with a curve of 20 points, 12 outcomes and a network each, without any training, and
prints wall and CPU seconds of the commits, of a resume scan, of all rows and of all curves, and the peak memory.
`--network-bytes 0` leaves the networks out.
"""

import argparse
import datetime
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sweeper.store import committed_trials
from sweeper.store.store import Store, TrialResult
from sweeper.trial import provenance
from sweeper.trial.trial_spec import TrialSpec

TRIAL = {
    "task": {"name": "coloring", "vertices": 5},
    "model": {"name": "transformer", "width": 4, "key_size": 4},
    "baseline": "Aq_R",
    "objective": {"q": 3.0, "m": 2},
    "optimizer": {"warmup_steps": 10},
    "steps": 2000,
    "batch_size": 8,
    "evaluation": {"seeds": 10, "votes": [3]},
}


def fill(store: Store, trials: int, network_bytes: int, first: int = 0) -> None:
    """Commit so many trials, whose seeds begin with `first`, with networks of so many bytes."""
    network = {"weight": np.ones(network_bytes // 4, np.float32)} if network_bytes else None
    origin, now = provenance.capture("benchmark"), datetime.datetime.now(datetime.UTC)
    outcomes = {"success": np.arange(12, dtype=np.float32) / 12}
    template = TrialSpec.model_validate(TRIAL)
    for seed in range(first, first + trials):
        curves = [(100 * step, "train_loss", 1 / (step + seed + 1)) for step in range(1, 21)]
        trial = template.model_copy(update={"seed": seed})
        store.commit(
            TrialResult(
                trial=trial, status="finished", metrics={"success": 0.5, "loss": seed / (first + trials)},
                curves=curves, outcomes=outcomes, network=network, timings={"steps_done": 2000.0}, provenance=origin,
                pack_id="0" * 20, lanes=1, device="cpu", started=now, finished=now,
            )
        )  # fmt: skip


def timed(name: str, work: Callable[[], object]) -> None:
    """Run the function, and print its row of the table."""
    wall, cpu = time.monotonic(), time.process_time()
    work()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds, used = time.monotonic() - wall, time.process_time() - cpu
    print(f"| {name} | {seconds:.2f} | {used:.2f} | {memory:.0f} |", flush=True)


def main() -> None:
    """Fill, measure, write a snapshot, measure, add some trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--network-bytes", type=int, default=10_000)
    parser.add_argument("--folder", help="where the store is made; the system's temporary folder if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        store = Store.open(folder)
        print("| what | wall s | CPU s | peak MB so far |\n|---|---|---|---|")
        timed(f"commit of {arguments.trials:,}", lambda: fill(store, arguments.trials, arguments.network_bytes))
        size = sum(path.stat().st_size for path in Path(folder, "trials").rglob("*.parquet"))
        print(f"| bytes of all files: {size:,} | | | |")
        committed_trials.ENOUGH = arguments.trials + 1  # only when asked
        for what in ("no snapshot", "a snapshot"):
            timed(f"resume scan, {what}", store.seals)
            timed(f"all rows, {what}", store.trials)
            timed(f"all curves, {what}", store.curves)
            if what == "no snapshot":
                timed(f"a snapshot of {arguments.trials:,}", store.compact)
        fill(store, 1000, arguments.network_bytes, first=arguments.trials)
        timed("a snapshot of 1,000 more", store.compact)


if __name__ == "__main__":
    main()
