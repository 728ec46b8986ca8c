"""Checks of labels in panels, and of names: columns, metrics, training curves, outcomes and tasks of the trials.

A panel is drawn when all trials are done, which is too late to learn that a name was misspelt. So panels are checked at
the start of a sweep. A report does not check names: it draws what the rows of the store have.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from sweeper.learned_algorithms.metrics import metric_named
from sweeper.messages import did_you_mean, nearest_name
from sweeper.panels.axes import Declaration, Points, contradiction
from sweeper.panels.kinds import MetricSource, Panel
from sweeper.panels.series import Series
from sweeper.trial.columns import COLUMNS, METRICS
from sweeper.trial.entry_names import CARRIED, column_name, meant

_OF_SOME_TRIALS = {*METRICS, "extra_metrics", *(name for name in COLUMNS if name.startswith("error_"))} - {"train_loss"}

_ROW_COLUMNS = tuple(name for name in COLUMNS if name not in _OF_SOME_TRIALS)
"""Columns that every finished row of a store has, beside the metrics of the evaluation."""

_ENTRIES = (*CARRIED.items(), ("batch_size", "batch_size"))
"""Entries of which a row has a column, with the column; the trials of a kind have some of them."""

Location = tuple[str | int, ...]  # keys and places from the list of panels down to a name


class Names(Protocol):
    """The names that trials will have. To list metrics and outcomes may take seconds, so they are read when needed."""

    tasks: list[str]
    paths: list[str]

    @property
    def metrics(self) -> list[str]: ...

    @property
    def outcomes(self) -> list[str]: ...

    @property
    def curves(self) -> list[str]: ...


def mistakes(panels: Sequence[Panel], declared: Sequence[str], names: Names) -> Iterator[tuple[Location, str]]:
    """The names in panels that no trial will have: the place of each, and a message.

    `declared` has the names of the panels in the document, where the curves of a cost panel are one panel.
    """
    by_name = {panel.name: panel for panel in panels}
    for index, declared_name in enumerate(declared):
        panel = by_name.get(declared_name) or next(panel for panel in panels if panel.figure == declared_name)
        for location, name, source in _references(panel):
            if message := _mistake(names, name, source):
                yield (index, *location), message
        for location, label in _labels(panel):
            if not is_text(label):
                yield (index, *location), rf"{label!r} holds no valid formula between its $ (a dollar sign is \$)"
        for location, label, metrics in _claims(panel):
            if message := contradiction(label, metrics):
                yield (index, *location), message
        for location, task in _tasks(panel):
            if task not in names.tasks:
                yield (index, *location), f"no trial has the task '{task}' (known: {', '.join(names.tasks)})"


def _mistake(names: Names, name: str, source: MetricSource) -> str | None:
    listed = None
    match source:
        case "column":
            return _mistake_in_column(names, name)
        case "votes":
            metrics = map(metric_named, names.metrics)
            what, known = "votes", [metric._replace(votes=None).name for metric in metrics if metric.votes is not None]
        case "curve":
            what, known = "training curve", names.curves
        case "outcome":
            what, known = "outcome", names.outcomes
        case "walk":
            listed = [outcome for outcome in names.outcomes if outcome.endswith("_0_0")]
            what, known = "outcome", [*names.outcomes, *(walk.removesuffix("_0_0") for walk in listed)]
    if name in known:
        return None
    hint = did_you_mean(nearest_name(name, known))
    return f"unknown {what} '{name}'{hint} (known: {', '.join(dict.fromkeys(known if listed is None else listed))})"


def _mistake_in_column(names: Names, name: str) -> str | None:
    of_entries = [path for path, column in _ENTRIES if column == column_name(name)]
    columns = list(map(column_name, names.paths))
    if of_entries and not set(of_entries) & set(names.paths):
        return f"no trial has a value in the column '{name}'{meant(name, columns)}"
    known = [*_ROW_COLUMNS, *names.metrics, *columns]
    metric = metric_named(name)
    of_inputs = metric.statistic == "pooled" and metric._replace(statistic="mean").name in names.outcomes
    return None if of_inputs or column_name(name) in known else f"unknown column '{name}'{meant(name, known)}"


def _parts(panel: Panel) -> list[tuple[Location, Panel | Series]]:
    """A panel and its series, with their places."""
    return [((), panel), *((("series", place), series) for place, series in enumerate(panel.series))]


def _references(panel: Panel) -> Iterator[tuple[Location, str, MetricSource]]:
    """The names in a panel, with their places and where the values come from."""
    for location, part in _parts(panel):
        for name in part.where:
            yield (*location, "where", name), name, "column"
        if part.best is not None:
            yield (*location, "best", "metric"), part.best.metric, "column"
        # The metrics of evaluations depend on protocols that are not chosen yet.
        for field in () if panel.draws_evaluations else ("metric", "tail"):
            if name := getattr(part, field, None):
                yield (*location, field), name, panel.SOURCE
    for field in ("split", *panel.COLUMNS):
        value = getattr(panel, field)
        if isinstance(value, Points) and value.curve:
            yield (field, "curve"), value.curve, "curve"
        for name in value if isinstance(value, tuple) else (getattr(value, "column", value),):
            if isinstance(name, str):
                yield (field,), name, "column"


def _labels(record: Declaration) -> Iterator[tuple[Location, str]]:
    """The texts that a figure shows, with their places."""
    for name, value in record:
        if isinstance(value, str) and name in ("title", "label", "x"):
            yield (name,), value
        parts = [((name, place), part) for place, part in enumerate(value)] if isinstance(value, tuple) else []
        for at, part in [((name,), value), *parts]:
            if isinstance(part, Declaration):
                yield from (((*at, *location), label) for location, label in _labels(part))


def _claims(panel: Panel) -> Iterator[tuple[Location, str, Sequence[str | None]]]:
    """The labels of axes and series, with their places and the metrics that they stand for."""
    drawn = [metric for series in panel.series or (None,) for metric in panel.metrics(series)]
    for axis, metrics in (("x", [getattr(getattr(panel, "x", None), "column", None)]), ("y", drawn)):
        yield (axis, "label"), getattr(getattr(panel, axis, None), "label", ""), metrics
    for place, series in enumerate(panel.series):
        yield ("series", place, "label"), series.label, panel.metrics(series)


def _tasks(panel: Panel) -> Iterator[tuple[Location, Any]]:
    """The tasks that conditions ask for, with their places."""
    for location, part in _parts(panel):
        for key in {"task", "task.name"} & part.where.keys():
            value = part.where[key]
            for task in value if isinstance(value, list) else [value]:
                yield (*location, "where", key), task


@functools.cache
def is_text(label: str) -> bool:
    """Whether matplotlib can draw a label: between two $ stands a valid formula."""
    signs = label.count("$") - label.count(r"\$")
    if signs == 0 or signs % 2:  # then no formula is meant
        return True
    try:
        from matplotlib.mathtext import MathTextParser  # takes a third of a second to import
    except ValueError:  # MPLBACKEND names a backend that is not there, so nothing will be drawn
        return True
    try:
        MathTextParser("path").parse(label)
    except (ValueError, RecursionError):
        return False
    return True
