"""`python -m chaos`: inject faults and print what they cost; exit code 1 if a promise was broken."""

import argparse
import dataclasses
import sys
import time

from chaos import process_faults, program_faults, storage_faults, store_faults  # noqa: F401 - they enter their faults
from chaos.attack import FAULTS, attacked


def main() -> int:
    """Run the faults that were asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m chaos")
    parser.add_argument("fault", nargs="*", choices=[*FAULTS, []], help="default: all faults")
    parser.add_argument("--times", type=int, help="how often each fault is injected; by default a number for each")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    broken = 0
    print("| fault | times | trials | lost | doubled | again | other bits | complete | remark | seconds |", flush=True)
    for name in arguments.fault or FAULTS:
        begun = time.monotonic()
        finding = attacked(name, arguments.times, arguments.seed)
        cells = [name, *dataclasses.asdict(finding).values(), f"{time.monotonic() - begun:.0f}"]
        print("|", " | ".join(map(str, cells)), "|", flush=True)
        broken += not finding.kept
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
