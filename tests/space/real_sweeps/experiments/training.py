"""The settings that the sweeps beside this folder vary. No test trains it: the spaces are read and expanded."""

from typing import Annotated, Any, ClassVar, Literal

import jax.numpy as jnp
from pydantic import Field

from sweeper.trial import experiment_contract
from sweeper.trial.field_types import BelowOne, Count, ListOf, NotNegative, Positive
from sweeper.trial.record import Spec, Traced


class Svm(Spec):
    """A support vector machine."""

    name: Literal["svm"]
    c: Traced[Positive] = 1.0
    kernel: Literal["linear", "rbf"] = "rbf"


class Forest(Spec):
    """A random forest."""

    name: Literal["forest"]
    trees: Count = 100
    depth: Count = 8


class Network(Spec):
    """Dense layers."""

    name: Literal["network"]
    layers: ListOf[Count] = (64, 64)
    dropout: Traced[BelowOne] = 0.0


class Experiment(experiment_contract.Experiment):
    """A training of a classifier, or of an agent."""

    metrics: ClassVar = {"accuracy": "max", "loss": "min", "episode_return": "max", "megabytes": "min"}

    name: Literal["training"] = "training"
    environment: str = "cartpole"
    model: Annotated[Svm | Forest | Network, Field(discriminator="name")] = Network(name="network")
    activation: Literal["tanh", "relu", "elu"] = "tanh"
    orthogonal: bool = True
    optimizer: Literal["sgd", "adam", "ftrl"] = "adam"
    learning_rate: Traced[Positive] = 1e-3
    final_learning_rate: Traced[NotNegative] = 0.0
    momentum: Traced[BelowOne] = 0.0
    weight_decay: Traced[NotNegative] = 0.0
    batch_size: Count = 64
    horizon: Count = 128
    epochs: Count = 4
    discount: Traced[BelowOne] = 0.99
    clip: Traced[Positive] = 0.2
    entropy_weight: Traced[NotNegative] = 0.0
    value_weight: Traced[NotNegative] = 0.5

    def init(self, at: Any) -> Any:
        return jnp.zeros(())

    def step(self, state: Any, at: Any) -> Any:
        return state, {"train_loss": state}

    def evaluate(self, state: Any, at: Any) -> Any:
        return dict.fromkeys(self.metrics, state)
