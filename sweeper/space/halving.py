"""Successive halving (Jamieson & Talwalkar, 2016) over initialisations: many trainings of one setting, few that finish.

Every training seed of the space stands for a search of its own. A search trains `starts` trials of its setting, which
differ in their training seed alone, hence in initial weights and in all that is drawn. At a rung the trials with the
lowest training loss, or the best value of another training curve, go on, and the others are stopped. Trials that go on
from the last rung are trained to the end: the winners.

Search s owns the training seeds s · starts … (s + 1) · starts − 1. So its trials are ordinary trials with ordinary ids,
and searches with different s share none.

The rules stand here. `sweeper.packs.halving` applies them to what a store holds.
"""

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from sweeper.space.early_stopping import TRAIN_LOSS
from sweeper.space.holes import MAX_SETTINGS
from sweeper.trial.field_types import Count, ListOf
from sweeper.trial.record import Spec, canonical
from sweeper.trial.start_from import setting
from sweeper.trial.trial import Trial


class Rung(Spec):
    """A step at which the trials of a search are compared."""

    steps: Count  # training steps done
    keep: Count  # how many trials of a search go on


class Decided(NamedTuple):
    """The rungs of a search that are decided."""

    stopped: tuple[tuple[str, ...], ...]  # for each decided rung the trials that have a loss there and do not go on
    alive: tuple[str, ...]  # the trials that go on from the last decided rung; all of the search if none is decided
    missing: tuple[str, ...]  # those of `alive` for which the next rung waits; without any, `alive` are the winners


class Halving(Spec):
    """The rules of a successive halving."""

    starts: Annotated[int, Field(ge=2, le=MAX_SETTINGS)]  # trials of a search
    rungs: Annotated[ListOf[Rung], Field(min_length=1)]  # at which steps trials are compared, and how many go on
    # The training curve by which trials are compared, or a metric that `trial.evaluate_every` makes a curve
    curve: str = TRAIN_LOSS
    curve_mode: Literal["min", "max"] = "min"  # whether its low values are the good ones

    @model_validator(mode="after")
    def _narrowing(self) -> Self:
        if self.curve != TRAIN_LOSS and "curve_mode" not in self.model_fields_set:
            large = f"write 'curve_mode: max' if '{self.curve}' is to become large, 'curve_mode: min' if small"
            raise ValueError(f"curve: {large}")
        before, step = self.starts, 0
        for number, rung in enumerate(self.rungs):
            if rung.keep >= before:
                raise ValueError(f"rungs: rung {number} keeps {rung.keep} of {before} trials; it must keep fewer")
            if rung.steps <= step:
                raise ValueError(f"rungs: rung {number} is at step {rung.steps:,}, not after the rung before it")
            before, step = rung.keep, rung.steps
        return self

    def searches(self, trials: Iterable[Trial]) -> list[tuple[Trial, ...]]:
        """The groups of trials that compete with each other, in order of first appearance."""
        searches: dict[str, list[Trial]] = {}
        for trial in trials:
            key = json.dumps(setting(canonical(trial)) | {"seed": trial.seed // self.starts}, sort_keys=True)
            searches.setdefault(key, []).append(trial)
        return [tuple(starts) for starts in searches.values()]

    def losses(self, curve: Iterable[tuple[int, float]], done: int) -> tuple[float, ...]:
        """The losses of a trial at the rungs that it has reached, of which low ones are good.

        The loss at a rung is the last point of the curve until the rung, rounded to 12 digits, so that it does not
        depend on the order of a sum; its negative, if high values are the good ones. `curve` has steps and values in
        any order, `done` counts sound training steps: a trial that failed before a rung has no loss there. Where no
        value is finite, the loss is infinite.
        """
        points = sorted(curve)
        reached = [[value for step, value in points if step <= rung.steps] for rung in self.rungs if rung.steps <= done]
        sign = -1 if self.curve_mode == "max" else 1
        return tuple(sign * float(f"{values[-1]:.12g}") if values else math.inf for values in reached)

    def decided(
        self, trial_ids: Sequence[str], losses: Mapping[str, Sequence[float]], failed: Collection[str]
    ) -> Decided:
        """The decided rungs of a search: all up to the first at which a trial has no loss and has not failed before.

        Of equal losses the trial listed first goes on; `losses` need not have every trial.
        """
        alive, stopped = tuple(trial_ids), ()
        for number, rung in enumerate(self.rungs):
            reached = {key: losses[key][number] for key in alive if len(losses.get(key, ())) > number}
            missing = tuple(key for key in alive if key not in reached and key not in failed)
            if missing:
                return Decided(stopped, alive, missing)
            alive = tuple(sorted(reached, key=reached.__getitem__)[: rung.keep])
            stopped += (tuple(key for key in reached if key not in alive),)
        return Decided(stopped, alive, ())

    def winners(
        self, searches: Iterable[Sequence[str]], losses: Mapping[str, Sequence[float]], failed: Collection[str]
    ) -> frozenset[str]:
        """The trials that go on from the last rung of their search; a search that waits for a trial has none yet."""
        standings = [self.decided(search, losses, failed) for search in searches]
        return frozenset(key for now in standings if not now.missing for key in now.alive)
