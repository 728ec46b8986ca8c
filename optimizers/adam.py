"""Adam (Kingma & Ba, 2015) with decoupled weight decay (Loshchilov & Hutter, 2019) and clipping by the global norm."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from sweeper.trial import optimizer_contract
from sweeper.trial.field_types import BelowOne, NotNegative, Positive
from sweeper.trial.record import Traced

if TYPE_CHECKING:
    import optax


class Optimizer(optimizer_contract.GradientOptimizer):
    """Adam; the weight decay is on every weight."""

    name: Literal["adam"] = "adam"
    final_learning_rate: Traced[NotNegative] = 1e-4
    warmup_steps: Traced[Annotated[int, Field(ge=0)]] = 1000
    beta1: Traced[BelowOne] = 0.9
    beta2: Traced[BelowOne] = 0.95
    eps: Traced[Positive] = 1e-5
    weight_decay: Traced[NotNegative] = 0.0
    clip_norm: Traced[Positive] = 1.0

    def transformation(self, steps: int) -> "optax.GradientTransformation":
        import optax  # takes long; who only plans does without it

        return optax.chain(
            optax.clip_by_global_norm(self.clip_norm),
            optax.scale_by_adam(self.beta1, self.beta2, self.eps),
            optax.add_decayed_weights(self.weight_decay),
            optax.scale_by_learning_rate(self.rate(steps)),
        )
