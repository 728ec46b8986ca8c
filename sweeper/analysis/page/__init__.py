"""The report as one HTML file, to be mailed and opened from disk.

The file is whole: figures are inside it, style and script too, and nothing in it asks a network for anything. A content
security policy says so to the browser, which then runs the one script and applies the one style whose digests stand
there. All text comes from a store that anybody may have written, so the template engine escapes every value, and no
value is ever put into the script, the style or an address.

Without JavaScript everything is there to be read; the script adds the filter and the sorting of tables. The filter
hides what is about trials of other kinds (`grids.Kind`), and stands in the fragment of the address, so that a link can
name a filtered page.
"""

import base64
import collections
import datetime
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd
import pyarrow as pa
from markupsafe import Markup

from sweeper.analysis import figures
from sweeper.analysis.figures import Report, Results
from sweeper.analysis.figures.drawing import Drawing
from sweeper.analysis.figures.selection import NoData, chosen
from sweeper.analysis.page import grids
from sweeper.analysis.page.grids import EVERYTHING, Compared, Kind
from sweeper.analysis.tables import Table
from sweeper.messages import counted, duration, redacted
from sweeper.space.panel_series import Where
from sweeper.space.panels import Panel
from sweeper.store.store import Store, SweepRecord
from sweeper.trial import provenance

__all__ = ["Section", "write"]

PIXELS_PER_CSS_PIXEL = figures.DOTS_PER_INCH / 125
"""At 125 pixels to the inch the 8-point text of the figures is as large as that of the tables."""


class Section(NamedTuple):
    """The figures of a sweep or a search space.

    Attributes:
        name: Of the sweep.
        panels: As declared.
        results: The trials that they were drawn from.
        report: What was drawn.
    """

    name: str
    panels: tuple[Panel, ...]
    results: Results
    report: Report


class Figure(NamedTuple):
    """A drawn panel, as the page shows it."""

    title: str
    caption: str
    behind: str
    alternative: str
    notes: tuple[str, ...]
    source: str
    width: int
    height: int
    kinds: frozenset[Kind]


class Chapter(NamedTuple):
    """The figures of a section, and what is to be said about panels that were not drawn."""

    name: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]


def write(
    path: Path,
    store: Store,
    trials: pa.Table,
    sections: Sequence[Section],
    tables: Sequence[Table] = (),
    sweeps: Sequence[str] = (),
) -> None:
    """Write the page.

    Args:
        path: The file; its folder is made.
        store: Where the starts of the sweeps are read.
        trials: All rows of the store, as `Store.trials` returns them: whoever draws figures has read them before.
        sections: Figures and comparisons, in this order.
        tables: Further tables, such as guidance and votes.
        sweeps: Names of recorded sweeps; status and trials are theirs alone if any are given.

    Raises:
        StoreError: the store cannot be read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(store, trials, sections, tables, sweeps), encoding="utf-8")


def render(
    store: Store,
    trials: pa.Table,
    sections: Sequence[Section],
    tables: Sequence[Table] = (),
    sweeps: Sequence[str] = (),
) -> str:
    """The text of the page; arguments and errors are those of `write`."""
    starts: dict[str, list[SweepRecord]] = collections.defaultdict(list)
    for record in store.sweeps():
        if not sweeps or record.name in sweeps:
            starts[record.name].append(record)
    planned = {trial_id for records in starts.values() for trial_id in records[-1].trial_ids}
    if sweeps:
        trials = trials.filter(pa.array([one in planned for one in trials["trial_id"].to_pylist()], pa.bool_()))
    rows = trials.to_pylist()
    committed = {row["trial_id"]: row["status"] for row in rows}

    compared = [entry for section in sections for entry in _compared(section)]
    chapters = [_chapter(section) for section in sections]
    failed, origins = grids.failures(rows), grids.origins(rows)
    measured, unmeasured = grids.comparison(compared), grids.unmeasured(compared)
    others = [grids.of_table(table, map(grids.kind_of, rows)) for table in tables]
    listed = grids.trials(rows)

    # Kinds get numbers, so that the script compares numbers and no name of the store is ever part of a rule.
    known = {kind for chapter in chapters for figure in chapter.figures for kind in figure.kinds}
    for grid in (measured, unmeasured, *others, failed, listed, origins):
        known.update(kind for line in grid.lines for kind in line.kinds)
    numbers = {kind: number for number, kind in enumerate(sorted(known | EVERYTHING))}

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sweeper.analysis.page", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (_asset(name) for name in ("style.css", "script.js"))
    return environment.get_template("template.html").render(
        style=Markup(style),  # noqa: S704  a file of this package
        script=Markup(script),  # noqa: S704  a file of this package
        style_digest=_digest(style),
        script_digest=_digest(script),
        name=Path(redacted(store.url).rstrip("/")).name,
        origin=provenance.capture(sys.argv),
        written=grids.moment(datetime.datetime.now(datetime.UTC)),
        facts=_facts(rows, planned, compared),
        chapters=chapters,
        measured=measured,
        unmeasured=unmeasured,
        tables=others,
        sweeps=grids.sweeps(starts, committed),
        failed=failed,
        trials=listed,
        origins=origins,
        launches=grids.launches(starts),
        texts={name: (records[-1].text, records[-1].overrides) for name, records in starts.items()},
        choices=grids.choices(list(numbers)),
        numbers=lambda kinds: " ".join(str(number) for number in sorted(numbers[kind] for kind in kinds)),
        revision=grids.revision,
    )


def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What a content security policy calls an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _facts(rows: Sequence[dict[str, Any]], planned: set[str], compared: Sequence[Compared]) -> list[tuple[str, str]]:
    """The page in a few numbers: what they are, and what they count."""
    states = collections.Counter(row["status"] for row in rows)
    pending = len(planned - {row["trial_id"] for row in rows})
    facts = [(f"{states['finished']:,}", "trials finished")]
    facts += [(f"{states[state]:,}", state) for state in ("stopped", "failed") if states[state]]
    facts += [(f"{pending:,}", "pending")] if pending else []
    if seconds := sum(row["wall_seconds"] or 0.0 for row in rows):
        facts.append((duration(seconds), "of trial time"))
    if compared:
        measured = [one for _, one, _ in compared if one.measured is not None]
        facts.append((f"{len(measured):,} of {len(compared):,}", "published numbers measured"))
        found = figures.agreement(measured)
        if found.compared:
            facts.append((f"{found.near:,} of {found.compared:,}", f"percentages within {100 * grids.MISS:g} points"))
        if found.zeros:
            facts.append((f"{found.zeros:,}", "more percentages 0 in both"))
    return facts


# --------------------------------------------------------------------------------------------------------------------
# Figures
# --------------------------------------------------------------------------------------------------------------------


def _kinds(results: Results, *conditions: Where) -> frozenset[Kind]:
    """The kinds of the trials that meet the conditions; where there are none, what the conditions say of them."""
    try:
        rows = chosen(results, *conditions)
    except NoData:
        return grids.kinds_where(*conditions)
    found = rows[["task", "baseline", "model"]].drop_duplicates()
    return frozenset(Kind(*map(str, one)) for one in found.itertuples(index=False))


def _series_kinds(section: Section, panel: Panel) -> dict[str, frozenset[Kind]]:
    """The kinds behind each series of a panel that lists its series, by label."""
    return {figures.plain(one.label): _kinds(section.results, panel.where, one.where) for one in panel.series}


def _compared(section: Section) -> list[Compared]:
    kinds = {panel.name: _series_kinds(section, panel) for panel in section.panels}
    whole = {panel.name: _kinds(section.results, panel.where) for panel in section.panels}
    return [
        (section.name, one, kinds[one.panel].get(one.curve, whole[one.panel])) for one in section.report.comparisons
    ]


def _chapter(section: Section) -> Chapter:
    drawn = {path.stem: path for path in section.report.paths if path.suffix == ".png"}
    notes = collections.defaultdict(list)
    left_out = []
    for panels, text in figures.note_lines(section.report.notes):
        for panel in panels:
            notes[panel].append(text)
        if absent := [panel for panel in panels if panel not in drawn]:
            left_out.append(f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not drawn: {text}")
    found = [
        _figure(section, drawing, drawn[drawing.panel.name], tuple(notes[drawing.panel.name]))
        for drawing in section.report.drawn
    ]
    return Chapter(section.name, tuple(found), tuple(left_out))


def _figure(section: Section, drawing: Drawing, path: Path, notes: tuple[str, ...]) -> Figure:
    panel = drawing.panel
    data = path.read_bytes()
    # A PNG begins with eight bytes of signature and its header: width and height stand at bytes 16 and 20.
    width, height = (int.from_bytes(data[start : start + 4]) for start in (16, 20))
    by_series = _series_kinds(section, panel)
    kinds = frozenset().union(*by_series.values()) if by_series else _kinds(section.results, panel.where)
    return Figure(
        title=panel.name,
        caption=figures.plain(panel.title),
        behind=_behind(drawing),
        alternative=drawing.alternative(),
        notes=notes,
        source="data:image/png;base64," + base64.b64encode(data).decode(),
        width=round(width / PIXELS_PER_CSS_PIXEL),
        height=round(height / PIXELS_PER_CSS_PIXEL),
        kinds=kinds,
    )


def _behind(drawing: Drawing) -> str:
    """Which trials the figure was drawn from, as one sentence."""
    rows = drawing.content.trials
    seeds = rows["seed"].nunique()
    return f"{counted(len(rows), 'trial')}, {counted(seeds, 'training seed')}, {_steps(rows)} steps."


def _steps(rows: pd.DataFrame) -> str:
    lowest, highest = rows["steps"].min(), rows["steps"].max()
    return f"{lowest:,}" if lowest == highest else f"{lowest:,} to {highest:,}"
