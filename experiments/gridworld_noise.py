"""The mixture of walks of `gridworld_best_responses` with the paper's seed r: a vector of normal noise.

There the seed is a number of bits, which thresholds turn into one of the first tokens that name walks. Here a small
network maps normal noise to a mixture of these tokens, by a softmax, and stands before the first layer of the teacher's
network. The first entry of a seed r says by its quantile which token is meant, so that each has its share. Two things
are learned at once: the map which token is meant, and all weights the teacher's own greedy walks of this token, of both
episodes.

Near a threshold the softmax mixes two names, and the walk may be neither. What this costs is measured beside the
teacher's network, which reads the likeliest token or the one that is meant, with the same seeds r.
"""

import math
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from experiments import gridworld_best_responses
from sweeper.trial import experiment_contract
from sweeper.trial.experiment_contract import Evaluated, Step
from sweeper.trial.field_types import Count, Positive
from sweeper.trial.record import Traced
from sweeper.trial.trained import Trained
from tasks import gridworld
from tasks.gridworld import environment
from tasks.gridworld.rollout import noise_token, reached_token, trajectory

SEEDS_AT_ONCE = 1024
"""Seeds r of an evaluation that are walked together."""


class Map(NamedTuple):
    """A perceptron from noise to the logits of first tokens."""

    first: Float[Array, "noise hidden"]
    bias: Float[Array, " hidden"]
    last: Float[Array, "hidden token"]
    last_bias: Float[Array, " token"]

    def __call__(self, r: Float[Array, "*seed noise"]) -> Float[Array, "*seed token"]:
        return jax.nn.gelu(r @ self.first + self.bias) @ self.last + self.last_bias


class Walks(NamedTuple):
    """What the teacher does with each token and treasure, in both episodes.

    Attributes:
        action: Of each step.
        cell: Reached by it.
        found: Whether it found the treasure.
        counted: Whether both episodes were not over before it.
    """

    action: Int[Array, "token treasure step"]
    cell: Int[Array, "token treasure step"]
    found: Bool[Array, "token treasure step"]
    counted: Bool[Array, "token treasure step"]


class Experiment(experiment_contract.Experiment):
    """Normal noise chooses the walks that the teacher plays by name.

    Attributes:
        teacher: A trial of `gridworld_best_responses`.
        noise: Entries of a seed r.
        hidden: Width of the map.
        names: Seeds r of a step whose tokens the map learns.
        batch: Those of them whose walk is imitated, with one treasure each.
        groups: Of 1024 seeds r each in an evaluation.
        learning_rate: Of Adam.
    """

    metrics: ClassVar = {
        "loss_worst": "min",  # steps of both episodes, the mean over seeds r, on the worst treasure
        "loss_worst_se": "min",  # its standard error over seeds r
        "loss": "min",  # the mean over treasures
        "chosen_worst": "min",  # that of the teacher's network, which reads the likeliest token alone
        "meant_worst": "min",  # the same with the tokens that the seeds r mean
        "meant": "max",  # share of seeds r whose likeliest token is the one that is meant
        "success": "max",  # share of pairs of a seed and a treasure that is found in both episodes
    }

    name: Literal["gridworld_noise"] = "gridworld_noise"
    teacher: Trained
    noise: Count = 32
    hidden: Count = 64
    names: Count = 1024
    batch: Count = 32
    groups: Count = 16
    learning_rate: Traced[Positive] = 3e-3

    def init(self, at: Step) -> dict[str, Any]:
        first, bias, last = jax.random.split(at.key, 3)
        tokens = self._taught.tokens
        fresh = Map(
            jax.random.normal(first, (self.noise, self.hidden)) / math.sqrt(self.noise),
            jax.random.normal(bias, (self.hidden,)),
            jax.random.normal(last, (self.hidden, tokens)) / math.sqrt(self.hidden),
            jnp.zeros(tokens),
        )
        network = {"map": fresh, "network": self.teacher.network["network"]}
        return {"network": network, "adam": optax.scale_by_adam().init(network), "walks": self._walks()}

    def network(self, state: Any) -> Any:
        """The map, and the transformer that reads its tokens."""
        return state["network"]

    def step(self, state: Any, at: Step) -> tuple[Any, dict[str, Float[Array, ""]]]:
        value, gradient = jax.value_and_grad(self._loss)(state["network"], state["walks"], at.key)
        gradient = jax.tree.map(lambda part: part / jnp.maximum(optax.tree.norm(gradient), 1.0), gradient)
        updates, adam = optax.scale_by_adam().update(gradient, state["adam"])
        rate = optax.warmup_cosine_decay_schedule(0.0, 1.0, 50, at.steps, 1 / 100)(at.index) * self.learning_rate
        network = jax.tree.map(lambda weight, update: weight - rate * update, state["network"], updates)
        return state | {"network": network, "adam": adam}, {"train_loss": value}

    def evaluate(self, state: Any, at: Step) -> Evaluated:
        """Fresh seeds r with all treasures, by the network's own actions."""
        task, network, tokens = self._task, state["network"], jnp.eye(self._taught.tokens)
        r = jax.random.normal(at.key, (self.groups, SEEDS_AT_ONCE, self.noise))
        logits, meant, treasures = network["map"](r), self.token_of(r), task.evaluation_inputs()

        def group(names: Float[Array, "seed token"]) -> tuple[Float[Array, "treasure seed"], Float[Array, ""]]:
            played = task.outcomes(network["network"], treasures, names)
            return played.loss, played.correct.mean(dtype=jnp.float32)

        steps, success = jax.lax.map(group, jax.nn.softmax(logits))
        mean = steps.mean(axis=(0, 2))
        taught = task.losses(self.teacher.network["network"], treasures, tokens)
        chosen = logits.argmax(axis=-1)
        metrics = {
            "loss_worst": mean.max(),
            "loss_worst_se": steps[:, mean.argmax()].std(ddof=1) / math.sqrt(self.groups * SEEDS_AT_ONCE),
            "loss": mean.mean(),
            "chosen_worst": taught[:, chosen.ravel()].mean(axis=1).max(),
            "meant_worst": taught[:, meant.ravel()].mean(axis=1).max(),
            "meant": (chosen == meant).mean(dtype=jnp.float32),
            "success": success.mean(),
        }
        return Evaluated(metrics, {"loss": mean})

    def token_of(self, r: Float[Array, "*seed noise"]) -> Int[Array, "*seed"]:
        """The first token that each seed r means: each is meant as often as the teacher plays it."""
        share = jnp.cumsum(self.teacher.network["seeds"]) / 2**self._taught.bits
        return (jax.scipy.stats.norm.cdf(r[..., :1]) >= share[:-1]).sum(axis=-1)

    @property
    def _taught(self) -> gridworld_best_responses.Experiment:
        taught = self.teacher.experiment
        assert isinstance(taught, gridworld_best_responses.Experiment)
        return taught

    @property
    def _task(self) -> gridworld.Task:
        of = self._taught
        return gridworld.Task(height=of.height, width=of.width, horizon=of.horizon, noise=of.tokens)

    def _walks(self) -> Walks:
        """The teacher's greedy walks, one for each token and treasure."""
        grid, network = self._task.grid, self.teacher.network["network"]

        def walk(token: Float[Array, " token"], treasure: Int[Array, ""]) -> Walks:
            seen = trajectory(grid, network, treasure, token)
            return Walks(seen.logits.argmax(axis=-1), seen.cell, seen.found, seen.episode < 2)

        of_treasures = jax.vmap(walk, in_axes=(None, 0))
        return jax.vmap(of_treasures, in_axes=(0, None))(jnp.eye(self._task.noise), self._task.evaluation_inputs())

    def _loss(self, network: Any, walks: Walks, key: PRNGKeyArray) -> Float[Array, ""]:
        """Mean cross-entropy of the tokens that are meant, and that of the actions of their walks."""
        drawing, choosing = jax.random.split(key)
        r = jax.random.normal(drawing, (self.names, self.noise))
        logits, meant = network["map"](r), self.token_of(r)
        naming = optax.softmax_cross_entropy_with_integer_labels(logits, meant).mean()

        treasure = jax.random.randint(choosing, (self.batch,), 0, walks.cell.shape[1])
        shown = jax.tree.map(lambda values: values[meant[: self.batch], treasure], walks)
        answers = jax.vmap(lambda names, walk: self._answers(network["network"], names, walk))
        missed = optax.softmax_cross_entropy_with_integer_labels(
            answers(jax.nn.softmax(logits[: self.batch]), shown), shown.action
        )
        return naming + jnp.where(shown.counted, missed, 0.0).sum() / shown.counted.sum()

    def _answers(self, network: Any, names: Float[Array, " token"], walk: Walks) -> Float[Array, "step action"]:
        """What the network says before each step of a walk, with first tokens mixed like this."""
        grid = self._task.grid
        token = jax.vmap(lambda cell, found: reached_token(grid, len(names), cell, environment.reward(found)))
        read = jnp.concatenate([noise_token(grid, names)[None], token(walk.cell[:-1], walk.found[:-1])])
        return network(read, jnp.tri(len(read), dtype=bool))
