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
from typing import Any

import pandas as pd
import pyarrow as pa
from rich.console import Console

from sweeper.analysis import comparison, figures, page
from sweeper.analysis.importance import importance
from sweeper.analysis.ranking import best_first, goal_of, ranking
from sweeper.analysis.recorded_spaces import NOTHING, asked_by
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


class Report:
    """The figures and tables of a report, made once. Its page may be written again, with the training curves of now."""

    def __init__(self, options: ReportOptions):
        self._options, self._store = options, Store.existing(options.results)
        self._rows = self._store.trials()
        if not self._rows.num_rows and not self._store.sweeps():
            raise ReportError(f"{redacted(self._store.url)} holds no trial and no sweep to report yet")
        everything = Results.of_store(self._store, self._rows)
        self._sources = sources(self._store, everything, options.spaces, options.sweeps, options.html is None)
        self.folder = options.out or (Path() if "://" in options.results else Path(options.results)) / "figures"
        _make_folder(self.folder, "" if options.out else "; name another folder with --out")
        if options.html:
            _make_folder(options.html.parent)
        drawn = [source for source in self._sources if source.panels]
        look = options.palette, options.pdf
        self.sections = [figures.draw(each.results, each.panels, self.folder / each.name, *look) for each in drawn]
        self._together, self._notes = figures.draw_together(self.sections, self.folder, *look)
        self._settings = [] if options.html is None else settings_tables(self._rows, self._sources)

    @property
    def paths(self) -> list[Path]:
        """The figures of single sweeps and spaces."""
        return [path for section in self.sections for path in section.paths]

    def tell(self, printer: "Printer") -> None:
        """Print remarks on the figures, and the paths of their files."""
        for line in [*_remarks(self._sources), *self._note_lines()]:
            printer.line(line)
        if stopped := self._rows["status"].to_pylist().count("stopped"):
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
        searched = [source.space for source in self._sources if source.space is not None]
        sweeps, palette = () if self._options.spaces else self._options.sweeps, self._options.palette
        tables = self._settings
        page.write(path, page.render(self._store, self._rows, self.sections, tables, sweeps, every, searched, palette))


def _make_folder(folder: Path, hint: str = "") -> None:
    """Make a folder of figures or of the page, or refuse before any figure is drawn."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise ReportError(f"{folder} cannot be written to{hint}")


def write_report(options: ReportOptions, every: int | None = None, quiet: bool = False) -> Report:
    """Draw, print and write a report; `every` are the seconds after which an open page loads itself again."""
    printer, report = Printer(quiet), Report(options)
    _compare(printer, report.sections, report.folder, options.compare)
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
    tables = []
    for source in listed:
        trials = with_variables(every[every["trial_id"].isin(source.trial_ids)], source.variables)
        if len(trials):
            made = attempted(f"Settings of {source.name}", functools.partial(_of_source, source, trials))
            tables += [(source.name, each) for each in (made if isinstance(made, list) else [made])]
    return tables


def _of_source(source: Source, trials: pd.DataFrame) -> list[pd.DataFrame]:
    """The settings of a sweep or space, best first if it asks for a goal, and what its entries explain, if anything."""
    asked = NOTHING if source.space is None else asked_by(source.space)
    goal, shown, notes = goal_of(asked.goal, trials), settings(trials), []
    ranked = ranking(trials, goal)
    if asked.goal:
        shown = best_first(shown, goal)
        notes = [f"the best by {goal.text()} is equal to {counted(ranked.ties, 'other')}"] * bool(ranked.ties)
    table = settings_table(shown, first=goal.metric if asked.goal else "", asked=asked)
    note = "; ".join(filter(None, (table.attrs["title"], *notes, table.attrs["note"])))
    table.attrs.update(title=f"Settings of {source.name}", note=note)
    explained = importance(source.name, ranked, asked.varied)
    return [table] if explained is None else [table, explained]
