"""Lion (Chen et al., 2023): the sign of a mean of gradients."""

from typing import TYPE_CHECKING, Literal

from sweeper.trial import optimizer_contract
from sweeper.trial.field_types import BelowOne, NotNegative, Positive
from sweeper.trial.record import Traced

if TYPE_CHECKING:
    import optax


class Optimizer(optimizer_contract.GradientOptimizer):
    """Lion, with decoupled weight decay; a good rate is a third to a tenth of Adam's."""

    name: Literal["lion"] = "lion"
    learning_rate: Traced[Positive] = 1e-4
    beta1: Traced[BelowOne] = 0.9
    beta2: Traced[BelowOne] = 0.99
    weight_decay: Traced[NotNegative] = 0.0

    def transformation(self, steps: int) -> "optax.GradientTransformation":
        import optax

        return optax.chain(
            optax.scale_by_lion(self.beta1, self.beta2),
            optax.add_decayed_weights(self.weight_decay),
            optax.scale_by_learning_rate(self.rate(steps)),
        )
