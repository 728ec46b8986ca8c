"""Stochastic gradient descent, with momentum (Sutskever et al., 2013)."""

from typing import TYPE_CHECKING, Literal

from sweeper.trial import optimizer_contract
from sweeper.trial.field_types import BelowOne, NotNegative, Positive
from sweeper.trial.record import Traced

if TYPE_CHECKING:
    import optax


class Optimizer(optimizer_contract.GradientOptimizer):
    """Gradient descent; without momentum unless it is written."""

    name: Literal["sgd"] = "sgd"
    learning_rate: Traced[Positive] = 1e-2
    momentum: Traced[BelowOne] = 0.0
    nesterov: bool = False
    weight_decay: Traced[NotNegative] = 0.0

    def transformation(self, steps: int) -> "optax.GradientTransformation":
        import optax

        return optax.chain(
            optax.add_decayed_weights(self.weight_decay),
            optax.trace(self.momentum, self.nesterov),
            optax.scale_by_learning_rate(self.rate(steps)),
        )
