"""The search methods: how settings are taken from a space, and which trials of a setting go on.

A search method is one class, the record under `search:` of a space. Everything that distinguishes a method is asked
from this class; callers never check which method it is. `sweeper.packs.work_sources` hands out the work by the answers:

- The settings are known before anything runs (`settings`), or each is proposed by the values of earlier ones
  (`ADAPTS`, `study`).
- Trials of one setting may compete with each other while they train (`halving`).
- Packs that fall behind others may be stopped (`early_stopping`).

A new method is a class, and a name in `Method`.
"""

import itertools
import operator
import random
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from sweeper.messages import counted, inflected, instead
from sweeper.space import formulas, holes
from sweeper.space.early_stopping import EarlyStopping
from sweeper.space.halving import Halving
from sweeper.space.holes import MAX_SETTINGS, Choice, Hole, holes_in
from sweeper.space.yaml_tree import Node, signature
from sweeper.trial.field_types import ListOf
from sweeper.trial.kinds import Goal, kind_with
from sweeper.trial.record import Spec

if TYPE_CHECKING:
    from optuna.trial import Trial as OptunaTrial

T = TypeVar("T")

Setting = Mapping[str, Any]
"""For the path of a hole the index of an option, or a number."""

OneOrMore = Annotated[ListOf[T], BeforeValidator(lambda value: value if isinstance(value, list | tuple) else [value])]
"""Several values, of which a single one needs no list."""


class Search(Spec):
    """How settings are taken from the space.

    A method overrides `settings`, or sets `ADAPTS` and overrides `study` and `title`.
    """

    DRAWS: ClassVar[bool]
    """Whether the method draws settings, from ranges too; otherwise it takes every entry of every choice."""

    ADAPTS: ClassVar[bool] = False
    """Whether settings depend on the values of earlier settings, so that they are not known before the search runs."""

    method: str
    trials: Annotated[int, Field(ge=1, le=MAX_SETTINGS)] | None = None  # settings to draw
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    # Several for a Pareto front; a kind of trial may have one that is meant where none is written
    metric: Annotated[OneOrMore[str], Field(min_length=1)] = Field(default_factory=lambda: (kind_with({}).goal,))
    mode: Annotated[OneOrMore[Literal["min", "max"]], Field(min_length=1)] = ("max",)
    # Partial trials with values for holes, which are tried before all else (`known_settings`)
    first: ListOf[dict[Any, Any]] = ()
    early_stopping: EarlyStopping | None = None

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
        """Number of settings to draw, those of `first` among them; 0 for a method that takes all."""
        return len(self.first) + (self.trials or 0) if self.DRAWS else 0

    def settings(self, tree: Node, first: Sequence[Setting] = ()) -> Iterator[Iterable[Node]]:
        """For every setting, in order, the filled trees of its training seeds; a `ValueError` if the search adapts.

        `first` are what the entries of that name mean, in which holes are left out.
        """
        raise ValueError(f"the search {self.method} has no list of trials; see study()")

    def study(self, tree: Node, first: Sequence[Setting] = ()) -> "OptunaStudy":
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
    def goal(self) -> Goal | None:
        """The metric that ranks the settings, and its direction; None if the task's main metric does."""
        return Goal(self.metric[0], self.mode[0]) if self.ADAPTS or "metric" in self.model_fields_set else None

    def title(self, trials: int) -> str:
        """What a start says of the search, of which so many trials are known; empty to tell the settings alone."""
        return ""


def known_first(tree: Node, first: Sequence[Setting]) -> Iterator[Node]:
    """Every filled tree of the grid once, beginning with those that have what a setting of `first` has."""
    if not first:
        yield from holes.grid(tree)
        return
    seen = set()
    for each in itertools.chain(*(holes.grid(holes.filled(tree, setting)) for setting in first), holes.grid(tree)):
        if (key := signature(each)) not in seen:
            seen.add(key)
            yield each


def open_holes(tree: Node) -> dict[str, Hole]:
    """Every hole that is drawn, by its path, in the order of paths.

    Seeds are left out, since every setting is trained with all of them.
    """
    return dict(sorted((node.path, node.value) for node in holes_in(tree) if node.value.DRAWN))


# Settings that are known


class GridSearch(Search):
    """Takes the product of all choices, variant by variant, the last axis of the document fastest."""

    DRAWS = False

    method: Literal["grid"] = "grid"

    def settings(self, tree: Node, first: Sequence[Setting] = ()) -> Iterator[Iterable[Node]]:
        return iter([known_first(tree, first)])


class RandomSearch(Search):
    """Draws `trials` settings, each from its own index and the search seed.

    Every hole of a setting has a random stream of its own. So its draws depend on no other hole, and a search with more
    trials begins with the settings of the shorter search. What a setting of `first` leaves out is drawn from what it
    says, so that it depends on no other.
    """

    DRAWS = True

    method: Literal["random"]

    def settings(self, tree: Node, first: Sequence[Setting] = ()) -> Iterator[Iterable[Node]]:
        open_to_draw = open_holes(tree).items()
        known = [(sorted(setting.items()), setting) for setting in first]
        for index, said in itertools.chain(known, ((index, {}) for index in range(self.trials or 0))):
            uniform = {path: random.Random(f"{self.seed}/{index}/{path}").random() for path, _ in open_to_draw}
            setting = {path: hole.drawn(uniform[path]) for path, hole in open_to_draw}
            yield holes.grid(holes.filled(tree, {**setting, **said}))


class HalvingSearch(Halving, Search):
    """Takes the settings of a grid, and begins `starts` trainings of each; fewer go on from rung to rung."""

    DRAWS = False

    method: Literal["halving"]

    @model_validator(mode="after")
    def _stops_at_rungs(self) -> "HalvingSearch":
        if self.early_stopping is not None:
            raise ValueError("early_stopping: a halving stops trials at its rungs, and nothing else")
        return self

    @property
    def halving(self) -> Halving:
        return self

    def settings(self, tree: Node, first: Sequence[Setting] = ()) -> Iterator[Iterable[Node]]:
        for setting in known_first(tree, first):
            trial = setting.value["trial"]
            seed = formulas.resolved(setting, trial.value.get("seed", Node(0, f"{trial.path}.seed", None)))
            seeds = range(seed.value * self.starts, (seed.value + 1) * self.starts)
            trials = [replace(trial, value=trial.value | {"seed": replace(seed, value=number)}) for number in seeds]
            yield [replace(setting, value=setting.value | {"trial": each}) for each in trials]

    def title(self, trials: int) -> str:
        searches = trials // self.starts
        return f"{searches:,} {inflected(searches, 'search', 'searches')} of {self.starts:,} trials"


# Settings that are proposed


class Sampler(Spec, extra="allow"):
    """A sampler of Optuna by the name of its class, with arguments of this class beside the name."""

    name: str = "TPESampler"

    def made(self, seed: int) -> Any:
        """The sampler; whatever the class of Optuna raises is for the author of the space."""
        import optuna  # a second of import, which only this search needs

        kinds = {name: kind for name, kind in vars(optuna.samplers).items() if name.endswith("Sampler")}
        if self.name not in kinds:
            raise ValueError(f"Optuna has no sampler '{self.name}'{instead(self.name, kinds)}")
        with warnings.catch_warnings(action="ignore"):  # the author chose the sampler, be it experimental
            return kinds[self.name](seed=seed, **(self.model_extra or {}))


class OptunaSearch(Search):
    """Asks an Optuna study for `trials` settings."""

    DRAWS = True
    ADAPTS = True

    method: Literal["optuna"]
    sampler: Sampler = Sampler()

    def study(self, tree: Node, first: Sequence[Setting] = ()) -> "OptunaStudy":
        return OptunaStudy(self, tree, first)

    def title(self, trials: int) -> str:
        return f"an Optuna search of {counted(self.draws, 'setting')}, {counted(trials, 'trial')} so far"


class OptunaStudy:
    """An adaptive search under way, with a seeded sampler: it proposes settings, and learns the value of each.

    Settings are told by the number of their turn, from 0, in which they were asked for.
    """

    def __init__(self, search: OptunaSearch, tree: Node, first: Sequence[Setting] = ()):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)  # samplers warn of themselves
        self._states = optuna.trial.TrialState
        self._study = optuna.create_study(
            sampler=search.sampler.made(search.seed),
            directions=["maximize" if mode == "max" else "minimize" for mode in search.mode],
        )
        self._tree = tree
        self._asked: list[OptunaTrial] = []
        self.enqueue(first)

    def enqueue(self, settings: Sequence[Setting]) -> None:
        """Ask for these settings next; holes that they leave out are the sampler's."""
        open_to_draw = open_holes(self._tree)
        for setting in settings:
            self._study.enqueue_trial({path: open_to_draw[path].parameter(held) for path, held in setting.items()})

    def ask(self) -> Mapping[str, Any]:
        """The next setting: for every path in `open_holes` a value, or the index of an entry of a choice."""
        trial = self._study.ask()
        self._asked.append(trial)
        setting: dict[str, Any] = {}
        self._suggest(trial, self._tree, setting)
        return setting

    def _suggest(self, trial: "OptunaTrial", node: Node, setting: dict[str, Any]) -> None:
        """Suggest a value for every open hole of a tree in the order of paths, and of the entries that are chosen."""
        open_holes = [(each.path, each.value) for each in holes_in(node, chosen=False) if each.value.DRAWN]
        for path, hole in sorted(open_holes, key=operator.itemgetter(0)):
            setting[path] = hole.suggested(trial, path)
            if isinstance(hole, Choice):
                self._suggest(trial, hole.options[setting[path]], setting)

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """The value of each metric for a setting; None if the setting failed."""
        if values is None:
            self._study.tell(self._asked[number], state=self._states.FAIL)
        else:
            self._study.tell(self._asked[number], list(values))

    def prune(self, number: int) -> None:
        """A setting was stopped early."""
        self._study.tell(self._asked[number], state=self._states.PRUNED)

    def leave_out(self, number: int) -> None:
        """A setting is one that the space leaves out."""
        self._asked[number].set_constraint("exclude", 1.0)
        self.prune(number)


Method = GridSearch | RandomSearch | OptunaSearch | HalvingSearch

SearchMethod = Annotated[
    Method,
    Field(discriminator="method"),
    BeforeValidator(lambda value: {"method": "grid", **value} if isinstance(value, dict) else value),
]
"""The record under `search:`; a grid where no method is given."""
