"""Kill -9 population workers in mid-generation and the process of a trial, and compare with an undisturbed run.

    python -m benchmarks.population_deaths [--generations 40] [--workers 2]

The undisturbed run evaluates its populations in its own process, the other one on workers. Two of these are killed,
and then the trial's own process, which goes on from its checkpoint. Exits with 1 unless all metrics, curves and
outcomes are equal bit for bit. Uses stores in a temporary folder and a local Ray of its own; Linux only.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.interruptions import numbers
from sweeper.store.store import Store

SPACE = Path(__file__).resolve().parent.parent / "search_spaces" / "gridworld_small.yaml"


def _command(results: Path, generations: int, workers: int) -> list[str]:
    settings = [
        f"trial.steps={generations}", "trial.baseline=Aq_R", "trial.seed=0", "trial.optimizer.population=64",
        f"resources.population_workers={workers}", "resources.checkpoint_seconds=5",
    ]  # fmt: skip
    overrides = [part for setting in settings for part in ("--set", setting)]
    return [
        sys.executable,
        "-m",
        "sweeper.run",
        str(SPACE),
        "--results",
        str(results),
        "--address",
        "local",
        *overrides,
    ]


def _parents() -> dict[int, int]:
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:
            continue  # it has ended
        parents[int(status.parent.name)] = int(text.rpartition(")")[2].split()[1])
    return parents


def _descendants(pid: int, title: str) -> list[int]:
    """Processes below `pid` whose title, which Ray sets, begins with `title`; lowest first."""
    parents = _parents()

    def below(child: int) -> bool:
        while child in parents:
            child = parents[child]
            if child == pid:
                return True
        return False

    children = []
    for child in parents:
        try:
            named = Path(f"/proc/{child}/cmdline").read_bytes().startswith(title.encode())
        except OSError:
            continue
        if named and below(child):
            children.append(child)
    return sorted(children)


def _kill_one(driver: "subprocess.Popen[bytes]", title: str) -> None:
    """Kill -9 the first process of this title that is at work."""
    while driver.poll() is None:
        if pids := _descendants(driver.pid, title):
            os.kill(pids[0], signal.SIGKILL)
            print(f"  killed {title} ({pids[0]})", flush=True)
            return
        time.sleep(0.005)
    raise SystemExit(f"the run ended before a {title} could be killed")


def _disturbed(command: list[str], results: Path) -> None:
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    for _ in range(2):
        _kill_one(driver, "ray::_Worker.objectives")
        time.sleep(8)
    while not list(results.glob("checkpoints/*.ckpt")) and driver.poll() is None:
        time.sleep(0.1)
    _kill_one(driver, "ray::ResourceTrainable")
    if driver.wait():
        raise SystemExit(f"the disturbed run ended with {driver.returncode}")


def main() -> int:
    """Run both and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        calm, rough = Path(folder, "calm"), Path(folder, "rough")
        subprocess.run(_command(calm, arguments.generations, 0), check=True, stdout=subprocess.DEVNULL)
        _disturbed(_command(rough, arguments.generations, arguments.workers), rough)
        one, other = Store.open(calm), Store.open(rough)
        parts = {
            "metrics": numbers(calm).equals(numbers(rough)),
            "curves": one.curves().equals(other.curves()),
            "outcomes": one.outcomes().equals(other.outcomes()),
        }
    for name, equal in parts.items():
        print(f"{name}: {'equal bit for bit' if equal else 'DIFFER'}")
    return 0 if all(parts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
