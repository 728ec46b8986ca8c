"""A student that learns what a toy of another number of places has learnt (`tests.experiments.toy`)."""

STUDENT = '''
"""Walks to where its teacher stands, whatever the number of places of each."""

from typing import Any, Literal

import jax.numpy as jnp

from sweeper.trial import experiment_contract
from sweeper.trial.field_types import Count, Positive
from sweeper.trial.record import Traced
from sweeper.trial.trained import Trained


class Experiment(experiment_contract.Experiment):
    metrics = {"distance": "min"}

    name: Literal["student"] = "student"
    teacher: Trained
    places: Count = 2
    rate: Traced[Positive] = 0.5

    def data(self) -> Any:
        return self.teacher.experiment.data()

    def init(self, at: Any) -> Any:
        return {"place": jnp.zeros(self.places), "aim": self.teacher.network["place"].mean()}

    def step(self, state: Any, at: Any) -> Any:
        error = state["place"] - self.teacher.network["place"].mean()
        return state | {"place": state["place"] - self.rate * error}, {"error": jnp.abs(error).mean()}

    def evaluate(self, state: Any, at: Any) -> Any:
        rates = self.teacher.experiment.rate
        return {"distance": jnp.abs(state["place"] - self.teacher.network["place"].mean()).mean() + 0 * rates}

    def network(self, state: Any) -> Any:
        return {"place": state["place"]}

    def start_from(self, network: Any, at: Any) -> Any:
        return self.init(at) | network
'''
