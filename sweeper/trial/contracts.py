"""What a task and a model must offer."""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import jax
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray, PyTree

from sweeper.trial.record import Spec


class Outcomes(NamedTuple):
    """What a model did on an evaluation set; the input axis comes first, the seed axis second.

    A task that asks for no answer with a probability, such as a walk, leaves out what it does not have.

    Attributes:
        correct: Whether the argmax answer is right, or whatever counts as success.
        loss: The per-pair training loss.
        sampled: Exact probability that an answer sampled from the softmax is right.
        answers: The argmax answer as integers, in parts on which voters may vote one by one.
        variance: Variance over seeds of the predicted probabilities, averaged over the outputs of the input.
        measures: What else the task measures, by the names in its `MEASURES`.
        kept: Columns that are stored with the outcomes, and of which no metric is made.
    """

    correct: Bool[Array, "input seed"]
    loss: Float[Array, "input seed"]
    sampled: Float[Array, "input seed"] | None = None
    answers: Int[Array, "input seed part"] | None = None
    variance: Float[Array, " input"] | None = None
    measures: Mapping[str, Float[Array, "input seed"]] = {}
    kept: Mapping[str, Float[Array, " input"]] = {}


class Task(Spec, abc.ABC):
    """A distribution over inputs, a distribution over seeds, and a loss for every pair of the two.

    A task is pure: it keeps no state, and all randomness enters through keys. It may share work between inputs and
    seeds inside `losses` and `outcomes`, as long as the numbers are those of the plain model on every single pair.
    """

    VERSION: ClassVar[int] = 1
    """Raise it when the meaning of the code changes: every id of the task's trials changes with it."""

    DIFFERENTIABLE: ClassVar[bool] = True
    """Whether `losses` has a gradient worth following; without one only PGPE trains the task."""

    VOTES: ClassVar[dict[str, Literal["joint", "partwise"]]] = {"majority": "joint"}
    """Metrics made by voting: on the whole answer, or part by part. Empty if there are no answers to vote on."""

    MEASURES: ClassVar[dict[str, Literal["low", "high"]]] = {}
    """Quantities that only this task measures, and which of their values are bad."""

    TAIL: ClassVar[str] = "success"
    """Success or the one of `MEASURES` whose bad tail says how good a model is; advice ranks models by it."""

    name: str

    @abc.abstractmethod
    def token_size(self) -> int:
        """Number of features of one input token, the seed included."""

    @abc.abstractmethod
    def output_size(self) -> int:
        """Number of logits of one read-out position."""

    @abc.abstractmethod
    def context_size(self) -> int:
        """Number of tokens of one input."""

    @abc.abstractmethod
    def sample_inputs(self, key: PRNGKeyArray, count: int) -> PyTree:
        """`count` inputs from the training distribution; every leaf has leading axis `count`."""

    @abc.abstractmethod
    def sample_seeds(self, key: PRNGKeyArray, count: int) -> PyTree:
        """`count` random seeds r; every leaf has leading axis `count`."""

    @abc.abstractmethod
    def loss(self, model: Any, x: PyTree, r: PyTree) -> Float[Array, ""]:
        """Loss of the model on one input with one seed: the definition that `losses` must agree with."""

    def losses(self, model: Any, inputs: PyTree, seeds: PyTree) -> Float[Array, "input seed"]:
        """Loss of the model on every pair of an input and a seed."""
        over_seeds = jax.vmap(self.loss, in_axes=(None, None, 0))
        return jax.vmap(over_seeds, in_axes=(None, 0, None))(model, inputs, seeds)

    @abc.abstractmethod
    def evaluation_inputs(self) -> PyTree:
        """The evaluation set of section "Evaluation" of docs/architecture, in a fixed order."""

    @abc.abstractmethod
    def outcomes(self, model: Any, inputs: PyTree, seeds: PyTree) -> Outcomes:
        """What the evaluation protocol needs to know of every pair of an input and a seed."""

    def correct(self, inputs: PyTree, answers: Int[Array, "input voter part"]) -> Bool[Array, "input voter"]:
        """Whether answers, cast by the model or found by voting, are right; of tasks with answers only."""
        raise NotImplementedError(f"{self.name} has no answers to judge")

    def answer_parts(self) -> int:
        """Number of parts of an answer; more than one in tasks with a partwise vote."""
        return 1

    def correct_parts(
        self, inputs: PyTree, answers: Integer[Array, "input voter part"]
    ) -> Bool[Array, "input voter part"]:
        """Whether each part of the answers is right; an answer is `correct` exactly if all its parts are."""
        return self.correct(inputs, answers)[..., None]

    def wrong_answers(self) -> int:
        """Number of wrong answers that an input can get: what a vote must win against; of tasks with answers only."""
        raise NotImplementedError(f"{self.name} has no answers to count")

    def own_metrics(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Metrics that only this task knows, made of those of the protocol."""
        return {}

    def exact_values(self) -> dict[str, float]:
        """What is known exactly of the best that any model can reach, on the scale of the loss, by name."""
        return {}


class Model(Spec, abc.ABC):
    """An architecture: a record of its sizes that builds the network with its initial weights."""

    VERSION: ClassVar[int] = 1

    name: str

    def check(self, task: Task) -> None:
        """Refuse a task whose sizes this architecture cannot take.

        Raises:
            ValueError: with the field that would have to change.
        """

    @abc.abstractmethod
    def build(self, task: Task, key: PRNGKeyArray) -> Any:
        """The network for the task's token, output and context sizes, initialised from `key`."""
