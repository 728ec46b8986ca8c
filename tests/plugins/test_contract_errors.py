"""A network that keeps something, and groups of another form, are refused with the place of the method."""

import dataclasses
from typing import Any, Literal

import jax
import pytest
from flax import nnx

from sweeper.learned_algorithms import gradient
from sweeper.learned_algorithms.contracts import Abilities, Groups, Model, Network, Task
from sweeper.packs import conformance
from sweeper.packs.packing import stack
from sweeper.trial.contract_checks import ContractError
from tasks.coloring import Task as Coloring
from tests.trials import coloring_trial


class Keeping(nnx.Module, Network):
    """A network whose call changes the network: it keeps running statistics, or a value that it has computed."""

    def __init__(self, statistics: bool, tokens: int, outputs: int, rngs: nnx.Rngs):
        self.readout = nnx.Linear(tokens, outputs, rngs=rngs)
        self.norm = nnx.BatchNorm(tokens, use_running_average=not statistics, rngs=rngs)
        self.statistics = statistics

    def __call__(self, tokens: Any, mask: Any) -> Any:
        h = self.norm(tokens)
        if not self.statistics:
            self.last = h
        return self.readout(h)


class KeepingModel(Model):
    """Its networks."""

    name: Literal["keeping"] = "keeping"
    statistics: bool

    def build(self, task: Task, key: Any) -> Keeping:
        return Keeping(self.statistics, task.token_size(), task.output_size(), nnx.Rngs(key))


@pytest.mark.parametrize("statistics", [True, False])
def test_a_network_that_keeps_something_is_refused_with_its_method(statistics):
    with pytest.raises(ContractError) as refused:
        conformance.check_shapes([coloring_trial().model_copy(update={"model": KeepingModel(statistics=statistics)})])
    line = Keeping.__call__.__code__.co_firstlineno
    assert str(refused.value).startswith(f"{__file__}, line {line}: __call__ gives ")


class Grouped(Coloring):
    """Colouring whose groups are of another form."""

    def abilities(self) -> Abilities:
        return dataclasses.replace(super().abilities(), groups=Groups(6, lambda inputs: inputs))


@pytest.mark.slow
def test_groups_of_another_form_are_refused_with_their_place():
    trial = coloring_trial(objective={"name": "group_dro", "m": 2}).model_copy(update={"task": Grouped(vertices=5)})
    trials = stack([trial])
    with pytest.raises(ContractError) as refused:
        jax.eval_shape(lambda: gradient.advance(trials, gradient.init(trials), 1))
    line = Grouped.abilities.__code__.co_firstlineno
    assert str(refused.value).startswith(f"{__file__}, line {line}: abilities gives groups of shape [8, 5]")
