"""The names that the trials of a space will have, and what is said of a name that none of them has."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sweeper.messages import instead
from sweeper.trial.columns import COLUMNS, METRICS
from sweeper.trial.entry_names import CARRIED, column_name, meant
from sweeper.trial.metrics import Metric, metric_named

_OF_SOME_TRIALS = {*METRICS, "extra_metrics", *(name for name in COLUMNS if name.startswith("error_"))} - {"train_loss"}

_ROW_COLUMNS = tuple(name for name in COLUMNS if name not in _OF_SOME_TRIALS)
"""Columns that every finished row of a store has, beside the metrics of the evaluation."""

_ENTRIES = (*CARRIED.items(), ("batch_size", "batch_size"))
"""Entries of which a row has a column, with the column; the trials of a kind have some of them."""


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

    def metric(self, name: str) -> Metric: ...


def unknown(what: str, name: str, known: Sequence[str]) -> str | None:
    """A message about a name that is not among those that are known; None if it is."""
    return None if name in known else f"unknown {what} '{name}'{instead(name, known)}"


def curve_mistake(names: Names, name: str) -> str | None:
    """As `unknown`, of a training curve."""
    if name not in names.curves and name in names.metrics:
        return f"'{name}' is measured at the end of a training; with trial.evaluate_every it is a curve too"
    return unknown("training curve", name, names.curves)


def column_mistake(names: Names, name: str) -> str | None:
    """As `unknown`, of a column of the trials, or of what is made of the outcomes of all trainings together."""
    of_entries = [path for path, column in _ENTRIES if column == column_name(name)]
    columns = list(map(column_name, names.paths))
    if of_entries and not set(of_entries) & set(names.paths):
        return f"no trial has a value in the column '{name}'{meant(name, columns)}"
    known = [*_ROW_COLUMNS, *names.metrics, *columns]
    metric = metric_named(name)
    of_inputs = metric.statistic == "pooled" and metric._replace(statistic="mean").name in names.outcomes
    return None if of_inputs or column_name(name) in known else f"unknown column '{name}'{meant(name, known)}"


def outcome_mistake(names: Names, name: str) -> str | None:
    """As `unknown`, of an outcome of inputs."""
    return unknown("outcome", name, names.outcomes)


def task_mistake(names: Names, name: str) -> str | None:
    """As `unknown`, of a task."""
    return None if name in names.tasks else f"no trial has the task '{name}'{instead(name, names.tasks)}"


MISTAKES: Mapping[str, Callable[[Names, str], str | None]] = {
    "column": column_mistake,
    "curve": curve_mistake,
    "outcome": outcome_mistake,
}
"""What is said of the name of a metric, by where metrics come from."""
