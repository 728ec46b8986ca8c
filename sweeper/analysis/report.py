"""A report: what a store holds in figures, what it advises, and how it compares with what was published.

Panels come from the sweeps recorded in the store, whose spec text was kept with them, and are drawn from the trials
that the latest start of the sweep planned; or from search spaces given with `--space`, and are then drawn from those of
the store's trials that the space plans. If none of these is finished, as after runs that were shortened with `--set`,
they are drawn from the trials of the recorded sweeps of that name, or else from every trial, and a line says so.

Figures go to one folder a sweep, those that several sweeps share to the folder above them, and with `--compare` the
comparison of all published numbers to `comparison.csv` and `comparison.md`. With `--html` all of it, and the state and
provenance of the trials, is one page as well.
"""

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError
from rich.console import Console

from sweeper.analysis import advice, figures, page, tables
from sweeper.analysis.figures import Comparison, Results
from sweeper.analysis.tables import Column, Table
from sweeper.messages import did_you_mean, nearest_name, redacted
from sweeper.space import search_space
from sweeper.space.panels import Panel, Panels
from sweeper.space.problems import Refused, SearchSpaceError
from sweeper.space.search import ListedSearch
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import document_tree, overridden, plain
from sweeper.store.store import Store, StoreError, SweepRecord

MIN_WIDTH = 120
"""Columns of the table when the output is no terminal."""


class ReportError(ValueError):
    """A request that cannot be met; the message is written for whoever typed it."""


class Source(NamedTuple):
    """Panels and the trials that they are drawn from."""

    name: str
    panels: tuple[Panel, ...]
    results: Results
    remark: str = ""


def write_report(
    results: str,
    out: Path | None,
    spaces: Sequence[Path],
    sweeps: Sequence[str],
    palette: figures.PaletteName,
    compare: bool,
    html: Path | None,
) -> int:
    """Draw, print and write a report; returns the exit code of the command, see `sweeper.report`.

    Args:
        results: Folder or URL of the store.
        out: Folder of the report; None for `report` inside the store.
        spaces: Search spaces whose panels are drawn.
        sweeps: Names of the recorded sweeps whose panels are drawn; of all if there are no spaces either.
        palette: Colours of the figures.
        compare: Whether to print and write every published number beside the measured one.
        html: File of the report as one page, if it is wanted.
    """
    console = Console(highlight=False)
    console.width = max(console.width, MIN_WIDTH)
    folder = out or (Path("report") if "://" in results else Path(results) / "report")
    try:
        store = Store.existing(results)
        rows = store.trials()
        if not rows.num_rows and not store.sweeps():
            raise ReportError(f"{redacted(store.url)} holds no trial and no sweep: there is nothing to report yet")
        everything = Results.of_store(store, rows)
        found = sources(store, everything, spaces, sweeps)
        for target in (folder, html.parent if html else folder):
            target.mkdir(parents=True, exist_ok=True)
            if not os.access(target, os.W_OK):
                raise ReportError(f"{target} cannot be written to")
    except (ReportError, SearchSpaceError, StoreError, OSError) as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(str(error), markup=False)
        return 2
    drawn = [
        (source.name, figures.draw(source.results, source.panels, folder / source.name, palette)) for source in found
    ]
    together = figures.draw_together([one for _, one in drawn], folder, palette)
    comparisons = [(name, comparison) for name, one in drawn for comparison in one.comparisons]
    measured = [(name, comparison) for name, comparison in comparisons if comparison.measured is not None]
    count = f"{len(comparisons):,} published numbers, {len(comparisons) - len(measured):,} of them not measured yet"
    if comparisons and compare:
        if measured:
            console.print(tables.terminal(comparison_table(comparisons)))
        csv_file, markdown_file = folder / "comparison.csv", folder / "comparison.md"
        write_comparison(comparisons, csv_file)
        markdown_file.write_text(tables.markdown(comparison_table(comparisons)), encoding="utf-8")
        console.print(f"{count}: {csv_file}, {markdown_file}", markup=False, soft_wrap=True)
    elif comparisons:
        console.print(f"{count}; --compare writes them beside the measured ones", soft_wrap=True)
    trials = everything.only({one for source in found for one in source.results.trials["trial_id"]})
    advice = guidance_tables(trials)
    for table in advice:
        console.print()
        console.print(tables.terminal(table))
    for source in found:
        if source.remark:
            console.print(f"{source.name}: {source.remark}", markup=False, soft_wrap=True)
    for name, one in drawn:
        for panels, line in figures.note_lines(one.notes):
            console.print(f"{name}: {', '.join(panels)}: {line}", markup=False, soft_wrap=True)
    for path in [*(path for _, one in drawn for path in one.paths), *together]:
        console.print(f"figure: {path}", markup=False, soft_wrap=True)
    if html:
        sections = [page.Section(*source[:3], report) for source, (_, report) in zip(found, drawn, strict=True)]
        page.write(html, store, rows, sections, advice, () if spaces else sweeps)
        console.print(f"page: {html}", markup=False, soft_wrap=True)
    if not any(one.paths for _, one in drawn):
        console.print("nothing to draw: no panel of these sweeps has a finished trial")
        return 1
    return 0


def sources(store: Store, everything: Results, spaces: Sequence[Path], sweeps: Sequence[str]) -> list[Source]:
    """The panels to draw and their trials: of the spaces, of the sweeps, or of every recorded sweep with panels.

    `everything` are the results of the store.

    Raises:
        ReportError: a sweep is not recorded, its panels can no longer be read, or there are no panels at all.
        SearchSpaceError: a space cannot be read.
    """
    latest = {record.name: record for record in store.sweeps()}
    for name in sweeps:
        if name not in latest:
            hint = did_you_mean(nearest_name(name, latest))
            raise ReportError(f"the store has no sweep '{name}'{hint} (known: {', '.join(latest) or 'none'})")
    found = []
    for path in spaces:
        found.append(_of_space(store, everything, search_space.read(path)))
    if sweeps or not spaces:
        for name in sweeps or latest:
            record = latest[name]
            found.append(Source(name, recorded_panels(record), everything.only(record.trial_ids)))
    found = [source for source in found if source.panels]
    if not found:
        named = ", ".join([*map(str, spaces), *(sweeps if spaces else sweeps or latest)])
        raise ReportError(f"no panels are declared in {named}" if named else "the store has no sweep; give a --space")
    return found


def _of_space(store: Store, everything: Results, spec: SweepSpec) -> Source:
    """The panels of a space, and the trials that its author expects in them."""
    recorded = {one for record in store.sweeps() if record.name == spec.name for one in record.trial_ids}
    planned: set[str] = set()
    if isinstance(spec.search, ListedSearch):
        planned.update(spec.expand().trial_ids)
    for ids, remark in (
        (planned, ""),
        (recorded, "none of its trials is finished; drawn from those of earlier starts of this name"),
    ):
        results = everything.only(ids)
        if len(results.trials):
            return Source(spec.name, spec.panels, results, remark)
    remark = "none of its trials is finished; drawn from every trial of the store"
    return Source(spec.name, spec.panels, everything, remark)


def recorded_panels(record: SweepRecord) -> tuple[Panel, ...]:
    """The panels of a recorded sweep; its trials need not be legal any more.

    Raises:
        ReportError: the panels themselves are not.
    """
    try:
        tree = document_tree(record.text)
        for override in record.overrides:
            tree = overridden(tree, override)
        return TypeAdapter(Panels).validate_python(plain(tree).get("panels", ()))
    except (Refused, ValidationError) as error:
        message = f"the panels recorded with sweep '{record.name}' cannot be read; give its file with --space"
        raise ReportError(f"{message}\n{error}") from None


# --------------------------------------------------------------------------------------------------------------------
# What is printed and written
# --------------------------------------------------------------------------------------------------------------------


def comparison_table(comparisons: Iterable[tuple[str, Comparison]]) -> Table:
    """Measured beside published numbers; what is not measured yet has a dash."""
    comparisons = list(comparisons)
    rows = []
    for sweep, one in comparisons:
        measured, difference = "-", ""
        if one.measured is not None and one.difference is not None:
            measured = _shown(one.measured, one.percent)
            difference = f"{100 * one.difference:+.1f} points" if one.percent else f"{one.difference:+.4f}"
        rows.append(
            (
                *(sweep, one.panel, one.curve, one.metric, "" if one.at is None else f"{one.at:g}"),
                *(_shown(one.published, one.percent), measured, difference, str(one.seeds), one.steps),
            )
        )
    columns = (
        *(Column(title) for title in ("sweep", "panel", "curve", "metric")),
        *(Column(title, numeric=True) for title in ("at", "published", "measured", "difference", "seeds", "steps")),
    )
    note = (
        "Measured: mean over the training seeds, '-' where there is none yet; at: the value on the horizontal axis. "
        f"{figures.agreement(one for _, one in comparisons).sentence()}."
    )
    return Table("Measured against published", columns, tuple(rows), note)


def guidance_tables(results: Results) -> list[Table]:
    """What the trials advise, as far as they do."""
    found = [
        advice.seeds_table(advice.enough_seeds(results)),
        advice.votes_table(advice.votes(results)),
    ]
    return [table for table in found if table.rows]


def _shown(value: float, percent: bool) -> str:
    return f"{100 * value:.1f} %" if percent else f"{value:.4f}"


COLUMNS = (
    "sweep", "panel", "curve", "metric", "at", "published", "measured", "difference", "lowest_seed", "highest_seed",
    "seeds", "steps", "source",
)  # fmt: skip


def write_comparison(comparisons: Iterable[tuple[str, Comparison]], path: Path) -> None:
    """Every published number with its measurement as CSV, in the store's units; empty where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for sweep, one in comparisons:
            measured = (one.measured, one.difference, one.lowest, one.highest)
            row = (sweep, one.panel, one.curve, one.metric, one.at, one.published, *measured)
            writer.writerow([*row, one.seeds, one.steps, one.source])
