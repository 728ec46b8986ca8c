"""Checks of the names in panels: columns, metrics, training curves, outcomes and tasks of the space's trials.

A panel is drawn when all trials are done, which is too late to learn that a name was misspelt. So panels are checked at
the start of a sweep. A report does not check names: it draws what the rows of the store have.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sweeper.messages import did_you_mean, nearest_name
from sweeper.panels.panel import MetricSource, Panel
from sweeper.panels.series import Best, Where
from sweeper.space.problems import Problem, SearchSpaceError, shown
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.trial_names import TrialNames
from sweeper.space.yaml_tree import Node, descendant
from sweeper.trial.columns import COLUMNS, METRICS
from sweeper.trial.metrics import metric_named

_OF_SOME_TRIALS = {*METRICS, "extra_metrics", "error_kind", "error_message", "error_step"} - {"train_loss"}

ROW_COLUMNS = tuple(name for name in COLUMNS if name not in _OF_SOME_TRIALS)
"""Columns that every finished row of a store has, beside the metrics of the evaluation."""


class _Reference(NamedTuple):
    """A name in a panel: its place there, and where its values come from."""

    location: tuple[Any, ...]
    name: str
    source: MetricSource


def _problem(names: TrialNames, name: str, source: MetricSource) -> str | None:
    """The mistake in a name; None if the name is right."""
    if source == "column":
        return _column_problem(names, name)
    if source == "votes":
        return _votes_problem(names, name)
    known = {"curve": names.curves, "outcome": names.outcomes, "walk": names.outcomes}[source]
    if name in known or (source == "walk" and f"{name}_0_0" in known):
        return None
    what = "training curve" if source == "curve" else "outcome"
    listed = [known_name for known_name in known if source != "walk" or known_name.endswith("_0_0")]
    return f"unknown {what} {shown(name)}{did_you_mean(nearest_name(name, known))} (known: {', '.join(listed)})"


def _votes_problem(names: TrialNames, name: str) -> str | None:
    metrics = map(metric_named, names.metrics)
    known = dict.fromkeys(metric._replace(votes=None).name for metric in metrics if metric.votes is not None)
    if name in known:
        return None
    return f"unknown votes {shown(name)}{did_you_mean(nearest_name(name, known))} (known: {', '.join(known)})"


def _column_problem(names: TrialNames, name: str) -> str | None:
    if name in ROW_COLUMNS or name in names.paths:
        return None
    ends = [path for path in names.paths if path.endswith(f".{name}")]
    if len(ends) == 1 or name in names.metrics:
        return None
    if ends:
        return f"'{name}' could be {' or '.join(sorted(ends))}"
    known = [*ROW_COLUMNS, *names.metrics, *names.paths, *(path.rpartition(".")[2] for path in names.paths)]
    return f"unknown column {shown(name)}{did_you_mean(nearest_name(name, known))}"


def check(spec: SweepSpec) -> None:
    """Refuse panels that name what no trial of the space will have.

    Raises:
        SearchSpaceError: a problem for every such name, with its place in the document.
    """
    if not spec.panels:
        return
    if problems := _problems(spec.panels, spec.document, TrialNames(spec.variants)):
        raise SearchSpaceError(str(spec.path), problems)


def _problems(panels: Sequence[Panel], root: Node, names: TrialNames) -> list[Problem]:
    by_name = {panel.name: panel for panel in panels}
    problems = []
    for index, node in enumerate(root.value["panels"].value):
        declared = node.value["name"].value
        panel = by_name.get(declared) or next(panel for panel in panels if panel.figure == declared)
        for reference in _references(panel):
            if message := _problem(names, reference.name, reference.source):
                at = descendant(root, ("panels", index, *reference.location))
                problems.append(Problem(at.path, message, at.where))
        for location, task in _tasks(panel):
            if task not in names.tasks:
                at = descendant(root, ("panels", index, *location))
                message = f"no trial has the task {shown(task)} (known: {', '.join(names.tasks)})"
                problems.append(Problem(at.path, message, at.where))
    return problems


def _references(panel: Panel) -> Iterator[_Reference]:
    yield from _choice((), panel.where, panel.best)
    # The metrics of evaluations depend on protocols that are not chosen yet.
    known = not panel.draws_evaluations
    yield from _drawn((), panel) if known else ()
    for place, series in enumerate(panel.series):
        yield from _choice(("series", place), series.where, series.best)
        yield from _drawn(("series", place), series, panel.SOURCE) if known else ()
    for field in panel.CURVES:
        if name := getattr(panel, field).curve:
            yield _Reference((field, "curve"), name, "curve")
    for field in ("split", *panel.COLUMNS):
        value = getattr(panel, field)
        for name in value if isinstance(value, tuple) else (getattr(value, "column", value),):
            if isinstance(name, str):
                yield _Reference((field,), name, "column")


def _drawn(location: tuple[Any, ...], part: Any, source: MetricSource | None = None) -> Iterator[_Reference]:
    for field in ("metric", "tail"):
        if name := getattr(part, field, None):
            yield _Reference((*location, field), name, source or part.SOURCE)


def _choice(location: tuple[Any, ...], where: Where, best: Best | None) -> Iterator[_Reference]:
    for name in where:
        yield _Reference((*location, "where", name), name, "column")
    if best is not None:
        yield _Reference((*location, "best", "metric"), best.metric, "column")


def _tasks(panel: Panel) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The tasks that conditions ask for, with their places."""
    for location, where in ((), panel.where), *((("series", i), part.where) for i, part in enumerate(panel.series)):
        for key in {"task", "task.name"} & where.keys():
            value = where[key]
            for task in value if isinstance(value, list) else [value]:
                yield (*location, "where", key), task
