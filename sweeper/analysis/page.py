"""The report as one HTML file, to be mailed, opened from disk and printed.

The file is whole: figures, data, style and scripts are inside, and nothing in it asks a network for anything. A content
security policy says so to the browser, which runs the two scripts and applies the one style whose digests stand there.
All text comes from a store that anybody may have written. So every value is escaped, its control characters are spelt
out, and no value is ever part of a script, of the style or of an address.

`page.html` is the template, with style and script. Figures and tables can be read without JavaScript. The script sorts
and filters the tables, and draws what moves: any column of the trials against any other, and the training curves. The
specifications of these charts are Altair's, and Vega draws them. Its JavaScript and the points of the curves are inside
the file, compressed.

The filter chooses values of *facets*: the columns of the trials with few different words, such as `task` or `sweep`.
A row has the facets of its columns; a figure or a chart has those of its trials. A facet hides nothing that lacks it. A
table that cannot be made is a note on the page; it never ends the report.
"""

import base64
import collections
import contextlib
import datetime
import functools
import gzip
import hashlib
import io
import json
import logging
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
import pandas as pd
import pyarrow as pa
from markupsafe import Markup, escape
from matplotlib import colors
from PIL import Image

from sweeper.analysis import comparison, figures
from sweeper.analysis.comparison import Comparison
from sweeper.analysis.figures import FigureReport
from sweeper.analysis.figures.selection import NoData, chosen, series_of
from sweeper.analysis.figures.style import Look
from sweeper.analysis.ranking import Goal, goal_of, recorded_space
from sweeper.analysis.results import (
    Results,
    abilities_of,
    is_number,
    named,
    own_goals,
    value_order,
)
from sweeper.analysis.results import extra_metrics as extra_metrics_of
from sweeper.analysis.sweeps import annotation_fields, drivers, moment, overview, packs_table, sentence, starts_by_name
from sweeper.analysis.table import (
    CODE,
    COUNT,
    LONG,
    MOMENT,
    NUMBER,
    PER_CENT,
    REVISION,
    SECONDS,
    STATUS,
    TEXT,
    VALUE,
    Column,
    Field,
    Form,
    Table,
    attempted,
    minute,
    revision_text,
    tabulated,
    value_text,
    without_empty_columns,
)
from sweeper.analysis.views import replaced
from sweeper.messages import counted, duration, inflected, printable_lines, redacted
from sweeper.packs.checkpointed_trials import unfinished_curves
from sweeper.panels.kinds import Panel
from sweeper.space.problems import SearchSpaceError
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.annotations import NO_ANNOTATIONS, Annotations, read_annotations
from sweeper.store.store import Store, SweepRecord
from sweeper.trial import provenance
from sweeper.trial.columns import TIMINGS
from sweeper.trial.entry_names import column_name, entries, entries_of, named_values, varying
from sweeper.trial.metrics import metric_named
from sweeper.trial.record import canonical
from sweeper.trial.start_from import OF_A_SEED

logger = logging.getLogger(__name__)

TEMPLATE = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")

MAX_TRIALS = 2_000
"""Trials listed on a page. A browser lays out some thousand rows at once; the store answers for the others."""

MAX_FAILURES = 200  # failed trials listed with their messages
MAX_MESSAGE = 2_000  # characters of a message: the reason stands in its first lines, or in the last of a traceback
MAX_VARYING = 8  # columns for entries that differ between the trials listed
MAX_WORDS = 40  # different values of a facet


class Limits(NamedTuple):
    """How much a chart of training curves shows at most."""

    settings: int = 8  # so many colours can be told apart
    trials: int = 50  # of a setting
    points: int = 40  # of a line; a reader sees no more on a screen


LIMITS = Limits()

PIXELS_PER_CSS_PIXEL = figures.DOTS_PER_INCH / 125
"""At 125 pixels to the inch the 8-point text of the figures is as large as that of the tables."""

COLORS = 64  # of a figure on the page; its file has all

NO_SWEEP = "(none)"  # the sweep of trials that no sweep plans

Row = Mapping[str, Any]
"""A row of the store's `trials` as plain data, with its entries and metrics by name, and its `sweeps`."""

Facets = Mapping[str, Sequence[str]]


class Section(NamedTuple):
    """The figures of a sweep or a search space, with the panels and the trials that they were drawn from."""

    name: str
    panels: tuple[Panel, ...]
    results: Results
    report: FigureReport


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
    palette: figures.PaletteName = "paper",
    made_from: str = "",
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
        palette: The colours of the figures, which the charts share.
        made_from: A digest of all that the page depends on, which `made_from` reads back.
    """
    starts = starts_by_name([record for record in store.sweeps() if not sweeps or record.name in sweeps])
    planned = collections.defaultdict(list)  # the sweeps that plan a trial, by its id
    for name, records in starts.items():
        for trial_id in records[-1].trial_ids:
            planned[trial_id].append(name)
    if sweeps:
        rows = rows.filter(pa.array([trial_id in planned for trial_id in rows["trial_id"].to_pylist()], pa.bool_()))
    frame = named(rows)
    every_row = [row | {"sweeps": planned.get(row["trial_id"], [])} for row in frame.to_pylist()]
    annotations = read_annotations(store.files)
    committed = {row["trial_id"]: row["status"] for row in every_row}
    running = [] if every is None else drivers(store)
    goals = {Goal(*each.search.goal) for each in spaces if each.search.goal}
    asked_for, goal = [name for each in spaces for name in each.metrics], goals.pop() if len(goals) == 1 else None
    listing = Listing.of(every_row, asked_for, goal)
    look = figures.PALETTES[palette]
    shades = {section.name: _shades(section, look) for section in sections}
    compared = [one._replace(sweep=section.name) for section in sections for one in section.report.comparisons]
    about = [facets for section in sections for facets in _compared_facets(section, listing.facets)]
    page = Tables(listing.facets)

    def compared_table(id: str, title: str, make: Callable[[Sequence[Comparison]], Table], measured: bool) -> Markup:
        shown = [one for one in compared if (one.measured is not None) == measured]
        those = [facets for one, facets in zip(compared, about, strict=True) if one in shown]
        return page.html(id, title, lambda: make(shown), {}, those)

    try:
        charts, not_drawn = curves(store, starts, every_row, frame.to_pandas(), spaces, shades, look), ""
    except Exception as error:  # whatever is wrong with a curve, the page has the tables
        logger.debug("no training curves", exc_info=error)
        charts, not_drawn = [], f"The training curves could not be drawn: {type(error).__name__}: {error}"
    failed = [row for row in every_row if row["status"] == "failed"]
    of_sweeps = [({"sweep": [sweep]} if sweep else {}, table) for sweep, table in tables]
    shown_tables = {
        "measured": compared_table("comparison", comparison.TITLE, comparison.measured_numbers, True),
        "unmeasured": compared_table("unmeasured", "Not measured yet", comparison.unmeasured_numbers, False),
        "others": [
            (table.title, page.html(f"table-{place}-rows", table.title, lambda table=table: table, facets))
            for place, (facets, table) in enumerate(of_sweeps, start=1)
        ],
        "sweeps": page.html("sweeps", "Sweeps", lambda: overview(starts, committed, annotations.sweeps), {}),
        "running": page.html("running", "Running packs", lambda: packs_table(running)),
        "failed": page.html("failures", "Failed trials", lambda: failed_trials(failed), {"status": ["failed"]}),
        "trials": page.html("trial-rows", "Trials", lambda: listing.table(annotations.trials), {}, (), listing.roles),
        "origins": page.html("origins", "What made the trials", lambda: trial_origins(every_row), {}),
        "launches": page.html("launches", "Starts of sweeps", lambda: launches(starts), {}),
    }
    data = (
        {"charts": charts, "colours": listing.colours(collections.ChainMap(*shades.values()), look), **specifications()}
        if every_row
        else {}
    )
    vega = bundle() if every_row else ""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"counted": counted, "inflected": inflected, "digest": _digest, "packed": packed}
    return environment.from_string(TEMPLATE).render(
        name=Path(redacted(store.url).rstrip("/")).name,
        origin=provenance.capture(provenance.command_line(sys.argv)),
        written=minute(datetime.datetime.now(datetime.UTC)),
        facts=_facts(every_row, set(planned), compared),
        every=every,
        made_from=made_from,
        chapters=[chapter(section, listing.facets) for section in sections],
        charts=charts,
        curve_names=sorted({name for chart in charts for name in chart["metrics"]}),
        not_drawn=not_drawn,
        drivers=[sentence(driver) for driver in running],
        starts=starts,
        listed=len(listing.rows),
        unmeasured_count=sum(one.measured is None for one in compared),
        revision=lambda commit, dirty: revision_text((commit, dirty)),
        data=json.dumps(data),
        vega=vega,
        columns=Markup(page.style),  # noqa: S704  numbers of columns
        **shown_tables,
    )


def made_from(path: Path) -> str | None:
    """The digest of what a page was made from; None without such a page, or if it was written to be followed."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        with path.open(encoding="utf-8") as file:
            found = re.search(r'<meta name="made-from" content="(\w+)">', file.read(2_000))
        return found and found[1]
    return None


def _shown(value: Any) -> Any:
    """A value as the page shows it: nothing in a text reorders or hides what is around it."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return printable_lines(value.replace("\r\n", "\n"))


def _digest(text: str) -> str:
    """The digest by which a content security policy allows an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def packed(text: str) -> str:
    """A text as the script unpacks it."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _facts(rows: Sequence[Row], planned: set[str], comparisons: Sequence[Comparison]) -> list[tuple[str, str]]:
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


# Tables


MINUS = "\N{MINUS SIGN}"
LARGEST = 1e308  # what infinity sorts as: it is the largest value of a column, not a missing one
_PLAIN = re.compile(r"[\d,.]+(e[-+]\d+)?( %)?")  # a text that is a number for the page's script


class Tables:
    """Tables as HTML. How the columns of each are set is collected in `style`, so that no cell has to say it."""

    def __init__(self, facets: Sequence[str]) -> None:
        self._facets, self.style = facets, ""

    def html(
        self,
        id: str,
        title: str,
        make: Callable[[], Table | None],
        facets: Facets | None = None,
        rows: Sequence[Facets] = (),
        roles: Mapping[str, str] | None = None,
    ) -> Markup:
        """A table, with the facets of all of it and those of its rows; nothing if it has no row.

        If it cannot be made, a note says why. A role says what a column is for the charts: a `setting` or a `metric`.
        """
        made = attempted(title, lambda: self._html(id, make(), facets, rows, roles or {}))
        return self._html(id, made, facets, (), {}) if isinstance(made, Table) else made

    def _html(
        self, id: str, table: Table | None, facets: Facets | None, rows: Sequence[Facets], roles: Mapping[str, str]
    ) -> Markup:
        if table is None or (table.columns and not table.rows):
            return Markup()
        note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
        if not table.columns:
            return Markup(note)  # noqa: S704  escaped, as all below
        heads = []
        for place, column in enumerate(table.columns, start=1):
            name = column.title.lower()
            marks = [' class="number"'] if column.form.numeric else []
            marks += [" data-facet"] if name in self._facets else []
            marks += [f' data-role="{roles[name]}"'] if name in roles else []
            heads.append(f'<th scope="col"{"".join(marks)}>{_text(column.title)}</th>')
            cell = f"#{id} td:nth-child({place})"
            if column.form.numeric:
                self.style += f"{cell}{{text-align:right}}\n"
            elif column.form.look == "code":
                self.style += f"{cell}{{font-family:var(--mono)}}\n"
            elif column.form.look == "long":
                self.style += f"{cell}{{white-space:normal;min-width:22rem;max-width:44rem;overflow-wrap:anywhere}}\n"
        body = []
        for place, values in enumerate(table.rows):
            of_row = f" data-facets='{_json(rows[place])}'" if rows else ""
            cells = "".join(map(_cell, table.columns, values))
            body.append(f"<tr{of_row}>{cells}</tr>")
        of_table = "" if facets is None else f" data-facets='{_json(facets)}'"
        lines = "\n".join(body)
        return Markup(  # noqa: S704
            f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{id}-caption">'
            f'<table id="{id}"{of_table}><caption id="{id}-caption">{_text(table.title)}</caption>'
            f"<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{lines}\n</tbody></table></div>\n{note}"
        )


def _text(value: str) -> Markup:
    return escape(_shown(value))


def _json(facets: Facets) -> Markup:
    return escape(json.dumps(facets))


def _cell(column: Column, value: Any) -> str:
    form, text = column.form, column.text(value)
    if value is None:
        return f"<td>{_text(text)}"
    if isinstance(value, datetime.datetime):
        return f"<td>{minute(value)}"
    match form.look:
        case "range":
            return f"<td>{_range(*value)}"
        case "bar":
            return f"<td>{_bar(value, text)}"
        case "status":
            return f'<td class="{text}">{text}' if text in ("finished", "stopped", "failed") else f"<td>{_text(text)}"
        case "long" if len(text) > 160 or "\n" in text:
            first = _text(text.split("\n")[0][:140])
            return f"<td><details><summary>{first}</summary><pre>{_text(text)}</pre></details>"
    if not form.numeric:
        return f"<td>{_text(text)}"
    if isinstance(value, float) and math.isinf(value):
        text = "∞" if value > 0 else f"{MINUS}∞"
    if text.startswith("-") and text != column.empty:
        text = MINUS + text[1:]
    number = None if _PLAIN.fullmatch(text) else form.order(value)
    if number is not None and math.isinf(number):
        number = math.copysign(LARGEST, number)
    sort = "" if number is None or math.isnan(number) else f" data-sort={number:.6g}"
    return f"<td{sort}><strong>{_text(text)}</strong>" if form.striking(value) else f"<td{sort}>{_text(text)}"


def _range(low: float, high: float, mean: float, published: float) -> str:
    """A drawing of lowest, highest, measured and published, shares of its width."""
    low, high, mean, published = (3 + 94 * share for share in (low, high, mean, published))
    return (
        '<svg class="range" viewBox="0 0 100 16" width="100" height="16" aria-hidden="true">'
        f'<path class="axis" d="M3,8H97"/><path class="span" d="M{low:.1f},8H{high:.1f}"/>'
        f'<path class="published" d="M{published:.1f},2V14"/><circle cx="{mean:.1f}" cy="8" r="3"/></svg>'
    )


def _bar(counts: Mapping[str, int], text: str) -> str:
    """A drawing of how many trials are in each state."""
    at, parts, whole = 0.0, [], sum(counts.values()) or 1
    for state, count in counts.items():
        share = 100 * count / whole
        parts.append(f'<rect class="{state}" x="{at:.2f}" width="{share:.2f}" height="8"/>')
        at += share
    label = f'preserveAspectRatio="none" role="img" aria-label="{_text(text)}"'
    return f'<svg class="bar" viewBox="0 0 100 8" width="160" height="8" {label}>{"".join(parts)}</svg>'


# Trials


METRICS = (
    "success", "success_p5", "success_worst5", "failed_inputs", "majority_30", "majority_30_p5", "loss", "loss_p95",
)  # fmt: skip
"""Metrics listed with the trials, where any trial has them."""

SPEED = Form("{:,.4g}".format, numeric=True)


def _column(name: str, title: str | None = None, form: Form = VALUE) -> Field[Row]:
    """A column of the store."""
    return Column(title or name, form), lambda row: row.get(name)


def _kind(row: Row, name: str) -> Any:
    """Baseline or model of a trial, if its kind has any."""
    return None if row["baseline"] == "experiment" else row[name]


_KIND: tuple[Field[Row], ...] = (
    _column("task", form=TEXT),
    (Column("baseline"), lambda row: _kind(row, "baseline")),
    (Column("model"), lambda row: _kind(row, "model")),
)


_SWEEPS: Field[Row] = (Column("sweep"), lambda row: ", ".join(row["sweeps"]) or NO_SWEEP)


def _ended(row: Row) -> float:
    """When a trial ended, in seconds; 0 where that is not known."""
    return row["finished"].timestamp() if row["finished"] else 0.0


class Listing(NamedTuple):
    """The trials listed on a page, and how: columns for the settings, those for the metrics, and the facets."""

    rows: Sequence[Row]
    settings: Sequence[Field[Row]]
    metrics: Sequence[Field[Row]]
    facets: Sequence[str]
    notes: Sequence[str]

    @classmethod
    def of(
        cls, rows: Sequence[Row], asked_for: Sequence[str] = (), goal: Goal | None = None, most: int = MAX_TRIALS
    ) -> "Listing":
        """Of too many trials the failed ones are listed, and then the newest.

        The metrics that search spaces ask for have columns, and with a goal the best trials stand first.
        """
        listed = sorted(rows, key=lambda row: (row["status"] != "failed", -_ended(row)))[:most]
        order = ("task", "baseline", "model", "q", "m", "steps", "seed", "trial_id")
        listed.sort(key=lambda row: [(row[name] is not None, row[name]) for name in order])
        if goal is not None:
            worst, sign = math.inf, -1 if goal.mode == "max" else 1
            listed.sort(key=lambda row: worst if (value := _metric(row, goal.metric)) is None else sign * value)
        differing = [(path, column_name(path)) for path in _differing(listed)]
        own = [_column(name) for _, name in differing[:MAX_VARYING]]
        settings = [*_KIND, _column("q"), _column("m"), *own, _column("seed"), _column("steps", form=COUNT)]
        values = {"sweep": {name for row in listed for name in row["sweeps"]}, "status": set()}
        for column, value in settings:
            values[column.title] = {value(row) for row in listed} - {None}
        words = [name for name, seen in values.items() if all(isinstance(one, str) for one in seen)]
        facets = [name for name in words if name in ("sweep", "status") or 0 < len(values[name]) <= MAX_WORDS]
        notes = []
        if len(listed) < len(rows):
            notes.append(
                f"{len(listed):,} of {len(rows):,} trials: the failed ones and then the newest. All of them answer to "
                'python -m sweeper.query "SELECT * FROM trials" --format csv.'
            )
        if left_out := [name for _, name in differing[MAX_VARYING:]]:
            notes.append(f"Entries that differ too, without a column: {', '.join(left_out)}.")
        return cls(listed, settings, _metrics(listed, asked_for), facets, notes)

    @property
    def roles(self) -> dict[str, str]:
        metrics = {column.title.lower(): "metric" for column, _ in self.metrics}
        return {column.title.lower(): "setting" for column, _ in self.settings} | metrics

    def table(self, annotations: Mapping[str, Annotations]) -> Table:
        """The trials with their settings, metrics, cost, tags and notes."""
        fields: tuple[Field[Row], ...] = (
            _column("trial_id", "trial", CODE),
            _column("status", form=STATUS),
            _SWEEPS,
            *self.settings,
            *self.metrics,
            _column("wall_seconds", "time", SECONDS),
            _column("steps_per_second", "steps/s", SPEED),
            _column("device", form=TEXT),
            _column("finished", "ended", MOMENT),
            (Column("commit", REVISION), lambda row: (row["commit"], row["dirty"])),
            *annotation_fields(self.rows, lambda row: annotations.get(row["trial_id"], NO_ANNOTATIONS)),
        )
        return without_empty_columns(tabulated("Trials", fields, self.rows, " ".join(self.notes)))

    def colours(self, shades: Mapping[str, str], look: Look) -> dict[str, dict[str, str]]:
        """For each facet of few values their colours: that of the only series of figures that shows such trials."""
        found = {}
        for column, value in self.settings:
            if column.title in self.facets:
                of_value = collections.defaultdict(set)
                for row in self.rows:
                    if (one := value(row)) is not None:
                        of_value[one].add(shades.get(row["trial_id"]))
                seen = [of_value[one] - {None} for one in sorted(of_value)]
                if len(seen) <= LIMITS.settings:
                    wanted = [min(one) if len(one) == 1 else None for one in seen]
                    found[column.title] = dict(zip(sorted(of_value), _distinct(wanted, look), strict=True))
        return found


def _metrics(rows: Sequence[Row], asked_for: Sequence[str]) -> list[Field[Row]]:
    """The metrics that any trial has: those of every page, those asked for, those of tasks and of experiments.

    A trial may have none of these.
    """
    specs = {row["task"]: row["spec"] for row in rows}.values()
    own = [name for spec in specs for name in (*(each.name for each in abilities_of(spec).measures), *own_goals(spec))]
    further = sorted({name for row in rows for name in extra_metrics_of(row["extra_metrics"])})
    measured = {name for row in rows for name, value in row.items() if value is not None}.union(further) - {*TIMINGS}
    listed = [name for name in dict.fromkeys([*METRICS, *asked_for, *own]) if name in measured]

    def field(name: str) -> Field[Row]:
        form = PER_CENT if metric_named(name).is_share else NUMBER
        return Column(name, form), lambda row: _metric(row, name)

    return list(map(field, listed or further[: len(METRICS)]))


def _metric(row: Row, name: str) -> float | None:
    value: Any = row.get(name)
    return float(value) if is_number(value) and not math.isnan(value) else None


_ALWAYS = {
    "baseline", "objective.q", "objective.m", "experiment.name", "task.name", "model.name", "seed", "steps",
}  # fmt: skip


def _differing(rows: Sequence[Row]) -> list[str]:
    """Paths of the entries without a column of their own that differ between trials of one task, its own first."""
    by_task: dict[str, list[Mapping[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        by_task[row["task"]].append(entries(row["spec"]))
    paths = {path for records in by_task.values() for path in varying(records)} - _ALWAYS
    return sorted(paths, key=lambda path: (not path.startswith(("task.", "experiment.")), path))


def failed_trials(failed: Sequence[Row], most: int = MAX_FAILURES) -> Table:
    """Failed trials with their messages, the newest first."""
    listed = sorted(failed, key=_ended, reverse=True)[:most]
    fields: tuple[Field[Row], ...] = (
        _column("trial_id", "trial", CODE),
        _SWEEPS,
        *_KIND,
        _column("q"),
        _column("m", form=COUNT),
        _column("seed"),
        _column("error_step", "step", COUNT),
        _column("error_kind", "kind", TEXT),
        (Column("message", LONG), lambda row: _clipped(row["error_message"] or "no reason given")),
    )
    note = f"The latest {most:,} of {len(failed):,} failed trials." if len(failed) > most else ""
    return without_empty_columns(tabulated("Failed trials", fields, listed, note))


def _clipped(message: str) -> str:
    message, half = redacted(message.strip()), MAX_MESSAGE // 2
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[:half]}\n… {len(message) - 2 * half:,} characters …\n{message[-half:]}"


# Provenance


_SHARED = ("commit", "dirty", "lock_hash", "versions", "device", "arithmetic", "command")


def trial_origins(rows: Iterable[Row]) -> Table:
    """What made the trials, the newest first; trials that share commit, versions, device and command are one row."""
    groups: dict[tuple[Any, ...], list[Row]] = collections.defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in _SHARED)].append(row)
    listed = sorted(groups.values(), key=lambda alike: max(map(_ended, alike)), reverse=True)
    fields: tuple[Field[list[Row]], ...] = (
        (Column("commit", REVISION), lambda alike: (alike[0]["commit"], alike[0]["dirty"])),
        (Column("trials", COUNT), len),
        (Column("first start", MOMENT), lambda alike: min(_moments(alike, "started"), default=None)),
        (Column("last end", MOMENT), lambda alike: max(_moments(alike, "finished"), default=None)),
        (Column("sweep"), lambda alike: ", ".join(dict.fromkeys(name for row in alike for name in row["sweeps"]))),
        (Column("device"), lambda alike: alike[0]["device"]),
        (Column("arithmetic", CODE), lambda alike: alike[0]["arithmetic"] or ""),
        (Column("lock", CODE), lambda alike: (alike[0]["lock_hash"] or "")[:10]),
        (Column("versions", LONG), lambda alike: _versions(alike[0]["versions"])),
        (Column("command", CODE), lambda alike: redacted(alike[0]["command"] or "")),
    )
    note = "“+ changes”: the files differed from the commit. The lock is the hash of the locked dependencies."
    return tabulated("What made the trials", fields, listed, note)


def _moments(rows: Iterable[Row], name: str) -> list[datetime.datetime]:
    return [row[name] for row in rows if row[name]]


def _versions(text: str | None) -> str:
    try:
        return ", ".join(f"{name} {version}" for name, version in sorted(json.loads(text or "{}").items()))
    except (ValueError, AttributeError):
        return text or ""


def launches(starts: Mapping[str, Sequence[SweepRecord]]) -> Table:
    fields: tuple[Field[SweepRecord], ...] = (
        (Column("sweep"), lambda record: record.name),
        (Column("when", MOMENT), lambda record: moment(record.provenance.captured)),
        (Column("trials", COUNT), lambda record: len(record.trial_ids)),
        (Column("commit", REVISION), lambda record: (record.provenance.commit, record.provenance.dirty)),
        (Column("command", CODE), lambda record: redacted(record.provenance.command)),
    )
    return tabulated("Starts of sweeps", fields, [record for records in starts.values() for record in records])


# Figures


class Figure(NamedTuple):
    title: str
    caption: str
    behind: str  # trials, training seeds and steps
    alternative: str
    notes: Sequence[str]
    source: str
    width: int
    height: int
    facets: Facets


class Chapter(NamedTuple):
    """The figures of a sweep or search space, and notes about panels that were not drawn."""

    name: str
    figures: Sequence[Figure]
    notes: Sequence[str]


def chapter(section: Section, facets: Sequence[str]) -> Chapter:
    files = {path.stem: path for path in section.report.paths if path.suffix == ".png"}
    notes = collections.defaultdict(list)
    left_out = []
    for panels, text in figures.note_lines(section.report.notes):
        for panel in panels:
            notes[panel].append(text)
        if absent := [panel for panel in panels if panel not in files]:
            left_out.append(f"{', '.join(absent)} {inflected(len(absent), 'is', 'are')} not drawn: {text}")
    failed: list[figures.Note] = []
    shown: list[Figure | None] = []

    def show(name: str, caption: str, trials: pd.DataFrame, alternative: Callable[[], str], file: Path) -> None:
        def figure() -> Figure:
            source, width, height = _image(file)
            of_trials = _facets_of(trials, section.name, facets)
            behind = f"{counted(len(trials), 'trial')}, {counted(trials['seed'].nunique(), 'training seed')}"
            lowest, highest = trials["steps"].min(), trials["steps"].max()
            steps = f"{lowest:,}" if lowest == highest else f"{lowest:,} to {highest:,}"
            behind = f"{behind}, {steps} steps."
            return Figure(name, caption, behind, alternative(), notes[name], source, width, height, of_trials)

        shown.append(figures.attempted(name, failed, figure))

    for drawing in section.report.drawn:
        name, caption = drawing.panel.name, figures.plain(drawing.panel.title)
        show(name, caption, drawing.trials, drawing.alternative, files[name])
    left_out += [f"{note.panel} is not shown: {note.text}" for note in failed]
    return Chapter(section.name, [figure for figure in shown if figure], left_out)


def _image(file: Path) -> tuple[str, int, int]:
    """A figure as the address of an image, a quarter of the bytes of its file, with width and height on the page."""
    small = io.BytesIO()
    with Image.open(file) as image:
        width, height = (round(pixels / PIXELS_PER_CSS_PIXEL) for pixels in image.size)
        # Of all methods this one keeps the colours of small points apart.
        few = image.convert("RGB").quantize(COLORS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        few.convert("RGB").save(small, "WEBP", lossless=True, method=2)
    return "data:image/webp;base64," + base64.b64encode(small.getvalue()).decode(), width, height


def _facets_of(trials: pd.DataFrame, sweep: str, facets: Sequence[str]) -> Facets:
    """The facets of finished trials."""
    columns = [name for name in facets if name in trials.columns and name != "status"]
    return {"sweep": [sweep], "status": ["finished"]} | {
        name: sorted(map(str, trials[name].dropna().unique())) for name in columns
    }


def _compared_facets(section: Section, facets: Sequence[str]) -> Iterator[Facets]:
    """The facets of the published numbers of a section: those of the trials behind the series of each."""
    panels = {panel.name: panel for panel in section.panels}
    known: dict[tuple[str, str], Facets] = {}
    for compared in section.report.comparisons:
        key = compared.panel, compared.series
        if key not in known:
            panel = panels[compared.panel]
            wanted = [series.where for series in panel.series if figures.plain(series.label) == compared.series]
            try:
                trials = chosen(section.results, panel.where, *wanted)
            except NoData:
                trials = section.results.trials[:0]
            known[key] = _facets_of(trials, section.name, facets)
        yield known[key]


def _shades(section: Section, look: Look) -> dict[str, str]:
    """The colours of trials by id: that of the first series of a figure that shows the trial."""
    shades: dict[str, str] = {}
    for drawing in section.report.drawn:
        with contextlib.suppress(NoData):
            for place, series in enumerate(series_of(drawing.panel, drawing.SERIES, drawing.results)):
                with contextlib.suppress(NoData):
                    shade = look.shade(getattr(series, "color", None), place)
                    for trial_id in chosen(drawing.results, drawing.panel.where, series.where)["trial_id"]:
                        shades.setdefault(trial_id, shade)
    return shades


def _distinct(wanted: Sequence[str | None], look: Look) -> list[str]:
    """A colour for each: the wanted one, lighter where it is taken; without one a free one of the palette.

    If all want the same, the colours are those of the palette, as theirs would tell nothing.
    """
    if len(wanted) > 1 and len(set(wanted)) == 1:
        wanted = [None] * len(wanted)
    every = list(look.shades.values())
    free = [shade for shade in every if shade not in wanted] or every
    missing = iter(range(len(wanted)))
    taken = [shade or free[next(missing) % len(free)] for shade in wanted]
    many, found = collections.Counter(taken), []
    for place, shade in enumerate(taken):
        lighter = 0.75 * taken[:place].count(shade) / many[shade]
        red, green, blue = (part + lighter * (1 - part) for part in colors.to_rgb(shade))
        found.append(colors.to_hex((red, green, blue)))
    return found


# Training curves


METRIC = "train_loss"  # is shown first; without it the curve of the most points


class _Curves(NamedTuple):
    """A trial with its curves: points by metric, each by step."""

    trial_id: str
    status: str  # of its row; `unfinished` without a row
    spec: Mapping[str, Any]  # entries by dotted path
    points: dict[str, dict[int, float]]


def curves(
    store: Store,
    starts: Mapping[str, Sequence[SweepRecord]],
    rows: Sequence[Row],
    frame: pd.DataFrame,
    spaces: Iterable[SweepSpec],
    shades: Mapping[str, Mapping[str, str]],
    look: Look,
    limits: Limits = LIMITS,
) -> list[dict[str, Any]]:
    """The training curves of the latest starts of sweeps as plain data, a chart for each sweep and task with a curve.

    The curves of finished, stopped and failed trials are those of the store, of the best settings. The curves of
    unfinished trials are those of their checkpoints, so a page that is written again and again shows how they go on.
    """
    by_id = {row["trial_id"]: row for row in rows}
    read = {space.name: space for space in spaces}
    of_sweeps: dict[str, tuple[list[list[_Curves]], str]] = {}
    for name, records in starts.items():
        space = read.get(name) or recorded_space(records[-1], store)
        ids = [key for key in records[-1].trial_ids if key in by_id]
        settings, best = _best_settings([by_id[key] for key in ids], frame[frame["trial_id"].isin(ids)], space)
        # One more of each than a chart shows, so that the chart can say that it left some out.
        settings = [setting[: limits.trials + 1] for setting in settings]
        of_sweeps[name] = _with_unfinished(settings, store, space, by_id), best
    charted = {each.trial_id: each for settings, _ in of_sweeps.values() for setting in settings for each in setting}
    table = store.curves([key for key in charted if key in by_id])
    columns = (table[name].to_pylist() for name in ("trial_id", "step", "metric", "value"))
    for trial_id, step, metric, value in zip(*columns, strict=True):
        if value is not None and math.isfinite(value):
            charted[trial_id].points.setdefault(metric, {})[step] = value
    charts = []
    for name, (settings, best) in of_sweeps.items():
        of_tasks: dict[str, list[list[_Curves]]] = collections.defaultdict(list)
        for setting in settings:
            if known := [charted[each.trial_id] for each in setting if charted[each.trial_id].points]:
                of_tasks[_task(known[0].spec)].append(known)
        for task, of_task in sorted(of_tasks.items()):
            made = _chart(of_task, best, shades.get(name, {}), look, {"sweep": [name], "task": [task]}, limits)
            charts.append({"title": name if len(of_tasks) == 1 else f"{name}: {task}", **made})
    return charts


def _task(spec: Mapping[str, Any]) -> str:
    return spec.get("task.name") or spec["experiment.name"]


def _setting(spec: Mapping[str, Any]) -> str:
    return json.dumps({path: value for path, value in spec.items() if path != "seed"}, sort_keys=True, default=str)


def _best_settings(
    rows: Sequence[Row], frame: pd.DataFrame, space: SweepSpec | None
) -> tuple[list[list[_Curves]], str]:
    """The trials of the settings of each task, the best first and without their points, and what the best are."""
    found, best = [], set[str]()
    for task, of_task in frame.groupby("task"):
        goal = goal_of(None if space is None else space.search, of_task)
        best.add(goal.text())
        settings: dict[str, list[Row]] = collections.defaultdict(list)
        for row in rows:
            if row["task"] == task:
                settings[_setting(entries(row["spec"]))].append(row)
        sign = -1 if goal.mode == "max" else 1

        def merit(setting: Sequence[Row], metric: str = goal.metric, sign: int = sign) -> float:
            finished = [row for row in setting if row["status"] == "finished"]
            values = [value for row in finished if (value := _metric(row, metric)) is not None]
            return sign * sum(values) / len(values) if values else math.inf

        for setting in sorted(settings.values(), key=merit)[: 2 * LIMITS.settings]:
            found.append([_Curves(row["trial_id"], row["status"], entries(row["spec"]), {}) for row in setting])
    return found, " or ".join(sorted(best))


def _with_unfinished(
    settings: list[list[_Curves]], store: Store, space: SweepSpec | None, committed: Mapping[str, Row]
) -> list[list[_Curves]]:
    """The settings, and before them those of trials of the sweep that have a checkpoint and no row."""
    if space is None or space.search.ADAPTS or not store.listing("checkpoints"):
        return settings  # to expand a large space takes seconds
    try:
        expansion = space.expand()
    except SearchSpaceError:
        return settings
    planned = zip(expansion.trial_ids, expansion.trials, strict=True)
    pending = {key: trial for key, trial in planned if key not in committed}
    groups: dict[str, list[_Curves]] = {}
    for key, points in unfinished_curves(store, pending).items():
        each = _Curves(key, "unfinished", entries_of(canonical(pending[key])), {})
        for step, metric, value in points:
            if math.isfinite(value):
                each.points.setdefault(metric, {})[step] = value
        groups.setdefault(_setting(each.spec), []).append(each)
    for setting in settings:
        groups.setdefault(_setting(setting[0].spec), []).extend(setting)
    return list(groups.values())


def _chart(
    settings: Sequence[Sequence[_Curves]],
    best: str,
    shades: Mapping[str, str],
    look: Look,
    facets: Facets,
    limits: Limits,
) -> dict[str, Any]:
    """The settings of one sweep and task as plain data, and a note that says what was left out."""
    shown = [list(setting[: limits.trials]) for setting in settings[: limits.settings]]
    specs = [{path: value for path, value in setting[0].spec.items() if path not in OF_A_SEED} for setting in shown]
    order = sorted(range(len(shown)), key=lambda place: list(map(value_order, specs[place].values())))
    shown, specs = [shown[place] for place in order], [specs[place] for place in order]
    paths = varying(specs)
    wanted = [next((shades[each.trial_id] for each in setting if each.trial_id in shades), None) for setting in shown]
    series: list[dict[str, Any]] = [
        _series(setting, spec, paths, facets, limits.points) | {"colour": colour}
        for setting, spec, colour in zip(shown, specs, _distinct(wanted, look), strict=True)
    ]
    notes = []
    if unfinished := sum(each.status == "unfinished" for setting in shown for each in setting):
        verb = inflected(unfinished, "is", "are")
        notes.append(f"{counted(unfinished, 'trial')} {verb} unfinished: dashed, up to the last checkpoint.")
    if len(settings) > len(shown):
        notes.append(
            f"Of more than {len(shown)} settings, the chart has the unfinished ones and then the best: {best}."
        )
    if any(len(setting) > limits.trials for setting in settings):
        notes.append(f"Of more than {limits.trials} trials of a setting, it has {limits.trials}.")
    counts = collections.Counter(
        name for one in series for name, curve in one["curves"].items() for _ in curve["steps"]
    )
    metrics = sorted(counts, key=lambda name: (name != METRIC, -counts[name], name))
    words = dict.fromkeys(name for each in series for name in each["facets"])
    every = {name: sorted({one for each in series for one in each["facets"].get(name, ())}) for name in words}
    return {"facets": every, "metrics": metrics, "series": series, "note": " ".join(notes)}


def _series(
    setting: Sequence[_Curves], spec: Mapping[str, Any], paths: Sequence[str], facets: Facets, most: int
) -> dict[str, Any]:
    """The curves of a setting at the steps at which any of its trials has a point, of many steps some.

    Between its own points a curve is linear, so that a point between those of other trials moves no mean; before and
    after its points it has no value.
    """
    setting = sorted(setting, key=lambda each: each.spec["seed"])
    found = {}
    for metric in dict.fromkeys(name for each in setting for name in each.points):
        own = [sorted(each.points.get(metric, {}).items()) for each in setting]
        every = sorted({step for points in own for step, _ in points})
        steps = [every[at] for at in np.linspace(0, len(every) - 1, min(len(every), most)).round().astype(int)]
        values = []
        for points in own:
            at = np.interp(steps, *zip(*points, strict=True), left=np.nan, right=np.nan) if points else [math.nan]
            values.append([None if math.isnan(value) else float(f"{value:.4g}") for value in at])
        found[metric] = {"steps": steps, "values": values}
    words = named_values(paths, lambda path: value_text(spec[path]) if path in spec else "")
    words_of = {column_name(path): [value] for path, value in spec.items() if isinstance(value, str)}
    return {
        "label": " ".join(words) or spec.get("baseline") or _task(spec),  # such as "Aq_R q=10"
        "facets": {**words_of, **facets},
        "trials": [{"id": each.trial_id, "seed": each.spec["seed"], "status": each.status} for each in setting],
        "curves": found,
    }


# Charts


@functools.cache
def bundle() -> str:
    """The JavaScript of Vega, Vega-Lite and Vega-Embed, which draws charts without any network."""
    import vl_convert

    return vl_convert.javascript_bundle()  # pyright: ignore[reportCallIssue]  its stub lacks the default


@functools.cache
def specifications() -> dict[str, Any]:
    """The charts in Vega-Lite. The script of the page fills in rows, colours and scales.

    A row of `explorer` is a trial, with `x`, `y`, `colour`. A row of `bands` and `each` is a point of a training curve,
    with `series`, `trial`, `seed`, `status`, `step` and `value`.
    """
    import altair as alt

    def chosen(field: str) -> alt.Parameter:
        """What the reader chooses in the legend; everything without a choice."""
        return alt.selection_point(fields=[field], bind="legend", name="legend")

    legend = alt.Legend(title=None, orient="bottom", labelLimit=400, symbolOpacity=1, symbolType="circle")
    rows = alt.NamedData("rows")
    points = chosen("colour")
    explorer = (
        alt.Chart(rows)
        .mark_circle(size=50, opacity=0.75)
        .encode(x="x:Q", y="y:Q", color=alt.Color("colour:N", legend=legend))
        .transform_filter(points)
        .add_params(points)
    )
    kept = chosen("series")
    across, color = alt.X("step:Q", title="step"), alt.Color("series:N", legend=legend)
    told = [alt.Tooltip("series:N"), alt.Tooltip("step:Q", format=",")]
    base = alt.Chart(rows).transform_filter(kept).encode(x=across, color=color)
    mean = base.mark_line(strokeWidth=1.5).encode(y="mean(value):Q").add_params(kept)
    near = base.mark_point(opacity=0, size=120, filled=True)
    of_mean = [
        *told,
        alt.Tooltip("mean(value):Q", title="mean", format=".4~g"),
        alt.Tooltip("count():Q", title="trials"),
    ]
    of_trial = [*told, alt.Tooltip("value:Q", format=".4~g"), *map(alt.Tooltip, ("seed:N", "trial:N", "status:N"))]
    dashes = alt.when(alt.datum.status == "unfinished").then(alt.value([4, 2])).otherwise(alt.value([1, 0]))
    bands = alt.layer(
        base.mark_area(opacity=0.18).encode(y="min(value):Q", y2="max(value):Q"),
        mean,
        near.encode(y="mean(value):Q", tooltip=of_mean),
    )
    each = alt.layer(
        base.mark_line(strokeWidth=1).encode(y="value:Q", detail="trial:N", strokeDash=dashes).add_params(kept),
        near.encode(y="value:Q", tooltip=of_trial),
    )

    def finished(chart: Any, height: int) -> dict[str, Any]:
        calm = {"labelFont": "system-ui, sans-serif", "titleFont": "system-ui, sans-serif", "titleFontWeight": "normal"}
        axis = {
            "tickCount": 6,
            "gridColor": "#dfe3e8",
            "domainColor": "#9aa5b1",
            "tickColor": "#9aa5b1",
            "labelColor": "#59636e",
        }
        styled = chart.configure(background="transparent", axis=calm | axis | {"titleColor": "#59636e"}, legend=calm)
        return styled.configure_view(stroke=None).properties(width="container", height=height).to_dict()

    return {"explorer": finished(explorer, 380), "bands": finished(bands, 230), "each": finished(each, 230)}
