"""The work `coloring` of `benchmarks.peers` as an experiment of this project."""

from typing import Any, ClassVar, Literal

from benchmarks.peers import works
from sweeper.trial import experiment_contract
from sweeper.trial.experiment_contract import Step
from sweeper.trial.field_types import Positive
from sweeper.trial.record import Traced

WORK = works.named("coloring")


class Experiment(experiment_contract.Experiment):
    """Each trial is a learning rate and a training seed."""

    lanes_together = WORK.together
    metrics: ClassVar = {"error": "min"}

    name: Literal["peer_coloring"] = "peer_coloring"
    learning_rate: Traced[Positive] = 1e-3

    def data(self) -> Any:
        return WORK.data()

    def init(self, at: Step) -> Any:
        weights = WORK.weights(at.key)
        return weights, works.ADAM.init(weights)

    def step(self, state: Any, at: Step) -> Any:
        state, loss = WORK.step(state, at.key, self.learning_rate, at.data)
        return state, {"train_loss": loss}

    def evaluate(self, state: Any, at: Step) -> Any:
        return {"error": WORK.error(state[0], at.data)}
