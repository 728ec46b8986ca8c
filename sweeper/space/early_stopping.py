"""Early stopping: while packs train, a rule compares them by a metric and stops those that fall behind.

The metric is a training curve, or a metric of the evaluation: every so many steps a worker then evaluates the networks
of its pack by the protocol of their trials. The value of a pack is the mean over its lanes. Decisions are asynchronous:
a pack is compared with those that were there before, so the order in which packs run has a part in them, and a start
knows nothing of the packs of earlier starts.

The methods are asynchronous successive halving (ASHA) and Optuna's pruners. None of them knows who trains the packs.
"""

import abc
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from sweeper.events import PackProgressed
from sweeper.space.optuna_options import OptunaOptions
from sweeper.trial.field_types import Count
from sweeper.trial.record import Spec

if TYPE_CHECKING:
    from optuna.trial import Trial

TRAIN_LOSS = "train_loss"


class EarlyStopping(Spec):
    """How packs that fall behind are stopped."""

    name: str
    metric: str = TRAIN_LOSS  # or another training curve, or a metric of the evaluation
    mode: Literal["min", "max"] = "min"
    every: Count | None = None  # training steps between comparisons; None: of the loss, about once a second

    @model_validator(mode="after")
    def _complete(self) -> "EarlyStopping":
        if self.metric != TRAIN_LOSS and self.every is None:
            raise ValueError(f"metric: '{self.metric}' is compared every so many steps: write 'every: 1000'")
        if self.metric != TRAIN_LOSS and "mode" not in self.model_fields_set:
            raise ValueError(f"metric: write 'mode: max' if '{self.metric}' is to become large, 'mode: min' if small")
        return self

    def rule(self) -> "StoppingRule":
        """A rule that has seen no pack yet."""
        raise NotImplementedError

    @property
    def first_step(self) -> tuple[str, int]:
        """The step before which no pack is stopped, and the field that says so."""
        return "every", self.every or 1


class StoppingRule(abc.ABC):
    """Compares packs as they train."""

    def __init__(self, early_stopping: EarlyStopping):
        self._every = early_stopping.every
        self._seen: dict[str, int] = {}

    def stops(self, progress: PackProgressed) -> bool:
        """Whether a pack that has come so far is behind the others."""
        if progress.phase != "training":
            return False
        compared = (progress.step, progress.train_loss) if self._every is None else progress.evaluated
        step, value = compared or (0, 0.0)
        # A pack whose worker died comes to its steps again.
        if step <= self._seen.get(progress.pack_id, 0) or not math.isfinite(value):
            return False
        self._seen[progress.pack_id] = step
        return self._behind(progress.pack_id, step, value)

    @abc.abstractmethod
    def _behind(self, pack_id: str, step: int, value: float) -> bool:
        """Take note of a value, and compare it."""

    def ended(self, pack_id: str) -> None:
        """Take note that a pack has ended."""
        self._seen.pop(pack_id, None)


class Asha(EarlyStopping):
    """Asynchronous successive halving (Li et al., arXiv 1810.05934)."""

    name: Literal["asha"] = "asha"
    grace_steps: Count  # no trial is stopped before this step
    reduction_factor: Annotated[int, Field(ge=2)] = 4  # one of so many goes on at a rung; rungs are as many times apart

    def rule(self) -> "StoppingRule":
        return _Rungs(self)

    @property
    def first_step(self) -> tuple[str, int]:
        return "grace_steps", self.grace_steps


class _Rungs(StoppingRule):
    """The values of all packs at each rung; a pack goes on if it is among the best share of those before it."""

    def __init__(self, asha: Asha):
        super().__init__(asha)
        self._asha = asha
        self._rungs: dict[int, dict[str, float]] = defaultdict(dict)  # by step, what each pack had there

    def _behind(self, pack_id: str, step: int, value: float) -> bool:
        rung_step, factor = self._asha.grace_steps, self._asha.reduction_factor
        if step < rung_step:
            return False
        while rung_step * factor <= step:
            rung_step *= factor
        rung, merit = self._rungs[rung_step], value if self._asha.mode == "max" else -value
        if pack_id in rung:
            return False
        behind = bool(rung) and merit < np.percentile(list(rung.values()), 100 * (1 - 1 / factor))
        rung[pack_id] = merit
        return bool(behind)


# Optuna's pruners


class Pruner(OptunaOptions, EarlyStopping, extra="allow"):
    """A pruner of Optuna, with arguments of its class beside the name. Steps are training steps, and trials packs."""

    name: Literal["median", "percentile", "successive_halving", "hyperband", "threshold"]

    @model_validator(mode="after")
    def _regular(self) -> "Pruner":
        if self.every is None:
            raise ValueError(f"the pruner {self.name} compares packs at equal steps: write 'every: 1000'")
        return self

    def rule(self) -> "StoppingRule":
        return _Study(self)

    def tried(self) -> None:
        # Some pruners refuse their arguments only when they compare
        rule = _Study(self)
        for pack_id in "abc":
            for step in (1, 10**9):
                rule._behind(pack_id, step, 0.0)
            rule.ended(pack_id)

    @property
    def kind(self) -> type:
        import optuna  # a second of import

        return getattr(optuna.pruners, f"{self.name.title().replace('_', '')}Pruner")


class _Study(StoppingRule):
    """A study of Optuna, in which every pack is a trial."""

    def __init__(self, pruner: Pruner):
        import optuna

        super().__init__(pruner)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            pruner=pruner.with_arguments(),
            direction="maximize" if pruner.mode == "max" else "minimize",
        )
        self._pruned = optuna.trial.TrialState.PRUNED
        self._trials: dict[str, Trial] = {}
        self._latest: dict[str, float] = {}
        self._stopped: set[str] = set()

    def _behind(self, pack_id: str, step: int, value: float) -> bool:
        if pack_id not in self._trials:
            self._trials[pack_id] = self._study.ask()
        self._latest[pack_id] = value
        self._trials[pack_id].report(value, step)
        if self._trials[pack_id].should_prune():
            self._stopped.add(pack_id)
        return pack_id in self._stopped

    def ended(self, pack_id: str) -> None:
        super().ended(pack_id)
        trial = self._trials.pop(pack_id, None)
        if trial is not None and pack_id in self._stopped:
            self._study.tell(trial, state=self._pruned)
        elif trial is not None:
            self._study.tell(trial, self._latest[pack_id])


AnyEarlyStopping = Annotated[
    Asha | Pruner,
    Field(discriminator="name"),
    BeforeValidator(lambda value: {"name": "asha", **value} if isinstance(value, dict) else value),
]
"""A method by its name, with its options; ASHA where no name is given."""
