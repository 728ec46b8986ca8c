"""`python -m chaos`: inject faults and print what they cost; exit code 1 if a promise was broken."""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from chaos import code_faults, process_faults, shared_stores, storage_faults
from chaos.finding import Fault
from chaos.sweeps import checkout, end_all

FAULTS: dict[str, tuple[Fault, int]] = {
    "driver-killed": (process_faults.driver_killed, 50),
    "worker-killed": (process_faults.worker_killed, 50),
    "nodes-killed": (process_faults.nodes_killed, 21),
    "terminated": (process_faults.terminated, 5),
    "disk-full": (storage_faults.disk_filled, 1),
    "disk-read-only": (storage_faults.disk_read_only, 1),
    "two-drivers": (process_faults.driver_doubled, 2),
    "results-moved": (storage_faults.results_moved, 3),
    "checkpoints-damaged": (storage_faults.checkpoints_damaged, 3),
    "files-damaged": (storage_faults.files_damaged, 500),
    "clock-jumped": (storage_faults.clock_jumped, 100),
    "code-changed": (code_faults.code_changed, 20),
    "drivers-of-different-code": (code_faults.drivers_of_different_code, 20),
    "halvings-that-share-trials": (shared_stores.halvings_that_share_trials, 10),
    "deletions-beside-everything": (shared_stores.deletions_beside_everything, 10),
    "settings-changed": (shared_stores.settings_changed, 20),
}
"""Every fault by its name, and how often it is injected."""


def main() -> int:
    """Run the faults that were asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m chaos")
    parser.add_argument("fault", nargs="*", choices=[*FAULTS, []], help="default: all faults")
    parser.add_argument("--times", type=int, help="how often each fault is injected; by default a number for each")
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
                finding = fault(copy, scratch, arguments.times or times, random.Random(arguments.seed))
            finally:
                end_all()
        seconds = time.monotonic() - begun
        print(
            f"| {name} | {finding.times} | {finding.trials} | {finding.lost} | {finding.doubled} | {finding.again} | "
            f"{'yes' if finding.complete else 'NO'} | {seconds:.0f} | {finding.remark} |",
            flush=True,
        )
        broken += not finding.kept
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
