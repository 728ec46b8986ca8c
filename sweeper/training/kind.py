"""The contract of a kind of trial: what its trials are, how they are trained and evaluated, and how they are stored.

Which kinds there are, and what they declare, stands in `sweeper.trial.kinds`. Trials have no lane axis here. What is
called the network of a trial is `TrainerState.network` of one lane.
"""

import abc
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from jaxtyping import PyTree

from sweeper.training.trainer import Trainer
from sweeper.trial import plugins
from sweeper.trial.kinds import kinds
from sweeper.trial.trial import Trial

T = TypeVar("T", bound=Trial)

Checks = Mapping[str, Callable[[], None]]
"""Checks by what they look at, in a few words. A check raises a `ContractError`; checks of equal words are equal."""

Keep = Callable[[PyTree, Any, str], None]
"""Refuses what a store cannot keep, given by shapes, with the plug-in and its method that make it."""

Traced = Callable[..., Any]
"""`traced(plugin, method, function, *arguments)` traces a function of the trial and the arguments, and gives shapes."""


class Results(NamedTuple):
    """What the evaluation of a network makes."""

    metrics: dict[str, float]
    outcomes: dict[str, np.ndarray]  # float32 columns by name, one entry for every input; empty without any
    program: str | None = None  # the digest of the program that made them


class Names(NamedTuple):
    """The names of what an evaluation can make."""

    metrics: list[str]
    outcomes: list[str]


class Kind(abc.ABC, Generic[T]):
    """A kind of trial; what tables show of it is declared (`sweeper.trial.kinds`)."""

    record: type[T]
    """What its trials are."""

    goal: ClassVar[str] = ""
    """The metric that an adaptive search makes large where a space names none."""

    @abc.abstractmethod
    def trainer(self, trial: T) -> Trainer[Any]:
        """The trainer of a trial, or of trials stacked along a lane axis; equal for trials of equal structure."""

    @abc.abstractmethod
    def evaluate(self, trial: T, network: PyTree, step: int) -> Results:
        """Metrics and outcomes of a network after so many steps.

        What the contract of a plug-in excludes is a `ContractError`.
        """

    def data(self, trial: T) -> str | None:
        """The digest of arrays that programs of a trial get beside the trial and its state; None without any."""
        return None

    def forget_data(self) -> None:
        """Free the arrays of `data` of all trials, and make them anew when they are next needed."""

    @abc.abstractmethod
    def final(self, curves: Mapping[str, float]) -> dict[str, float]:
        """The metrics that are made of the last point of every training curve."""

    @abc.abstractmethod
    def kept(self, trial: T, network: PyTree) -> PyTree:
        """The part of a network that a store keeps, a pytree of arrays."""

    @abc.abstractmethod
    def built(self, trial: T) -> PyTree:
        """What `kept` gives of a network before the first step, with shapes in place of arrays."""

    def restored(self, trial: T, kept: PyTree) -> PyTree:
        """The network that `evaluate` takes, of what a store has kept of one."""
        return kept

    def misfit(self, trial: T, changed: T) -> str | None:
        """Why what a store has kept of a trial cannot be evaluated as that of `changed`, by another protocol; or None.

        It is a `ContractError` if the plug-ins of the trial make no network of what is kept.
        """
        return None

    def startable(self, trial: T) -> PyTree:
        """What `kept` must give of another trial that this one can start from, with shapes in place of arrays.

        It is a `ContractError` if a plug-in of the trial cannot start from a network.
        """
        return self.built(trial)

    def by_shapes(self, trial: T) -> T:
        """The trial as programs see it; the networks that its fields name have shapes in place of arrays."""
        return trial.for_programs()

    @abc.abstractmethod
    def names(self, trial: T) -> Names:
        """The names of what `evaluate` can make; nothing is trained, compiled or run."""

    DIRECTIONS_OF_ALL: ClassVar[bool] = False
    """Whether `directions` has every metric of a trial, also without a trace."""

    def directions(self, trial: T) -> Mapping[str, bool]:
        """The metrics that the plug-ins of a trial declare, and whether high values are the good ones."""
        return {}

    # Figures

    def panels(self) -> tuple[type, ...]:
        """Kinds of panel that only these trials have: records that extend `sweeper.panels.panel.Panel`."""
        return ()

    def drawings(self) -> Mapping[str, type]:
        """How these are drawn: by the kind of panel a subclass of `sweeper.analysis.figures.drawing.Drawing`."""
        return {}

    # Contracts

    @abc.abstractmethod
    def checks_by_shapes(self, trial: T, keep: Keep) -> Checks:
        """Checks that trace every method of the plug-ins: nothing is computed, and no device is needed."""

    def checks_by_values(self, trial: T) -> Checks:
        """Checks of a few values, which every start makes once for its code; methods have the right shapes."""
        return {}

    @abc.abstractmethod
    def trace_programs(self, trial: T, traced: Traced) -> None:
        """Trace the program of every method of the plug-ins, each with a name of its own."""

    @abc.abstractmethod
    def examples(self, kind: plugins.Kind, name: str) -> list[T]:
        """Trials with a plug-in that is one of the record's parts, and with those beside which it has to work.

        It is pydantic's `ValidationError` if there are none with its defaults.
        """


def kind_of(trial: Trial) -> Kind[Any]:
    """The kind of a trial."""
    return _with_record(type(trial))


@functools.cache
def _with_record(record: type[Trial]) -> Kind[Any]:
    return next(kind for kind in kinds() if kind.record is record)


def trainer_of(trial: Trial) -> Trainer[Any]:
    """The trainer of a trial, or of trials stacked along a lane axis."""
    return kind_of(trial).trainer(trial)
