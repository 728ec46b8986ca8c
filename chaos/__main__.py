"""`python -m chaos`: inject faults and print what they cost; exit code 1 if a promise was broken."""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from chaos import faults
from chaos.sweeps import checkout, end_all

FAULTS: dict[str, tuple[faults.Fault, int]] = {
    "driver-killed": (faults.driver_killed, 50),
    "worker-killed": (faults.worker_killed, 50),
    "nodes-killed": (faults.nodes_killed, 21),
    "terminated": (faults.terminated, 5),
    "disk-full": (faults.disk_filled, 1),
    "disk-read-only": (faults.disk_read_only, 1),
    "two-drivers": (faults.driver_doubled, 2),
    "results-moved": (faults.results_moved, 3),
    "checkpoints-damaged": (faults.checkpoints_damaged, 3),
    "files-damaged": (faults.files_damaged, 500),
    "clock-jumped": (faults.clock_jumped, 100),
}
"""By name, with how often it is injected."""


def main() -> int:
    """Run the faults that were asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m chaos")
    parser.add_argument("fault", nargs="*", choices=[*FAULTS, []], help="without any, all of them")
    parser.add_argument("--times", type=int, help="how often each is injected, instead of as often as it should be")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    broken = 0
    print("| fault | times | trials | lost | doubled | run again | complete | seconds | remark |", flush=True)
    for name in arguments.fault or FAULTS:
        fault, times = FAULTS[name]
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder, checkout(Path(folder)) as copy:
            begun = time.monotonic()
            scratch = Path(folder, "scratch")
            scratch.mkdir()
            try:
                found = fault(copy, scratch, arguments.times or times, random.Random(arguments.seed))
            finally:
                end_all()
        seconds = time.monotonic() - begun
        print(
            f"| {name} | {found.times} | {found.trials} | {found.lost} | {found.doubled} | {found.again} | "
            f"{'yes' if found.complete else 'NO'} | {seconds:.0f} | {found.remark} |",
            flush=True,
        )
        broken += not found.kept
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
