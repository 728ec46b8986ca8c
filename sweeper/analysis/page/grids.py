"""The tables of the page, as cells that know how they are shown, how they sort, and which trials they are about.

A `Kind` says which trials something is about: a task, a baseline and a network, each empty where it is not known. The
page's filter knows kinds and nothing else. So whatever is drawn carries its kinds, and an empty part matches every
choice: what is about all trials is never hidden.

Nothing here is HTML. Every text may come from a store that somebody else wrote; the template escapes all of it.
"""

import collections
import datetime
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from sweeper.analysis.comparison import MISS
from sweeper.analysis.figures import Comparison
from sweeper.analysis.results import CARRIED
from sweeper.analysis.sweeps import progress
from sweeper.analysis.tables import Table
from sweeper.messages import duration, redacted
from sweeper.store.store import Status, SweepRecord
from sweeper.trial.provenance import Provenance
from sweeper.trial.trial_spec import leaf_values

Row = Mapping[str, Any]
"""A row of the store's `trials` as plain data."""

Style = Literal["text", "number", "code", "status", "long", "miss", "range", "bar"]
"""How a cell looks; `miss` is a number that deserves a second look, `range` and `bar` are small drawings."""

MAX_TRIALS = 2_000
"""Trials listed on a page. A browser lays out some thousand rows at once; the store answers for the others."""

MAX_FAILURES = 200
"""Failed trials listed with their messages."""

MAX_MESSAGE = 2_000
"""Characters of a message: the reason stands in the first lines of it, or in the last of a traceback."""

MAX_VARYING = 8
"""Columns for settings that differ between the trials listed."""

METRICS = ("success", "success_p5", "majority_30", "majority_30_p5", "loss", "loss_p95")
"""Metrics listed with the trials, where any trial has them."""

SHARES = ("success", "sampled", "majority", "any_seed", "failed_inputs")
"""Beginnings of the names of metrics that are shares, shown as per cent."""


class Kind(NamedTuple):
    """Task, baseline and network of trials; an empty one is not known."""

    task: str = ""
    baseline: str = ""
    network: str = ""


EVERYTHING = frozenset({Kind()})


class Cell(NamedTuple):
    """One cell: its text, how it looks, and the number it sorts by (its text if None).

    Attributes:
        text: What is read; empty where there is nothing to say.
        style: How it looks.
        sort: What a column of numbers is sorted by.
        shape: For `range`: lowest, highest, measured and published, as shares of the drawing's width. For `bar`: name
            and share of every part.
    """

    text: str
    style: Style = "text"
    sort: float | None = None
    shape: tuple[Any, ...] = ()


class Head(NamedTuple):
    """Head of a column; numbers are aligned to the right."""

    title: str
    numeric: bool = False


class Line(NamedTuple):
    """A row of cells, and the kinds of trials that it is about."""

    cells: tuple[Cell, ...]
    kinds: frozenset[Kind] = EVERYTHING


class Grid(NamedTuple):
    """A table of the page."""

    title: str
    heads: tuple[Head, ...]
    lines: tuple[Line, ...]
    note: str = ""


def kind_of(row: Row) -> Kind:
    return Kind(row["task"], row["baseline"], row["model"])


# --------------------------------------------------------------------------------------------------------------------
# Cells
# --------------------------------------------------------------------------------------------------------------------


MINUS = "\N{MINUS SIGN}"
_LEADING_MINUS = re.compile("^-")


def _number(value: int | float | None, text: str) -> Cell:
    # JavaScript sorts numbers only; what is not one stands last, as an empty cell does.
    sort = None if value is None or not math.isfinite(value) else float(value)
    return Cell(_LEADING_MINUS.sub(MINUS, text), "number", sort)


def _count(value: int | None) -> Cell:
    return Cell("", "number") if value is None else _number(value, f"{value:,}")


def _value(value: Any) -> Cell:
    """Any setting of a trial."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Cell("" if value is None else value if isinstance(value, str) else json.dumps(value))
    if math.isinf(value):
        # Infinity is the largest value of a column, not a missing one.
        return Cell("∞" if value > 0 else f"{MINUS}∞", "number", math.copysign(1e308, value))
    return _number(value, f"{value:g}" if isinstance(value, float) else str(value))


def _metric(name: str, value: float | None) -> Cell:
    if value is None:
        return Cell("", "number")
    return _number(value, f"{100 * value:.1f} %" if name.startswith(SHARES) else f"{value:.4g}")


def _seconds(value: float | None) -> Cell:
    return Cell("", "number") if value is None else _number(value, duration(value))


def moment(value: Any) -> str:
    """A moment as UTC to the minute; a text that is no moment stays as it is."""
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return value
    if not isinstance(value, datetime.datetime):
        return ""
    return (value.astimezone(datetime.UTC) if value.tzinfo else value).strftime("%Y-%m-%d %H:%M")


def revision(commit: str | None, dirty: bool | None) -> str:
    """A commit as people name it, and whether the files differed from it."""
    return f"{(commit or 'unknown')[:10]}{' + changes' if dirty else ''}"


# --------------------------------------------------------------------------------------------------------------------
# Tables made elsewhere
# --------------------------------------------------------------------------------------------------------------------

_LEADING_NUMBER = re.compile(rf"\s*([+\-{MINUS}]?[\d,]*\.?\d+(?:e[+\-]?\d+)?)", re.IGNORECASE)
_KIND_COLUMNS = ("task", "baseline", "network", "model")


def of_table(table: Table, known: Iterable[Kind]) -> Grid:
    """A table of texts, whose rows obey the filter if columns called task, baseline, network or model name kinds.

    A cell counts as what `known` trials have by that name: some tables call a baseline a model, others a network.
    """
    names = {value: part for kind in known for part, value in kind._asdict().items()}
    places = [place for place, column in enumerate(table.columns) if column.title.lower() in _KIND_COLUMNS]

    def line(texts: Sequence[str]) -> Line:
        found = {names[texts[place]]: texts[place] for place in places if texts[place] in names}
        cells = [
            _number(_leading_number(text), text) if column.numeric else Cell(text)
            for column, text in zip(table.columns, texts, strict=True)
        ]
        return Line(tuple(cells), frozenset({Kind(**found)}))

    heads = tuple(Head(column.title, column.numeric) for column in table.columns)
    return Grid(table.title, heads, tuple(line(texts) for texts in table.rows), table.note)


def _leading_number(text: str) -> float | None:
    match = _LEADING_NUMBER.match(text)
    return float(match[1].replace(",", "").replace(MINUS, "-")) if match else None


# --------------------------------------------------------------------------------------------------------------------
# Measured against published
# --------------------------------------------------------------------------------------------------------------------

Compared = tuple[str, Comparison, frozenset[Kind]]
"""Sweep, published number with its measurement, and the trials behind it."""


def comparison(compared: Sequence[Compared]) -> Grid:
    """Every published number that has a measurement."""
    measured = [entry for entry in compared if entry[1].measured is not None]
    several = len({sweep for sweep, _, _ in compared}) > 1
    heads = (
        *[Head("sweep")] * several, Head("panel"), Head("curve"), Head("metric"), Head("at", True),
        Head("published", True), Head("measured", True), Head("difference", True), Head("over seeds"),
        Head("seeds", True), Head("steps", True), Head("source"),
    )  # fmt: skip
    # Losses have no natural scale: those of one panel share that of the largest.
    largest: dict[tuple[str, str], float] = collections.defaultdict(float)
    for sweep, one, _ in measured:
        numbers = (one.published, one.measured, one.highest)
        largest[sweep, one.panel] = max(
            largest[sweep, one.panel], *(abs(n) for n in numbers if n is not None and math.isfinite(n))
        )
    lines = []
    for sweep, one, kinds in measured:
        cells = (
            *[Cell(sweep)] * several, Cell(one.panel), Cell(one.curve), Cell(one.metric, "code"), _value(one.at),
            _shown(one.published, one), _shown(one.measured, one), _difference(one),
            _range(one, 1.0 if one.percent else largest[sweep, one.panel]), _count(one.seeds),
            _number(_leading_number(one.steps), _grouped(one.steps)), Cell(one.source),
        )  # fmt: skip
        lines.append(Line(cells, kinds))
    note = (
        f"Measured is the mean over training seeds. A difference of more than {100 * MISS:g} points is set in bold. "
        "The drawing puts the measured mean (dot) and the range over single seeds (line) beside the published value "
        "(upright stroke): per cent from 0 to 100, other metrics from 0 to the largest of their panel."
    )
    return Grid("Measured against published", heads, tuple(lines), note)


def unmeasured(compared: Sequence[Compared]) -> Grid:
    """Every published number that has none yet."""
    heads = (Head("sweep"), Head("panel"), Head("curve"), Head("metric"), Head("at", True), Head("published", True),
             Head("source"))  # fmt: skip
    lines = [
        Line(
            (Cell(sweep), Cell(one.panel), Cell(one.curve), Cell(one.metric, "code"), _value(one.at),
             _shown(one.published, one), Cell(one.source)),
            kinds,
        )
        for sweep, one, kinds in compared
        if one.measured is None
    ]  # fmt: skip
    return Grid("Not measured yet", heads, tuple(lines))


def _shown(value: float | None, one: Comparison) -> Cell:
    if value is None:
        return Cell("", "number")
    return _number(value, f"{100 * value:.1f} %" if one.percent else f"{value:.4f}")


def _difference(one: Comparison) -> Cell:
    value = one.difference
    if value is None:
        return Cell("", "number")
    amount = f"{100 * value:+.1f}" if one.percent else f"{value:+.4f}"
    # No difference has no sign.
    amount = amount if float(amount) else amount[1:]
    cell = _number(value, f"{amount} points" if one.percent else amount)
    return cell._replace(style="miss") if one.missed else cell


def _range(one: Comparison, scale: float) -> Cell:
    numbers = (one.lowest, one.highest, one.measured, one.published)
    if not scale or any(number is None or not math.isfinite(number) for number in numbers):
        return Cell("", "range")
    return Cell(
        "", "range", None, tuple(min(1.0, max(0.0, number / scale)) for number in numbers if number is not None)
    )


def _grouped(steps: str) -> str:
    """Numbers of steps, such as "20000, 300000", with their thousands set apart."""
    return "; ".join(f"{int(part):,}" if part.isdecimal() else part for part in steps.split(", "))


# --------------------------------------------------------------------------------------------------------------------
# Sweeps
# --------------------------------------------------------------------------------------------------------------------

STATES = ("finished", "stopped", "failed", "pending")


def sweeps(starts: Mapping[str, Sequence[SweepRecord]], committed: Mapping[str, Status]) -> Grid:
    """How far the latest start of every sweep is."""
    heads = (
        Head("sweep"), Head("progress"), Head("planned", True), *(Head(state, True) for state in STATES),
        Head("starts", True), Head("last start"), Head("commit"),
    )  # fmt: skip
    lines = []
    for name, records in starts.items():
        latest = records[-1]
        counts, planned = progress(latest, committed), len(latest.trial_ids)
        shape = tuple((state, counts[state] / planned) for state in STATES) if planned else ()
        spoken = ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts[state])
        cells = (
            Cell(name), Cell(spoken, "bar", None, shape), _count(planned), *(_count(counts[state]) for state in STATES),
            _count(len(records)), Cell(moment(latest.provenance.captured)),
            Cell(revision(latest.provenance.commit, latest.provenance.dirty), "code"),
        )  # fmt: skip
        lines.append(Line(cells))
    note = "A sweep is as far as the trials that its latest start planned. Sweeps that plan the same trial share it."
    return Grid("Sweeps", heads, tuple(lines), note)


def failures(rows: Iterable[Row]) -> Grid:
    """The failed trials with their messages."""
    failed = sorted((row for row in rows if row["status"] == "failed"), key=_newest_first)
    heads = (Head("trial"), Head("task"), Head("baseline"), Head("network"), Head("q", True), Head("m", True),
             Head("seed", True), Head("step", True), Head("kind"), Head("message"))  # fmt: skip
    lines = [
        Line(
            (Cell(row["trial_id"], "code"), Cell(row["task"]), Cell(row["baseline"]), Cell(row["model"]),
             _value(row["q"]), _count(row["m"]), _value(row["seed"]), _count(row["error_step"]),
             Cell(row["error_kind"] or ""), Cell(_clipped(row["error_message"] or "no reason given"), "long")),
            frozenset({kind_of(row)}),
        )
        for row in failed[:MAX_FAILURES]
    ]  # fmt: skip
    note = f"The latest {MAX_FAILURES:,} of {len(failed):,} failed trials." if len(failed) > MAX_FAILURES else ""
    return Grid("Failed trials", heads, tuple(lines), note)


def _clipped(message: str) -> str:
    message = redacted(message.strip())
    if len(message) <= MAX_MESSAGE:
        return message
    half = MAX_MESSAGE // 2
    return f"{message[:half]}\n… {len(message) - 2 * half:,} characters …\n{message[-half:]}"


def _newest_first(row: Row) -> float:
    return -row["finished"].timestamp() if row["finished"] else 0.0


# --------------------------------------------------------------------------------------------------------------------
# Trials
# --------------------------------------------------------------------------------------------------------------------


def trials(rows: Sequence[Row]) -> Grid:
    """The trials with their settings, metrics and cost: failed ones first to be listed, then the newest."""
    listed = sorted(rows, key=lambda row: (row["status"] != "failed", _newest_first(row)))[:MAX_TRIALS]
    listed.sort(key=lambda row: (*kind_of(row), row["q"], row["m"], row["steps"], row["seed"], row["trial_id"]))
    settings, left_out = _varying(listed)
    metrics = [name for name in METRICS if any(row[name] is not None for row in listed)]
    extras = [json.loads(row["extra_metrics"] or "{}") for row in listed]
    # A task may have measured nothing but metrics of its own.
    own = [] if metrics else sorted({name for extra in extras for name in extra})[: len(METRICS)]
    heads = (
        Head("trial"), Head("status"), Head("task"), Head("baseline"), Head("network"), Head("q", True),
        Head("m", True), *(Head(name, True) for name in settings), Head("seed", True), Head("steps", True),
        *(Head(name, True) for name in (*metrics, *own)), Head("time", True), Head("steps/s", True),
        Head("device"), Head("ended"), Head("commit"),
    )  # fmt: skip
    lines = []
    for index, (row, extra) in enumerate(zip(listed, extras, strict=True)):
        speed = row["steps_per_second"]
        cells = (
            Cell(row["trial_id"], "code"), Cell(row["status"], "status"), Cell(row["task"]), Cell(row["baseline"]),
            Cell(row["model"]), _value(row["q"]), _value(row["m"]),
            *(_value(values[index]) for values in settings.values()), _value(row["seed"]), _count(row["steps"]),
            *(_metric(name, row[name]) for name in metrics), *(_value(extra.get(name)) for name in own),
            _seconds(row["wall_seconds"]), _number(speed, "" if speed is None else f"{speed:,.4g}"),
            Cell(row["device"] or ""), Cell(moment(row["finished"])),
            Cell(revision(row["commit"], row["dirty"]), "code"),
        )  # fmt: skip
        lines.append(Line(cells, frozenset({kind_of(row)})))
    notes = []
    if len(listed) < len(rows):
        notes.append(
            f"{len(listed):,} of {len(rows):,} trials: the failed ones and then the newest. All of them answer to "
            'python -m sweeper.query "SELECT * FROM trials" --format csv.'
        )
    if left_out:
        notes.append(f"Settings that differ too, without a column: {', '.join(left_out)}.")
    return Grid("Trials", heads, tuple(lines), " ".join(notes))


_ALWAYS = {"baseline", "objective.q", "objective.m", "task.name", "model.name", "seed", "steps"}


def _varying(rows: Sequence[Row]) -> tuple[dict[str, list[Any]], list[str]]:
    """Settings without a column of their own that differ between trials of one task.

    Returns:
        Values of the first `MAX_VARYING` settings for every row, None where a trial has no such setting; names of the
        other settings.
    """
    specs = [dict(leaf_values(json.loads(row["spec"]))) for row in rows]
    seen: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for row, entries in zip(rows, specs, strict=True):
        for path, value in entries.items():
            seen[row["task"], path].add(json.dumps(value))
    paths = sorted({path for (_, path), values in seen.items() if len(values) > 1} - _ALWAYS, key=_task_first)
    short = collections.Counter(path.rpartition(".")[2] for path in paths)

    def name(path: str) -> str:
        last = path.rpartition(".")[2]
        return CARRIED.get(path) or (last if short[last] == 1 else path)

    shown = paths[:MAX_VARYING]
    return (
        {name(path): [entries.get(path) for entries in specs] for path in shown},
        [name(path) for path in paths[MAX_VARYING:]],
    )


def _task_first(path: str) -> tuple[bool, str]:
    return not path.startswith("task."), path


# --------------------------------------------------------------------------------------------------------------------
# Provenance
# --------------------------------------------------------------------------------------------------------------------


def origins(rows: Iterable[Row]) -> Grid:
    """What made the trials: one line for all that share commit, versions, device and command."""
    keys = ("commit", "dirty", "lock_hash", "versions", "device", "command")
    groups: dict[tuple[Any, ...], list[Row]] = collections.defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    heads = (Head("commit"), Head("trials", True), Head("first start"), Head("last end"), Head("device"),
             Head("lock"), Head("versions"), Head("command"))  # fmt: skip
    lines = []
    for (commit, dirty, lock, versions, device, command), found in groups.items():
        started = [row["started"] for row in found if row["started"]]
        ended = [row["finished"] for row in found if row["finished"]]
        cells = (
            Cell(revision(commit, dirty), "code"), _count(len(found)), Cell(moment(min(started, default=None))),
            Cell(moment(max(ended, default=None))), Cell(device or ""), Cell((lock or "")[:10], "code"),
            Cell(_versions(versions)), Cell(redacted(command or ""), "code"),
        )  # fmt: skip
        lines.append(Line(cells, frozenset(map(kind_of, found))))
    lines.sort(key=lambda line: line.cells[3].text, reverse=True)
    note = "“+ changes”: the files differed from the commit. The lock is the hash of the locked dependencies."
    return Grid("What made the trials", heads, tuple(lines), note)


def _versions(text: str | None) -> str:
    try:
        return ", ".join(f"{name} {version}" for name, version in sorted(json.loads(text or "{}").items()))
    except (ValueError, AttributeError):
        return text or ""


def launches(starts: Mapping[str, Sequence[SweepRecord]]) -> Grid:
    """Every start of every sweep, with its command."""
    heads = (Head("sweep"), Head("when"), Head("trials", True), Head("commit"), Head("command"))
    lines = [
        Line((Cell(name), Cell(moment(record.provenance.captured)), _count(len(record.trial_ids)),
              Cell(_revision_of(record.provenance), "code"), Cell(redacted(record.provenance.command), "code")))
        for name, records in starts.items()
        for record in records
    ]  # fmt: skip
    return Grid("Starts of sweeps", heads, tuple(lines))


def _revision_of(provenance: Provenance) -> str:
    return revision(provenance.commit, provenance.dirty)


# --------------------------------------------------------------------------------------------------------------------
# The filter
# --------------------------------------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """A value to filter by, and the numbers of the kinds that it leaves visible."""

    value: str
    kinds: tuple[int, ...]


def choices(kinds: Sequence[Kind]) -> dict[str, tuple[Choice, ...]]:
    """The values to filter by, for each of task, baseline and network; numbers are places in `kinds`."""
    return {
        part: tuple(
            Choice(value, tuple(i for i, kind in enumerate(kinds) if getattr(kind, part) in ("", value)))
            for value in sorted({getattr(kind, part) for kind in kinds} - {""})
        )
        for part in Kind._fields
    }


def kinds_where(*conditions: Mapping[str, Any]) -> frozenset[Kind]:
    """The kinds that the conditions of a panel speak of, as far as they name any."""
    parts = []
    for columns in (("task", "task.name"), ("baseline",), ("model", "model.name")):
        wanted = [condition[name] for condition in conditions for name in columns if name in condition]
        # Conditions are read from the panel inwards; the innermost is the narrowest.
        values = wanted[-1] if wanted else [""]
        parts.append([str(value) for value in (values if isinstance(values, list) else [values])])
    return frozenset(Kind(*one) for one in itertools.product(*parts))
