"""Faults of code: the project is edited between starts and while a sweep runs, or two versions of it share one store.

Every row names the code that its numbers come from, by a fingerprint. Each version of the code trains the same sweep
undisturbed first, so it is known which numbers a fingerprint stands for: metrics and curves, bit for bit.
"""

import random
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from chaos.finding import Finding
from chaos.sweeps import Books, Start, progress_files, space
from sweeper.store.store import Store
from sweeper.trial.columns import METRICS

TASK = Path("tasks", "coloring.py")

EDIT = """

_loss, _losses, _outcomes = Task.loss, Task.losses, Task.outcomes
Task.loss = lambda self, *arguments: _loss(self, *arguments) ** {power}
Task.losses = lambda self, *arguments: _losses(self, *arguments) ** {power}
Task.outcomes = lambda self, *arguments: (found := _outcomes(self, *arguments))._replace(loss=found.loss ** {power})
"""

POWERS = (1.0, 1.5)
"""The versions of the code differ in the power to which they raise every loss."""

SEEDS = 2


class EditedProject:
    """A copy of the project whose colouring task is edited back and forth."""

    def __init__(self, checkout: Path, copy: Path, version: int = 0):
        self.folder = Path(shutil.copytree(checkout, copy))
        self._original = (copy / TASK).read_text()
        self.write(version)

    def write(self, version: int) -> None:
        """Give the task this version of the code, as an editor does: a new file takes the place of the old file."""
        edited = self.folder / TASK.with_suffix(".part")
        edited.write_text(self._original + EDIT.format(power=POWERS[version]))
        edited.rename(self.folder / TASK)


Numbers = tuple[tuple, tuple]
"""The numbers of a trial: the columns of its row that the training decides, and the points of its curves."""


class Truth:
    """The numbers that every version of the code gives, from sweeps that nothing disturbed."""

    def __init__(self, code: EditedProject, file: Path, folder: Path):
        """Train the sweep once with each version."""
        self._numbers: dict[tuple[str, str], Numbers] = {}
        for version in range(len(POWERS)):
            code.write(version)
            results = folder / f"undisturbed-{version}"
            start = Start(code.folder, file, results)
            if start.wait() != 0:
                raise RuntimeError(f"the undisturbed sweep failed:\n{start.text}")
            self._numbers |= numbers_of(results)
        if len(set(self._numbers.values())) < len(self._numbers):
            raise RuntimeError("the versions of the code cannot be told apart by their numbers")
        self.rows = self.foreign = 0

    def judge(self, results: Path) -> None:
        """Count the rows of a store, and those whose numbers are not those of the code that they name."""
        numbers = numbers_of(results)
        self.rows += len(numbers)
        self.foreign += sum(self._numbers.get(key) != value for key, value in numbers.items())


def numbers_of(results: Path) -> dict[tuple[str, str], Numbers]:
    """The numbers of all rows by fingerprint and trial id, rows of other code included."""
    rows = [row for path in results.glob("trials/*/*/*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
    curves: dict[str, list[tuple]] = {}
    for point in Store.open(results).curves().to_pylist():
        curves.setdefault(point["trial_id"], []).append((point["metric"], point["step"], point["value"]))
    columns = (*METRICS, "extra_metrics", "steps_done")
    return {
        (row["fingerprint"], row["trial_id"]): (
            tuple(row[name] for name in columns), tuple(sorted(curves.get(row["trial_id"], [])))
        )
        for row in rows
    }  # fmt: skip


def code_changed(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """Kill the driver, edit the code and start again on the same store; about every second edit precedes the kill."""
    packs, hits, edited, sweeps, complete = 4, 0, 0, 0, True
    file, code = folder / "chaos.yaml", EditedProject(checkout, folder / "code")
    file.write_text(space(packs, SEEDS, steps=6000))
    truth, version, all_books = Truth(code, file, folder), 0, []
    while hits < times:
        results = folder / f"results-{sweeps}"
        books = Books(results)
        while hits < times:
            code.write(version)
            before = progress_files(results)
            start = Start(code.folder, file, results)
            trained = start.until(lambda results=results, before=before: progress_files(results) != before)
            if not trained or not start.sleep(draw.uniform(0, 2)):
                break
            version = 1 - version
            if draw.random() < 0.5:
                code.write(version)
                edited += 1
                start.sleep(draw.uniform(0, 2))
            start.kill()
            hits += 1
            print(f"  {hits:3}: {books.check()} committed", flush=True)
        code.write(version)
        complete &= Start(code.folder, file, results).wait() == 0 and books.check() == packs * SEEDS
        truth.judge(results)
        all_books.append(books)
        sweeps += 1
    return _finding(hits, truth, all_books, complete, f"{edited} of the edits while the sweep ran")


def drivers_of_different_code(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """Run two drivers of a sweep on one store, each with its own code; kill one driver and start it again."""
    packs, hits, complete, all_books = 4, 0, True, []
    file = folder / "chaos.yaml"
    file.write_text(space(packs, SEEDS, steps=6000))
    codes = [EditedProject(checkout, folder / f"code-{version}", version) for version in range(len(POWERS))]
    truth = Truth(EditedProject(checkout, folder / "code"), file, folder)
    for sweep in range(times):
        results = folder / f"results-{sweep}"
        books = Books(results)
        both = [Start(code.folder, file, results) for code in codes]
        victim = draw.randrange(2)
        if both[victim].until(lambda results=results: progress_files(results) > 0):
            hits += both[victim].sleep(draw.uniform(0, 2))
        both[victim].kill()
        books.check()
        both[victim] = Start(codes[victim].folder, file, results)
        complete &= {start.wait() for start in both} == {0} and books.check() == packs * SEEDS
        truth.judge(results)
        all_books.append(books)
        print(f"  {sweep + 1:3}: {truth.foreign} of {truth.rows} rows with numbers of other code so far", flush=True)
    return _finding(hits, truth, all_books, complete, "one of the two killed each time, and started again")


def _finding(times: int, truth: Truth, all_books: list[Books], complete: bool, remark: str) -> Finding:
    return Finding(
        times, truth.rows, sum(len(books.lost) for books in all_books), sum(books.doubled() for books in all_books),
        sum(len(books.changed) for books in all_books), complete and not truth.foreign,
        f"{truth.foreign} of {truth.rows} rows have numbers of other code than they name; {remark}",
    )  # fmt: skip
