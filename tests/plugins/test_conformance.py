"""The conformance suite of tasks and models: every file in tasks/ and models/ must pass it."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.packs.trained_trial import network_of, weights_of
from sweeper.trial import plugins, vectorisation
from sweeper.trial.contracts import Model, Network, Outcomes, Task
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

INPUTS, SEEDS = 6, 4


def tasks() -> list[Task]:
    return [plugins.load("task", name).model_validate(SMALL.get(name, {})) for name in plugins.names("task")]


def models() -> list[Model]:
    return [plugins.load("model", name)() for name in plugins.names("model")]


task_cases = pytest.mark.parametrize("task", tasks(), ids=lambda task: task.name)
model_cases = pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
platform_cases = pytest.mark.parametrize("platform", ["cpu", "cuda"])
"""The platform that a program is made for: on a CPU like cases take turns, for a GPU they are computed at once."""


def _samples(task: Task):
    inputs_key, seeds_key = jax.random.split(jax.random.key(1))
    return task.sample_inputs(inputs_key, INPUTS), task.sample_seeds(seeds_key, SEEDS)


@task_cases
def test_samples_have_the_asked_number_and_come_from_the_key_alone(task):
    for sampler in (task.sample_inputs, task.sample_seeds):
        sample = jax.jit(sampler, static_argnums=1)
        first, again, other = (sample(jax.random.key(k), 7) for k in (0, 0, 1))
        assert all(leaf.shape[0] == 7 for leaf in jax.tree.leaves(first))
        assert jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), first, again))
        assert not jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), first, other))


@pytest.mark.slow
@task_cases
@model_cases
@platform_cases
def test_losses_are_the_loss_of_every_pair(task, model, platform):
    network = jax.jit(model.build)(task, jax.random.key(0))
    inputs, seeds = _samples(task)
    with vectorisation.built_for(platform):
        shared, plain = jax.jit(lambda *args: (task.losses(*args), Task.losses(task, *args)))(network, inputs, seeds)
    assert shared.shape == (INPUTS, SEEDS)
    assert bool((shared >= 0).all())
    np.testing.assert_allclose(shared, plain, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@task_cases
@model_cases
@platform_cases
def test_outcomes_agree_with_losses_and_with_the_judgement_of_answers(task, model, platform):
    network = jax.jit(model.build)(task, jax.random.key(0))
    inputs = jax.tree.map(lambda leaf: leaf[:INPUTS], task.evaluation_inputs())
    count = jax.tree.leaves(inputs)[0].shape[0]
    seeds = task.sample_seeds(jax.random.key(2), SEEDS)
    with vectorisation.built_for(platform):
        outcomes: Outcomes = jax.jit(task.outcomes)(network, inputs, seeds)
    np.testing.assert_allclose(outcomes.loss, jax.jit(task.losses)(network, inputs, seeds), rtol=1e-5, atol=1e-7)
    voting = task.abilities().voting
    assert (outcomes.answers is None) == (voting is None)
    if outcomes.answers is not None and voting is not None:
        np.testing.assert_array_equal(outcomes.correct, voting.right(inputs, outcomes.answers))
        assert outcomes.answers.shape[-1] == voting.parts
        assert voting.right_parts(inputs, outcomes.answers).shape == outcomes.answers.shape
        assert voting.wrong_answers >= 1
    if outcomes.sampled is not None:
        assert bool(((outcomes.sampled >= 0) & (outcomes.sampled <= 1 + 1e-6)).all())
    if outcomes.variance is not None:
        assert outcomes.variance.shape == (count,)
        assert bool((outcomes.variance >= 0).all())
    assert set(outcomes.measures) == set(task.abilities().quantities)
    assert all(values.shape == (count, SEEDS) for values in outcomes.measures.values())
    assert all(values.shape == (count,) for values in outcomes.kept.values())


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
@model_cases
@platform_cases
def test_episodes_of_a_sharp_network_cost_the_losses(task, model, platform):
    sample = task.abilities().episodes
    if sample is None:
        pytest.skip("has no episodes")
    network = jax.jit(model.build)(task, jax.random.key(0))
    inputs, seeds = _samples(task)
    with vectorisation.built_for(platform):
        losses = jax.jit(task.losses)(network, inputs, seeds)
        sharp, drawn = (
            jax.jit(lambda network, made=made: sample(made(network), inputs, seeds, jax.random.key(3)))(network)
            for made in (Sharp, lambda network: network)
        )
    np.testing.assert_allclose((sharp.taken * sharp.cost).sum(axis=-1), losses, rtol=1e-5)
    for episodes in (sharp, drawn):
        decisions = episodes.taken.shape[-1]
        assert {part.shape for part in episodes} == {(INPUTS, SEEDS, decisions)}
        assert bool((episodes.log_probability <= 1e-2).all())
        assert bool((episodes.entropy >= -1e-2).all())
        assert bool((episodes.marginal <= 1e-2).all())
    np.testing.assert_allclose(sharp.taken * sharp.entropy, 0, atol=1e-2)
    np.testing.assert_allclose(sharp.taken * sharp.log_probability, 0, atol=1e-2)
    assert float((drawn.taken * drawn.entropy).mean()) > 0.1


@task_cases
def test_the_evaluation_set_is_the_same_at_every_call(task):
    first, again = task.evaluation_inputs(), task.evaluation_inputs()
    assert jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), first, again))


@task_cases
def test_every_input_is_in_a_group_and_no_group_is_empty(task):
    groups = task.abilities().groups
    if groups is None:
        pytest.skip("has no groups")
    inputs = task.evaluation_inputs()
    numbers = np.asarray(jax.jit(groups.of)(inputs))
    assert numbers.shape == jax.tree.leaves(inputs)[0].shape[:1]
    assert sorted(set(numbers.tolist())) == list(range(groups.count))
    one = jax.tree.map(lambda leaf: leaf[3:4], inputs)
    assert groups.of(one).tolist() == [numbers[3]]


@model_cases
def test_initial_weights_come_from_the_key_alone(model):
    task = tasks()[0]
    build = jax.jit(model.build)
    first, again, other = (jax.tree.leaves(build(task, jax.random.key(k))) for k in (0, 0, 1))
    assert all(bool((x == y).all()) for x, y in zip(first, again, strict=True))
    assert any(bool((x != y).any()) for x, y in zip(first, other, strict=True))


@model_cases
def test_a_network_is_made_again_of_its_named_weights(model):
    """What the store keeps of a network is a name and an array for each weight."""
    task = tasks()[0]
    optimizer = Adam() if task.abilities().differentiable else PGPE()
    trial = TrialSpec(task=task, model=model, baseline="Aq_R", steps=10, optimizer=optimizer)
    network = jax.jit(model.build)(task, jax.random.key(0))
    weights = weights_of(network)
    assert len(weights) == len(jax.tree.leaves(network))
    again = network_of(trial, weights)
    assert jax.tree.structure(again) == jax.tree.structure(network)
    assert all(bool((x == y).all()) for x, y in zip(jax.tree.leaves(network), jax.tree.leaves(again), strict=True))


@task_cases
def test_a_task_is_ranked_by_success_or_by_a_measure_of_its_own(task):
    assert task.abilities().tail in {"success", *task.abilities().quantities}


# --------------------------------------------------------------------------------------------------------------------
# Networks
# --------------------------------------------------------------------------------------------------------------------

TOKENS = 7


def _reading(task: Task, model: Model):
    """A network whose biases are not zero, and a sequence of its tokens."""
    network = jax.jit(lambda key: jax.tree.map(lambda w: 1.3 * w + 0.02, model.build(task, key)))(jax.random.key(5))
    return network, jax.random.normal(jax.random.key(6), (TOKENS, task.token_size()))


@pytest.mark.slow
@task_cases
@model_cases
def test_a_network_embeds_content_and_place(task, model):
    network, tokens = _reading(task, model)
    positions = jnp.arange(TOKENS)[::-1] % task.context_size()
    apart = network.content(tokens) + network.placed(positions)
    np.testing.assert_allclose(network.embed(tokens, positions), apart, rtol=1e-6)
    np.testing.assert_array_equal(network.embed(tokens), network.embed(tokens, jnp.arange(TOKENS)))
    assert network(tokens, jnp.eye(TOKENS, dtype=bool)).shape == (TOKENS, task.output_size())


@pytest.mark.slow
@task_cases
@model_cases
def test_steps_give_the_logits_of_the_whole_sequence(task, model):
    """Each token reads some of the earlier ones, which lie in two memories, the later ones backwards."""
    network, tokens = _reading(task, model)
    mask = jnp.tri(TOKENS, dtype=bool) & (jax.random.bernoulli(jax.random.key(7), 0.6, (TOKENS, TOKENS)))
    mask = mask | jnp.eye(TOKENS, dtype=bool)
    half = TOKENS // 2

    @jax.jit
    def stepwise(network, h):
        front, back = network.empty_memory(half), network.empty_memory(TOKENS - half)
        logits = []
        for t in range(TOKENS):
            earlier = mask[t] & (jnp.arange(TOKENS) < t)
            answer, own = network.step(h[t], [(front, earlier[:half]), (back, earlier[half:][::-1])])
            logits.append(answer)
            place = t if t < half else TOKENS - 1 - t
            written = jax.tree.map(
                lambda room, new, p=place: room.at[..., p, :].set(new[..., 0, :]), (front, back)[t >= half], own
            )
            front, back = (written, back) if t < half else (front, written)
        return jnp.stack(logits)

    np.testing.assert_allclose(stepwise(network, network.embed(tokens)), network(tokens, mask), rtol=1e-4, atol=1e-5)


@model_cases
def test_a_token_depends_on_tokens_within_the_depth_and_on_no_others(model):
    task = tasks()[0]
    network, _ = _reading(task, model)
    count = network.depth + 2
    tokens = jax.random.normal(jax.random.key(8), (count, task.token_size()))
    chain = jnp.abs(jnp.arange(count)[:, None] - jnp.arange(count)) == 1  # each token reads its two neighbours
    first = jax.jit(jax.jacobian(lambda tokens: network(tokens, chain, jnp.zeros(count, int))[0]))(tokens)
    assert bool(jnp.any(first[:, network.depth] != 0))
    assert bool(jnp.all(first[:, network.depth + 1] == 0))


@model_cases
def test_a_polynomial_is_its_network_written_out(model):
    task = tasks()[0]
    network, tokens = _reading(task, model)
    polynomial = network.polynomial()
    if polynomial is None:
        pytest.skip("not a polynomial")
    mask = jax.random.bernoulli(jax.random.key(7), 0.5, (TOKENS, TOKENS))
    h = network.embed(tokens)
    for layer in polynomial.layers:
        np.testing.assert_allclose(layer.score(), layer.query @ layer.key.T, rtol=1e-6)
        h = h + (mask * (h @ layer.score() @ h.T)) @ h @ layer.update()
    expected = network(tokens, mask)
    np.testing.assert_allclose(h @ polynomial.readout + polynomial.bias, expected, rtol=1e-4, atol=1e-5)


# --------------------------------------------------------------------------------------------------------------------
# Trials
# --------------------------------------------------------------------------------------------------------------------


@task_cases
@model_cases
def test_a_trial_round_trips_and_keeps_its_id(task, model):
    optimizer = Adam() if task.abilities().differentiable else PGPE()
    trial = TrialSpec(task=task, model=model, baseline="Aq_R", steps=10, optimizer=optimizer)
    again = TrialSpec.model_validate(trial.model_dump())
    assert again == trial
    assert trial_id(again) == trial_id(trial)


@pytest.mark.slow
@task_cases
@model_cases
@platform_cases
def test_gradients_reach_every_weight_and_are_those_of_the_plain_losses(task, model, platform):
    if not task.abilities().differentiable:
        pytest.skip("its losses have no gradient")
    network = jax.jit(model.build)(task, jax.random.key(0))
    inputs, seeds = _samples(task)
    with vectorisation.built_for(platform):
        gradient = jax.jit(jax.grad(lambda network: task.losses(network, inputs, seeds).mean()))(network)
    plain = jax.jit(jax.grad(lambda network: Task.losses(task, network, inputs, seeds).mean()))(network)
    for shared, defined in zip(jax.tree.leaves(gradient), jax.tree.leaves(plain), strict=True):
        assert bool(jnp.any(shared != 0))
        np.testing.assert_allclose(shared, defined, rtol=1e-4, atol=1e-5 * (1 + np.abs(defined).max()))
