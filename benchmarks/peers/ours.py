"""A work of `benchmarks.peers` as an experiment of this project; `experiments/` names one for each."""

from typing import Any, ClassVar

from benchmarks.peers import works
from sweeper.trial import experiment_contract
from sweeper.trial.experiment_contract import Step
from sweeper.trial.field_types import Positive
from sweeper.trial.record import Traced


class Training(experiment_contract.Experiment):
    """Each trial is a learning rate and a training seed."""

    work: ClassVar[works.Work]
    metrics: ClassVar = {"error": "min"}

    learning_rate: Traced[Positive] = 1e-3

    def data(self) -> Any:
        return self.work.data()

    def init(self, at: Step) -> Any:
        return self.work.start(at.key)

    def step(self, state: Any, at: Step) -> Any:
        state, loss = self.work.step(state, at.key, self.learning_rate, at.data)
        return state, {"train_loss": loss}

    def evaluate(self, state: Any, at: Step) -> Any:
        return {"error": self.work.error(state[0], at.data)}
