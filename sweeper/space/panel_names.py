"""Names in the panels of a space that no trial will have: columns, metrics, training curves and outcomes.

Columns that every row has, entries of the trials, and metrics that plug-ins declare are known when a space is read. The
other names are known once evaluation and step are traced (`trial_names`), as a plan does.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sweeper.messages import did_you_mean, nearest_name
from sweeper.panels.panel import GridPanel, Panel
from sweeper.space.problems import Problem, shown
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import descendant
from sweeper.training.kind import kind_of
from sweeper.trial.columns import COLUMNS, METRICS
from sweeper.trial.entry_names import column_name, entries_of
from sweeper.trial.metrics import metric_named
from sweeper.trial.record import canonical
from sweeper.trial.trial import traits_of

Location = tuple[Any, ...]

FURTHER = ("tags", "notes", "start_from_setting")
"""Columns of rows that no file of a trial has."""


def wrong_names(spec: SweepSpec, traced: bool) -> Iterator[Problem]:
    """A problem for each name that no trial will have; without `traced` names that only a trace tells are left."""
    panels = descendant(spec.document, ("panels",))
    for number, panel in enumerate(spec.panels):
        for location, name, source in _asked(panel):
            known, unknown = list[str](), True
            sources, complete = _sources(spec, source, traced)
            for ask in sources:
                known += (found := list(ask()))
                unknown = not _has(found, name, source)
                if not unknown:
                    break
            if unknown and complete:
                at = descendant(panels, (number, *location))
                yield at.problem(f"no trial has {shown(name)}{did_you_mean(nearest_name(name, known))}")


def _asked(panel: Panel) -> Iterator[tuple[Location, str, str]]:
    """Every name in a panel, with its place and the source that has it."""
    columns: list[tuple[Location, Any]] = [
        (("split",), panel.split), (("x",), getattr(getattr(panel, "x", None), "column", None)),
    ]  # fmt: skip
    if isinstance(panel, GridPanel):
        columns += [((key,), getattr(panel, key, None)) for key in ("rows", "columns", "longest")]
    for part, location in ((panel, ()), *((series, ("series", place)) for place, series in enumerate(panel.series))):
        columns += [((*location, "where", name), name) for name in part.where]
        columns.append(((*location, "best", "metric"), part.best and part.best.metric))
        for key in ("metric", "tail"):
            if (name := getattr(part, key, None)) and panel.SOURCE in ("column", "curve", "outcome"):
                yield (*location, key), name, panel.SOURCE
    yield from ((location, name, "column") for location, name in columns if name)


def _has(known: Sequence[str], name: str, source: str) -> bool:
    """Whether a name is known, or a statistic of a known quantity."""
    meant = column_name(name) if source == "column" else name
    return meant in known or metric_named(name).quantity in {metric_named(each).quantity for each in known}


def _sources(spec: SweepSpec, source: str, traced: bool) -> tuple[list[Callable[[], Iterable[str]]], bool]:
    """What gives the names of a source, the cheap ones first, and whether these are all names."""
    names = spec.names

    def columns() -> Iterator[str]:
        yield from (*COLUMNS, *FURTHER)
        yield from map(column_name, spec.entries)

    def entries() -> Iterator[str]:
        return (column_name(path) for trial in spec.probes() for path in entries_of(canonical(trial)))

    def declared() -> Iterator[str]:
        for trial in names.trials:
            yield from kind_of(trial).directions(trial)
            yield from trial.DECLARED.tables.of_trials(traits_of(json.dumps(canonical(trial))), ())

    match source:
        case "outcome":
            return [lambda: METRICS, *[lambda: names.outcomes] * traced], traced
        case "curve":
            return [
                lambda: ["train_loss"],
                declared,
                *[lambda: names.training_curves, lambda: names.metrics] * traced,
            ], traced
        case _:
            every_declared = all(kind_of(trial).DIRECTIONS_OF_ALL for trial in names.trials)
            return [columns, entries, declared, *[lambda: names.metrics] * traced], traced or every_declared
