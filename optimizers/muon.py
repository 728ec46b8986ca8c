"""Muon (Jordan et al., 2024): momentum made orthogonal for matrices, and Adam for all other weights."""

from typing import TYPE_CHECKING, ClassVar, Literal

from sweeper.trial import optimizer_contract
from sweeper.trial.field_types import BelowOne, NotNegative, Positive
from sweeper.trial.record import Traced

if TYPE_CHECKING:
    import optax


class Optimizer(optimizer_contract.GradientOptimizer):
    """Muon for weights with two axes; the rate serves both parts."""

    ELEMENTWISE: ClassVar[bool] = False

    name: Literal["muon"] = "muon"
    learning_rate: Traced[Positive] = 1e-2
    momentum: Traced[BelowOne] = 0.95
    weight_decay: Traced[NotNegative] = 0.0
    beta1: Traced[BelowOne] = 0.9  # of Adam
    beta2: Traced[BelowOne] = 0.999

    def transformation(self, steps: int) -> "optax.GradientTransformation":
        from optax import contrib

        return contrib.muon(
            self.rate(steps),
            beta=self.momentum,
            weight_decay=self.weight_decay,
            adam_b1=self.beta1,
            adam_b2=self.beta2,
            adam_weight_decay=self.weight_decay,
        )
