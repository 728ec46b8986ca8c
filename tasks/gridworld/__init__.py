"""Find a treasure in a grid, then fetch it again: in-context exploration without gradients.

An input is the cell of the treasure, any but the corner in which both episodes start; a seed is one vector of normal
noise, the first token. The agent acts by the argmax of four logits, so a loss is a whole number of steps and has no
gradient. The cost of a pair is T1 + T2, the steps of both episodes, where an episode without success counts in full.
Minus that is the scale of the published curves; the reward of the paper's text, 1 for the treasure and -0.1 for every
other step, is 2.2 - 0.1 (T1 + T2) if both episodes succeed and punishes a failed one by 1.1 more.

A token is [noise | row | column | reward] with one-hot row and column. The paper concatenates learnt embeddings of row
and column with the reward; here the model's first dense layer adds its rows for them, of which that is a special case.

`environment` is the world, `rollout` the agent in it with its shared work, `minmax` what no agent can beat.
"""

import contextlib
import functools
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray
from pydantic import Field, model_validator

from sweeper.learned_algorithms import contracts
from tasks.gridworld import minmax
from tasks.gridworld.environment import FOUND, STEP, Grid, episode_reward
from tasks.gridworld.rollout import Durations, durations, trajectory, trajectory_durations
from tasks.gridworld.sampled_episodes import episodes

PATHS = 3
"""Number of seeds whose paths are kept with the outcomes."""


class Task(contracts.Task):
    """Two episodes in a grid world.

    Attributes:
        height: Rows of the grid.
        width: Columns of the grid.
        horizon: Longest episode, in steps.
        noise: Features of the noise token; the paper's fills its token of 80.
        scale: What is trained: `steps` is T1 + T2; `reward` is 22 - 10 times the text's reward, which is the same
            if both episodes succeed and 11 steps more for every one that does not.
    """

    NEEDS: ClassVar[tuple[type[contracts.Network], ...]] = (contracts.StepwiseNetwork,)

    name: Literal["gridworld"] = "gridworld"
    height: Annotated[int, Field(ge=1)] = 5
    width: Annotated[int, Field(ge=1)] = 5
    horizon: Annotated[int, Field(ge=1)] = 25
    noise: Annotated[int, Field(ge=1)] = 80
    scale: Literal["steps", "reward"] = "steps"

    @model_validator(mode="after")
    def _has_room(self) -> "Task":
        if self.grid.cells < 2:
            raise ValueError("height, width: a grid of one cell has no room for a treasure")
        return self

    @property
    def grid(self) -> Grid:
        """The world's sizes."""
        return Grid(self.height, self.width, self.horizon)

    def token_size(self) -> int:
        return self.noise + self.height + self.width + 1

    def output_size(self) -> int:
        return 4

    def context_size(self) -> int:
        return 2 * self.horizon + 1

    def sample_inputs(self, key: PRNGKeyArray, count: int) -> Int[Array, " input"]:
        """`count` treasures in random order, each as often as the next, give or take one.

        A batch of `height * width - 1` thus holds every treasure once, and q = inf is the paper's brute force.
        """
        treasures = jnp.arange(count, dtype=jnp.int32) % (self.grid.cells - 1)
        names, order = jax.random.split(key)
        return 1 + jax.random.permutation(names, self.grid.cells - 1)[jax.random.permutation(order, treasures)]

    def sample_seeds(self, key: PRNGKeyArray, count: int) -> Float[Array, "seed noise"]:
        """`count` noise tokens with independent normal entries."""
        return jax.random.normal(key, (count, self.noise))

    def loss(self, network: contracts.Network, x: Int[Array, ""], r: Float[Array, " noise"]) -> Float[Array, ""]:
        """Cost of the plain rollout, on the scale that is trained."""
        return self._cost(trajectory_durations(trajectory(self.grid, _stepwise(network), x, r)))

    def losses(
        self, network: contracts.Network, inputs: Int[Array, " input"], seeds: Float[Array, "seed noise"]
    ) -> Float[Array, "input seed"]:
        return self._cost(self._durations(network, inputs, seeds))

    def evaluation_inputs(self) -> Int[Array, " input"]:
        """Every cell but the corner: row by row from below, each from the left."""
        return jnp.arange(1, self.grid.cells, dtype=jnp.int32)

    def outcomes(
        self, network: contracts.Network, inputs: Int[Array, " input"], seeds: Float[Array, "seed noise"]
    ) -> contracts.Outcomes:
        """Success is to find the treasure in both episodes.

        The measures are the reward on both scales and the steps of either episode; `first_visit` is at once the step
        at which the treasure's cell is first visited, the horizon if it is not. For the first few seeds the columns
        `path_<seed>_<step>` hold the cell reached by each step of both episodes, and -1 after the end.
        """
        both = self._durations(network, inputs, seeds)
        return contracts.Outcomes(
            correct=both.found.all(axis=0),
            loss=self._cost(both),
            measures={
                "reward": -both.steps.sum(axis=0).astype(jnp.float32),
                "text_reward": _text_reward(both),
                "first_visit": both.steps[0].astype(jnp.float32),
                "second_episode": both.steps[1].astype(jnp.float32),
            },
            kept=self._paths(network, inputs, seeds[:PATHS]),
        )

    def abilities(self) -> contracts.Abilities:
        """No votes and no gradient; rewards and visits as measures, each treasure a group, and exact values."""
        return contracts.Abilities(
            differentiable=False,
            measures=(
                contracts.Metric("reward"),
                contracts.Metric("text_reward"),
                contracts.Metric("first_visit", high_is_good=False),
                contracts.Metric("second_episode", high_is_good=False),
            ),
            tail="reward",
            own_metrics=self._exploitability,
            groups=contracts.Groups(self.grid.cells - 1, lambda inputs: inputs - 1),
            exact_values=self._exact_values,
            episodes=self._episodes,
        )

    def _exploitability(self, metrics: Mapping[str, float]) -> dict[contracts.Metric, float]:
        """`exploitability`: steps on the worst treasure beyond the exact randomised min-max, where that is known."""
        try:
            least = minmax.randomised(self.grid).value
        except minmax.UncertifiedError:
            return {}
        return {contracts.Metric("exploitability", high_is_good=False): -metrics["reward_worst"] - least}

    def _exact_values(self) -> dict[str, float]:
        """Steps T1 + T2: `best_average`, and of the worst treasure `best_deterministic` and `randomised_minmax`.

        Those that the solver cannot certify on this grid are left out.
        """
        solvers = {
            "best_average": minmax.best_average,
            "best_deterministic": minmax.deterministic,
            "randomised_minmax": lambda grid: minmax.randomised(grid).value,
        }
        values = {}
        for name, solve in solvers.items():
            with contextlib.suppress(minmax.UncertifiedError):
                values[name] = float(solve(self.grid))
        return values

    def _durations(
        self, network: contracts.Network, inputs: Int[Array, " input"], seeds: Float[Array, "seed noise"]
    ) -> Durations:
        everywhere = durations(self.grid, _stepwise(network), seeds)
        return Durations(*(values[:, inputs - 1] for values in everywhere))

    def _episodes(
        self,
        network: contracts.Network,
        inputs: Int[Array, " input"],
        seeds: Float[Array, "seed noise"],
        key: PRNGKeyArray,
    ) -> contracts.Episodes:
        failure = 0.0 if self.scale == "steps" else (FOUND - STEP) / -STEP
        return episodes(self.grid, _stepwise(network), inputs, seeds, key, failure)

    def _cost(self, both: Durations) -> Float[Array, "*pair"]:
        if self.scale == "steps":
            return both.steps.sum(axis=0).astype(jnp.float32)
        return (2 * (FOUND - STEP) - _text_reward(both)) / -STEP

    def _paths(
        self, network: contracts.Network, inputs: Int[Array, " input"], seeds: Float[Array, "seed noise"]
    ) -> dict[str, Float[Array, " input"]]:
        walk = functools.partial(trajectory, self.grid, _stepwise(network))
        walks = jax.vmap(jax.vmap(walk, in_axes=(None, 0)), in_axes=(0, None))(inputs, seeds)
        cells = jnp.where(walks.episode < 2, walks.cell, -1).astype(jnp.float32)
        _, count, steps = cells.shape
        return {f"path_{seed}_{step}": cells[:, seed, step] for seed in range(count) for step in range(steps)}


def _stepwise(network: contracts.Network) -> contracts.StepwiseNetwork:
    """The network of a trial, which can do what the task needs."""
    assert isinstance(network, contracts.StepwiseNetwork)
    return network


def _text_reward(both: Durations) -> Float[Array, "*pair"]:
    return episode_reward(both.steps, both.found).sum(axis=0)
