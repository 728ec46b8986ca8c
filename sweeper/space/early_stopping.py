"""Early stopping: while packs train, they are compared by a metric, and those that fall behind are stopped.

The metric is a training curve, or a metric of the evaluation: every so many steps a worker then evaluates the networks
of its pack by the protocol of their trials. The value of a pack is the mean over its lanes. The rule is asynchronous
successive halving (ASHA; Li et al., arXiv 1810.05934). Decisions are asynchronous: a pack is compared with those that
were there before, so the order in which packs run has a part in them, and a start knows nothing of the packs of earlier
starts. The rule does not know who trains the packs.
"""

import math
from collections import defaultdict
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from sweeper.events import PackProgressed
from sweeper.trial.field_types import Count
from sweeper.trial.record import Spec

TRAIN_LOSS = "train_loss"


class EarlyStopping(Spec):
    """How packs that fall behind are stopped."""

    metric: str = TRAIN_LOSS  # or another training curve, or a metric of the evaluation
    mode: Literal["min", "max"] = "min"
    every: Count | None = None  # training steps between comparisons; None: of the loss, about once a second
    grace_steps: Count  # no trial is stopped before this step
    reduction_factor: Annotated[int, Field(ge=2)] = 4  # one of so many goes on at a rung; rungs are as many times apart

    @model_validator(mode="after")
    def _complete(self) -> "EarlyStopping":
        if self.metric != TRAIN_LOSS and self.every is None:
            raise ValueError(f"metric: '{self.metric}' is compared every so many steps: write 'every: 1000'")
        if self.metric != TRAIN_LOSS and "mode" not in self.model_fields_set:
            raise ValueError(f"metric: write 'mode: max' if '{self.metric}' is to become large, 'mode: min' if small")
        return self


class StoppingRule:
    """The values of all packs at each rung; a pack goes on if it is among the best share of those before it."""

    def __init__(self, early_stopping: EarlyStopping):
        self._options = early_stopping
        self._rungs: dict[int, dict[str, float]] = defaultdict(dict)  # by step, what each pack had there

    def stops(self, progress: PackProgressed) -> bool:
        """Whether a pack that has come so far is behind the others."""
        if progress.phase != "training":
            return False
        compared = (progress.step, progress.train_loss) if self._options.every is None else progress.evaluated
        step, value = compared or (0, math.nan)
        rung_step, factor = self._options.grace_steps, self._options.reduction_factor
        if step < rung_step or math.isnan(value):  # there is no value yet
            return False
        while rung_step * factor <= step:
            rung_step *= factor
        rung, merit = self._rungs[rung_step], value if self._options.mode == "max" else -value
        if progress.pack_id in rung:  # also if its worker died, so that it comes to its steps again
            return False
        behind = bool(rung) and merit < np.percentile(list(rung.values()), 100 * (1 - 1 / factor))
        if math.isfinite(merit):  # the worst of all, of a metric that no lane has, is behind any other
            rung[progress.pack_id] = merit
        return bool(behind)
