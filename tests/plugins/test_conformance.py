"""Every file in tasks/ and models/ passes `sweeper.packs.conformance_suite`, and a little more."""

import itertools
from dataclasses import dataclass

import jax
import numpy as np
import pytest

from sweeper.packs import conformance, conformance_suite
from sweeper.trial import plugins, vectorisation
from sweeper.trial.contracts import Model, Network, Task
from sweeper.trial.evolution_strategies import PGPE
from sweeper.trial.trial_spec import Adam, TrialSpec, trial_id
from tests.plugins.networks import PartialNetwork

SMALL: dict[str, dict] = {
    "coloring": {"vertices": 5},
    "recall": {"keys": 3},
    "gridworld": {"height": 2, "width": 3, "horizon": 6, "noise": 2, "scale": "reward"},
    "ski_rental": {"price": 2, "longest": 4, "noise": 2},
    "gridworld_imitation": {"height": 2, "width": 3, "horizon": 6, "noise": 2},
}
"""Sizes at which a task is quick to enumerate; a task that is not listed is tested with its defaults."""


def tasks() -> list[Task]:
    return [plugins.load("task", name).model_validate(SMALL.get(name, {})) for name in plugins.names("task")]


def models() -> list[Model]:
    return [plugins.load("model", name)() for name in plugins.names("model")]


task_cases = pytest.mark.parametrize("task", tasks(), ids=lambda task: task.name)
model_cases = pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
platform_cases = pytest.mark.parametrize("platform", conformance_suite.PLATFORMS)


def trial_of(task: Task, model: Model) -> TrialSpec:
    optimizer = Adam() if task.abilities().differentiable else PGPE()
    return TrialSpec(task=task, model=model, baseline="Aq_R", steps=10, batch_size=12, optimizer=optimizer)


@task_cases
def test_samples_come_from_the_key_alone(task):
    for sampler in (task.sample_inputs, task.sample_seeds):
        sample = jax.jit(sampler, static_argnums=1)
        first, again, other = (sample(jax.random.key(k), 7) for k in (0, 0, 1))
        assert jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), first, again))
        assert not jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), first, other))


@task_cases
@model_cases
def test_a_trial_round_trips_and_its_plugins_have_the_shapes_of_their_contracts(task, model):
    trial = trial_of(task, model)
    again = TrialSpec.model_validate(trial.model_dump())
    assert again == trial
    assert trial_id(again) == trial_id(trial)
    conformance.check_shapes([trial])


@pytest.mark.slow
@task_cases
@model_cases
@platform_cases
def test_losses_and_outcomes_are_those_of_every_pair(task, model, platform):
    conformance.check_pairs(trial_of(task, model), rtol=1e-5, atol=1e-7, platform=platform)


@jax.tree_util.register_dataclass
@dataclass
class Sharp(PartialNetwork):
    """A network that is as sure of its largest logit as a number can say."""

    network: Network

    def placed(self, positions):
        return self.network.placed(positions)

    def content(self, tokens):
        return self.network.content(tokens)

    def empty_memory(self, tokens):
        return self.network.empty_memory(tokens)

    def __call__(self, tokens, mask, positions=None):
        return 1e4 * self.network(tokens, mask, positions)

    def step(self, h, past):
        logits, own = self.network.step(h, past)
        return 1e4 * logits, own


@pytest.mark.slow
@task_cases
@pytest.mark.parametrize(("model", "platform"), [*zip(models(), itertools.cycle(conformance_suite.PLATFORMS))])
def test_episodes_of_a_sharp_network_cost_the_losses(task, model, platform):
    sample = task.abilities().episodes
    if sample is None:
        pytest.skip("has no episodes")
    network = jax.jit(model.build)(task, jax.random.key(0))
    inputs, seeds = task.sample_inputs(jax.random.key(1), 6), task.sample_seeds(jax.random.key(2), 4)
    with vectorisation.built_for(platform):
        losses = jax.jit(task.losses)(network, inputs, seeds)
        sharp, drawn = (
            jax.jit(lambda network, made=made: sample(made(network), inputs, seeds, jax.random.key(3)))(network)
            for made in (Sharp, lambda network: network)
        )
    np.testing.assert_allclose((sharp.taken * sharp.cost).sum(axis=-1), losses, rtol=1e-5)
    for episodes in (sharp, drawn):
        decisions = episodes.taken.shape[-1]
        assert {part.shape for part in episodes} == {(6, 4, decisions)}
        assert bool((episodes.log_probability <= 1e-2).all())
        assert bool((episodes.entropy >= -1e-2).all())
        assert bool((episodes.marginal <= 1e-2).all())
    np.testing.assert_allclose(sharp.taken * sharp.entropy, 0, atol=1e-2)
    np.testing.assert_allclose(sharp.taken * sharp.log_probability, 0, atol=1e-2)
    assert float((drawn.taken * drawn.entropy).mean()) > 0.1


@pytest.mark.slow
@task_cases
@model_cases
@platform_cases
def test_gradients_are_those_of_the_plain_losses(task, model, platform):
    conformance_suite.check_gradients(trial_of(task, model), platform, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@task_cases
@model_cases
def test_gradients_reach_every_weight(task, model):
    if not task.abilities().differentiable:
        pytest.skip("its losses have no gradient")
    network = jax.jit(model.build)(task, jax.random.key(0))
    inputs, seeds = task.sample_inputs(jax.random.key(1), 6), task.sample_seeds(jax.random.key(2), 4)
    gradient = jax.jit(jax.grad(lambda network: task.losses(network, inputs, seeds).mean()))(network)
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(gradient))


@task_cases
def test_every_input_is_in_a_group_and_no_group_is_empty(task):
    conformance_suite.check_groups(trial_of(task, models()[0]))


@pytest.mark.slow
@task_cases
@model_cases
@pytest.mark.parametrize("check", conformance_suite.MODEL_CHECKS)
def test_a_network_is_what_its_contract_says(task, model, check):
    check(trial_of(task, model))
