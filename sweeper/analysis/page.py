"""The report as one HTML file, to be mailed, opened from disk and printed.

The file is whole: figures, data, style and scripts are inside, and nothing in it asks a network for anything. All text
comes from a store that anybody may have written. So every value is escaped, its control characters are spelt out, and
no value is ever part of a script, of the style or of an address.

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
import datetime
import functools
import gzip
import io
import itertools
import json
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import pyarrow as pa
from markupsafe import Markup
from PIL import Image
from pydantic_core import from_json

from sweeper.analysis import comparison, figures
from sweeper.analysis.figures import FigureReport
from sweeper.analysis.figures.layout import replaced
from sweeper.analysis.figures.style import Look
from sweeper.analysis.recorded_spaces import NOTHING, Asked, asked_by
from sweeper.analysis.results import NO_SWEEP, foreign_columns, named, specs_of_tasks, tables_of_row
from sweeper.analysis.status import (
    annotation_columns,
    overview,
    packs_table,
    sentence,
    starts_by_name,
)
from sweeper.analysis.table import (
    Facets,
    attempted,
    html,
    minute,
    revision_text,
    safe,
    values,
    without_empty_columns,
)
from sweeper.analysis.training_curves import LIMITS, curves, distinct
from sweeper.listeners.heartbeats import drivers
from sweeper.messages import counted, duration, inflected, redacted, typed
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.annotations import Annotations, read_annotations
from sweeper.store.store import Store, SweepRecord
from sweeper.tables import table, titled
from sweeper.trial import provenance
from sweeper.trial.columns import TIMINGS
from sweeper.trial.entry_names import (
    LEADING,
    NAMELESS,
    column_name,
    entries,
    shown_entries,
)
from sweeper.trial.trial import traits_of

TEMPLATE = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")

MAX_TRIALS = 2_000
"""Trials listed on a page. A browser lays out some thousand rows at once; the store answers for the others."""

MAX_FAILURES = 200  # failed trials listed with their messages
MAX_MESSAGE = 2_000  # characters of a message: the reason stands in its first lines, or in the last of a traceback
MAX_VARYING = 8  # columns for entries that differ between the trials listed
MAX_WORDS = 40  # different values of a facet


PIXELS_PER_CSS_PIXEL = figures.DOTS_PER_INCH / 125
"""At 125 pixels to the inch the 8-point text of the figures is as large as that of the tables."""

COLORS = 128  # of a figure on the page, a third of the bytes of its file


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as new:  # a browser may be loading the page at this moment
        new.write_text(text, encoding="utf-8")


def render(
    store: Store,
    rows: pa.Table,
    sections: Sequence[FigureReport],
    tables: Sequence[tuple[str, pd.DataFrame]] = (),
    sweeps: Sequence[str] = (),
    every: int | None = None,
    spaces: Sequence[SweepSpec] = (),
    palette: figures.PaletteName = "paper",
) -> str:
    """The text of the page.

    Args:
        store: Where the starts of the sweeps are read.
        rows: All rows of the store, which the caller has read for the figures.
        sections: Figures and comparisons, in this order.
        tables: Further tables, each with the sweep that it is about.
        sweeps: Names of recorded sweeps; status and trials are theirs alone if any are given.
        every: Seconds after which an open page loads itself again; None for a page that stays as it is.
        spaces: What was searched: trials have columns for the metrics that spaces ask for, and are ordered by the
            metric of a search if there is one metric.
        palette: The colours of the figures, which the charts share.
    """
    starts = starts_by_name([record for record in store.sweeps() if not sweeps or record.name in sweeps])
    planned = _planned(starts)
    if sweeps:
        rows = rows.filter(pa.array([trial_id in planned for trial_id in rows["trial_id"].to_pylist()], pa.bool_()))
    trials = trials_of(rows, planned)
    failed = trials[trials["status"] == "failed"]
    annotations = read_annotations(store.files)
    running = [] if every is None else drivers(store.files)
    listing = trial_table(trials, annotations.trials, _asked(spaces))
    compared = [one for section in sections for one in section.comparisons]
    look = figures.PALETTES[palette]
    shades = {section.name: _shades(section, look) for section in sections}
    failures: list[figures.Note] = []  # whatever is wrong with a curve, the page has the tables
    drawn = functools.partial(curves, store, starts, trials, spaces, shades, look)
    charts = figures.attempted("training curves", failures, drawn) or []
    committed = dict(zip(trials["trial_id"], trials["status"], strict=True))
    words = words_of(listing)

    def shown(id: str, title: str, facets: Facets | None, make: Callable[..., pd.DataFrame], *arguments: Any) -> Markup:
        """The table that `make` gives of the arguments; a note says why if it cannot be made."""

        def made() -> Markup:
            frame = make(*arguments)
            frame.attrs["title"] = title
            return html(frame, id, words, facets)

        answer = attempted(title, made)
        return answer if isinstance(answer, Markup) else html(answer, id)

    others = [
        (frame.attrs["title"], shown(f"table-{place}-rows", frame.attrs["title"], {"sweep": [sweep]}, frame.copy))
        for place, (sweep, frame) in enumerate(tables, start=1)
    ]
    return _ENVIRONMENT.from_string(TEMPLATE).render(
        name=Path(redacted(store.url).rstrip("/")).name,
        origin=provenance.capture(provenance.command_line(sys.argv)),
        written=minute(datetime.datetime.now(datetime.UTC)),
        facts=_facts(trials, set(planned)),
        every=every,
        chapters=[chapter(section, words) for section in sections],
        charts=charts,
        curve_names=sorted(set().union(*map(operator.itemgetter("metrics"), charts))),
        failures=failures,
        drivers=[sentence(driver) for driver in running],
        starts=starts,
        listed=len(listing),
        data=json.dumps(_moving(charts, listing, collections.ChainMap(*shades.values()), look)),
        vega="" if listing.empty else bundle(),
        summary=comparison.summary(compared),
        compared=shown("comparison", "Published numbers", None, comparison.numbers, compared) if compared else "",
        others=others,
        sweeps=shown("sweeps", "Sweeps", {}, overview, starts, committed, annotations.sweeps),
        running=shown("running", "Running packs", None, packs_table, running),
        failed=shown("failures", "Failed trials", {"status": ["failed"]}, failed_trials, failed),
        trials=shown("trial-rows", "Trials", {}, listing.copy),
        launches=shown("launches", "Starts of sweeps", {}, launches, starts),
    )


def _planned(starts: Mapping[str, Sequence[SweepRecord]]) -> dict[str, list[str]]:
    """The sweeps whose latest start plans a trial, by its id."""
    planned = collections.defaultdict(list)
    for name, records in starts.items():
        for trial_id in records[-1].trial_ids:
            planned[trial_id].append(name)
    return planned


def _asked(spaces: Sequence[SweepSpec]) -> Asked:
    """What all spaces ask for: the metric of a search if there is one metric, all metrics, and all entries."""
    asked = list(map(asked_by, spaces))
    goals = {each.goal for each in asked if each.goal}
    metrics, entries = (
        tuple(itertools.chain.from_iterable(every))
        for every in ([each.metrics for each in asked], [each.entries for each in asked])
    )
    return Asked(goals.pop() if len(goals) == 1 else None, metrics, entries=tuple(dict.fromkeys(entries)))


def _moving(
    charts: list[dict[str, Any]], listing: pd.DataFrame, shades: Mapping[str, str], look: Look
) -> dict[str, Any]:
    """What the script draws; nothing without a trial."""
    return {} if listing.empty else {"charts": charts, "colours": colours(listing, shades, look)} | specifications()


def packed(text: str) -> str:
    """A text as the script unpacks it."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _facts(trials: pd.DataFrame, planned: set[str]) -> list[tuple[str, str]]:
    """Numbers for the top of the page, each with what it counts."""
    states = collections.Counter(trials["status"])
    states["pending"] = len(planned.difference(trials["trial_id"]))
    facts = [(f"{states['finished']:,}", "trials finished")]
    facts += [(f"{states[state]:,}", state) for state in ("stopped", "failed", "pending") if states[state]]
    if seconds := sum(filter(None, trials["wall_seconds"])):
        facts.append((duration(seconds), "of trial time"))
    return facts


_ENVIRONMENT = jinja2.Environment(
    autoescape=True, undefined=jinja2.StrictUndefined, finalize=safe, trim_blocks=True, lstrip_blocks=True
)
_ENVIRONMENT.globals |= {"counted": counted, "packed": packed, "revision": revision_text}


# Trials


LEADING_COLUMNS = tuple(dict.fromkeys(map(column_name, LEADING)))
"""Columns that say what a trial is, of all kinds of trial."""

_NAMELESS = {*map(column_name, NAMELESS)}

_HEADS = {"trial_id": "trial", "wall_seconds": "time", "steps_per_second": "steps/s", "finished": "ended",
          "error_step": "step", "error_kind": "kind", "revision": "commit"}  # fmt: skip
"""Heads of columns that have another name in a store."""

_FORMATS = {
    "trial": "code", "status": "status", "steps": "count", "time": "seconds", "steps/s": "speed", "ended": "moment",
    "commit": "code", "notes": "long", "step": "count", "message": "long",
}  # fmt: skip


def trials_of(rows: pa.Table, planned: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Rows of a store as plain data with their entries and metrics by name, and the sweeps that plan them."""
    trials = values(named(rows))
    for task, spec in trials.drop_duplicates("task")[["task", "spec"]].itertuples(index=False):
        trials.loc[trials["task"] == task, [*foreign_columns(spec)]] = None
    trials["sweeps"] = [planned.get(trial_id, []) for trial_id in trials["trial_id"]]
    trials["sweep"] = [", ".join(sweeps) or NO_SWEEP for sweeps in trials["sweeps"]]
    return trials


def _newest(trials: pd.DataFrame) -> pd.DataFrame:
    return trials.sort_values("finished", ascending=False, na_position="last", kind="stable")


def trial_table(
    trials: pd.DataFrame,
    annotations: Mapping[str, Annotations],
    asked: Asked = NOTHING,
    most: int = MAX_TRIALS,
) -> pd.DataFrame:
    """The trials with their settings, metrics, cost, tags and notes; `attrs["roles"]` tells settings from metrics.

    Of too many trials the failed ones are listed, and then the newest. What search spaces have `asked` for has columns,
    and with a goal the best trials stand first.
    """
    failed = trials["status"] == "failed"
    listed = pd.concat([_newest(trials[failed]), _newest(trials[~failed])]).head(most)
    listed = listed.sort_values([*LEADING_COLUMNS, "steps", "seed", "trial_id"], na_position="first")
    if (goal := asked.goal) is not None and goal.metric in listed:
        listed = listed.sort_values(goal.metric, ascending=goal.mode == "min", kind="stable")
    listed = listed.reset_index(drop=True)
    differing = _differing(listed, asked.entries)
    shown = _differing(listed, asked.entries, MAX_VARYING)
    leading = [name for name in LEADING_COLUMNS if name in _NAMELESS or not _one_word(listed[name])]
    entry_columns = [*leading, *map(column_name, shown), "seed", "steps"]
    metrics = _metrics(listed, asked.metrics)
    listed[metrics] = listed[metrics].astype(object).where(listed[metrics].notna(), None)
    notes = []
    if len(listed) < len(trials):
        notes.append(
            f"{len(listed):,} of {len(trials):,} trials: the failed ones and then the newest. All of them answer to "
            f"{typed('query', 'SELECT * FROM trials', '--format', 'csv')}."
        )
    if left_out := [column_name(path) for path in differing if path not in shown]:
        notes.append(f"Entries that differ too, without a column: {', '.join(left_out)}.")
    costs = ["wall_seconds", "steps_per_second", "device", "finished", "revision"]
    revisions = map(revision_text, listed["commit"], listed["dirty"])
    table = listed.assign(revision=list(revisions))[["trial_id", "status", "sweep", *entry_columns, *metrics, *costs]]
    table = table.rename(columns=_HEADS).assign(**annotation_columns(map(annotations.get, listed["trial_id"])))
    formats = {name: "per cent" if _is_share(name, listed) else "number" for name in metrics}
    titled(table, "Trials", " ".join(notes), formats | _FORMATS)
    roles = {name.lower(): "metric" for name in metrics} | {name.lower(): "setting" for name in entry_columns}
    table.attrs["roles"] = roles
    return without_empty_columns(table)


def words_of(listing: pd.DataFrame) -> list[str]:
    """The facets of a table of trials: its settings that are words, and not too many of these."""
    facets = ["sweep", "status"]
    for head, cells in listing.items():
        present = cells.dropna()
        is_setting = listing.attrs["roles"].get(str(head).lower()) == "setting"
        if is_setting and all(isinstance(word, str) for word in present) and 0 < present.nunique() <= MAX_WORDS:
            facets.append(str(head))
    return facets


def colours(listing: pd.DataFrame, shades: Mapping[str, str], look: Look) -> dict[str, dict[str, str]]:
    """For each facet of few values their colours: that of the only series of figures that shows such trials."""
    found = {}
    shaded = listing["trial"].map(shades.get)
    for head in words_of(listing)[2:]:
        seen = {word: set(shaded[listing[head] == word].dropna()) for word in sorted(set(listing[head].dropna()))}
        if len(seen) <= LIMITS.settings:
            wanted = [min(one) if len(one) == 1 else None for one in seen.values()]
            found[head] = dict(zip(seen, distinct(wanted, look), strict=True))
    return found


def _one_word(cells: pd.Series) -> bool:
    """Whether all trials have the same word."""
    return len(different := set(cells)) == 1 and all(isinstance(each, str) for each in different)


def _metrics(trials: pd.DataFrame, asked: Sequence[str]) -> list[str]:
    """The metrics that any trial has: those that kinds list and those asked for, else some of those that there are."""
    further = sorted({name for extra in trials["extra_metrics"] for name in from_json(extra)})
    measured = {name for name in trials if trials[name].notna().any()}.union(further) - {*TIMINGS}
    of_kinds = [tables_of_row(spec).of_trials(traits_of(spec), asked) for spec in specs_of_tasks(trials)]
    listed = dict.fromkeys(itertools.chain(*of_kinds))
    return [name for name in listed if name in measured] or further[:MAX_VARYING]


def _is_share(metric: str, trials: pd.DataFrame) -> bool:
    """Whether all trials with this metric have a share."""
    measured = trials[trials[metric].notna()]
    return all(tables_of_row(spec).is_share(metric) for spec in specs_of_tasks(measured))


def _differing(trials: pd.DataFrame, written: Sequence[str], most: int | None = None) -> list[str]:
    """Paths of the entries without a column of their own that differ between trials of one task, as `shown_entries`."""
    of_tasks = [list(map(entries, specs)) for _, specs in trials.groupby("task", sort=False)["spec"]]
    paths = {path for records in of_tasks for path in shown_entries(records, written)} - {*LEADING, "seed", "steps"}
    return shown_entries([*itertools.chain.from_iterable(of_tasks)], written, most, paths)


def failed_trials(failed: pd.DataFrame, most: int = MAX_FAILURES) -> pd.DataFrame:
    """Failed trials with their messages, the newest first."""
    listed = _newest(failed).head(most)
    messages = [_clipped(message or "no reason given") for message in listed["error_message"]]
    heads = ["trial_id", "sweep", *LEADING_COLUMNS, "seed", "error_step", "error_kind", "message"]
    note = f"The latest {most:,} of {len(failed):,} failed trials." if len(failed) > most else ""
    shown = titled(listed.assign(message=messages)[heads].rename(columns=_HEADS), "Failed trials", note, _FORMATS)
    return without_empty_columns(shown)


def _clipped(message: str) -> str:
    message, half = redacted(message.strip()), MAX_MESSAGE // 2
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[:half]}\n… {len(message) - 2 * half:,} characters …\n{message[-half:]}"


def launches(starts: Mapping[str, Sequence[SweepRecord]]) -> pd.DataFrame:
    """The starts of sweeps with their commands."""
    rows = [
        {
            "sweep": record.name,
            "when": datetime.datetime.fromisoformat(start.captured),
            "trials": len(record.trial_ids),
            "commit": revision_text(start.commit, start.dirty),
            "command": redacted(start.command),
        }
        for records in starts.values()
        for record in records
        for start in [record.provenance]
    ]
    return table(rows, formats={"when": "moment", "trials": "count", "commit": "code", "command": "code"})


# Figures


def chapter(section: FigureReport, facets: Sequence[str]) -> dict[str, Any]:
    """The figures of a sweep or search space, each with what is behind it, and notes about panels not drawn."""
    files = {path.stem: path for path in section.paths if path.suffix == ".png"}
    notes = collections.defaultdict(list)
    left_out = []
    for panels, text in figures.note_lines(section.notes):
        for panel in panels:
            notes[panel].append(text)
        if absent := [panel for panel in panels if panel not in files]:
            left_out.append(f"{', '.join(absent)} {inflected(len(absent), 'is', 'are')} not drawn: {text}")
    failed: list[figures.Note] = []
    shown = []

    def figure(drawing: Any) -> dict[str, Any]:
        name, trials = drawing.panel.name, drawing.trials
        source, width, height = picture(files[name])
        steps = " to ".join(dict.fromkeys(f"{steps:,}" for steps in (trials["steps"].min(), trials["steps"].max())))
        return {
            "title": name,
            "caption": figures.plain(drawing.panel.title),
            "behind": f"{counted(len(trials), 'trial')}, {counted(trials['seed'].nunique(), 'training seed')}, "
            f"{steps} steps.",
            "notes": notes[name],
            "source": source,
            "width": width,
            "height": height,
            "facets": _facets_of(trials, section.name, facets),
        }

    for drawing in section.drawn:
        shown.append(figures.attempted(drawing.panel.name, failed, functools.partial(figure, drawing)))
    left_out += [f"{note.panel} is not shown: {note.text}" for note in failed]
    return {"name": section.name, "figures": list(filter(None, shown)), "notes": left_out}


def picture(file: Path) -> tuple[str, int, int]:
    """A figure with few colours as the address of an image, with its width and height on the page."""
    small = io.BytesIO()
    with Image.open(file) as image:
        width, height = (round(pixels / PIXELS_PER_CSS_PIXEL) for pixels in image.size)
        image.convert("RGB").quantize(COLORS, Image.Quantize.MAXCOVERAGE).save(small, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(small.getvalue()).decode(), width, height


def _facets_of(trials: pd.DataFrame, sweep: str, facets: Sequence[str]) -> Facets:
    """The facets of finished trials."""
    columns = [name for name in facets if name in trials.columns and name != "status"]
    return {"sweep": [sweep], "status": ["finished"]} | {
        name: sorted(map(str, trials[name].dropna().unique())) for name in columns
    }


def _shades(section: FigureReport, look: Look) -> dict[str, str]:
    """The colours of trials by id: that of the first series of a figure that shows the trial."""
    shades: dict[str, str] = {}
    for drawing in section.drawn:
        looks = drawing.looks(look)
        shown = drawing.frame.drop_duplicates("trial_id")
        for trial_id, label in zip(shown["trial_id"], shown["series"], strict=True):
            shades.setdefault(trial_id, looks[label][0])
    return shades


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

    legend = alt.Legend(title=None, orient="bottom", symbolOpacity=1, symbolType="circle")
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
