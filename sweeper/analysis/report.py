"""A report on a store: figures, and a comparison with published values.

`sweeper.analysis.report_sources` chooses the panels, and the trials that they show.

The figures of a sweep go to a folder of that sweep, figures of several sweeps to the folder above, and with `--compare`
the comparison of all published numbers to `comparison.md`. With `--html` all of these and the state of the trials are
one page as well; `follow` writes the page again and again while a sweep runs.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
from rich.console import Console

from sweeper.analysis import comparison, figures, page
from sweeper.analysis.importance import importance
from sweeper.analysis.ranking import best_first, goal_of, ranking
from sweeper.analysis.recorded_spaces import NOTHING, Asked, asked_by
from sweeper.analysis.report_sources import ReportError, Source, sources
from sweeper.analysis.results import Results, current, named_frame, with_variables
from sweeper.analysis.settings_table import settings, settings_table
from sweeper.analysis.table import attempted, markdown, terminal
from sweeper.messages import UserError, counted, printable, printable_lines, redacted, writing
from sweeper.store.store import Store

MIN_WIDTH = 120  # columns of the table when the output is no terminal
SHARE = 0.1  # share of the time that goes into writing a live page at most


@dataclass(frozen=True)
class ReportOptions:
    """The command line of a report (`sweeper report`)."""

    results: str
    out: Path | None = None  # `figures` inside the store, where starts draw as well
    spaces: Sequence[Path] = ()
    sweeps: Sequence[str] = ()  # all, if there are no spaces either
    palette: figures.PaletteName = "paper"
    pdf: bool = False
    compare: bool = False
    html: Path | None = None


class Basis(NamedTuple):
    """What a report is made from: the command line, the store with its rows as they were read, and the folder."""

    options: ReportOptions
    store: Store
    rows: pa.Table
    folder: Path

    @classmethod
    def read(cls, options: ReportOptions) -> "Basis":
        store = Store.existing(options.results)
        rows = store.trials()
        if not rows.num_rows and not store.sweeps():
            raise ReportError(f"{redacted(store.url)} holds no trial and no sweep: there is nothing to report yet")
        folder = options.out or (Path() if "://" in options.results else Path(options.results)) / "figures"
        return cls(options, store, rows, folder)

    def make_folders(self) -> None:
        """Make the folders of figures and page, or refuse before any figure is drawn."""
        named, html = self.options.out, self.options.html
        proposal = "" if named else "; name another folder with --out"
        for folder, hint in ((self.folder, proposal), *([(html.parent, "")] if html else [])):
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
            if not (folder.is_dir() and os.access(folder, os.W_OK)):
                raise ReportError(f"{folder} cannot be written to{hint}")


class Report:
    """The figures and tables of a report, made once. Its page may be written again, with the training curves of now."""

    def __init__(self, basis: Basis):
        options, store, rows, folder = self._basis = basis
        everything = Results.of_store(store, rows)
        self._sources = sources(store, everything, options.spaces, options.sweeps, options.html is None)
        basis.make_folders()
        drawn = [source for source in self._sources if source.panels]
        look = options.palette, options.pdf
        self.sections = [figures.draw(each.results, each.panels, folder / each.name, *look) for each in drawn]
        self._together, self._notes = figures.draw_together(self.sections, folder, *look)
        self._settings = [] if options.html is None else settings_tables(rows, self._sources)

    @property
    def paths(self) -> list[Path]:
        """The figures of single sweeps and spaces."""
        return [path for section in self.sections for path in section.paths]

    def tell(self, printer: "Printer") -> None:
        """Print remarks on the figures, and the paths of their files."""
        _, _, rows, _ = self._basis
        for line in [*_remarks(self._sources), *self._note_lines()]:
            printer.line(line)
        if stopped := rows["status"].to_pylist().count("stopped"):
            store_has = f"stopped early: {counted(stopped, 'trial')} of the store"
            printer.line(f"{store_has}; only finished trials are in figures and averages")
        for path in [*self.paths, *self._together]:
            printer.line(f"figure: {path}")

    def _note_lines(self) -> Iterator[str]:
        """Lines with the notes of all figures; a remark says of a space or sweep that it has no trial."""
        noted = [(each.name, each.notes) for each in self.sections if len(each.results.trials)]
        for name, notes in [*noted, ("figures of several sweeps", self._notes)]:
            for panels, line in figures.note_lines(notes):
                yield f"{name}: {', '.join(panels)}: {line}"

    def write_page(self, path: Path, every: int | None) -> None:
        """Write the page; `every` are the seconds after which an open page loads itself again."""
        options, store, rows, _ = self._basis
        searched = [source.space for source in self._sources if source.space is not None]
        of_sweeps = () if options.spaces else options.sweeps
        text = page.render(store, rows, self.sections, self._settings, of_sweeps, every, searched, options.palette)
        page.write(path, text)


def write_report(options: ReportOptions, every: int | None = None, quiet: bool = False) -> Report:
    """Draw, print and write a report; `every` are the seconds after which an open page loads itself again."""
    printer, basis = Printer(quiet), Basis.read(options)
    report = Report(basis)
    _compare(printer, report.sections, basis.folder, options.compare)
    report.tell(printer)
    if options.html is not None:
        report.write_page(options.html, every)
        printer.line(f"page: {options.html}")
    if not report.paths:
        printer.line("nothing to draw: no panel of these sweeps has a finished trial")
    return report


def _remarks(drawn_from: Sequence[Source]) -> Iterator[str]:
    for source in drawn_from:
        if source.remark:
            without = [] if len(source.results.trials) else [panel.name for panel in source.panels]
            lacking = f"; no {', '.join(without)}" if without else ""
            yield f"{source.name}: {source.remark}{lacking}"


def follow(
    options: ReportOptions,
    seconds: int,
    pause: Callable[[float], None] = sleep,
    clock: Callable[[], float] = monotonic,
) -> None:
    """Write the page every so many seconds until Ctrl-C, and a last time as a page that stays as it is.

    Figures and tables are made anew only if a trial or a start has been added. A store that cannot be read is tried
    again; only an error of the first report is raised.
    """
    assert options.html is not None
    store = Store.open(options.results)
    known, report = _state(store), write_report(options, seconds)
    spent = 0.0
    try:
        while True:
            pause(max(seconds, spent / SHARE - spent))
            begun = clock()
            try:
                if (now := _state(store)) != known:
                    known, report = now, write_report(options, seconds, quiet=True)
                else:
                    report.write_page(options.html, seconds)
            except (UserError, OSError) as error:
                print(printable_lines(str(error)), file=sys.stderr)
            spent = clock() - begun
    except KeyboardInterrupt:
        write_report(options, None, quiet=True)


def _state(store: Store) -> Any:
    """What figures and tables depend on: the committed trials, and the starts of sweeps."""
    return store.committed(), store.sweeps()


class Printer:
    """Writes the report to the terminal; control sequences in text of a store are spelt out."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(highlight=False, quiet=quiet)
        self._console.width = max(self._console.width, MIN_WIDTH)

    def line(self, text: str) -> None:
        """Print one line; a terminal may wrap the line, a log keeps it whole."""
        self._console.print(printable(text), markup=False, soft_wrap=True)

    def table(self, table: pd.DataFrame) -> None:
        self._console.print(terminal(table))


def _compare(printer: Printer, sections: Sequence[figures.FigureReport], folder: Path, write: bool) -> None:
    """Print published and measured numbers side by side and write them, or print how many numbers there are."""
    entries = [each for section in sections for each in section.comparisons]
    if not entries:
        return
    count = comparison.summary(entries)
    if not write:
        printer.line(f"{count}; --compare writes them beside each other")
        return
    table = comparison.numbers(entries)
    printer.table(table)
    file = folder / "comparison.md"
    with writing(file):
        file.write_text(f"{markdown(table)}\n", encoding="utf-8")
    printer.line(f"{count}: {file}")


def settings_tables(rows: pa.Table, listed: Sequence[Source]) -> list[tuple[str, pd.DataFrame]]:
    """The settings of each sweep or space, and what the entries that it varies explain, each table with its name."""
    every = named_frame(current(rows).to_pandas())

    def made(title: str, asked: Asked, trials: pd.DataFrame) -> pd.DataFrame:
        shown, first, equal = settings(trials), "", ""
        if goal := asked.goal:
            shown, first = best_first(shown, goal), goal.metric
            if ties := ranking(trials, goal).ties:
                equal = f"the best by {goal.text()} is equal to {counted(ties, 'other')}"
        table = settings_table(shown, first=first, asked=asked)
        note = "; ".join(filter(None, (table.attrs["title"], equal, table.attrs["note"])))
        table.attrs.update(title=title, note=note)
        return table

    def shares(name: str, asked: Asked, trials: pd.DataFrame) -> pd.DataFrame | None:
        return importance(name, ranking(trials, goal_of(asked.goal, trials)), asked.varied)

    tables = []
    for source in listed:
        title = f"Settings of {source.name}"
        trials = with_variables(every[every["trial_id"].isin(source.trial_ids)], source.variables)
        if len(trials):
            asked = NOTHING if source.space is None else asked_by(source.space)
            tables.append((source.name, attempted(title, functools.partial(made, title, asked, trials))))
            explained = attempted(f"Importance in {source.name}", functools.partial(shares, source.name, asked, trials))
            tables += [] if explained is None else [(source.name, explained)]
    return tables
