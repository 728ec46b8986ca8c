"""What an objective must offer: one number for a batch, made of the losses of its inputs.

The loss of an input is its mean over the m seeds r. A trainer takes that mean before an objective sees the batch, so no
objective can move the mean over the seeds to another place. Adam follows the gradient of the number; PGPE ranks the
individuals of its population by the number.

An objective may keep a state from step to step, such as the weights of an adversary. The state is a pytree of arrays,
and it is checkpointed with the training.

Invariants:
    - An objective is pure. It draws no random numbers.
    - The value does not depend on the order of the inputs, and no larger loss gives a smaller value.
    - A field that is a number of the formula is `Traced`, so that one compiled program serves all its values.
"""

import abc
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import Array, Float, Int, PyTree
from pydantic import Field

from sweeper.learned_algorithms.contracts import Task
from sweeper.trial.record import Spec


class Batch(NamedTuple):
    """What an objective sees of a batch.

    Attributes:
        losses: Loss of every input, the mean over the seeds r.
        groups: Group of every input, from 0; None unless the objective has `needs_groups`.
        progress: Share of the training's steps that are done: 0 in the first step, below 1 in the last.
    """

    losses: Float[Array, " input"]
    groups: Int[Array, " input"] | None
    progress: Float[Array, ""]


class Objective(Spec, abc.ABC):
    """A number to be made small, for a batch of inputs.

    Attributes:
        name: Name of the plug-in.
        m: Number of seeds r of a training step.
    """

    KIND: ClassVar[str] = "objective"
    VERSION: ClassVar[int] = 1
    """Raise the version when the meaning of the code changes: the ids of all trials of the objective change with it."""

    needs_groups: ClassVar[bool] = False
    """Whether the objective needs a task with `Abilities.groups`."""

    name: str
    m: Annotated[int, Field(ge=1)] = 10

    @abc.abstractmethod
    def value(self, batch: Batch, state: PyTree) -> Float[Array, ""]:
        """The objective of a batch; its gradient by the losses is finite wherever the losses are."""

    def initial_state(self, task: Task) -> PyTree:
        """The state before the first step: arrays that do not depend on any random number."""
        return ()

    def next_state(self, batch: Batch, state: PyTree) -> PyTree:
        """The state after a batch; no gradient flows through it."""
        return state

    def curves(self) -> Mapping[str, Callable[[Batch, PyTree], Float[Array, ""]]]:
        """Training curves of the objective's own, by name: each makes a number of a batch and the state."""
        return {}

    def __str__(self) -> str:
        """The objective in a few words, such as `cvar alpha=0.1`."""
        return " ".join([self.name, *(f"{field}={getattr(self, field):g}" for field in self.traced_fields())])
