"""Every file in tasks/ and models/ keeps its contract: tasks with every model and for both platforms, models alone.

`make test` checks each task with one model and for one platform. CI checks all of them.
"""

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.learned_algorithms.checks.values import check_pairs, quick_program
from sweeper.learned_algorithms.contracts import (
    EmbeddingNetwork,
    Model,
    Network,
    PolynomialNetwork,
    StepwiseNetwork,
    Task,
)
from sweeper.learned_algorithms.objective import drawn_pairs
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs import conformance
from sweeper.training.named_weights import network_of, weights_of
from sweeper.trial import plugins, vectorisation

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


DIFFERENTIABLE = [task for task in TASKS if task.abilities().differentiable]

task_cases = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
pair_cases = pytest.mark.parametrize(("task", "model"), [*_cases(TASKS, MODELS)])
form_cases = pytest.mark.parametrize(("task", "model", "platform"), [*_cases(TASKS, MODELS, PLATFORMS)])
gradient_cases = pytest.mark.parametrize(("task", "model", "platform"), [*_cases(DIFFERENTIABLE, MODELS, PLATFORMS)])
model_cases = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)

pytestmark = pytest.mark.slow


@functools.cache
def _trial(task: Task, model: Model) -> TrialSpec:
    optimizer = plugins.load("optimizer", "adam" if task.abilities().differentiable else "pgpe")()
    return TrialSpec(task=task, model=model, baseline="Aq_R", steps=10, batch_size=12, optimizer=optimizer)


@functools.cache
def _network(trial: TrialSpec, seed: int = 0) -> Any:
    """A network as the model builds it."""
    return quick_program(lambda trial: trial.model.build(trial.task, jax.random.key(seed)), trial)()


# Tasks


@task_cases
def test_samples_come_from_the_key_alone(task):
    for sampler in (task.sample_inputs, task.sample_seeds):
        sample = jax.jit(sampler, static_argnums=1)
        first, again, other = (jax.device_get(sample(jax.random.key(k), 7)) for k in (0, 0, 1))
        assert jax.tree.all(jax.tree.map(np.array_equal, first, again))
        assert not jax.tree.all(jax.tree.map(np.array_equal, first, other))


@pair_cases
def test_a_trial_round_trips_and_its_plugins_have_the_shapes_of_their_contracts(task, model):
    trial = _trial(task, model)
    assert TrialSpec.model_validate(trial.model_dump()) == trial
    conformance.check_shapes([trial])


@form_cases
def test_losses_and_outcomes_are_those_of_every_pair(task, model, platform):
    check_pairs(_trial(task, model), rtol=1e-5, atol=1e-7, platform=platform)


@gradient_cases
def test_gradients_are_finite_those_of_the_plain_losses_and_reach_every_weight(task, model, platform):
    def gradients(trial: TrialSpec, network: Any) -> Any:
        inputs, seeds = drawn_pairs(trial, *jax.random.split(jax.random.key(1)))
        inputs = jax.tree.map(lambda leaf: leaf[:6], inputs)
        shared = jax.grad(lambda network: trial.task.losses(network, inputs, seeds).mean())(network)
        with vectorisation.built_for("cpu"):
            plain = jax.grad(lambda network: Task.losses(trial.task, network, inputs, seeds).mean())(network)
        return shared, plain

    trial = _trial(task, model)
    network = _network(trial)
    found = quick_program(gradients, trial, network, platform=platform)(network)
    for shared, plain in zip(*map(jax.tree.leaves, found), strict=True):
        assert np.isfinite(plain).all()
        assert (plain != 0).any()
        np.testing.assert_allclose(shared, plain, rtol=1e-4, atol=1e-5 * (1 + np.abs(plain).max()))


@pytest.mark.parametrize("task", [task for task in TASKS if task.abilities().groups], ids=lambda task: task.name)
def test_every_input_is_in_a_group_whatever_is_beside_it_and_no_group_is_empty(task):
    groups, inputs = task.abilities().groups, task.evaluation_inputs()
    numbers = np.asarray(groups.of(inputs))
    assert set(numbers.tolist()) == set(range(groups.count))
    assert groups.of(jax.tree.map(lambda leaf: leaf[-1:], inputs)).tolist() == [numbers[-1]]


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


@pytest.mark.parametrize("task", [task for task in TASKS if task.abilities().episodes], ids=lambda task: task.name)
@pytest.mark.parametrize(("model", "platform"), [*zip(MODELS, itertools.cycle(PLATFORMS))])
def test_episodes_of_a_sharp_network_cost_the_losses(task, model, platform):
    def sampled(trial, network):
        inputs, seeds = task.sample_inputs(jax.random.key(1), 6), task.sample_seeds(jax.random.key(2), 4)
        episodes, key = task.abilities().episodes, jax.random.key(3)
        both = (episodes(each, inputs, seeds, key) for each in (Sharp(network), network))
        return task.losses(network, inputs, seeds), *both

    network = _network(_trial(task, model))
    losses, sharp, drawn = quick_program(sampled, _trial(task, model), network, platform=platform)(network)
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


# Models

TOKENS = 7


def _read(model: Model, ability: type, function: Any, *arguments: Any) -> Any:
    """What a function gives of a network, whose biases are not zero, and more arguments."""
    trial = _trial(TASKS[0], model)
    network = jax.tree.map(lambda weight: 1.3 * weight + 0.02, _network(trial))
    if not isinstance(network, ability):
        pytest.skip(f"the network of {model.name} is no {ability.__name__}")
    return quick_program(lambda _, *given: function(*given), trial, network, *arguments)(network, *arguments)


def _tokens(count: int = TOKENS) -> Any:
    draws = np.random.default_rng(6).standard_normal((count, TASKS[0].token_size()))
    return draws.astype(np.float32)


@model_cases
def test_a_network_is_made_again_of_its_named_weights_which_come_from_the_key_alone(model):
    trial = _trial(TASKS[0], model)
    network, other = _network(trial), _network(trial, seed=1)
    kept = network_of(trial, weights_of(network))
    again = quick_program(lambda trial: trial.model.build(trial.task, jax.random.key(0)), trial)()
    for copy in (kept, again):
        jax.tree.map(np.testing.assert_array_equal, network, copy)
    assert not jax.tree.all(jax.tree.map(np.array_equal, network, other))


@model_cases
def test_the_logits_of_a_token_depend_on_no_token_beyond_the_mask(model):
    first_half = np.arange(TOKENS) < TOKENS // 2
    tokens = _tokens()
    others = np.where(first_half[:, None], tokens, 2 - tokens)

    def both(network: Any, *sequences: Any) -> Any:
        mask = jnp.asarray(first_half[:, None] == first_half)
        return [network(sequence, mask) for sequence in sequences]

    before, after = _read(model, Network, both, tokens, others)
    np.testing.assert_allclose(before[first_half], after[first_half], rtol=1e-5, atol=1e-6)
    assert not np.allclose(before[~first_half], after[~first_half], rtol=1e-2)


@model_cases
def test_a_network_embeds_content_and_place_and_counts_positions_from_0(model):
    def parts(network: EmbeddingNetwork, tokens: Any, positions: Any) -> Any:
        apart = network.content(tokens) + network.placed(positions)
        return network.embed(tokens, positions), apart, network.embed(tokens), network.embed(tokens, jnp.arange(TOKENS))

    positions = np.arange(TOKENS)[::-1] % TASKS[0].context_size()
    together, apart, plain, counted = _read(model, EmbeddingNetwork, parts, _tokens(), positions)
    np.testing.assert_allclose(together, apart, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(plain, counted, rtol=1e-6, atol=1e-7)


@model_cases
def test_steps_give_the_logits_of_the_whole_sequence(model):
    """Tokens read some earlier ones, which lie in two memories."""
    half, numbers = TOKENS // 2, np.arange(TOKENS)
    mask = np.tri(TOKENS, dtype=bool) & (np.random.default_rng(7).random((TOKENS, TOKENS)) < 0.6)
    mask |= np.eye(TOKENS, dtype=bool)

    def both(network: StepwiseNetwork, tokens: Any) -> Any:
        h = network.embed(tokens)

        def one_step(memories: Any, t: Any) -> Any:
            front, back = memories
            earlier = jnp.asarray(mask)[t] & (numbers < t)
            answer, own = network.step(h[t], [(front, earlier[:half]), (back, earlier[half:][::-1])])

            def written(room: Any, new: Any, place: Any) -> Any:
                return room.at[..., place, :].set(new[..., 0, :], mode="drop")

            # Of either memory; a place beyond its end is nowhere.
            places = t, jnp.where(t < half, TOKENS, TOKENS - 1 - t)
            front, back = (
                jax.tree.map(lambda room, new, place=place: written(room, new, place), memory, own)
                for memory, place in zip(memories, places, strict=True)
            )
            return (front, back), answer

        memories = network.empty_memory(half), network.empty_memory(TOKENS - half)
        return jax.lax.scan(one_step, memories, numbers)[1], network(tokens, jnp.asarray(mask))

    stepwise, whole = _read(model, StepwiseNetwork, both, _tokens())
    np.testing.assert_allclose(stepwise, whole, rtol=1e-4, atol=1e-5)


@model_cases
def test_a_token_depends_on_tokens_within_the_depth_and_on_no_others(model):
    depth = _network(_trial(TASKS[0], model)).depth
    count = depth + 2
    chain = np.abs(np.arange(count)[:, None] - np.arange(count)) == 1  # each token reads its two neighbours

    def first(network: EmbeddingNetwork, tokens: Any) -> Any:
        return jax.jacobian(lambda tokens: network(tokens, jnp.asarray(chain), jnp.zeros(count, int))[0])(tokens)

    jacobian = _read(model, EmbeddingNetwork, first, _tokens(count))
    assert max(place for place in range(count) if np.any(jacobian[:, place] != 0)) == depth


@model_cases
def test_a_polynomial_is_its_network_written_out(model):
    mask = np.random.default_rng(7).random((TOKENS, TOKENS)) < 0.5

    def both(network: PolynomialNetwork, tokens: Any) -> Any:
        polynomial = network.polynomial()
        assert polynomial is not None
        h = network.embed(tokens)
        for layer in polynomial.layers:
            h = h + (mask * (h @ layer.score() @ h.T)) @ h @ layer.update()
        return h @ polynomial.readout + polynomial.bias, network(tokens, jnp.asarray(mask))

    np.testing.assert_allclose(*_read(model, PolynomialNetwork, both, _tokens()), rtol=1e-4, atol=1e-5)
