"""The search method `halving`: the settings of a grid, by the rules of `sweeper.space.halving`."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sweeper.messages import counted, inflected
from sweeper.space import holes
from sweeper.space.halving import Halving, Rung
from sweeper.space.problems import Problem
from sweeper.space.search import Search
from sweeper.space.yaml_tree import Node
from sweeper.trial.field_types import ListOf
from sweeper.trial.trial_spec import TrialSpec


class HalvingSearch(Search):
    """Takes the settings of a grid, and begins `starts` trainings of each; fewer go on from rung to rung."""

    DRAWS = False

    method: Literal["halving"]
    starts: Annotated[int, Field(ge=2, le=holes.MAX_SETTINGS)]
    rungs: Annotated[ListOf[Rung], Field(min_length=1)]

    @model_validator(mode="after")
    def _narrowing(self) -> "HalvingSearch":
        if self.early_stopping is not None:
            raise ValueError("early_stopping: a halving stops trials at its rungs, and nothing else")
        kept = [self.starts, *(rung.keep for rung in self.rungs)]
        for number, (rung, (before, keep)) in enumerate(zip(self.rungs, itertools.pairwise(kept), strict=True)):
            if keep >= before:
                raise ValueError(f"rungs: rung {number} keeps {keep} of {before} trials; it must keep fewer")
            if number and rung.steps <= self.rungs[number - 1].steps:
                raise ValueError(f"rungs: rung {number} is at step {rung.steps:,}, not after the rung before it")
        return self

    @property
    def halving(self) -> Halving:
        return Halving(self.starts, self.rungs)

    def settings(self, variants: Sequence[Node]) -> Iterator[Node]:
        for tree in itertools.chain.from_iterable(map(holes.grid, variants)):
            seed = tree.value.get("seed", Node(0, f"{tree.path}.seed", None))
            for start in range(self.starts):
                yield replace(tree, value=tree.value | {"seed": replace(seed, value=seed.value * self.starts + start)})

    def problems(self, trial: TrialSpec) -> list[Problem]:
        last = self.rungs[-1].steps
        if last < trial.steps:
            return []
        text = f"step {last:,} is not before the end of a training of {counted(trial.steps, 'step')}"
        return [Problem(f"search.rungs[{len(self.rungs) - 1}].steps", text, None)]

    def title(self, trials: int) -> str:
        searches = trials // self.starts
        return f"{searches:,} {inflected(searches, 'search', 'searches')} of {self.starts:,} trials"
