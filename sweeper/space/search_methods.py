"""The search methods that a space may name; the methods that need little more than `holes` stand here.

A new method is a module, and a name in `Method`.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from sweeper.messages import inflected
from sweeper.space import holes
from sweeper.space.early_stopping import TRAIN_LOSS
from sweeper.space.formulas import Resolution
from sweeper.space.halving import Halving, Rung
from sweeper.space.optuna_search import OptunaSearch
from sweeper.space.search import Search, open_holes
from sweeper.space.yaml_tree import Node
from sweeper.trial.field_types import ListOf


class GridSearch(Search):
    """Takes the product of all choices, variant by variant, the last axis of the document fastest."""

    DRAWS = False

    method: Literal["grid"] = "grid"

    def settings(self, variants: Sequence[Node]) -> Iterator[Iterable[Node]]:
        return map(holes.grid, variants)


class RandomSearch(Search):
    """Draws `trials` settings, each from its own index and the search seed.

    Every hole of a setting has a random stream of its own. So its draws depend on no other hole, and a search with more
    trials begins with the settings of the shorter search.
    """

    DRAWS = True

    method: Literal["random"]

    def settings(self, variants: Sequence[Node]) -> Iterator[Iterable[Node]]:
        assert self.trials is not None
        if len(self.trials) == 1:
            return self._drawn(variants, self.draws, str(self.seed))
        own = enumerate(zip(variants, self.trials, strict=True))
        return itertools.chain.from_iterable(
            self._drawn((variant,), draws, f"{self.seed}/variants[{number}]") for number, (variant, draws) in own
        )

    def _drawn(self, variants: Sequence[Node], draws: int, stream: str) -> Iterator[Iterable[Node]]:
        open_to_draw = open_holes(variants).items()
        for index in range(draws):
            uniform = {path: random.Random(f"{stream}/{index}/{path}").random() for path, _ in open_to_draw}
            setting = {path: holes.drawn(hole, uniform[path]) for path, hole in open_to_draw}
            yield holes.grid(holes.filled(variants[setting.get("variants", 0)], setting))


class HalvingSearch(Search):
    """Takes the settings of a grid, and begins `starts` trainings of each; fewer go on from rung to rung."""

    DRAWS = False

    method: Literal["halving"]
    starts: Annotated[int, Field(ge=2, le=holes.MAX_SETTINGS)]
    rungs: Annotated[ListOf[Rung], Field(min_length=1)]
    curve: str = TRAIN_LOSS  # the training curve by which trials are compared
    curve_mode: Literal["min", "max"] = "min"  # whether its low values are the good ones

    @model_validator(mode="after")
    def _narrowing(self) -> "HalvingSearch":
        if self.curve != TRAIN_LOSS and "curve_mode" not in self.model_fields_set:
            large = f"write 'curve_mode: max' if '{self.curve}' is to become large, 'curve_mode: min' if small"
            raise ValueError(f"curve: {large}")
        if self.early_stopping is not None:
            raise ValueError("early_stopping: a halving stops trials at its rungs, and nothing else")
        before, step = self.starts, 0
        for number, rung in enumerate(self.rungs):
            if rung.keep >= before:
                raise ValueError(f"rungs: rung {number} keeps {rung.keep} of {before} trials; it must keep fewer")
            if rung.steps <= step:
                raise ValueError(f"rungs: rung {number} is at step {rung.steps:,}, not after the rung before it")
            before, step = rung.keep, rung.steps
        return self

    @property
    def halving(self) -> Halving:
        return Halving(self.starts, self.rungs, self.curve, self.curve_mode)

    def settings(self, variants: Sequence[Node]) -> Iterator[Iterable[Node]]:
        for tree in itertools.chain.from_iterable(map(holes.grid, variants)):
            seed = Resolution(tree).resolved(tree.value.get("seed", Node(0, f"{tree.path}.seed", None)))
            seeds = range(seed.value * self.starts, (seed.value + 1) * self.starts)
            yield [replace(tree, value=tree.value | {"seed": replace(seed, value=number)}) for number in seeds]

    def title(self, trials: int) -> str:
        searches = trials // self.starts
        return f"{searches:,} {inflected(searches, 'search', 'searches')} of {self.starts:,} trials"


Method = GridSearch | RandomSearch | OptunaSearch | HalvingSearch

SearchMethod = Annotated[
    Method,
    Field(discriminator="method"),
    BeforeValidator(lambda value: {"method": "grid", **value} if isinstance(value, dict) else value),
]
"""The record under `search:`; a grid where no method is given."""
