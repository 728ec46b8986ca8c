"""What the commands cost on a store of very many trials, without a snapshot and with one.

    python -m benchmarks.scale [--trials 100000] [--results URL] [--folder FOLDER]

Makes a sweep of so many colouring trials with a curve and outcomes each, without any training, in a folder or in a
bucket, and runs the real commands on it: a start of the finished sweep without a snapshot, a compaction, and with the
snapshot a start, a start with every second trial pending (`--dry-run`), status, a query over all rows and the ready
question `best`; at last a compaction after 1,000 further trials. Prints wall and CPU seconds and the peak memory of
each command, which include the start of Python.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.store.store import Store, TrialResult
from sweeper.trial import provenance

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


def fill(store: Store, trials: int, first: int = 0) -> None:
    """Commit so many trials without networks, whose seeds begin with `first`."""
    origin, now = provenance.capture("benchmark"), datetime.datetime.now(datetime.UTC)
    outcomes = {"success": np.arange(12, dtype=np.float32) / 12}
    template = TrialSpec.model_validate(TRIAL)
    for seed in range(first, first + trials):
        curves = [(100 * step, "train_loss", 1 / (step + seed + 1)) for step in range(1, 21)]
        trial = template.model_copy(update={"seed": seed})
        store.commit(
            TrialResult(
                trial=trial, status="finished",
                metrics={"success": 0.5, "success_p5": 0.5, "loss": seed / (first + trials)},
                curves=curves, outcomes=outcomes, network=None, timings={"steps_done": 2000.0}, provenance=origin,
                pack_id="0" * 20, lanes=1, device="cpu", started=now, finished=now,
            )
        )  # fmt: skip


def space(folder: Path, name: str, trials: int) -> Path:
    """A search space of so many trials, the first of which are those that `fill` commits."""
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"name": name, "trial": TRIAL | {"seed": {"seeds": trials}}}))  # JSON is YAML
    return path


def command(what: str, arguments: Sequence[str]) -> None:
    """Run a command of this package, and print its row of the table.

    Raises:
        SystemExit: the command failed; its output has been printed.
    """
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(arguments)}\n{output}")
    seconds, cpu, memory = time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    print(f"| {what} | {seconds:.1f} | {cpu:.1f} | {memory:,.0f} |", flush=True)


def main() -> None:
    """Fill, and ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--results", help="URL of the store; a folder below FOLDER if not given")
    parser.add_argument("--folder", help="where files are made; the system's temporary folder if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
        results = arguments.results or str(Path(made, "store"))
        finished = space(Path(made), "finished", arguments.trials)
        half = space(Path(made), "half", 2 * arguments.trials)
        print("| what | wall s | CPU s | peak MB |\n|---|---|---|---|")
        begun, cpu = time.monotonic(), time.process_time()
        fill(Store.open(results), arguments.trials)
        seconds, used = time.monotonic() - begun, time.process_time() - cpu
        print(f"| commit of {arguments.trials:,} trials | {seconds:.1f} | {used:.1f} | |", flush=True)
        average = "select q, count(*), avg(success) from trials group by q"
        store = Store.open(results)

        command("start, all done, no snapshot", ["sweeper.run", str(finished), "--results", results])
        for name in store.listing("snapshots"):
            store.delete(name)
        command("compaction", ["sweeper", "compact", "--results", results])
        command("start, all done", ["sweeper.run", str(finished), "--results", results])
        command("plan, half done", ["sweeper.run", str(half), "--results", results, "--dry-run"])
        command("status", ["sweeper", "status", "--results", results])
        command("query over all rows", ["sweeper", "query", average, "--results", results])
        command("query best", ["sweeper", "query", "best", "finished", "--results", results])
        fill(store, 1000, first=arguments.trials)
        command("compaction of 1,000 more", ["sweeper", "compact", "--results", results])


if __name__ == "__main__":
    main()
