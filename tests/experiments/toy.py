"""An experiment of a few numbers, in a project of its own, and trials of it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweeper.trial.experiment_trial import ExperimentTrial
from tests.projects import in_project

TOY = '''
"""Walks towards a point; at `explode_at` it leaves all numbers."""

from typing import Any, Literal

import jax
import jax.numpy as jnp

from sweeper.trial import experiment_contract
from sweeper.trial.experiment_contract import Evaluated
from sweeper.trial.field_types import Count, Positive
from sweeper.trial.record import Traced


class Experiment(experiment_contract.Experiment):
    metrics = {"distance": "min", "reach": "max"}

    name: Literal["toy"] = "toy"
    points: Count = 50
    rate: Traced[Positive] = 0.1
    explode_at: Traced[int] = -1

    def data(self) -> Any:
        return jnp.linspace(-1, 1, self.points)

    def init(self, at: Any) -> Any:
        return {"place": jax.random.normal(at.key, (3,)), "key": jax.random.fold_in(at.key, 1), "walked": 0}

    def step(self, state: Any, at: Any) -> Any:
        key, use = jax.random.split(state["key"])
        aim = at.data[jax.random.randint(at.key, (3,), 0, len(at.data))]
        move = self.rate * (aim - state["place"]) + 0.01 * jax.random.normal(use, (3,))
        move = jnp.where(at.index == self.explode_at, jnp.inf, move)
        place = state["place"] + move
        return {"place": place, "key": key, "walked": state["walked"] + 1}, {"pace": jnp.abs(move).mean()}

    def evaluate(self, state: Any, at: Any) -> Any:
        distance = jnp.abs(state["place"])
        far = jnp.abs(at.data) > distance[0]
        return Evaluated({"distance": distance.mean(), "reach": distance.max()}, {"far": far})

    def network(self, state: Any) -> Any:
        return {"place": state["place"]}

    def start_from(self, network: Any, at: Any) -> Any:
        return self.init(at) | network
'''
"""Its state holds a key and a whole number, its data are an array."""


DATA = "    def data(self) -> Any:\n        return jnp.linspace(-1, 1, self.points)\n"

READS = TOY.replace("    points: Count = 50", "    points: Count = 50\n    path: str = ''").replace(
    DATA, "    def data(self) -> Any:\n        import numpy\n        return numpy.load(self.path)\n"
)
"""Its data are in a file that a trial names."""


@contextlib.contextmanager
def project(folder: Path, **experiments: str) -> Iterator[Path]:
    """The working folder is a project with these experiments, of which no module stays afterwards."""
    (folder / "experiments").mkdir(exist_ok=True)
    for name, text in experiments.items():
        (folder / "experiments" / f"{name}.py").write_text(text)
    with contextlib.chdir(folder), in_project(folder):
        yield folder


def toy_trial(steps: int = 12, seed: int = 0, **fields: Any) -> ExperimentTrial:
    """A trial of the toy; `fields` are of the experiment, or of the trial if it has them."""
    of_trial = {name: fields.pop(name) for name in ("curve_every", "evaluate_every", "start_from") if name in fields}
    experiment = {"name": "toy", **fields}
    return ExperimentTrial.model_validate({"experiment": experiment, "steps": steps, "seed": seed, **of_trial})
