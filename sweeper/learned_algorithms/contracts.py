"""The contracts of tasks, models and networks.

A task draws inputs and seeds r, and defines the loss of a network on a pair of the two. A model is a record of sizes
that builds a network. Training changes the weights of the network. These three meet only here: a task never knows which
model it gets, and a model knows of a task only the sizes of its tokens, outputs and contexts.

Invariants:
    - Tasks and networks are pure: they keep no state, and all randomness enters through keys.
    - A task asks of a network what `Network` declares, and what the abilities declare that it names. Knowledge of one
      kind of network, by which a task can save work, is a record that the network hands out, such as `Polynomial`.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import jax
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray, PyTree

from sweeper.trial import vectorisation
from sweeper.trial.contract_checks import made_of
from sweeper.trial.metrics import Metric
from sweeper.trial.record import Spec

# Networks


class Network(abc.ABC):
    """A function from a sequence of tokens to one vector of logits per token.

    A network is a pytree whose leaves are its weights. Training moves all of them, but those in a `Variable` of flax
    that is no `nnx.Param`. The method takes one sequence; batches come from `vmap`.

    Subclasses of this class are abilities: what only some networks can. A task names those that it needs in `NEEDS`.
    """

    @abc.abstractmethod
    def __call__(
        self, tokens: Float[Array, "token feature"], mask: Bool[Array, "token token"]
    ) -> Float[Array, "token output"]:
        """Logits of every token; `mask[i, j]` says whether token i reads token j."""


class EmbeddingNetwork(Network):
    """A network that embeds its tokens in parts; they then read each other in `depth` layers.

    The order of the tokens is no information to the network: positions enter through the embedding alone.
    """

    @property
    @abc.abstractmethod
    def depth(self) -> int:
        """Number of layers in which tokens read each other.

        The logits of a token depend on no token that is more than `depth` steps of the mask away.
        """

    @abc.abstractmethod
    def content(self, tokens: Float[Array, "token feature"]) -> Float[Array, "token width"]:
        """The part of the embedding that does not depend on positions."""

    @abc.abstractmethod
    def placed(self, positions: Int[Array, " token"]) -> Float[Array, "token width"]:
        """The part of the embedding that depends on positions alone."""

    def embed(
        self, tokens: Float[Array, "token feature"], positions: Int[Array, " token"] | None = None
    ) -> Float[Array, "token width"]:
        """The sum of `content` and `placed`; positions are 0, 1, 2 ... if none are given."""
        return self.content(tokens) + self.placed(jax.numpy.arange(len(tokens)) if positions is None else positions)

    @abc.abstractmethod
    def __call__(
        self,
        tokens: Float[Array, "token feature"],
        mask: Bool[Array, "token token"],
        positions: Int[Array, " token"] | None = None,
    ) -> Float[Array, "token output"]:
        """Logits of every token, with positions as in `embed`."""


Memory = PyTree[Float[Array, "... _token _feature"]]
"""What a network keeps of tokens that it has read, so that later tokens can read them.

The last axis but one is the token. What lies before it, such as heads, is the network's own.
"""

Past = Sequence[tuple[Memory, Bool[Array, "_token"]]]
"""Memories of earlier tokens, each with a mask of the tokens that are read."""


class StepwiseNetwork(EmbeddingNetwork):
    """A network that can read a sequence token by token, with a memory."""

    def for_steps(self) -> "StepwiseNetwork":
        """This network for the steps of a loop, with what all of them would compute from its weights alone."""
        return self

    @abc.abstractmethod
    def empty_memory(self, tokens: int) -> Memory:
        """An empty memory of `tokens` tokens, filled with zeros; a mask must hide each place until it is written."""

    @abc.abstractmethod
    def step(self, h: Float[Array, " width"], past: Past) -> tuple[Float[Array, " output"], Memory]:
        """Logits of one token that reads itself and the tokens of `past`.

        Args:
            h: The embedded token.
            past: The memories that the token reads. Tokens may lie in several memories and in any order.

        Returns:
            The logits, equal to those of the whole sequence at this token, and the memory of this token alone.
        """


class PolynomialNetwork(EmbeddingNetwork):
    """A network that can be written out as a polynomial, in some of its variants."""

    @abc.abstractmethod
    def polynomial(self) -> "Polynomial | None":
        """The network as a polynomial of the embedded tokens; None for a variant that is none."""


class LinearAttention(NamedTuple):
    """One head of linear attention: token i that reads token j adds (h_i query) (h_j key)^T (h_j value) output.

    Attributes:
        query: Matrix from a token to its query.
        key: Matrix from a token to its key.
        value: Matrix from a token to its value.
        output: Matrix from a value back to a token.
    """

    query: Float[Array, "width feature"]
    key: Float[Array, "width feature"]
    value: Float[Array, "width feature"]
    output: Float[Array, "feature width"]

    def score(self) -> Float[Array, "width width"]:
        """S with q_i · k_j = h_i S h_j^T."""
        return vectorisation.product(self.query, self.key.T)

    def update(self) -> Float[Array, "width width"]:
        """Z with v_j output = h_j Z."""
        return vectorisation.product(self.value, self.output)


class Polynomial(NamedTuple):
    """A network of residual layers with one head of linear attention each, and an affine read-out.

    Its logits are a polynomial of the embedded tokens. A task may expand the polynomial and share its terms.

    Attributes:
        layers: The attention of each layer, first to last.
        readout: Matrix from a token to its logits.
        bias: Added to the logits.
    """

    layers: tuple[LinearAttention, ...]
    readout: Float[Array, "width output"]
    bias: Float[Array, " output"]


def polynomial_of(network: Network, layers: int) -> Polynomial | None:
    """A network as a polynomial with so many layers; None for any other network."""
    polynomial = network.polynomial() if isinstance(network, PolynomialNetwork) else None
    return polynomial if polynomial is not None and len(polynomial.layers) == layers else None


# Tasks


class Outcomes(NamedTuple):
    """The results of a network on every pair of an evaluation input and a seed r.

    Attributes:
        correct: Whether the argmax answer is right, or another success that the task defines.
        loss: The trained loss.
        sampled: Exact probability that an answer sampled from the softmax is right; None if no answer is sampled.
        answers: The argmax answer as integers, one per part; None in a task without voting.
        variance: Variance over seeds r of the predicted probabilities, averaged over the outputs of the input.
        measures: The task's own measures, by the names in its `Abilities.measures`.
        kept: Columns that are stored with the outcomes and enter no metric.
    """

    correct: Bool[Array, "input seed"]
    loss: Float[Array, "input seed"]
    sampled: Float[Array, "input seed"] | None = None
    answers: Int[Array, "input seed part"] | None = None
    variance: Float[Array, " input"] | None = None
    measures: Mapping[str, Float[Array, "input seed"]] = {}
    kept: Mapping[str, Float[Array, " input"]] = {}


VotingRule = Literal["joint", "partwise"]
"""`joint`: the most frequent whole answer wins. `partwise`: the most frequent value of each part wins."""

Judge = Callable[[PyTree, Integer[Array, "input voter part"]], Bool[Array, "input voter part"]]


@dataclass(frozen=True)
class Voting:
    """How answers are judged, and by which rules seeds r vote on them.

    Attributes:
        right_parts: Whether each part of the answers to the inputs is right. An answer is right if all its parts are.
        wrong_answers: Number of wrong answers that an input can get, and against which a vote must win.
        parts: Number of parts of an answer.
        rules: Names of the metrics made by voting, each with its rule.
    """

    right_parts: Judge
    wrong_answers: int
    parts: int = 1
    rules: Mapping[str, VotingRule] = field(default_factory=lambda: {"majority": "joint"})

    def right(self, inputs: PyTree, answers: Integer[Array, "input voter part"]) -> Bool[Array, "input voter"]:
        """Whether whole answers are right, given by single seeds or won by a vote."""
        return self.right_parts(inputs, answers).all(axis=-1)


@dataclass(frozen=True)
class Groups:
    """A division of the inputs into groups, for objectives that weigh groups.

    Attributes:
        count: Number of groups.
        of: The group of every input, from 0 to `count` - 1.
    """

    count: int
    of: Callable[[PyTree], Integer[Array, " input"]]


class Episodes(NamedTuple):
    """Sampled decisions of a network on every pair of an input and a seed, for policy gradients.

    Each decision of a pair is drawn from the softmax of logits. The decisions stand in the order in which they are
    taken, and those with the same index can be compared between seeds; where a pair ends early, it does not take them.

    Attributes:
        cost: Of each decision; the sum over the decisions that are taken is the loss of the pair.
        taken: Whether the pair takes the decision.
        log_probability: Of the decision, with its gradient by the weights. A task may follow some pairs only, drawn at
            random, and scale their values so that sums over all pairs are right on average; others are 0.
        entropy: Of the distribution that the decision is drawn from, in nats; as `log_probability`.
        marginal: Log-probability of the decision given those before it, where the seed r is not known: by the mean over
            the seeds of the probabilities of all decisions so far. 0 where the task does not say; without a gradient.
    """

    cost: Float[Array, "input seed decision"]
    taken: Bool[Array, "input seed decision"]
    log_probability: Float[Array, "input seed decision"]
    entropy: Float[Array, "input seed decision"]
    marginal: Float[Array, "input seed decision"]


@dataclass(frozen=True)
class Abilities:
    """Optional abilities of a task, beyond the methods that every task has.

    Attributes:
        voting: How seeds r vote; None if there are no answers to vote on.
        differentiable: Whether `losses` has a useful gradient; without one, Adam cannot train the task.
        measures: Quantities that only this task measures of every pair, each as its mean.
        tail: `success` or one of `measures`: the quantity whose bad tail is compared between trials.
        own_metrics: Metrics that only this task knows, computed from the metrics of the evaluation protocol by name.
        pair_metrics: Metrics that only this task knows, each a number made of the inputs and the outcomes of all pairs
            of an input and a drawn seed r; models with a single seed or a bank of seeds have none of them.
        groups: A division of the inputs into groups; None if the task has no such division.
        exact_values: Exact values of the best that any model can reach, on the scale of the loss, by name.
        episodes: Sampled decisions for a network, inputs, seeds r and a key; None if the task cannot be trained by
            policy gradients.
        all_seeds: Every seed r, all equally likely, as numpy arrays with leading axis seed, in an order like that of a
            random draw; None if they are too many. An evaluation may then be exact (`evaluation: {exhaustive: true}`).
        curves: Training curves of the task's own, by name: each makes a number of the network, the inputs and the seeds
            r of a step. A stored point is a mean over steps, as of every curve.
    """

    voting: Voting | None = None
    differentiable: bool = True
    measures: tuple[Metric, ...] = ()
    tail: str = "success"
    own_metrics: Callable[[Mapping[str, float]], Mapping[Metric, float]] = lambda metrics: {}
    pair_metrics: Callable[[PyTree, Outcomes], Mapping[Metric, Float[Array, ""]]] = lambda inputs, outcomes: {}
    groups: Groups | None = None
    exact_values: Callable[[], dict[str, float]] = dict
    episodes: Callable[[Network, PyTree, PyTree, PRNGKeyArray], Episodes] | None = None
    all_seeds: Callable[[], PyTree] | None = None
    curves: Mapping[str, Callable[[Network, PyTree, PyTree], Float[Array, ""]]] = field(default_factory=dict)

    @property
    def quantities(self) -> dict[str, Metric]:
        """`measures` by name."""
        return {measure.quantity: measure for measure in self.measures}

    @property
    def tail_metric(self) -> Metric:
        """The metric of the bad tail: a percentile of `tail` over the inputs, the 95th or the 5th."""
        return self.quantities.get(self.tail, Metric(self.tail)).tail


class Task(Spec, abc.ABC):
    """A distribution over inputs, a distribution over seeds r, and a loss for every pair of the two.

    A task may share work between inputs and seeds inside `losses` and `outcomes`, as long as the numbers equal those of
    the plain network on every single pair.
    """

    KIND: ClassVar[str] = "task"
    VERSION: ClassVar[int] = 1
    """Raise the version when the meaning of the code changes: the id of every trial of the task changes with it."""

    NEEDS: ClassVar[tuple[type[Network], ...]] = ()
    """Abilities that the task uses of every network, such as `StepwiseNetwork`; a model without them is refused."""

    SHORT_SUMS: ClassVar[bool] = False
    """Whether a training step with a single seed r mostly sums over few terms, such as three colours. On a CPU it is
    then compiled without XLA's library for sums, which is fast at long ones and slow at these."""

    name: str

    @abc.abstractmethod
    def token_size(self) -> int:
        """Number of features of one input token, those of the seed r included."""

    @abc.abstractmethod
    def output_size(self) -> int:
        """Number of logits of one token."""

    @abc.abstractmethod
    def context_size(self) -> int:
        """Number of tokens of one input."""

    @abc.abstractmethod
    def sample_inputs(self, key: PRNGKeyArray, count: int) -> PyTree:
        """`count` inputs from the training distribution; every leaf has leading axis `count`."""

    def sample_seeds(self, key: PRNGKeyArray, count: int) -> PyTree:
        """`count` random seeds r; every leaf has leading axis `count`; empty ones, of a task without seeds r."""
        return jax.numpy.zeros((count, 0))

    @abc.abstractmethod
    def loss(self, network: Network, x: PyTree, r: PyTree) -> Float[Array, ""]:
        """Loss of the network on one input with one seed, not negative; `losses` must agree with it."""

    @made_of("loss")
    def losses(self, network: Network, inputs: PyTree, seeds: PyTree) -> Float[Array, "input seed"]:
        """Loss of the network on every pair of an input and a seed."""
        over_seeds = jax.vmap(self.loss, in_axes=(None, None, 0))
        return jax.vmap(over_seeds, in_axes=(None, 0, None))(network, inputs, seeds)

    @abc.abstractmethod
    def evaluation_inputs(self) -> PyTree:
        """The inputs of the evaluation set, in a fixed order; every leaf has the inputs as leading axis."""

    @abc.abstractmethod
    def outcomes(self, network: Network, inputs: PyTree, seeds: PyTree) -> Outcomes:
        """The results of the network on every pair of an input and a seed, for the evaluation protocol."""

    def abilities(self) -> Abilities:
        """The task's optional abilities."""
        return Abilities()


# Models


class Model(Spec, abc.ABC):
    """An architecture: a record of sizes that builds the network with its initial weights."""

    KIND: ClassVar[str] = "model"
    VERSION: ClassVar[int] = 1
    """Raise the version when the meaning of the code changes: the id of every trial of the model changes with it."""

    name: str

    def check(self, task: Task) -> None:
        """Refuse a task whose sizes this architecture cannot take.

        Raises:
            ValueError: with the field that would have to change.
        """

    @abc.abstractmethod
    def build(self, task: Task, key: PRNGKeyArray) -> Network:
        """The network for the task's token, output and context sizes, initialised from `key`."""
