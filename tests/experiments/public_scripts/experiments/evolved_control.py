"""A controller found by an evolution strategy of evosax: it pushes a mass along a line until the mass rests at 0.

The state of a training is the strategy's own. A step is a generation, every controller of which meets the same starts.
"""

from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import optax
from evosax.algorithms import Open_ES
from jaxtyping import Array, Float, PRNGKeyArray

from sweeper.trial import experiment_contract
from sweeper.trial.experiment_contract import Step
from sweeper.trial.field_types import Count, Positive
from sweeper.trial.record import Traced

SECONDS = 0.1
TURNS = 60


class Experiment(experiment_contract.Experiment):
    """Mean square of place, speed and force over an episode of six seconds."""

    metrics: ClassVar = {"cost": "min"}

    name: Literal["evolved_control"] = "evolved_control"
    population: Count = 32
    width: Count = 8
    starts: Count = 8  # of a generation
    std: Traced[Positive] = 0.1
    learning_rate: Traced[Positive] = 0.05

    def init(self, at: Step) -> Any:
        strategy = self._strategy()
        return strategy.init(at.key, self._controller(at.key), strategy.default_params)

    def step(self, state: Any, at: Step) -> Any:
        asking, telling, starting = jax.random.split(at.key, 3)
        strategy = self._strategy()
        controllers, state = strategy.ask(asking, state, strategy.default_params)
        costs = jax.vmap(lambda controller: _cost(controller, starting, self.starts))(controllers)
        state, _ = strategy.tell(telling, controllers, costs, state, strategy.default_params)
        return state, {"mean_cost": costs.mean(), "best_cost": costs.min()}

    def evaluate(self, state: Any, at: Step) -> Any:
        return {"cost": _cost(self.network(state), at.key, 64)}

    def network(self, state: Any) -> Any:
        return self._strategy().get_mean(state)

    def _controller(self, key: PRNGKeyArray) -> Any:
        return {"in": jax.random.normal(key, (2, self.width)), "out": jnp.zeros(self.width)}

    def _strategy(self) -> Any:
        return Open_ES(
            self.population,
            self._controller(jax.random.key(0)),
            optimizer=optax.adam(self.learning_rate),
            std_schedule=lambda _: self.std,
        )


def _cost(controller: Any, key: PRNGKeyArray, starts: int) -> Float[Array, ""]:
    def turn(now: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        place, speed = now
        force = jnp.tanh(jnp.tanh(jnp.stack([place, speed], axis=-1) @ controller["in"]) @ controller["out"])
        speed = speed + SECONDS * 2 * force
        return (place + SECONDS * speed, speed), place**2 + 0.1 * speed**2 + 0.1 * force**2

    start = jax.random.uniform(key, (2, starts), minval=-1, maxval=1)
    return jax.lax.scan(turn, (start[0], start[1]), length=TURNS)[1].mean()
