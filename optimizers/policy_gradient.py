"""Adam along a policy gradient (Williams, 1992), for tasks of decisions without a gradient."""

from typing import ClassVar, Literal

from optimizers import adam
from sweeper.trial.field_types import NotNegative
from sweeper.trial.record import Traced


class Optimizer(adam.Optimizer):
    """Decisions are sampled in training, so losses need no gradient (`sweeper.learned_algorithms.policy_gradient`)."""

    TRAINER: ClassVar[str] = "policy_gradient"

    name: Literal["policy_gradient"] = "policy_gradient"  # pyright: ignore[reportIncompatibleVariableOverride]
    # What a nat of the entropy of an input's decisions is worth in the first step, in units of the loss. A negative
    # bonus is a penalty, which leaves the seed r as the only source of randomness.
    entropy_bonus: Traced[float] = 0.0
    final_entropy_bonus: Traced[float] = 0.0  # the same at the last step; in between along `schedule`
    # What a nat of the entropy of decisions to somebody who does not know the seed r is worth, in the same units. Where
    # r decides them, it is the mutual information of the two. From .6 to .95 of the steps it falls to 0; None saves its
    # cost.
    marginal_entropy_bonus: Traced[NotNegative | None] = None
