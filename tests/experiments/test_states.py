"""States that are more than arrays: optimisers of flax, functions and static fields, made of a traced rate."""

import json

import pytest

from sweeper.packs import conformance
from sweeper.packs.packing import Pack
from sweeper.store.store import Store
from sweeper.training import compilation
from sweeper.trial.contract_checks import ContractError
from tests.experiments.runs import destination, run_with_deaths, science
from tests.experiments.test_experiment_runs import begun, from_each
from tests.experiments.toy import project, toy_trial
from tests.whole_packs import run_pack

pytestmark = pytest.mark.slow  # programs are compiled

HEAD = '''
"""A line through points, fitted by Adam."""

from typing import Any, Literal

import flax.struct
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from flax.training.train_state import TrainState

from sweeper.trial import experiment_contract
from sweeper.trial.field_types import Positive
from sweeper.trial.record import Traced


class Held(flax.struct.PyTreeNode):
    weights: Any
    moments: Any
    rate: Any = flax.struct.field(pytree_node=False)


class Weights(nnx.Module):
    def __init__(self):
        self.w = nnx.Param(jnp.zeros(2))


class Experiment(experiment_contract.Experiment):
    metrics = {"error": "min"}
    name: Literal["toy"] = "toy"
    rate: Traced[Positive] = 0.1

    def loss(self, weights, at):
        x = jax.random.normal(at.key, (8, 2))
        return jnp.mean((x @ weights - x.sum(axis=1)) ** 2)

    def adam(self):
        return optax.adam(self.rate * 2)

'''

IN_STEP = """
    def init(self, at):
        return jnp.zeros(2), self.adam().init(jnp.zeros(2))

    def step(self, state, at):
        weights, moments = state
        loss, slope = jax.value_and_grad(self.loss)(weights, at)
        moved, moments = self.adam().update(slope, moments)
        return (optax.apply_updates(weights, moved), moments), {"loss": loss}

    def evaluate(self, state, at):
        return {"error": self.loss(state[0], at)}
"""

TRAIN_STATE = """
    def init(self, at):
        return TrainState.create(apply_fn=lambda w: w * self.rate, params={"w": jnp.zeros(2)}, tx=self.adam())

    def step(self, state, at):
        loss, slope = jax.value_and_grad(lambda params: self.loss(params["w"], at))(state.params)
        return state.apply_gradients(grads=slope), {"loss": loss}

    def evaluate(self, state, at):
        return {"error": self.loss(state.params["w"], at) + 0 * state.apply_fn(state.params["w"]).sum()}
"""

FORMS = {
    "nnx.Optimizer": """
    def init(self, at):
        return Weights(), nnx.Optimizer(Weights(), self.adam(), wrt=nnx.Param)

    def step(self, state, at):
        weights, optimizer = state
        loss, slope = nnx.value_and_grad(lambda weights: self.loss(weights.w[...], at))(weights)
        optimizer.update(weights, slope)
        return (weights, optimizer), {"loss": loss}

    def evaluate(self, state, at):
        return {"error": self.loss(state[0].w[...], at)}
""",
    "TrainState": TRAIN_STATE,
    "a static field": """
    def init(self, at):
        return Held(jnp.zeros(2), self.adam().init(jnp.zeros(2)), self.rate * 2)

    def step(self, state, at):
        loss, slope = jax.value_and_grad(self.loss)(state.weights, at)
        moved, moments = optax.adam(state.rate).update(slope, state.moments)
        return state.replace(weights=state.weights + moved, moments=moments), {"loss": loss}

    def evaluate(self, state, at):
        return {"error": self.loss(state.weights, at)}
""",
}


def trained(folder, text, name, run=run_pack):
    """The store of a pack of two rates, and the values of its metrics and curves."""
    store = Store.open(folder / name)
    with project(folder, toy=HEAD + text):
        pack = Pack((toy_trial(), toy_trial(rate=0.3)))
        conformance.check_shapes(pack.trials)
        run(pack, destination(store) if run is run_pack else store)
        return store, pack, [science(store)[0], science(store)[1]]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_state_with_functions_of_a_traced_rate_trains_as_one_of_arrays(tmp_path, form):
    """Bit for bit, whatever interrupts it. A second pack needs no other program, and a trial may go on from it."""
    _, _, arrays = trained(tmp_path, IN_STEP, "arrays")
    assert {row["status"] for row in arrays[0]} == {"finished"}
    assert len({json.loads(row["extra_metrics"])["error"] for row in arrays[0]}) == 2, "each lane has its own rate"
    (tmp_path / "form").mkdir()
    store, pack, whole = trained(tmp_path / "form", form, "whole")
    assert whole == arrays
    assert trained(tmp_path / "form", form, "killed", run_with_deaths)[2] == arrays
    with project(tmp_path / "form", toy=HEAD + form):
        run_pack(Pack((toy_trial(seed=1), toy_trial(seed=2))), destination(store))
        programs = len(compilation._programs)
        run_pack(Pack((toy_trial(seed=3), toy_trial(seed=4))), destination(store))
        assert len(compilation._programs) == programs
        (first,) = pack.trial_ids[:1]
        (weights, *_) = begun(from_each(Pack(pack.trials[:1])), store)
        kept = store.weights(store.seals()[first])
    assert weights.tolist() in [values[None].tolist() for values in kept.values()]


REFUSED = {
    "an optimiser made in each step": (
        TRAIN_STATE.replace("apply_gradients(grads=slope)", "apply_gradients(grads=slope).replace(tx=self.adam())"),
        r"line \d+: step gives a state whose TrainState has other functions .*optax.inject_hyperparams",
    ),
    "a list in place of a tuple": (
        IN_STEP.replace("return (optax.apply_updates(weights, moved), moments), {", "return [weights, moments], {"),
        r"line \d+: step gives a state with a list where init has a tuple",
    ),
    "a function in place of an array": (
        IN_STEP.replace("return jnp.zeros(2), self.adam()", "return jax.nn.relu, self.adam()"),
        r"line \d+: init raises TypeError: 0 is a function, .*eqx\.partition",
    ),
}


@pytest.mark.parametrize(("form", "said"), REFUSED.values(), ids=REFUSED)
def test_a_state_that_differs_between_two_calls_is_refused_in_one_sentence(tmp_path, form, said):
    with project(tmp_path, toy=HEAD + form), pytest.raises(ContractError, match=said) as refused:
        conformance.check_shapes([toy_trial()])
    assert "\n" not in str(refused.value)
