"""The same work by this project and by its rivals, each at its best: CPU seconds of all processes, and wall seconds.

    python -m benchmarks.peers [--rounds 2] [--work network:8,64,640 --work coloring:8] [--only NAME]

Everybody trains the same functions (`works.py`) for the same learning rates and seeds, from the command to the last
result, with nothing compiled before. All take turns in each round; the table has the medians. The rivals are a script
with `vmap`, hyperoptax, Optuna with processes of joblib that keep their program, Ray Tune as its manual advises for
short trials, and Ray Tune with a process for each trial, which many people write and which is no fair rival; it is left
out above 64 trials. hyperoptax and joblib come from the extra `peers`. This project also writes checkpoints, a store
with every curve and network, and a table. Linux only.
"""

import argparse
import contextlib
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.gpu.machine import commit_of

REPOSITORY = Path(__file__).resolve().parents[2]

RIVALS = {
    "a script with `vmap`": "vmap",
    "hyperoptax": "hyperoptax_random",
    "Optuna, joblib": "optuna_pool",
    "Ray Tune, actors that are used again": "ray_tune actors",
    "Ray Tune, a process for each trial": "ray_tune processes",
}

OURS = "this project"

MOST_OF_THE_WEAK = 64
"""Trials above which Ray Tune with a process for each trial is not measured: minutes for each further hundred."""

SPACE = """
name: peers
trial:
  experiment: {{name: peer_{work}, learning_rate: {{choice: [{rates}]}}}}
  steps: {steps}
  seed: {{seeds: 4}}
"""

LOOK_SECONDS = 0.1
"""Time between two looks at the processes of a run; what a process computes after the last one is missed."""

SUBREAPER = 36
"""`PR_SET_CHILD_SUBREAPER` of prctl(2): processes whose parents have ended become children of this one."""


class Cost(NamedTuple):
    """What a run has cost."""

    cpu_seconds: float
    wall_seconds: float


def command_of(rival: str, work: str, trials: int, folder: Path) -> list[str]:
    """The command that trains so many trials."""
    if rival != OURS:
        module, *way = RIVALS[rival].split()
        return [sys.executable, "-m", f"benchmarks.peers.rivals.{module}", *way, work, str(trials), str(folder)]
    from benchmarks.peers import works

    rates = ", ".join(map(str, dict.fromkeys(works.settings(trials)[0])))
    space = folder / "peers.yaml"
    space.write_text(SPACE.format(work=work, rates=rates, steps=works.named(work).steps))
    return [sys.executable, "-m", "sweeper.run", str(space), "--results", str(folder / "results")]


def measured(rival: str, work: str, trials: int) -> Cost:
    """Run it in a folder of its own, and wait for all its processes."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        own = {"TMPDIR": made, "HOME": made, "XDG_CACHE_HOME": made, "PYTHONPATH": str(REPOSITORY)}
        own |= {"JAX_PLATFORMS": "cpu", "SWEEPER_PROJECT": str(Path(__file__).parent)}
        command = command_of(rival, work, trials, folder)
        seconds: dict[tuple[int, str], float] = {}
        begun = time.monotonic()
        with (folder / "output").open("w+") as output:
            process = subprocess.Popen(command, env=os.environ | own, stdout=output, stderr=subprocess.STDOUT)
            while process.poll() is None:
                seconds |= _of_descendants()
                time.sleep(LOOK_SECONDS)
            wall = time.monotonic() - begun
            while alive := _of_descendants():  # Ray's processes end a moment later
                seconds |= alive
                _reap()
            output.seek(0)
            text = output.read()
        rows = list(folder.glob("results/trials/*/*/*.parquet"))
        found = str(len(rows)) if rival == OURS else text.rpartition("\n")[0].rpartition("\n")[2]
        if process.returncode != 0 or found != str(trials):
            sys.exit(f"{rival}: {found} of {trials} results\n{text}")
        return Cost(sum(seconds.values()), wall)


def _of_descendants() -> dict[tuple[int, str], float]:
    """CPU seconds so far of every process below this one, by its number and the time of its birth."""
    parents, spent = dict[int, int](), dict[int, tuple[str, float]]()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])
            parents[int(folder.name)] = int(fields[1])
            spent[int(folder.name)] = fields[19], ticks / os.sysconf("SC_CLK_TCK")

    def is_below(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == os.getpid():
                return True
        return False

    return {(pid, born): own for pid, (born, own) in spent.items() if is_below(pid)}


def _reap() -> None:
    """Take notice of processes that have ended, of which this one has become the parent."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    time.sleep(LOOK_SECONDS)


def main() -> None:
    """Measure, and print a table for each work and number of trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--work", action="append", help="work:trials,trials")
    parser.add_argument("--only", action="append", choices=[OURS, *RIVALS])
    options = parser.parse_args()
    if ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("this system does not give orphans to this process")
    print(f"commit {commit_of(REPOSITORY)}, load {os.getloadavg()[0]:.1f}", flush=True)
    for work, _, numbers in (each.partition(":") for each in options.work or ["network:8,64,640", "coloring:8"]):
        for trials in map(int, numbers.split(",")):
            costs: dict[str, list[Cost]] = {}
            for _ in range(options.rounds):
                for rival in options.only or [OURS, *RIVALS]:
                    if rival != [*RIVALS][-1] or trials <= MOST_OF_THE_WEAK:
                        costs.setdefault(rival, []).append(measured(rival, work, trials))
            print(f"\n| {trials} trials of `{work}` | CPU s | wall s |\n|---|---|---|")
            for rival, found in costs.items():
                cpu, wall = (statistics.median(each) for each in zip(*found, strict=True))
                print(f"| {rival} | {cpu:.1f} | {wall:.1f} |", flush=True)


if __name__ == "__main__":
    main()
