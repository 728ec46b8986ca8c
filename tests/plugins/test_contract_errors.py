"""What a network may lack, and with which place it is told if a method of a task or a network breaks its contract."""

import dataclasses
import re
from typing import Any, Literal

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from sweeper.learned_algorithms import gradient
from sweeper.learned_algorithms.contracts import Abilities, Groups, Model, Network, Task
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs import conformance
from sweeper.packs.packing import stack
from sweeper.trial.contract_checks import ContractError
from tasks.coloring import Task as Coloring
from tests.trials import coloring_trial


class Plain(nnx.Module, Network):
    """A network that has `__call__` and nothing else, and may break its contract in a way."""

    def __init__(self, way: str, tokens: int, outputs: int, rngs: nnx.Rngs):
        self.way = way
        self.readout = nnx.Linear(tokens, outputs, rngs=rngs)
        self.norm = nnx.BatchNorm(tokens, use_running_average=way != "statistics", rngs=rngs)

    def __call__(self, tokens: Any, mask: Any) -> Any:
        h = self.norm(tokens)
        if self.way == "attribute":
            self.last = h
        if self.way == "attribute of a part":
            self.readout.last = h  # pyright: ignore[reportAttributeAccessIssue]  # a mistake on purpose
        return self.readout(h)


class PlainModel(Model):
    """Its networks."""

    name: Literal["plain"] = "plain"
    way: str = "none"

    def build(self, task: Task, key: Any) -> Plain:
        return Plain(self.way, task.token_size(), task.output_size(), nnx.Rngs(key))


def _plain(way: str = "none", **changes: Any) -> TrialSpec:
    return coloring_trial(**changes).model_copy(update={"model": PlainModel(way=way)})


PLAIN_CALL = f"{__file__}, line {Plain.__call__.__code__.co_firstlineno}: __call__ gives "


@pytest.mark.slow
def test_a_network_needs_nothing_but_a_call_for_a_task_that_asks_for_no_more():
    conformance.check_shapes([_plain()])


def test_a_network_that_lacks_what_its_task_needs_is_refused_with_the_names_of_both():
    grid = {"name": "gridworld", "height": 2, "width": 2, "horizon": 4, "noise": 2}
    with pytest.raises(ContractError) as refused:
        conformance.check_shapes([_plain(task=grid, optimizer={"name": "pgpe"})])
    said = str(refused.value)
    assert said.startswith(f"{__file__}, line {PlainModel.build.__code__.co_firstlineno}: build")
    assert {"gridworld", "contracts.StepwiseNetwork"} <= set(re.findall(r"[\w.]+", said))


@pytest.mark.parametrize("way", ["statistics", "attribute", "attribute of a part"])
def test_a_network_that_keeps_something_is_refused_with_its_method(way):
    with pytest.raises(ContractError) as refused:
        conformance.check_shapes([_plain(way)])
    assert str(refused.value).startswith(PLAIN_CALL)


def _task_with(**changes: Any) -> TrialSpec:
    """A trial whose task has other abilities than colouring."""

    def abilities(self: Any) -> Abilities:
        return dataclasses.replace(Coloring.abilities(self), **changes)

    task: Any = type("Task", (Coloring,), {"abilities": abilities})
    return coloring_trial(objective={"name": "group_dro", "m": 2}).model_copy(update={"task": task(vertices=5)})


ABILITIES = f"{__file__}, line {_task_with.__code__.co_firstlineno + 3}: abilities gives"


def test_what_a_curve_gives_the_network_is_held_against_the_sizes_of_the_task():
    tokens = jnp.zeros((5, 3))
    trial = _task_with(curves={"own": lambda network, inputs, seeds: network(tokens, jnp.ones((5, 5), bool)).mean()})
    with pytest.raises(ContractError) as refused:
        conformance.check_shapes([trial])
    assert str(refused.value).startswith(ABILITIES.replace("gives", "raises TypeError"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "given"),
    [
        (lambda inputs: inputs, "shape [8, 5]"),
        (lambda inputs: inputs[0, 0], "shape []"),
        (lambda inputs: inputs.mean(axis=1), "type float32"),
    ],
)
def test_groups_of_another_form_are_refused_with_their_place(of, given):
    trials = stack([_task_with(groups=Groups(6, of))])
    with pytest.raises(ContractError) as refused:
        jax.eval_shape(lambda: gradient.advance(trials, gradient.init(trials), 1))
    assert str(refused.value).startswith(f"{ABILITIES} groups of {given}")
