"""A trial is a frozen record that is also a JAX pytree.

Fields marked `Traced` are the leaves of the tree (learning rate, q, training seed ...); every other field is part of
its structure (task sizes, m, batch size, steps ...). So two trials may share one compiled program exactly when
`jax.tree.structure` of the two is equal, and a pack of trials is their leaves stacked along a new axis.

The content of a trial and its execution are kept apart: nothing in this module speaks of workers, lanes, folders or
machines. `trial_id` hashes the whole record with every default written out, so a default that changes later changes the
id. A field that joins a record later is marked `Unwritten` and changes no id (`sweeper.trial.record`).

Invariants:
    - `TrialSpec.model_validate(canonical(trial))` equals `trial`.
    - Values that a baseline ignores are normalised on construction (the objective of an E baseline, m with one fixed
      seed r_0), so that settings which mean the same training are one setting.
"""

import enum
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray
from pydantic import Field, SerializeAsAny, model_validator

from sweeper.learned_algorithms.contracts import Model, Network, Task
from sweeper.learned_algorithms.declared import DECLARED
from sweeper.learned_algorithms.objective_contract import Objective
from sweeper.learned_algorithms.seed_bank import SeedBank
from sweeper.trial import plugins
from sweeper.trial.contract_checks import attributed, broken
from sweeper.trial.field_types import Count, ListOf, Steps
from sweeper.trial.kinds import Declared
from sweeper.trial.optimizer_contract import AnyOptimizer
from sweeper.trial.record import Spec, Traced, Unwritten, canonical
from sweeper.trial.start_from import AnyStart
from sweeper.trial.trial import Folder, Trial, plugin_record


class Baseline(enum.StrEnum):
    """The four baselines, which differ in two facts: the objective, and whether every step draws new seeds r."""

    AE_r0 = "AE_r0"
    Aq_r0 = "Aq_r0"
    AE_R = "AE_R"
    Aq_R = "Aq_R"

    @property
    def uses_objective(self) -> bool:
        """Whether the trial's objective is trained; else the expectation over inputs is, the q-norm at q = 1."""
        return self in (Baseline.Aq_r0, Baseline.Aq_R)

    @property
    def fresh_seeds(self) -> bool:
        """Whether every step draws new seeds r; else one seed r_0 serves the training and its evaluation."""
        return self in (Baseline.AE_R, Baseline.Aq_R)


def _baseline_of(trial: Mapping[str, Any]) -> Baseline:
    """The baseline of a trial that names none: the objective is trained, with fresh seeds r if the task draws any."""
    has_seeds = "task" in trial and type(trial["task"]).sample_seeds is not Task.sample_seeds
    return Baseline.Aq_R if has_seeds else Baseline.Aq_r0


def expectation(m: int) -> Objective:
    """The objective of the E baselines: the mean over the inputs."""
    return plugins.load("objective", plugins.DEFAULTS["objective"]).model_validate({"m": m})


class Evaluation(Spec):
    """The evaluation protocol: how many seeds r are drawn, and the group sizes of the majority votes.

    With `exhaustive` a randomised model is evaluated with every seed r once, so that only votes are estimates; `seeds`
    is then their number. With `worst_seeds` the worst input is searched in stages of so many fresh seeds r
    (`worst_input`); single-seed models and exhaustive evaluations do not need it, and have None. In a task without
    voting `votes` mean nothing, and trials have the default.
    """

    seeds: Count = 100
    votes: ListOf[Count] = (5, 30)
    exhaustive: Annotated[bool, Unwritten(False)] = False
    worst_seeds: Annotated[Annotated[int, Field(ge=4)] | None, Unwritten(None)] = None

    @model_validator(mode="after")
    def _groups_differ(self) -> "Evaluation":
        if len(set(self.votes)) != len(self.votes):
            raise ValueError(f"votes: {list(self.votes)} names a group size twice")
        return self


NO_VOTES = Evaluation().votes
"""What stands in the specification of a trial whose task has no voting: ids of trials are older than this rule."""


class TrialSpec(Trial):
    """A learned algorithm: a network that is trained on losses of inputs and seeds r, and evaluated over both."""

    DECLARED: ClassVar[Declared] = DECLARED

    task: SerializeAsAny[Annotated[Task, plugin_record("task")]]
    model: SerializeAsAny[Annotated[Model, plugin_record("model")]]
    baseline: Annotated[Baseline, Field(strict=False, default_factory=_baseline_of)]
    objective: SerializeAsAny[Annotated[Objective, plugin_record("objective")]] = Field(
        default_factory=lambda: plugins.load("objective", plugins.DEFAULTS["objective"])()
    )
    optimizer: AnyOptimizer = Field(default_factory=lambda: plugins.load("optimizer", plugins.DEFAULTS["optimizer"])())
    steps: Steps
    batch_size: Count = 256
    evaluation: Evaluation = Evaluation()
    # Of matrix products. With `tensorfloat32` a device that can rounds their factors to ten bits, in training and
    # evaluation; look-ups by products stay exact. A CPU computes in `float32` in any case.
    precision: Annotated[Literal["float32", "tensorfloat32"], Unwritten("float32")] = "float32"
    # Steps between evaluations while the trial trains, whose metrics are curves too; None for one at the end alone
    evaluate_every: Annotated[Count | None, Unwritten(None)] = None
    # Whether the m seeds r of the objective are a bank: trained with the network, and so are their probabilities. Then
    # no seeds are drawn, and an evaluation is the expectation over the bank.
    learned_seeds: Annotated[bool, Unwritten(False)] = False
    start_from: AnyStart = None
    seed: Traced[Annotated[int, Field(ge=0, lt=2**31)]] = 0

    @model_validator(mode="after")
    def _complete(self) -> "TrialSpec":
        """Check the model against the task, and give values that this baseline ignores their one canonical value."""
        self.model.check(self.task)
        if self.optimizer.TRAINER == "gradient" and not self.task.abilities().differentiable:
            raise ValueError(
                f"optimizer: the losses of {self.task.name} have no gradient; train it with {{name: pgpe}}"
            )
        if self.optimizer.TRAINER == "policy_gradient" and self.task.abilities().episodes is None:
            raise ValueError(f"optimizer: {self.task.name} has no episodes to follow a policy gradient in")
        if self.objective.needs_groups and self.task.abilities().groups is None:
            raise ValueError(
                f"objective: {self.objective.name} weighs groups of inputs, and {self.task.name} has no groups"
            )
        objective = self.objective if self.baseline.uses_objective else expectation(self.objective.m)
        objective = objective if self.baseline.fresh_seeds else objective.model_copy(update={"m": 1})
        object.__setattr__(self, "objective", objective)
        object.__setattr__(self, "learned_seeds", self.learned_seeds and self.baseline.fresh_seeds)
        if self.learned_seeds and self.optimizer.TRAINER == "policy_gradient":
            raise ValueError("learned_seeds: a policy gradient compares seeds r that are drawn")
        object.__setattr__(self, "evaluation", self.fitted(self.evaluation))
        return self

    def with_protocol(self, changes: Mapping[str, Any]) -> "TrialSpec":
        if changes.get("exhaustive") and "seeds" in changes:
            raise ValueError("exhaustive takes every seed r: give no number of seeds")
        drawn = {"exhaustive": False} if "seeds" in changes else {}
        evaluation = Evaluation.model_validate({**canonical(self.evaluation), **drawn, **changes})
        return self.model_copy(update={"evaluation": self.fitted(evaluation)})

    def fitted(self, evaluation: Evaluation) -> Evaluation:
        """A protocol as this trial can have it.

        A single seed is not exhausted, else `seeds` is the number of all. A task without voting ignores `votes`. A bank
        of seeds r is evaluated as it is, and nobody votes.

        It is a `ValueError` if the task has no list of all seeds, or if more seeds are to vote than there are.
        """
        abilities = self.task.abilities()
        if self.learned_seeds:
            return Evaluation(seeds=self.objective.m)
        if evaluation.exhaustive and self.single_seed:
            evaluation = evaluation.model_copy(update={"exhaustive": False})
        elif evaluation.exhaustive:
            if abilities.all_seeds is None:
                raise ValueError(f"evaluation: exhaustive needs all seeds r, and {self.task.name} has too many of them")
            every = abilities.all_seeds()
            evaluation = evaluation.model_copy(update={"seeds": len(jax.tree.leaves(every)[0])})
        if self.single_seed or evaluation.exhaustive:
            evaluation = evaluation.model_copy(update={"worst_seeds": None})
        if abilities.voting is None:
            return evaluation.model_copy(update={"votes": NO_VOTES})
        for group in evaluation.votes:
            if group > evaluation.seeds:
                least = f"a group of {group} needs at least {group} evaluation seeds"
                raise ValueError(f"evaluation.votes: {least}, not {evaluation.seeds}")
        return evaluation

    @classmethod
    def traits(cls, part: Task) -> dict[str, Any]:
        with attributed(part, "abilities"):
            abilities = part.abilities()
        return {"votes": abilities.voting is not None, "tail": abilities.tail_metric, "measures": abilities.measures}

    @property
    def short_sums(self) -> bool:
        return self.task.SHORT_SUMS and self.objective.m == 1

    @property
    def single_seed(self) -> bool:
        """Whether one seed r_0 serves the whole training and its evaluation."""
        return not self.baseline.fresh_seeds

    def with_every_name(self) -> "TrialSpec":
        """A randomised baseline has voters, and so every metric of the other baselines too."""
        fresh = type(self.task).sample_seeds is not Task.sample_seeds
        return self.model_copy(update={"baseline": Baseline.Aq_R}) if self.single_seed and fresh else self

    @property
    def folder(self) -> Folder:
        return Folder(self.task.name, self.baseline)

    @property
    def words(self) -> str:
        return f"{self.task.name} {self.model.name} {self.baseline} {self.objective} seed={self.seed}"

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "model": self.model.name,
            "objective": self.objective.name,
            "q": getattr(self.objective, "q", None),
            "m": self.objective.m,
            "batch_size": self.batch_size,
            "optimizer": self.optimizer.name,
            "learning_rate": getattr(self.optimizer, "learning_rate", None),
        }

    @property
    def work(self) -> int:
        """The number of pairs of an input and a seed r on which the trial trains."""
        return self.steps * self.batch_size * self.objective.m

    @property
    def matmul_precision(self) -> str:
        return self.precision

    def for_programs(self) -> "TrialSpec":
        """As for every trial; of the baseline a program knows whether seeds r are fresh: the objective is the trial's.

        So `AE_R` and `Aq_R` have one program with q = 1 and another q as data, unless their objectives are of different
        kinds.
        """
        seen = {"baseline": Baseline.Aq_r0 if self.single_seed else Baseline.Aq_R}
        return super().for_programs().model_copy(update=seen)

    def initial_network(self) -> Network:
        """The network before the first step, with its bank if seeds r are learned.

        Seeds r that are no real numbers cannot be learned, and are a `ContractError`.
        """
        keys = self.keys()
        network = self.model.build(self.task, keys.weights)
        if not self.learned_seeds:
            return network
        seeds = self.task.sample_seeds(keys.fixed_seed, self.objective.m)
        for leaf in jax.tree.leaves(seeds):
            if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
                raise broken(self.task, "sample_seeds", f"type {jnp.result_type(leaf)}", "floating, to be learned")
        return SeedBank(network, seeds, jnp.zeros(self.objective.m))

    def keys(self) -> "TrialKeys":
        """The independent random streams of the trial, all from its training seed."""
        return TrialKeys(*jax.random.split(jax.random.key(self.seed), len(TrialKeys._fields)))


class TrialKeys(NamedTuple):
    """Keys of the random streams of a trial; counters are folded in, nothing is drawn from a shared state."""

    weights: PRNGKeyArray
    fixed_seed: PRNGKeyArray
    training: PRNGKeyArray
    evaluation: PRNGKeyArray
