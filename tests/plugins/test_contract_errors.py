"""What the methods of a task or a network may leave out, and with which place it is told if they break a contract."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from models import deep_sets
from sweeper.packs import conformance
from sweeper.packs.packing import stack
from sweeper.training import gradient
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.contracts import Abilities, Groups
from sweeper.trial.trial_spec import TrialSpec
from tasks.coloring import Task as Coloring
from tests.trials import coloring_trial


def _network_without(method: str, error: type[Exception]) -> TrialSpec:
    """A trial whose network raises an error in one method."""

    def raises(*arguments: Any) -> Any:
        raise error(method)

    return _network_with(method, raises)


def _network_with(method: str, function: Callable[..., Any]) -> TrialSpec:
    """A trial whose network has another method."""
    network: Any = type("Network", (deep_sets.DeepSets,), {method: function})

    def build(sizes: deep_sets.Model, task: Coloring, key: Any) -> Any:
        return network(sizes, task.token_size(), task.output_size(), key)

    model: Any = type("Model", (deep_sets.Model,), {"build": build})
    return coloring_trial().model_copy(update={"model": model(blocks=1)})


@pytest.mark.parametrize("method", ["embed", "step", "__call__"])
def test_an_error_in_a_method_of_a_network_is_told_with_its_place(method):
    place = f"{__file__}, line {_network_without.__code__.co_firstlineno + 3}"
    with pytest.raises(ContractError) as refused:
        conformance.check_shapes([_network_without(method, ArithmeticError)])
    assert str(refused.value).startswith(f"{place}: {method} raises ArithmeticError")


def test_a_network_may_leave_out_what_its_task_does_not_need():
    conformance.check_shapes([_network_without("step", NotImplementedError)])


def test_a_network_that_keeps_something_is_refused_with_its_method():
    def keeps(network: Any, tokens: Any, mask: Any, positions: Any = None) -> Any:
        result = deep_sets.DeepSets.__call__(network, tokens, mask, positions)
        weights, structure = jax.tree.flatten(network)
        for name, value in vars(structure.unflatten([2 * weight for weight in weights])).items():
            object.__setattr__(network, name, value)
        return result

    with pytest.raises(ContractError, match=r"test_contract_errors\.py, line \d+: __call__ gives "):
        conformance.check_shapes([_network_with("__call__", keeps)])


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
    assert str(refused.value).startswith(f"{ABILITIES} the network tokens of shape [5, 3]")


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
