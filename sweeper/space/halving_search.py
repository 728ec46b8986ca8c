"""Successive halving (Jamieson & Talwalkar, 2016) over initialisations: many trainings of one setting, few that finish.

Every training seed of the space stands for a search of its own. A search trains `starts` trials of its setting, which
differ in their training seed alone, hence in initial weights, batches and seeds r. At a rung the trials with the lowest
training loss go on, and the others are stopped. Trials that go on from the last rung are trained to the end: the
winners.

Search s owns the training seeds s · starts … (s + 1) · starts − 1. So its trials are ordinary trials with ordinary ids,
and searches with different s share none.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sweeper.messages import counted
from sweeper.space import holes
from sweeper.space.problems import Problem
from sweeper.space.search import ListedSearch
from sweeper.space.yaml_tree import Node
from sweeper.trial.field_types import ListOf
from sweeper.trial.record import Spec, canonical
from sweeper.trial.trial_spec import Count, TrialSpec


class Rung(Spec):
    """A step at which the trials of a search are compared.

    Attributes:
        steps: Training steps done.
        keep: How many trials of a search go on, those with the lowest training loss.
    """

    steps: Count
    keep: Count


class HalvingSearch(ListedSearch):
    """Takes the settings of a grid, and begins many trainings of each.

    Attributes:
        starts: Trials of a search.
        rungs: At which steps trials are compared, and how many go on.
    """

    DRAWS = False
    COMPARES = True

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
    def stops_trials(self) -> bool:
        return True

    @property
    def trials_of_a_seed(self) -> int:
        return self.starts

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

    def searches(self, trials: Iterable[TrialSpec]) -> list[tuple[TrialSpec, ...]]:
        searches: dict[str, list[TrialSpec]] = {}
        for trial in trials:
            key = json.dumps(canonical(trial) | {"seed": trial.seed // self.starts}, sort_keys=True)
            searches.setdefault(key, []).append(trial)
        return [tuple(starts) for starts in searches.values()]

    def losses(self, curve: Iterable[tuple[int, float]], done: int) -> tuple[float, ...]:
        """The training losses of a trial at the rungs that it has reached.

        The loss at a rung is the last point of the curve until the rung, rounded to 12 digits, so that it does not
        depend on the order of a sum.

        Args:
            curve: Steps and values of the stored training curve, in any order.
            done: Sound training steps. A trial that failed before a rung has no loss there.
        """
        points = sorted(curve)
        reached = [[value for step, value in points if step <= rung.steps] for rung in self.rungs if rung.steps <= done]
        return tuple(float(f"{values[-1]:.12g}") for values in reached if values)

    def going_on(self, number: int, losses: Mapping[str, Sequence[float]]) -> list[str]:
        """The trials that go on from a rung, the lowest loss first; of equal losses the trial listed first.

        Args:
            number: Number of the rung, from 0.
            losses: See `losses`, of the trials that come to the rung; those without a loss there have failed before.
        """
        reached = [key for key in losses if len(losses[key]) > number]
        return sorted(reached, key=lambda key: losses[key][number])[: self.rungs[number].keep]
