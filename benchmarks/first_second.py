"""When a start of quickstart, cut short, is how far, cold and warm; and how two checkouts differ in that.

    python -m benchmarks.first_second [--checkout FOLDER --checkout FOLDER] [--starts 3]

Each start is `python -m sweeper.run search_spaces/quickstart.yaml --set trial.steps=400` in an empty store, run by the
code of a checkout (by default the present folder) and by this interpreter. In every round each checkout starts once
cold, with an empty folder for temporary files, where compiled programs are kept; and then once warm, with the same
folder and a new store. Checkouts take turns. Prints a Markdown table of wall seconds since the command, and of the CPU
seconds of the start and all processes that it has begun: the mean, and the range in brackets.

What is seen is what every start shows: the lines that it prints, the title that Ray gives a worker, and the files of
the store, looked for every twentieth of a second. A worker "takes up a pack" when it begins to load the pack's task and
weights. The first checkpoint has the state after all steps, or after the first ones if these took more than ten
seconds. Linux only. Works from commit c621aa0 on.
"""

import argparse
import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

from benchmarks.gpu.machine import commit_of
from chaos.starts import TRAINER, Start

PLANNED = "the plan is made"
RAY = "Ray is up"
WORKER = "a worker takes up a pack"
CHECKPOINT = "steps are in a first checkpoint"
FIRST = "first trial is committed"
ALL = "all trials are committed"
END = "the same, with table and figures"
CPU = "CPU seconds"
ROWS = (PLANNED, RAY, WORKER, CHECKPOINT, FIRST, ALL, END, CPU)

Measured = dict[str, float]
"""What was measured of a start, by row of the table; a phase that passed between two looks is missing."""


def reached(start: Start, results: Path) -> Iterator[str]:
    """The phases that a start has reached: its printed lines, its processes and its store tell."""
    planned = re.search(r"([\d,]+) to run$", start.text, re.MULTILINE)
    if planned:
        yield PLANNED
    if "running on this machine" in start.text:
        yield RAY
    if start.family(f"{TRAINER}.train"):
        yield WORKER
    if any(results.glob("checkpoints/*.ckpt")):
        yield CHECKPOINT
    committed = sum(1 for _ in results.glob("trials/*/*/*.parquet"))
    if committed:
        yield FIRST
    if planned and committed == int(planned[1].replace(",", "")):
        yield ALL


def measured(checkout: Path, temporary: Path) -> Measured:
    """Wall and CPU seconds of one start of a checkout, with a folder for temporary files.

    Raises:
        SystemExit: the start failed; the message has what it printed.
    """
    seen: Measured = {}
    with tempfile.TemporaryDirectory() as folder:
        results, begun = Path(folder, "results"), time.monotonic()

        def look() -> None:
            for phase in reached(start, results):
                seen.setdefault(phase, time.monotonic() - begun)

        start = Start(
            checkout, Path(folder, "printed"), "search_spaces/quickstart.yaml", "--set", "trial.steps=400",
            "--address", "local", "--results", str(results), variables={"TMPDIR": str(temporary)},
        )  # fmt: skip
        try:
            start.until(look)  # which is never true, so until the end
            seen[END] = time.monotonic() - begun
        finally:
            start.kill()
        if start.process.returncode:
            raise SystemExit(f"the start in {checkout} ended with {start.process.returncode}\n{start.text}")
    return seen | {CPU: start.cpu_seconds}


def _cell(values: Sequence[float]) -> str:
    """The mean of some values and their range; the range of one value is left out."""
    if not values:
        return ""
    return f"{mean(values):.1f}" + (f" ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else "")


def main() -> None:
    """Start again and again, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, action="append", metavar="FOLDER")
    parser.add_argument("--starts", type=int, default=3, help="cold ones of each checkout, and as many warm ones")
    arguments = parser.parse_args()
    # Modules are kept compiled as for most users, and programs only where workers keep them.
    for name in ("PYTHONDONTWRITEBYTECODE", "JAX_COMPILATION_CACHE_DIR"):
        os.environ.pop(name, None)
    columns: dict[tuple[Path, str], list[Measured]] = {}
    for _ in range(arguments.starts):
        with contextlib.ExitStack() as stack:
            checkouts = [
                (checkout, Path(stack.enter_context(tempfile.TemporaryDirectory())))
                for checkout in arguments.checkout or [Path.cwd()]
            ]
            for kind in ("cold", "warm"):
                for checkout, temporary in checkouts:
                    start = measured(checkout, temporary)
                    columns.setdefault((checkout, kind), []).append(start)
                    print(f"{checkout}, {kind}: {start[END]:.1f} s", file=sys.stderr, flush=True)
    titles = [f"{commit_of(checkout)}, {kind}" for checkout, kind in columns]
    print(f"| until | {' | '.join(titles)} |\n|{'---|' * (1 + len(columns))}")
    for row in ROWS:
        cells = [_cell([start[row] for start in starts if row in start]) for starts in columns.values()]
        print(f"| {row} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
