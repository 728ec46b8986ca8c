"""Names in the panels of a space that no trial will have: columns, metrics, training curves and outcomes.

Columns that every row has, entries of the trials, and metrics that plug-ins declare are known when a space is read. The
other names are known once evaluation and step are traced (`trial_names`), as a plan does.
"""

import json
from collections.abc import Iterator
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
            declared = source == "column" and all(kind_of(trial).DIRECTIONS_OF_ALL for trial in spec.names.trials)
            if (traced or declared) and not any(_alike(name, known, source) for known in _known(spec, source, traced)):
                nearest = did_you_mean(nearest_name(name, _known(spec, source, traced)))
                yield descendant(panels, (number, *location)).problem(f"no trial has {shown(name)}{nearest}")


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


def _alike(name: str, known: str, source: str) -> bool:
    """Whether a name is a known one, or a statistic of the same quantity."""
    meant = column_name(name) if source == "column" else name
    return meant == known or metric_named(name).quantity == metric_named(known).quantity


def _known(spec: SweepSpec, source: str, traced: bool) -> Iterator[str]:
    """The names of a source; those that cost something are made when they are asked for."""
    if source == "outcome":
        yield from METRICS
        yield from spec.names.outcomes if traced else ()
        return
    if source == "curve":
        yield "train_loss"
    else:
        yield from (*COLUMNS, *FURTHER, *map(column_name, spec.entries))
        for trial in spec.probes():
            yield from map(column_name, entries_of(canonical(trial)))
    for trial in spec.names.trials:
        yield from kind_of(trial).directions(trial)
        yield from trial.DECLARED.tables.of_trials(traits_of(json.dumps(canonical(trial))), ())
    if traced:
        yield from spec.names.training_curves if source == "curve" else ()
        yield from spec.names.metrics
