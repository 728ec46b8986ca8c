"""Ski rental: rent for another day or buy, without knowing how long the season lasts.

A day of renting costs 1 and buying costs B, the price. A model reads a seed r of normal noise, and the argmax of its
logits is the day on which it buys; before that day it rents. An input is the length of the season in days, which the
model does not see. The loss is the cost divided by the cost of somebody who knew the season, min(length, B). So the
mean over the seeds is the expected ratio on a season, its maximum over the seasons is the competitive ratio, and q =
inf trains the competitive ratio.

Buying on day B gives the ratio 2 - 1/B, and no deterministic rule is better (Karlin, Manasse, Rudolph and Sleator,
Competitive snoopy caching, Algorithmica 3, 1988). Buying on day t = 1 ... B with probability in proportion to
(1 - 1/B)^(B - t) gives 1 / (1 - (1 - 1/B)^B), which goes to e / (e - 1) as B grows, and no randomised rule is better
(Karlin, Manasse, McGeoch and Owicki, Competitive randomized algorithms for nonuniform problems, Algorithmica 11, 1994).
"""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray
from pydantic import Field, model_validator

from sweeper.learned_algorithms import contracts


class Task(contracts.Task):
    """Ski rental.

    Attributes:
        price: The price B of buying, in days of renting.
        longest: The longest season in days; at least 2 B - 1, so that not to buy at all is no way out.
        noise: Features of a seed.
    """

    name: Literal["ski_rental"] = "ski_rental"
    price: Annotated[int, Field(ge=1)] = 10
    longest: Annotated[int, Field(ge=1)] = 20
    noise: Annotated[int, Field(ge=1)] = 8

    @model_validator(mode="after")
    def _long_enough(self) -> "Task":
        if self.longest < 2 * self.price - 1:
            raise ValueError(f"longest: must be at least 2 * price - 1 = {2 * self.price - 1}, got {self.longest}")
        return self

    def token_size(self) -> int:
        return self.noise

    def output_size(self) -> int:
        return self.longest

    def context_size(self) -> int:
        return 1

    def sample_inputs(self, key: PRNGKeyArray, count: int) -> Int[Array, " input"]:
        """`count` seasons in random order, each length as often as the next, give or take one."""
        lengths, order = jax.random.split(key)
        seasons = jnp.arange(count, dtype=jnp.int32) % self.longest
        return 1 + jax.random.permutation(lengths, self.longest)[jax.random.permutation(order, seasons)]

    def sample_seeds(self, key: PRNGKeyArray, count: int) -> Float[Array, "seed noise"]:
        """`count` vectors of independent normal numbers."""
        return jax.random.normal(key, (count, self.noise))

    def loss(self, network: contracts.Network, x: Int[Array, ""], r: Float[Array, " noise"]) -> Float[Array, ""]:
        """The cost on a season of x days, divided by that of somebody who knew the season."""
        return self._ratio(x, self._day(network, r))

    def losses(
        self, network: contracts.Network, inputs: Int[Array, " input"], seeds: Float[Array, "seed noise"]
    ) -> Float[Array, "input seed"]:
        """The same for all pairs; the day depends on the seed alone, so the network reads every seed once."""
        return self._ratio(inputs[:, None], jax.vmap(self._day, in_axes=(None, 0))(network, seeds))

    def evaluation_inputs(self) -> Int[Array, " input"]:
        """Every season, from one day to the longest."""
        return jnp.arange(1, self.longest + 1, dtype=jnp.int32)

    def outcomes(
        self, network: contracts.Network, inputs: Int[Array, " input"], seeds: Float[Array, "seed noise"]
    ) -> contracts.Outcomes:
        """Success is to pay no more than somebody who knew the season."""
        ratios = self.losses(network, inputs, seeds)
        return contracts.Outcomes(correct=ratios == 1, loss=ratios, measures={"ratio": ratios})

    def abilities(self) -> contracts.Abilities:
        """No gradient, as a day is a whole number; the ratio decides, and its best values are known."""
        chance_to_wait = (1 - 1 / self.price) ** self.price
        return contracts.Abilities(
            differentiable=False,
            measures=(contracts.Metric("ratio", high_is_good=False),),
            tail="ratio",
            groups=contracts.Groups(self.longest, lambda inputs: inputs - 1),
            exact_values=lambda: {
                "best_deterministic": 2 - 1 / self.price,
                "best_randomised": 1 / (1 - chance_to_wait),
            },
        )

    def _day(self, network: contracts.Network, r: Float[Array, " noise"]) -> Int[Array, ""]:
        """The day of buying, from 1."""
        return 1 + network(r[None], jnp.ones((1, 1), bool))[0].argmax()

    def _ratio(self, season: Int[Array, "..."], day: Int[Array, "..."]) -> Float[Array, "..."]:
        cost = jnp.where(season < day, season, day - 1 + self.price)
        return cost / jnp.minimum(season, self.price)
