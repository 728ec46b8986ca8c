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
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

from benchmarks.process_tree import ProcessTree, has_title

START = ("sweeper.run", "search_spaces/quickstart.yaml", "--set", "trial.steps=400", "--address", "local")

LOOK_SECONDS = 0.05
"""Between two looks at a start."""

END_SECONDS = 60.0
"""How long processes may outlive the start that they belong to; then they are killed."""

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


def reached(output: str, results: Path) -> Iterator[str]:
    """The phases that a start has reached by what it has printed and stored.

    Args:
        output: All that it has printed.
        results: Its store.
    """
    planned = re.search(r"([\d,]+) to run$", output, re.MULTILINE)
    if planned:
        yield PLANNED
    if "running on this machine" in output:
        yield RAY
    if any(results.glob("checkpoints/*.ckpt")):
        yield CHECKPOINT
    committed = sum(1 for _ in results.glob("trials/*/*/*.parquet"))
    if committed:
        yield FIRST
    if planned and committed == int(planned[1].replace(",", "")):
        yield ALL


def measured(checkout: Path, temporary: Path) -> Measured:
    """Wall and CPU seconds of one start.

    Args:
        checkout: Whose code is run.
        temporary: Its folder for temporary files.

    Raises:
        SystemExit: the start failed; the message has what it printed.
    """
    # Modules are kept compiled as for most users, and programs only where workers keep them.
    environment = {**os.environ, "TMPDIR": str(temporary)}
    for name in ("PYTHONDONTWRITEBYTECODE", "JAX_COMPILATION_CACHE_DIR"):
        environment.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        results, printed = Path(folder, "results"), Path(folder, "printed")
        with printed.open("wb") as file:
            begun = time.monotonic()
            driver = subprocess.Popen(
                [sys.executable, "-m", *START, "--results", str(results)],
                cwd=checkout,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        processes = ProcessTree(driver.pid)
        seen: Measured = {}
        try:
            while driver.poll() is None:
                seconds, running = time.monotonic() - begun, processes.look()
                for phase in reached(printed.read_text(), results):
                    seen.setdefault(phase, seconds)
                if WORKER not in seen and any(has_title(pid, "ray::ResourceTrainable.train") for pid in running):
                    seen[WORKER] = seconds
                time.sleep(LOOK_SECONDS)
            seen[END] = time.monotonic() - begun
            until = time.monotonic() + END_SECONDS
            while processes.look() and time.monotonic() < until:
                time.sleep(LOOK_SECONDS)
        finally:
            processes.kill()
            driver.wait()
        if driver.returncode:
            raise SystemExit(f"the start in {checkout} ended with {driver.returncode}\n{printed.read_text()}")
    seen[CPU] = processes.seconds
    return seen


def table(titles: Sequence[str], columns: Sequence[Sequence[Measured]]) -> str:
    """A Markdown table.

    Args:
        titles: Of the columns.
        columns: The starts that each column is about.
    """
    lines = [f"| until | {' | '.join(titles)} |", "|" + "---|" * (1 + len(titles))]
    for row in ROWS:
        cells = [_cell([start[row] for start in starts if row in start]) for starts in columns]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    """The mean of some values and their range; the range of one value is left out."""
    if not values:
        return ""
    return f"{mean(values):.1f}" + (f" ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else "")


def _commit(checkout: Path) -> str:
    """The commit of a checkout, marked if files of it were changed."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Start again and again, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, action="append", metavar="FOLDER")
    parser.add_argument("--starts", type=int, default=3, help="cold ones of each checkout, and as many warm ones")
    arguments = parser.parse_args()
    checkouts: list[Path] = arguments.checkout or [Path.cwd()]
    titles = [f"{_commit(checkout)}, {kind}" for checkout in checkouts for kind in ("cold", "warm")]
    columns: list[list[Measured]] = [[] for _ in titles]
    for _ in range(arguments.starts):
        with contextlib.ExitStack() as stack:
            temporary = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in checkouts]
            for warm in (0, 1):
                for number, checkout in enumerate(checkouts):
                    start = measured(checkout, temporary[number])
                    columns[2 * number + warm].append(start)
                    print(f"{titles[2 * number + warm]}: {start[END]:.1f} s", file=sys.stderr, flush=True)
    print(table(titles, columns))


if __name__ == "__main__":
    main()
