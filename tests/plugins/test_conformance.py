"""Every file in tasks/ and models/ passes `sweeper.learned_algorithms.checks.suite`, and a little more.

`make test` checks each task with one model and for one platform, and each model with one task. CI checks all of them.
"""

import functools
import itertools
from dataclasses import dataclass

import jax
import numpy as np
import pytest

from sweeper.learned_algorithms.checks import suite, values
from sweeper.learned_algorithms.contracts import Model, StepwiseNetwork, Task
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs import conformance
from sweeper.trial import plugins
from sweeper.trial.trial import trial_id

PLATFORMS = ("cpu", "cuda")
"""Platforms that a program is made for: on a CPU like cases take turns, for a GPU they are computed at once."""

SMALL: dict[str, dict] = {
    "coloring": {"vertices": 5},
    "recall": {"keys": 3},
    "gridworld": {"height": 2, "width": 3, "horizon": 6, "noise": 2, "scale": "reward"},
    "ski_rental": {"price": 2, "longest": 4, "noise": 2},
    "paging": {"requests": 4, "noise": 2},
    "gridworld_distillation": {
        "height": 2,
        "width": 2,
        "horizon": 4,
        "noise": 2,
        "walks": ["RULD", "URDL"],
        "shares": [1, 2],
    },
    "gridworld_imitation": {"height": 2, "width": 2, "horizon": 4, "noise": 2},
}
"""Sizes at which a task is quick to enumerate; a task that is not listed is tested with its defaults."""

TASKS: list[Task] = [plugins.load("task", name).model_validate(SMALL.get(name, {})) for name in plugins.names("task")]
MODELS: list[Model] = [plugins.load("model", name)() for name in plugins.names("model")]

CHOSEN = [
    (task.name, model.name, platform)
    for task, (platform, model) in zip(TASKS, itertools.cycle(itertools.product(PLATFORMS, MODELS)))
]
"""A model and a platform for each task, so that each model and each platform has some task."""


def _cases(*axes):
    for parts in itertools.product(*axes):
        names = tuple(getattr(part, "name", part) for part in parts)
        chosen = any(set(names) <= set(case) for case in CHOSEN)
        yield pytest.param(*parts, marks=() if chosen else pytest.mark.long, id="-".join(names))


task_cases = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
pair_cases = pytest.mark.parametrize(("task", "model"), [*_cases(TASKS, MODELS)])
form_cases = pytest.mark.parametrize(("task", "model", "platform"), [*_cases(TASKS, MODELS, PLATFORMS)])


@functools.cache
def _example(task: Task, model: Model) -> suite.Example:
    optimizer = plugins.load("optimizer", "adam" if task.abilities().differentiable else "pgpe")()
    trial = TrialSpec(task=task, model=model, baseline="Aq_R", steps=10, batch_size=12, optimizer=optimizer)
    return suite.Example(trial)


@pytest.mark.slow
@task_cases
def test_samples_come_from_the_key_alone(task):
    for sampler in (task.sample_inputs, task.sample_seeds):
        sample = jax.jit(sampler, static_argnums=1)
        first, again, other = (jax.device_get(sample(jax.random.key(k), 7)) for k in (0, 0, 1))
        assert jax.tree.all(jax.tree.map(np.array_equal, first, again))
        assert not jax.tree.all(jax.tree.map(np.array_equal, first, other))


@pytest.mark.slow
@pair_cases
def test_a_trial_round_trips_and_its_plugins_have_the_shapes_of_their_contracts(task, model):
    trial = _example(task, model).trial
    again = TrialSpec.model_validate(trial.model_dump())
    assert again == trial
    assert trial_id(again) == trial_id(trial)
    conformance.check_shapes([trial])


@pytest.mark.slow
@form_cases
def test_losses_and_outcomes_are_those_of_every_pair(task, model, platform):
    values.check_pairs(_example(task, model).trial, rtol=1e-5, atol=1e-7, platform=platform)


@pytest.mark.slow
@form_cases
def test_gradients_are_those_of_the_plain_losses(task, model, platform):
    suite.check_gradients(_example(task, model), platform, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "model"), [*_cases([each for each in TASKS if each.abilities().differentiable], MODELS)]
)
def test_gradients_reach_every_weight(task, model):
    def gradient(trial, network):
        inputs, seeds = task.sample_inputs(jax.random.key(1), 6), task.sample_seeds(jax.random.key(2), 4)
        return jax.grad(lambda network: task.losses(network, inputs, seeds).mean())(network)

    network = _example(task, model).networks[0]
    found = values.quick_program(gradient, _example(task, model).trial, network)(network)
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(found))


@task_cases
def test_every_input_is_in_a_group_and_no_group_is_empty(task):
    suite.check_groups(_example(task, MODELS[0]))


@pytest.mark.slow
@pytest.mark.parametrize("check", suite.MODEL_CHECKS.values(), ids=suite.MODEL_CHECKS)
@pytest.mark.parametrize(
    ("task", "model"),
    [
        pytest.param(task, model, marks=() if index == number else pytest.mark.long, id=f"{task.name}-{model.name}")
        for index, task in enumerate(TASKS)
        for number, model in enumerate(MODELS)
    ],
)
def test_a_network_is_what_its_contract_says(task, model, check):
    check(_example(task, model))


@jax.tree_util.register_dataclass
@dataclass
class Sharp(StepwiseNetwork):
    """A network that is as sure of its largest logit as a number can say."""

    network: StepwiseNetwork

    @property
    def depth(self):
        return self.network.depth

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
@pytest.mark.parametrize("task", [task for task in TASKS if task.abilities().episodes], ids=lambda task: task.name)
@pytest.mark.parametrize(("model", "platform"), [*zip(MODELS, itertools.cycle(PLATFORMS))])
def test_episodes_of_a_sharp_network_cost_the_losses(task, model, platform):
    def sampled(trial, network):
        inputs, seeds = task.sample_inputs(jax.random.key(1), 6), task.sample_seeds(jax.random.key(2), 4)
        episodes, key = task.abilities().episodes, jax.random.key(3)
        both = (episodes(each, inputs, seeds, key) for each in (Sharp(network), network))
        return task.losses(network, inputs, seeds), *both

    network = _example(task, model).networks[0]
    program = values.quick_program(sampled, _example(task, model).trial, network, platform=platform)
    losses, sharp, drawn = program(network)
    np.testing.assert_allclose((sharp.taken * sharp.cost).sum(axis=-1), losses, rtol=1e-5)
    for episodes in (sharp, drawn):
        decisions = episodes.taken.shape[-1]
        assert {part.shape for part in episodes} == {(6, 4, decisions)}
        assert (episodes.log_probability <= 1e-2).all()
        assert (episodes.entropy >= -1e-2).all()
        assert (episodes.marginal <= 1e-2).all()
    np.testing.assert_allclose(sharp.taken * sharp.entropy, 0, atol=1e-2)
    np.testing.assert_allclose(sharp.taken * sharp.log_probability, 0, atol=1e-2)
    assert float((drawn.taken * drawn.entropy).mean()) > 0.1
