"""Which kinds of trial there are: the one place where the platform names the modules of kinds.

A kind is two things. What it declares of the entries and columns of its trials needs no library that computes, so
commands that only read a store are quick. The kind itself is loaded when it is first asked for, as its modules are
made of those of the platform.

Tables know of a trial what its first part, such as its experiment, says of itself: its *traits*, plain data that
`Trial.traits` makes of the record and that are remembered for later processes. Traits are None if this checkout does
not have the part, or not with these fields.
"""

import abc
import functools
import importlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sweeper.trial.metrics import Metric, metric_named

if TYPE_CHECKING:
    import pandas as pd

Traits = Mapping[str, Any]


class Goal(NamedTuple):
    """The goal by which settings are ranked: a large or a small mean of a metric over the training seeds."""

    metric: str
    mode: Literal["min", "max"]

    def text(self) -> str:
        """Such as "highest accuracy"."""
        return f"{'highest' if self.mode == 'max' else 'lowest'} {self.metric}"


class KindTables(abc.ABC):
    """What tables and axes show of the trials of a kind."""

    @abc.abstractmethod
    def goals(self, traits: Traits | None, measured: Collection[str]) -> Sequence[Goal]:
        """What trials are ranked by unless a space says it, and then what decides between equals; `measured` are names
        of metrics that some of the trials have."""

    def of_settings(self, traits: Traits | None, trials: "pd.DataFrame", asked: Sequence[str]) -> list[str]:
        """The metrics of a table of settings, the most important first, with those that a space has `asked` for.

        It may name metrics that no trial has; `trials` have a column for each that one has.
        """
        return self.of_trials(traits, asked)

    def of_trials(self, traits: Traits | None, asked: Sequence[str]) -> list[str]:
        """The metrics of a list of trials, as `of_settings`."""
        return [*(goal.metric for goal in self.goals(traits, ())), *asked]

    def meaningless(self, traits: Traits | None) -> Collection[str]:
        """Dotted paths of entries that mean nothing beside such a first part; tables leave them out."""
        return ()

    def is_share(self, metric: str) -> bool:
        """Whether a metric of this name is a number between 0 and 1 that is shown as per cent."""
        return False

    def metric(self, name: str) -> Metric:
        """What the name of a metric, or of a training curve, stands for."""
        return metric_named(name)

    def outcome_label(self, name: str) -> str:
        """The words for an outcome of inputs on an axis."""
        words = name.replace("_", " ")
        return words[0].upper() + words[1:]


class Declared(NamedTuple):
    """What the platform knows of a kind of trial whose code it has not loaded. Entries are dotted paths."""

    # The module that has the kind as `KIND`, a `sweeper.training.kind.Kind`. Its imports compute numbers, but for
    # modules `checks`, `declared` and `figures` beside it
    module: str
    tables: KindTables  # what tables show of its trials
    parts: Mapping[str, Any]  # entries that are plug-ins, whose `name` decides which fields they have; kinds by entry
    carried: Mapping[str, str] = {}  # entries that have a column of another name than their path, with the column
    leading: tuple[str, ...] = ()  # entries whose columns come first, before those of the first part
    label: tuple[str, ...] = ()  # entries that a label begins with, by their values alone
    unnamed: tuple[str, ...] = ()  # further entries that need no name before their value
    protocol: str = ""  # the entry that says how a network is evaluated, and that an evaluation may change
    columns: Mapping[str, str] = {}  # columns of a store for entries, each with its type: string, int64 or double
    metrics: tuple[str, ...] = ()  # metrics that have a column of their own in a store


KINDS: Mapping[str, str] = {
    "experiment": "sweeper.trial.kinds", "task": "sweeper.learned_algorithms.declared",
}  # fmt: skip
"""The module that has the `DECLARED` of a kind, by the entry that only its trials have; the last is meant without one.

It imports no library that computes.
"""


def declared_kinds() -> Iterator[Declared]:
    """What every kind declares."""
    return map(_declared, KINDS)


def kinds() -> Iterator[Any]:
    """Every kind."""
    return map(_kind, KINDS)


def declared_with(data: Any) -> Declared:
    """What the kind of the trial with these entries of a mapping declares, whatever their values are."""
    return _declared(entry_of(data))


def kind_with(data: Any) -> Any:
    """The kind of the trial with these entries, as `declared_with`."""
    return _kind(entry_of(data))


def contract_of(plugin_kind: str) -> type:
    """The class that the plug-ins of a kind extend."""
    parts = ((kind.record, part, of) for kind in kinds() for part, of in kind.record.DECLARED.parts.items())
    return next(record.model_fields[part].annotation for record, part, of in parts if of == plugin_kind)


def entry_of(data: Any) -> str:
    """The name in `KINDS` of the kind of the trial with these entries, as `declared_with`."""
    keys = data if isinstance(data, Mapping) else ()
    return next((entry for entry in KINDS if entry in keys), list(KINDS)[-1])


@functools.cache
def _declared(entry: str) -> Declared:
    return importlib.import_module(KINDS[entry]).DECLARED


@functools.cache
def _kind(entry: str) -> Any:
    return importlib.import_module(_declared(entry).module).KIND


# Experiments


class _ExperimentTables(KindTables):
    """Traits of an experiment are its `metrics`."""

    def goals(self, traits: Traits | None, measured: Collection[str]) -> Sequence[Goal]:
        metrics: Mapping[str, Any] = {"loss": "min"} if traits is None else traits["metrics"]
        return [Goal(*each) for each in metrics.items()]


DECLARED = Declared(
    module="sweeper.training.experiments",
    tables=_ExperimentTables(),
    parts={"experiment": "experiment"},
    carried={"experiment.name": "task"},
    leading=("experiment.name",),
    label=("experiment.name",),
    protocol="experiment",
)
"""What trials of experiments declare, the kind of the platform itself."""
