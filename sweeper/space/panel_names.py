"""Names in the panels of a space that no trial will have: columns, metrics, training curves and outcomes.

What costs nothing is asked first: columns that every row has, entries of the file and of its trials, and metrics that
plug-ins declare. Only a name that is not among these makes the names be asked for that are known once an evaluation or
a step is traced (`trial_names`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sweeper.messages import did_you_mean, nearest_name
from sweeper.panels.panel import Panel
from sweeper.space.problems import Problem, shown
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import descendant
from sweeper.training.kind import kind_of
from sweeper.trial.columns import COLUMNS, METRICS
from sweeper.trial.entry_names import column_name, entries_of
from sweeper.trial.metrics import metric_named
from sweeper.trial.record import canonical
from sweeper.trial.trial import traits_of

Asked = tuple[tuple[Any, ...], str, str]  # place below the panels, name, and what it should be: the source of a panel

ANNOTATED = ("tags", "notes")


def wrong_names(spec: SweepSpec) -> Iterator[Problem]:
    """A problem for each name that no trial will have."""
    names = _Names(spec)
    panels = descendant(spec.document, ("panels",))
    for number, panel in enumerate(spec.panels):
        for location, name, source in _asked(panel):
            if (known := names.unless_known(source, name)) is not None:
                at = descendant(panels, (number, *location))
                yield at.problem(f"no trial has {shown(name)}{did_you_mean(nearest_name(name, known))}")


def _asked(panel: Panel) -> Iterator[Asked]:
    """Every name in a panel, with its place."""
    columns: list[tuple[tuple[Any, ...], Any]] = [(("split",), panel.split), *_chosen(panel, ())]
    x = getattr(getattr(panel, "x", None), "column", None)
    columns.append((("x",), x))
    for place, series in enumerate(panel.series):
        columns += _chosen(series, ("series", place))
    yield from ((location, name, "column") for location, name in columns if name)
    for part, location in ((panel, ()), *((series, ("series", place)) for place, series in enumerate(panel.series))):
        for key in ("metric", "tail"):
            if (name := getattr(part, key, None)) and panel.SOURCE in ("column", "curve", "outcome"):
                yield (*location, key), name, panel.SOURCE


def _chosen(part: Any, location: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Columns of conditions, and the metric of the best setting, of a panel or a series."""
    yield from (((*location, "where", name), name) for name in part.where)
    if part.best is not None:
        yield (*location, "best", "metric"), part.best.metric


class _Names:
    """The names that trials of a space have, asked for when they are needed."""

    def __init__(self, spec: SweepSpec):
        self._spec = spec

    def unless_known(self, source: str, name: str) -> list[str] | None:
        """None if trials have the name, else all names that they have."""
        every: list[str] = []
        for ask in self._sources(source):
            known = list(ask())
            every += known
            quantities = {metric_named(each).quantity for each in known} if source != "outcome" else set[str]()
            if (name if source != "column" else column_name(name)) in known or metric_named(
                name
            ).quantity in quantities:
                return None
        return every

    def _sources(self, source: str) -> Sequence[Callable[[], Iterable[str]]]:
        names = self._spec.names
        if source == "outcome":
            return lambda: METRICS, lambda: names.outcomes
        if source == "curve":
            return lambda: ["train_loss"], self._declared, lambda: names.training_curves, lambda: names.metrics
        return self._columns, self._entries, self._declared, lambda: names.metrics

    def _columns(self) -> Iterator[str]:
        yield from (*COLUMNS, *ANNOTATED)
        yield from (column_name(path) for path, _ in self._spec.entries)

    def _entries(self) -> Iterator[str]:
        for trial in self._spec.probes():
            yield from map(column_name, entries_of(canonical(trial)))

    def _declared(self) -> Iterator[str]:
        for trial in self._spec.names.trials:
            yield from kind_of(trial).directions(trial)
            yield from trial.DECLARED.tables.of_trials(traits_of(json.dumps(canonical(trial))), ())
