"""The contract of a search method: how settings are taken from a space, and which trials of a setting go on.

A search method is one class, the record under `search:` of a space. Everything that distinguishes a method is asked
from this class; nobody asks which method it is. `sweeper.packs.work_sources` hands out the work by the answers:

- The settings are known before anything runs (`settings`), or each is proposed by the values of earlier ones
  (`ADAPTS`, `study`).
- Trials of one setting may compete with each other while they train (`halving`).
- Packs that fall behind others may be stopped (`early_stopping`).

Each method is a module, and a name in `search_methods`.
"""

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from sweeper.space.early_stopping import AnyEarlyStopping
from sweeper.space.halving import Halving
from sweeper.space.holes import MAX_SETTINGS, Choice, Hole, holes_in
from sweeper.space.yaml_tree import Node
from sweeper.trial.field_types import ListOf
from sweeper.trial.metrics import SUCCESS
from sweeper.trial.record import Spec

T = TypeVar("T")

OneOrMore = Annotated[ListOf[T], BeforeValidator(lambda value: value if isinstance(value, list | tuple) else [value])]
"""Several values, of which a single one needs no list."""

Draws = Annotated[int, Field(ge=1, le=MAX_SETTINGS)]


class Study(abc.ABC):
    """An adaptive search under way: it proposes settings, and learns the value of each."""

    @abc.abstractmethod
    def ask(self) -> Mapping[str, Any]:
        """The next setting: for every path in `open_holes` a value, or the index of an entry of a choice."""

    @abc.abstractmethod
    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """The value of each metric for the setting that was asked for as the `number`th, from 0; None if it failed."""

    @abc.abstractmethod
    def prune(self, number: int) -> None:
        """The setting that was asked for as the `number`th, from 0, was stopped early."""

    @abc.abstractmethod
    def leave_out(self, number: int) -> None:
        """The setting that was asked for as the `number`th, from 0, is one that the space leaves out."""


class Search(Spec):
    """How settings are taken from the space.

    A method overrides `settings`, or sets `ADAPTS` and overrides `study` and `title`.
    """

    DRAWS: ClassVar[bool]
    """Whether the method draws settings, from ranges too; otherwise it takes every entry of every choice."""

    ADAPTS: ClassVar[bool] = False
    """Whether settings depend on the values of earlier settings, so that they are not known before the search runs."""

    method: str
    trials: Annotated[OneOrMore[Draws], Field(min_length=1)] | None = None  # settings to draw, in all or by variant
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    metric: Annotated[OneOrMore[str], Field(min_length=1)] = (SUCCESS.tail.name,)  # several for a Pareto front
    mode: Annotated[OneOrMore[Literal["min", "max"]], Field(min_length=1)] = ("max",)
    early_stopping: AnyEarlyStopping | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "Search":
        if not self.DRAWS and self.trials is not None:
            raise ValueError(f"trials: a {self.method} is run whole; the number of settings is for methods that draw")
        if self.DRAWS and self.trials is None:
            raise ValueError(f"method: '{self.method}' needs search.trials, the number of settings to draw")
        if len(self.metric) > 1 and not self.ADAPTS:
            raise ValueError(f"metric: a {self.method} ranks by one metric; several are for Optuna's samplers")
        if len(set(self.metric)) < len(self.metric):
            raise ValueError("metric: names a metric twice")
        if "mode" in self.model_fields_set and len(self.mode) != len(self.metric):
            raise ValueError(f"mode: {len(self.metric)} metrics need as many directions, got {len(self.mode)}")
        return self

    @property
    def draws(self) -> int:
        """Number of settings to draw; 0 for a method that takes all."""
        return sum(self.trials or ())

    def settings(self, variants: Sequence[Node]) -> Iterator[Iterable[Node]]:
        """For every setting, in order, the filled trees of its training seeds and of the axes that it takes in full.

        It is a `ValueError` if the search adapts.
        """
        raise ValueError(f"the search {self.method} has no list of trials; see study()")

    def study(self, variants: Sequence[Node]) -> Study:
        """A study without values; equal values make it propose equal settings. A `ValueError` unless it adapts."""
        raise ValueError(f"the search {self.method} proposes no settings; see settings()")

    @property
    def halving(self) -> Halving | None:
        """The rules by which trials of one setting compete while they train; None if all are trained to the end."""
        return None

    @property
    def stops_trials(self) -> bool:
        """Whether trials are stopped before their end, so that a stopped trial counts as done."""
        return self.early_stopping is not None or self.halving is not None

    @property
    def goal(self) -> tuple[str, Literal["min", "max"]] | None:
        """The metric that ranks the settings, and its direction; None if the task's main metric does."""
        return (self.metric[0], self.mode[0]) if self.ADAPTS or "metric" in self.model_fields_set else None

    def title(self, trials: int) -> str:
        """What a start says of the search, of which so many trials are known; empty to tell the settings alone."""
        return ""


def open_holes(variants: Sequence[Node]) -> dict[str, Hole]:
    """Every hole that is drawn, by its path, in the order of paths.

    Seeds and axes that are taken in full are left out, since every setting is trained with all of them. Where there are
    several variants, the index of the variant is drawn as the choice `variants`.
    """
    holes = {node.path: node.value for variant in variants for node in holes_in(variant) if node.value.DRAWN}
    if len(variants) > 1:
        holes["variants"] = Choice.among(variants)
    return dict(sorted(holes.items()))
