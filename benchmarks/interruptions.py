"""Kill -9 the driver of a sweep at random moments, and compare its rows with those of an undisturbed run.

    python -m benchmarks.interruptions [SPACE.yaml] [--kills 5] [--seed 0]

Prints how many trials were committed at each kill and whether all metrics are equal bit for bit; exits with 1 if they
are not. Uses stores in a temporary folder and a local Ray of its own.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from sweeper.store.store import Store

QUICKSTART = Path(__file__).resolve().parent.parent / "search_spaces" / "quickstart.yaml"


def _command(space: Path, results: Path) -> list[str]:
    return [sys.executable, "-m", "sweeper.run", str(space), "--results", str(results), "--address", "local"]


def _undisturbed(space: Path, results: Path) -> float:
    begun = time.monotonic()
    subprocess.run(_command(space, results), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


def _disturbed(space: Path, results: Path, moments: list[float]) -> None:
    """Start, kill after each of the given seconds, and let the last start finish."""
    for moment in moments:
        driver = subprocess.Popen(_command(space, results), stdout=subprocess.DEVNULL)
        try:
            driver.wait(timeout=moment)
        except subprocess.TimeoutExpired:
            driver.send_signal(signal.SIGKILL)
            driver.wait()
        done = len(Store.open(results).committed())
        print(f"  killed after {moment:.0f} s: {done} trials committed", flush=True)
    subprocess.run(_command(space, results), check=True, stdout=subprocess.DEVNULL)


def numbers(results: Path) -> pd.DataFrame:
    """Every number of a trial that does not measure time or memory."""
    store = Store.open(results)
    rows = store.trials().to_pandas().set_index("trial_id").sort_index()
    measured = [name for name in rows if name.endswith("_seconds") or name in ("peak_memory_bytes", "steps_per_second")]
    origin = ["pack_id", "commit", "dirty", "command", "started", "finished", "versions", "lock_hash"]
    return rows.drop(columns=[*measured, *origin])


def main() -> int:
    """Run both and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("space", nargs="?", type=Path, default=QUICKSTART)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        calm, rough = Path(folder, "calm"), Path(folder, "rough")
        seconds = _undisturbed(arguments.space, calm)
        print(f"undisturbed: {seconds:.0f} s")
        draw = random.Random(arguments.seed)
        _disturbed(arguments.space, rough, [draw.uniform(0.15, 0.4) * seconds for _ in range(arguments.kills)])
        expected, disturbed = numbers(calm), numbers(rough)
        equal = expected.equals(disturbed)
        print(f"{len(disturbed)} of {len(expected)} trials, metrics {'equal bit for bit' if equal else 'DIFFER'}")
        if not equal:
            print(expected.compare(disturbed))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
