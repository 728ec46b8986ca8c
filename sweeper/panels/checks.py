"""Checks of labels in panels, and of names: columns, metrics, training curves, outcomes and tasks of the trials.

A panel is drawn when all trials are done, which is too late to learn that a name was misspelt. So panels are checked at
the start of a sweep. A report does not check names: it draws what the rows of the store have.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sweeper.panels.axes import Declaration, Points
from sweeper.panels.names import TrialNames, column_mistake, curve_mistake, task_mistake
from sweeper.panels.panel import Panel
from sweeper.panels.series import Series
from sweeper.trial.metrics import WORDS, Metric

Location = tuple[str | int, ...]  # keys and places from the list of panels down to a name
TASK = ("task", "task.name")  # columns of which every value is known before a trial runs
Mistake = Callable[[TrialNames, str], str | None]  # why no trial has the name; None if one has it


def mistakes(panels: Sequence[Panel], declared: Sequence[str], names: TrialNames) -> Iterator[tuple[Location, str]]:
    """The names in panels that no trial will have: the place of each, and a message.

    `declared` has the names of the panels in the document, where the curves of a cost panel are one panel.
    """
    by_name = {panel.name: panel for panel in panels}
    for index, declared_name in enumerate(declared):
        panel = by_name.get(declared_name) or next(panel for panel in panels if panel.figure == declared_name)
        yield from (((index, *location), message) for location, message in _mistakes_in(panel, names))


def _mistakes_in(panel: Panel, names: TrialNames) -> Iterator[tuple[Location, str]]:
    for location, name, mistake in _references(panel):
        if message := mistake(names, name):
            yield location, message
    for location, label in _labels(panel):
        if not is_text(label):
            yield location, rf"{label!r} holds no valid formula between its $ (a dollar sign is \$)"
    for location, label, metrics in _claims(panel):
        if message := _contradiction(label, map(names.metric, filter(None, metrics))):
            yield location, message


def _parts(panel: Panel) -> list[tuple[Location, Panel | Series]]:
    """A panel and its series, with their places."""
    return [((), panel), *((("series", place), series) for place, series in enumerate(panel.series))]


def _references(panel: Panel) -> Iterator[tuple[Location, str, Mistake]]:
    """The names in a panel, with their places, and how to tell whether the trials have them."""
    for location, part in _parts(panel):
        for name, value in part.where.items():
            yield (*location, "where", name), name, column_mistake
            for task in _each(value) if name in TASK else ():
                yield (*location, "where", name), str(task), task_mistake
        if part.best is not None:
            yield (*location, "best", "metric"), part.best.metric, column_mistake
        # The metrics of evaluations depend on protocols that are not chosen yet.
        for field in () if panel.draws_evaluations else ("metric", "tail"):
            if name := getattr(part, field, None):
                yield (*location, field), name, panel.mistake
    for field in ("split", *panel.COLUMNS):
        value = getattr(panel, field)
        if isinstance(value, Points) and value.curve:
            yield (field, "curve"), value.curve, curve_mistake
        for name in _each(getattr(value, "column", value)):
            if isinstance(name, str):
                yield (field,), name, column_mistake


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


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


def rightly_labelled(panel: Panel, metric: Callable[[str], Metric]) -> tuple[Panel, list[str]]:
    """The panel without labels of axes that contradict their metrics, and what is wrong with these.

    A report draws spaces that no start has checked, such as recorded ones of older versions. Without a label the metric
    gives it.
    """
    found = []
    for (part, *_), label, metrics in _claims(panel):
        if message := _contradiction(label, map(metric, filter(None, metrics))):
            found.append(message)
            if part != "series":  # whose label is its name as well
                axis = getattr(panel, str(part)).model_copy(update={"label": ""})
                panel = panel.model_copy(update={str(part): axis})
    return panel, found


def _contradiction(label: str, metrics: Iterable[Metric]) -> str | None:
    """What is wrong with a label that has our words for another statistic than that of any metric it stands for."""
    drawn = list(dict.fromkeys(metrics))
    for words in dict.fromkeys(WORDS.values()):
        if words in label.lower() and drawn and words not in [WORDS.get(metric.statistic) for metric in drawn]:
            right = " or ".join(f"'{metric.axis_label()}'" for metric in drawn)
            shown = " and ".join(metric.name for metric in drawn)
            return f"'{label}' is not what {shown} is: {right}; without a label the metric gives it"
    return None


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
