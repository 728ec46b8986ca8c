"""The report as one HTML file, to be mailed and opened from disk.

The file is whole: figures are inside it, style and script too, and nothing in it asks a network for anything. A content
security policy says so to the browser, which then runs the one script and applies the one style whose digests stand
there. All text comes from a store that anybody may have written, so the template engine escapes every value and spells
out its control characters, and no value is ever put into the script, the style or an address.

Without JavaScript everything is there to be read. The script adds the sorting of tables, the values under the pointer
in the training curves, and the filter, which hides what is about trials of other kinds (`page_table`); a link can name
a filtered page, as the filter stands in the fragment of the address. The script reloads a live page and keeps filter,
place and order of the tables.

A table that cannot be made is a note on the page; it never ends the report.
"""

import base64
import collections
import datetime
import hashlib
import logging
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pyarrow as pa
from markupsafe import Markup

from sweeper.analysis import comparison
from sweeper.analysis.page import training_curves
from sweeper.analysis.page.chapters import SearchFigure, Section, chapter, published
from sweeper.analysis.page.listings import failed_trials, launches, trial_origins, trials
from sweeper.analysis.page.page_table import (
    EVERYTHING,
    TrialKind,
    TrialKinds,
    attempted,
    choices,
    kinds_named,
    kinds_of,
)
from sweeper.analysis.ranking import Goal
from sweeper.analysis.sweeps import drivers, overview, packs_table, sentence, starts_by_name
from sweeper.analysis.table import Column, Table, minute, revision_text
from sweeper.analysis.views import replaced
from sweeper.messages import counted, duration, inflected, printable_lines, redacted
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.annotations import read_annotations
from sweeper.store.store import Store
from sweeper.trial import provenance

logger = logging.getLogger(__name__)

HERE = Path(__file__).parent

NOTHING_RUNS = Table("Running packs", (Column("sweep"),), ())

__all__ = ["SearchFigure", "Section", "write"]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as new:  # a browser may be loading the page at this moment
        new.write_text(text, encoding="utf-8")


def render(
    store: Store,
    rows: pa.Table,
    sections: Sequence[Section],
    tables: Sequence[tuple[str, Table]] = (),
    sweeps: Sequence[str] = (),
    every: int | None = None,
    spaces: Sequence[SweepSpec] = (),
) -> str:
    """The text of the page.

    Args:
        store: Where the starts of the sweeps are read.
        rows: All rows of the store, which the caller has read for the figures.
        sections: Figures and comparisons, in this order.
        tables: Further tables, such as advice on seeds and votes, each with the sweep that it is about, or "".
        sweeps: Names of recorded sweeps; status and trials are theirs alone if any are given.
        every: Seconds after which an open page loads itself again; None for a page that stays as it is.
        spaces: What was searched: trials have columns for the metrics that spaces ask for, and are ordered by the
            metric of a search if there is one metric.
    """
    starts = starts_by_name([record for record in store.sweeps() if not sweeps or record.name in sweeps])
    planned = collections.defaultdict(list)  # the sweeps that plan a trial, by its id
    for name, records in starts.items():
        for trial_id in records[-1].trial_ids:
            planned[trial_id].append(name)
    if sweeps:
        rows = rows.filter(pa.array([trial_id in planned for trial_id in rows["trial_id"].to_pylist()], pa.bool_()))
    listed = [row | {"sweeps": planned.get(row["trial_id"], [])} for row in rows.to_pylist()]
    annotations = read_annotations(store.files)
    committed = {row["trial_id"]: row["status"] for row in listed}
    chapters = [chapter(section) for section in sections]
    entries = [entry for section in sections for entry in published(section)]
    goals = {Goal(*each.search.goal) for each in spaces if each.search.goal}
    asked_for, goal = [name for each in spaces for name in each.metrics], goals.pop() if len(goals) == 1 else None
    of_sweep = {name: frozenset({TrialKind(sweep=name)}) for name in starts}
    of_starts = [of_sweep[name] for name, records in starts.items() for _ in records]
    filtered = {
        "measured": attempted(comparison.TITLE, lambda: _compared(entries, measured=True)),
        "unmeasured": attempted("Not measured yet", lambda: _compared(entries, measured=False)),
        "failed": attempted("Failed trials", lambda: failed_trials(listed)),
        "trials": attempted("Trials", lambda: trials(listed, annotations.trials, asked_for, goal)),
        "origins": attempted("What made the trials", lambda: trial_origins(listed)),
        "sweeps": attempted(
            "Sweeps", lambda: (overview(starts, committed, annotations.sweeps), list(of_sweep.values()))
        ),
        "launches": attempted("Starts of sweeps", lambda: (launches(starts), of_starts)),
    }
    known_kinds = kinds_of(listed)
    others = [
        attempted(table.title, lambda table=table, sweep=sweep: (table, kinds_named(table, known_kinds, sweep)))
        for sweep, table in tables
    ]
    try:
        latest = {name: records[-1] for name, records in starts.items()}
        drawn, not_drawn = training_curves.charts(store, latest, listed), ""
    except Exception as error:  # whatever is wrong with a curve, the page has the tables
        logger.debug("no training curves", exc_info=error)
        drawn, not_drawn = [], f"The training curves could not be drawn: {type(error).__name__}: {error}"
    known = [] if every is None else drivers(store)

    # Kinds of trials get numbers, so that the script compares numbers and no name of the store is ever part of a rule.
    shown = EVERYTHING.union(
        *(figure.kinds for chapter in chapters for figure in chapter.figures),
        (series.kind for chart in drawn for series in chart.series),
        *(kinds for table in (*filtered.values(), *others) for _, kinds in table.lines),
    )
    numbers = {kind: number for number, kind in enumerate(sorted(shown))}

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sweeper.analysis.page", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"counted": counted, "inflected": inflected}
    environment.filters["precise"] = lambda value: "-" if math.isnan(value) else f"{value:.4g}"
    environment.filters["tick"] = lambda value: re.sub(r"e([-+])0", r"e\1", f"{value:,.6g}").replace("e+", "e")
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("style.css", "script.js"))
    return environment.get_template("template.html").render(
        style=Markup(style),  # noqa: S704  a file of this package
        script=Markup(script),  # noqa: S704  a file of this package
        style_digest=_digest(style),
        script_digest=_digest(script),
        name=Path(redacted(store.url).rstrip("/")).name,
        origin=provenance.capture(provenance.command_line(sys.argv)),
        written=minute(datetime.datetime.now(datetime.UTC)),
        facts=_facts(listed, set(planned), [compared for compared, _ in entries]),
        every=every,
        chapters=chapters,
        charts=drawn,
        not_drawn=not_drawn,
        running=attempted("Running packs", lambda: (packs_table(known) or NOTHING_RUNS, None)),
        drivers=[sentence(driver) for driver in known],
        tables=others,
        starts=starts,
        choices=choices(list(numbers)),
        numbers=lambda kinds: " ".join(str(number) for number in sorted(numbers[kind] for kind in kinds)),
        revision=lambda commit, dirty: revision_text((commit, dirty)),
        **filtered,
    )


def _shown(value: Any) -> Any:
    """A value as the page shows it: nothing in a text reorders or hides what is around it."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return printable_lines(value.replace("\r\n", "\n"))


def _digest(text: str) -> str:
    """The digest by which a content security policy allows an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _compared(
    entries: Sequence[tuple[comparison.Comparison, TrialKinds]], measured: bool
) -> tuple[Table, list[TrialKinds]]:
    """The table of measured published numbers, or of the numbers not measured yet, and the kinds of its rows."""
    make = comparison.measured_numbers if measured else comparison.unmeasured_numbers
    kinds = [kinds for compared, kinds in entries if (compared.measured is not None) == measured]
    return make([compared for compared, _ in entries]), kinds


def _facts(
    rows: Sequence[Mapping[str, Any]], planned: set[str], comparisons: Sequence[comparison.Comparison]
) -> list[tuple[str, str]]:
    """Numbers for the top of the page, each with what it counts."""
    states = collections.Counter(row["status"] for row in rows)
    states["pending"] = len(planned - {row["trial_id"] for row in rows})
    facts = [(f"{states['finished']:,}", "trials finished")]
    facts += [(f"{states[state]:,}", state) for state in ("stopped", "failed", "pending") if states[state]]
    if seconds := sum(row["wall_seconds"] or 0.0 for row in rows):
        facts.append((duration(seconds), "of trial time"))
    if comparisons:
        measured = sum(compared.measured is not None for compared in comparisons)
        facts.append((f"{measured:,} of {len(comparisons):,}", "published numbers measured"))
        agreed = comparison.agreement(comparisons)
        if agreed.compared:
            near = f"percentages within {100 * comparison.MISS:g} points"
            facts.append((f"{agreed.near:,} of {agreed.compared:,}", near))
        if agreed.compared_others:
            facts.append((f"{agreed.near_others:,} of {agreed.compared_others:,}", "other numbers near"))
        if agreed.zeros:
            facts.append((f"{agreed.zeros:,}", "more percentages 0 in both"))
    return facts
