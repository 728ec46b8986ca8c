"""The contract of a search method: how settings are taken from a space.

A search method is a record, the `search:` of a space, and one of two kinds. A `ListedSearch` knows all of its settings
before anything runs. An `AdaptiveSearch` starts a `Study`, which chooses each setting by the values of earlier ones.
Each method is a module, and a name in `search_methods`.
"""

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from sweeper.space.holes import MAX_SETTINGS, Hole, holes_in
from sweeper.space.problems import Problem
from sweeper.space.yaml_tree import Node
from sweeper.trial.metrics import SUCCESS
from sweeper.trial.record import Spec
from sweeper.trial.trial_spec import Count, TrialSpec


class Asha(Spec):
    """Early stopping by asynchronous successive halving (Li et al., arXiv 1810.05934) of the training loss.

    Attributes:
        metric: The training curve by which packs are compared.
        grace_steps: No trial is stopped before this step.
        reduction_factor: One trial of this many goes on at each rung, and each rung is this many times further on.
    """

    metric: Literal["train_loss"] = "train_loss"
    grace_steps: Count
    reduction_factor: Annotated[int, Field(ge=2)] = 4


class Search(Spec, abc.ABC):
    """How settings are taken from the space.

    Attributes:
        method: Name of the method.
        trials: Number of settings to draw, each with all of its training seeds; None for a method that takes all.
        seed: Seed of the draws.
        metric: What an adaptive search improves, averaged over training seeds; given together with `mode`.
        mode: Whether the metric is to become small or large.
        early_stopping: Stops trials that fall behind.
    """

    DRAWS: ClassVar[bool]
    """Whether the method draws settings, from ranges too; otherwise it takes every entry of every choice."""

    COMPARES: ClassVar[bool] = False
    """Whether trials of one setting compete with each other while they train, in the groups of `searches`."""

    method: str
    trials: Annotated[int, Field(ge=1, le=MAX_SETTINGS)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    metric: str = SUCCESS.tail.name
    mode: Literal["min", "max"] = "max"
    early_stopping: Asha | None = None

    @property
    def stops_trials(self) -> bool:
        """Whether trials are stopped before their end, so that a stopped trial counts as done."""
        return self.early_stopping is not None

    @property
    def trials_of_a_seed(self) -> int:
        """How many trials are planned for every training seed of a setting."""
        return 1

    def searches(self, trials: Iterable[TrialSpec]) -> list[tuple[TrialSpec, ...]]:
        """The groups of trials that compete with each other, in order of first appearance; none for most methods.

        Args:
            trials: Distinct trials of an expansion.
        """
        return []

    @model_validator(mode="after")
    def _consistent(self) -> "Search":
        if not self.DRAWS and self.trials is not None:
            raise ValueError(f"trials: a {self.method} is run whole; the number of settings is for methods that draw")
        if self.DRAWS and self.trials is None:
            raise ValueError(f"method: '{self.method}' needs search.trials, the number of settings to draw")
        return self


class ListedSearch(Search):
    """A search whose settings do not depend on results."""

    @abc.abstractmethod
    def settings(self, variants: Sequence[Node]) -> Iterator[Node]:
        """The filled tree of every setting and training seed, in order.

        Args:
            variants: The whole trial of each variant, with its holes.
        """

    def problems(self, trial: TrialSpec) -> list[Problem]:
        """Why the search cannot have this trial; for most searches any trial will do."""
        return []


class Study(abc.ABC):
    """An adaptive search under way: it proposes settings, and learns the value of each."""

    @abc.abstractmethod
    def ask(self) -> Mapping[str, Any]:
        """The next setting: for every path in `open_holes` a value, or the index of an entry of a choice."""

    @abc.abstractmethod
    def tell(self, number: int, value: float | None) -> None:
        """The value of the setting that was asked for as the `number`th, from 0; None if it has no value."""


class AdaptiveSearch(Search):
    """A search that chooses each setting by the values of earlier settings."""

    TITLE: ClassVar[str]
    """The name of the search in messages, with its article."""

    @abc.abstractmethod
    def study(self, variants: Sequence[Node]) -> Study:
        """A study that has no values yet; equal values make it propose equal settings.

        Args:
            variants: The whole trial of each variant, with its holes.
        """


def open_holes(variants: Sequence[Node]) -> dict[str, Hole]:
    """Every hole that is drawn, by its path, in the order of paths.

    Seeds are left out, since every setting is trained with all of its seeds. Where there are several variants, the
    index of the variant is drawn as the choice `variants`.
    """
    holes = {node.path: node.value for variant in variants for node in holes_in(variant)}
    if len(variants) > 1:
        holes["variants"] = Hole("choice", variants)
    return {path: holes[path] for path in sorted(holes) if holes[path].kind != "seeds"}
