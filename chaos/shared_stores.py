"""Faults of what surrounds a sweep: other sweeps and commands on the same store, and other settings at a resumption.

The sweep is trained undisturbed first, so its numbers and its winners are known.
"""

import itertools
import json
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from chaos.code_faults import numbers_of
from chaos.finding import Finding
from chaos.sweeps import Books, Start, progress_files, space
from sweeper.analysis.sql import table
from sweeper.analysis.sweeps import drivers
from sweeper.store.store import Store

HALVING = "\nsearch: {{method: halving, starts: 4, rungs: {rungs}}}\n"
RUNGS = ("[{steps: 1000, keep: 2}, {steps: 2000, keep: 1}]", "[{steps: 1500, keep: 1}]")

ALLOWED: tuple[dict[str, str], ...] = ({}, {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"})
"""Environments with fingerprints of their own."""

SETTINGS = (
    {"JAX_ENABLE_X64": "1"},
    {"JAX_THREEFRY_PARTITIONABLE": "0"},
    {"JAX_DEFAULT_MATMUL_PRECISION": "bfloat16"},
    {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=true"},
    *ALLOWED[1:],
)
"""Environments that change numbers, or would."""


def halvings_that_share_trials(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """Run two halvings of the same trials on one store at once; kill one of the drivers and start it again."""
    files = [folder / f"{name}.yaml" for name in ("first", "second")]
    for file, rungs in zip(files, RUNGS, strict=True):
        text = space(1, 2, steps=3000).replace("name: chaos", f"name: {file.stem}")
        file.write_text(text + HALVING.format(rungs=rungs))
    expected, truth = set[tuple](), {}
    for file in files:
        alone = folder / f"alone-{file.stem}"
        _undisturbed(checkout, file, alone)
        expected |= _winners(alone)
        truth |= {key: value for key, value in numbers_of(alone).items() if _finished(value)}
    complete, wrong, all_books = True, 0, []
    for sweep in range(times):
        results = folder / f"results-{sweep}"
        books = Books(results)
        both = [Start(checkout, file, results) for file in files]
        victim = draw.randrange(2)
        if both[victim].until(lambda results=results: progress_files(results) > 0):
            both[victim].sleep(draw.uniform(0, 3))
        both[victim].kill()
        books.check()
        both[victim] = Start(checkout, files[victim], results)
        complete &= {start.wait() for start in both} == {0}
        books.check()
        complete &= _winners(results) == expected
        rows = numbers_of(results)
        wrong += sum(key in rows and _finished(rows[key]) and rows[key] != value for key, value in truth.items())
        all_books.append(books)
        print(
            f"  {sweep + 1:3}: winners {'as alone' if complete else 'WRONG'}, {wrong} rows of other numbers", flush=True
        )
    return _finding(times, 16 * times, all_books, complete and not wrong, f"{wrong} rows with other numbers than alone")


def deletions_beside_everything(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """Delete, compact, note and rename beside a sweep that runs, and beside each other when it has ended."""
    packs, seeds, complete, came_back, all_books = 4, 2, True, 0, []
    file = folder / "chaos.yaml"
    file.write_text(space(packs, seeds, steps=2000))
    alone = folder / "alone"
    _undisturbed(checkout, file, alone)
    truth = numbers_of(alone)
    folders = (folder / f"results-{number}" for number in itertools.count())
    for sweep in range(times):
        while True:
            results = next(folders)
            books, start = Books(results), Start(checkout, file, results)
            exit_code = _commands_beside(start, checkout, results, books, draw)
            if exit_code is not None:
                break
        complete &= exit_code == 0 and books.check() == packs * seeds and numbers_of(results) == truth
        _command(checkout, results, "compact")
        doomed = sorted(Path(results).glob("trials/*/*/*.parquet"))
        at_once = ["delete chaos --yes", "compact", "status", "compact", "note chaos late"]
        processes = [_started(checkout, results, command) for command in draw.sample(at_once, len(at_once))]
        for process in processes:
            process.communicate()
        came_back += len(Store.open(results).committed()) + sum(path.exists() for path in doomed)
        all_books.append(books)
        print(f"  {sweep + 1:3}: {came_back} deleted trials came back", flush=True)
    trials = packs * seeds * times
    return _finding(times, trials, all_books, complete and not came_back, f"{came_back} deleted trials came back")


def _commands_beside(start: Start, checkout: Path, results: Path, books: Books, draw: random.Random) -> int | None:
    """Run commands on the store of a sweep until its process ends; the exit code of the process.

    None if the sweep was deleted or renamed after its last heartbeat, but before its process had ended: a user may do
    that, and the books say nothing then.
    """
    commands = ["delete --unplanned --yes", "delete --status failed --yes", "delete chaos --yes",
                "compact", "note chaos beside", "rename chaos other"]  # fmt: skip
    start.until(lambda: progress_files(results) > 0)
    while start.process.poll() is None:
        command = draw.choice(commands)
        taken = _command(checkout, results, command)
        if taken and "chaos" in command and not command.startswith("note"):
            if drivers(Store.open(results)):
                raise RuntimeError(f"{command} was taken beside a heartbeat")
            start.wait()
            return None
        books.check()
    return start.wait()


def settings_changed(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """Kill the driver, and start again with settings of JAX or XLA in the environment that change numbers."""
    packs, seeds, complete, hits, wrong, all_books = 4, 2, True, 0, 0, []
    file = folder / "chaos.yaml"
    file.write_text(space(packs, seeds, steps=6000))
    truth: dict[tuple[str, str], tuple] = {}
    for number, environment in enumerate(ALLOWED):  # with other flags rows have other fingerprints, and other numbers
        alone = folder / f"alone-{number}"
        _undisturbed(checkout, file, alone, environment)
        truth |= numbers_of(alone)
    settings, refused = itertools.cycle(draw.sample(SETTINGS, len(SETTINGS))), 0
    while hits < times:
        results = folder / f"results-{hits}"
        books = Books(results)
        while hits < times:
            before = progress_files(results)
            start = Start(checkout, file, results, environment=next(settings))
            if start.until(lambda results=results, before=before: progress_files(results) != before):
                start.sleep(draw.uniform(0, 2))
            if start.process.poll() == 0:
                break
            refused += start.process.poll() is not None
            start.kill()
            hits += 1
            print(f"  {hits:3}: {books.check()} committed", flush=True)
        complete &= Start(checkout, file, results).wait() == 0 and books.check() == packs * seeds
        wrong += sum(truth.get(key) != value for key, value in numbers_of(results).items())
        all_books.append(books)
    remark = f"{wrong} rows with other numbers than undisturbed under the same flags; {refused} starts refused"
    return _finding(hits, packs * seeds * len(all_books), all_books, complete and not wrong, remark)


def _undisturbed(checkout: Path, file: Path, results: Path, environment: Mapping[str, str] = {}) -> None:
    start = Start(checkout, file, results, environment=environment)
    if start.wait() != 0:
        raise RuntimeError(f"the undisturbed sweep failed:\n{start.text}")


def _winners(results: Path) -> set[tuple]:
    rows = table("select sweep, trial_id from sweeps where winner", Store.open(results))
    return {(row["sweep"], row["trial_id"]) for row in rows.to_pylist()}


def _finished(numbers: tuple[tuple, tuple]) -> bool:
    return numbers[0][-1] == 3000


def _started(checkout: Path, results: Path, command: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "sweeper", *command.split(), "--results", str(results)]
    return subprocess.Popen(words, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _command(checkout: Path, results: Path, command: str) -> bool:
    """Run a command, which may be refused in one sentence and never ends in a traceback; whether it was taken."""
    output, _ = (process := _started(checkout, results, command)).communicate()
    if process.returncode not in (0, 2) or "Traceback" in output:
        raise RuntimeError(f"{command}: {json.dumps(output)}")
    return process.returncode == 0


def _finding(times: int, trials: int, all_books: list[Books], complete: bool, remark: str) -> Finding:
    return Finding(
        times, trials, sum(len(books.lost) for books in all_books), sum(books.doubled() for books in all_books),
        sum(len(books.changed) for books in all_books), complete, remark,
    )  # fmt: skip
