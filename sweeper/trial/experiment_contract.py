"""The contract of an experiment: any training that is a few pure functions.

An experiment is a record of settings with three methods. `init` makes the state before the first step, a pytree of
arrays: networks of flax nnx, states of optax, of environments, of anything else. `step` makes the next state, and
numbers for the training curves. `evaluate` makes the metrics of a trained state. The platform does the rest: it trains
many trials in one compiled program, checkpoints the state, resumes from it bit for bit, and stores the results.

Invariants:
    - An experiment is pure: it keeps nothing in itself, and all randomness comes from keys.
    - A state has the same structure, shapes and types after every step. Its functions and static fields are those that
      `init` makes; a step passes them on.
    - Fields that are `Traced` are numbers of the compiled program, so that trials that differ in these only share one
      program. A method may compute with them, and may not decide by them with a Python `if`. All other fields are
      structure: each of their values costs a compilation.
"""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from jaxtyping import Array, Float, Int, Num, PRNGKeyArray, PyTree

from sweeper.trial.record import Spec


@dataclasses.dataclass(frozen=True)
class Step:
    """What the first state, a step and an evaluation are made from, beside the state.

    Attributes:
        key: The key of this call alone, from the training seed.
        index: Number of steps done before.
        steps: Number of steps of the whole training.
        data: What `Experiment.data` has returned, as arrays of JAX.
    """

    key: PRNGKeyArray
    index: Int[Array, ""]
    steps: int
    data: PyTree


class Evaluated(NamedTuple):
    """What an evaluation makes of a state, if it makes more than metrics.

    Attributes:
        metrics: A number by name, for each name in `Experiment.metrics`.
        outcomes: Results on every input of the evaluation, by name, all of one length; stored beside the metrics.
    """

    metrics: Mapping[str, Float[Array, ""]]
    outcomes: Mapping[str, Num[Array, " input"]] = {}


class Experiment(Spec, abc.ABC):
    """A training.

    Attributes:
        name: Name of the plug-in, which is that of its file.
    """

    KIND: ClassVar[str] = "experiment"
    VERSION: ClassVar[int] = 1
    """Raise the version when the meaning of the code changes: the id of every trial changes with it."""

    metrics: ClassVar[Mapping[str, Literal["min", "max"]]] = {}
    """The metrics that `evaluate` makes, the most important first, and whether each is to become small or large."""

    lanes_together: ClassVar[bool] = False
    """How the trials of a program share a CPU. In turns, each trial has the same bits whatever runs beside it. Together
    (by `jax.vmap`) small dense networks train up to three times as fast, and the last bits depend on the number of
    trials, which stands in their rows. On a GPU trials always run together."""

    name: str

    def data(self) -> PyTree:
        """Arrays that all steps and all trials share, such as a data set; None without any.

        It is called once in a process for trials of one structure, whose arrays are freed when others follow that have
        other data, and no `Traced` field can be read here. The arrays enter compiled programs as an argument, so that
        they are neither compiled in nor copied for each trial.
        """
        return None

    @abc.abstractmethod
    def init(self, at: Step) -> PyTree:
        """The state before the first step, a pytree of arrays."""

    @abc.abstractmethod
    def step(self, state: PyTree, at: Step) -> tuple[PyTree, Mapping[str, Float[Array, ""]]]:
        """The state after a step, and numbers by name whose means are the training curves.

        A trial ends as failed at the first step with a number that is not finite.
        """

    @abc.abstractmethod
    def evaluate(self, state: PyTree, at: Step) -> Mapping[str, Float[Array, ""]] | Evaluated:
        """The metrics of a state. The key of `at` is the same for every evaluation of a trial."""

    def network(self, state: PyTree) -> Any:
        """The part of a trained state that is kept in the store; all of the state unless a subclass chooses."""
        return state

    def start_from(self, network: Any, at: Step) -> PyTree:
        """The state before the first step of a training that starts from what `network` has kept of another trial.

        An experiment that keeps all of its state goes on with it. An experiment with a `network` of its own needs a
        `start_from` of its own, or its trials cannot start from others.
        """
        return network
