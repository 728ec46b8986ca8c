"""The colouring task against exhaustive enumeration and against the plain model."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.transformer import Model
from sweeper.learned_algorithms.contracts import Network
from sweeper.learned_algorithms.contracts import Task as BaseTask
from tasks.coloring import COLORS, Task

VARIANTS = {
    "polynomial": Model(width=6, key_size=5),
    "one block": Model(blocks=1, width=6, key_size=5),
    "three blocks": Model(blocks=3, width=6, key_size=5),
    "two heads": Model(heads=2, width=6, key_size=5),
    "softmax": Model(attention="softmax", width=6, key_size=5, embedding_scale=1.0),
    "textbook": Model(
        attention="softmax", layer_norm=True, mlp=True, positions="sinusoidal", embedding_layers=0, width=8
    ),
}


def _network(task: Task, model: Model, seed: int = 0):
    """A network whose weights are large enough that colours differ."""
    network = jax.jit(model.build)(task, jax.random.key(seed))
    return jax.tree.map(lambda weight: 1.7 * weight, network)


@pytest.mark.slow
def test_sampled_cycles_are_uniform():
    task = Task(vertices=5)
    cycles = np.asarray(task.sample_inputs(jax.random.key(0), 6_000))
    index = {_canonical(cycle): 0 for cycle in np.asarray(task.evaluation_inputs())}
    for cycle in cycles:
        index[_canonical(cycle)] += 1
    counts = np.array(list(index.values()))
    assert len(counts) == 12
    assert np.abs(counts - 500).max() < 5 * math.sqrt(500)


def _canonical(cycle: np.ndarray) -> frozenset:
    return frozenset(frozenset((int(a), int(b))) for a, b in zip(cycle, np.roll(cycle, -1), strict=True))


@pytest.mark.parametrize("n", [3, 4, 5, 8, 10])
def test_the_evaluation_set_is_every_cycle_once(n):
    cycles = np.asarray(Task(vertices=n).evaluation_inputs())
    assert len(cycles) == math.factorial(n - 1) // 2
    if n <= 8:
        listed = [order for order in itertools.permutations(range(1, n)) if order[0] < order[-1]]
        np.testing.assert_array_equal(cycles, [(0, *order) for order in listed])  # in lexicographic order
        assert len({_canonical(cycle) for cycle in cycles}) == len(cycles)


@pytest.mark.slow
def test_a_fixed_training_set_is_small_and_the_same_for_every_key():
    task = Task(vertices=8, training_cycles=3)
    drawn = {_canonical(c) for key in (0, 1) for c in np.asarray(task.sample_inputs(jax.random.key(key), 50))}
    assert len(drawn) == 3


@pytest.mark.slow
def test_one_bad_edge_costs_one_over_three_n():
    task = Task(vertices=5)
    colors = jnp.array([0, 1, 0, 1, 1])

    class Fixed(Network):
        def __call__(self, tokens, mask):
            return 100.0 * jax.nn.one_hot(colors, COLORS)

    loss = task.loss(Fixed(), jnp.arange(5), jnp.zeros(5))
    np.testing.assert_allclose(loss, 1 / 15, rtol=1e-6)


@jax.jit
def _both_losses(task, model, seed):
    network = jax.tree.map(lambda weight: 1.7 * weight, model.build(task, jax.random.key(seed)))
    inputs, seeds = task.sample_inputs(jax.random.key(seed), 3), task.sample_seeds(jax.random.key(seed + 1), 2)
    return task.losses(network, inputs, seeds), BaseTask.losses(task, network, inputs, seeds)


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 4, 7, pytest.param(9, marks=pytest.mark.long)])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25)
def test_expansion_equals_the_plain_model_for_any_weights_and_cycles(n, seed):
    shared, plain = _both_losses(Task(vertices=n), Model(width=5, key_size=3), seed)
    np.testing.assert_allclose(shared, plain, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "n"),
    [
        ("polynomial", 3), ("polynomial", 6), ("textbook", 4),
        *(pytest.param(variant, 6, marks=pytest.mark.long) for variant in VARIANTS if variant != "polynomial"),
    ],
)  # fmt: skip
def test_outcomes_equal_enumeration(variant, n):
    """Every outcome again, from the plain logits and by enumerating all 3^n colourings."""
    task = Task(vertices=n)
    network = _network(task, VARIANTS[variant])
    inputs, seeds = task.evaluation_inputs()[:4], task.sample_seeds(jax.random.key(2), 3)
    outcomes = jax.jit(task.outcomes)(network, inputs, seeds)
    plain = jax.jit(task.logits)
    colorings = np.array(list(itertools.product(range(COLORS), repeat=n)))
    proper = (colorings != np.roll(colorings, -1, axis=1)).all(axis=1)
    for i, cycle in enumerate(np.asarray(inputs, np.int32)):
        probabilities = []
        for j, noise in enumerate(seeds):
            p = np.asarray(jax.nn.softmax(plain(network, jnp.asarray(cycle), noise)))[cycle]
            probabilities.append(p)
            answer = p.argmax(axis=1)
            assert bool(outcomes.correct[i, j]) == bool((answer != np.roll(answer, -1)).all())
            assert int(outcomes.answers[i, j, 0]) == int(answer @ COLORS ** np.arange(n))
            joint = np.prod(p[np.arange(n), colorings], axis=1)
            np.testing.assert_allclose(outcomes.sampled[i, j], joint[proper].sum(), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(outcomes.variance[i], np.var(probabilities, axis=0).mean(), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_wrong_answers_are_all_colourings_but_the_proper_ones(n):
    proper = sum(all(c[i] != c[i - 1] for i in range(n)) for c in itertools.product(range(COLORS), repeat=n))
    assert Task(vertices=n).abilities().voting.wrong_answers == COLORS**n - proper


@pytest.mark.slow
def test_uniform_colours_succeed_on_1_74_percent():
    """The exact value of science: ((3 - 1)^10 + (3 - 1)) / 3^10 proper colourings of C_10."""
    task, model = Task(), Model(blocks=1, width=6, key_size=5)
    built = jax.eval_shape(lambda: model.build(task, jax.random.key(0)))
    network = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), built)
    outcomes = jax.jit(task.outcomes)(network, task.evaluation_inputs()[:3], task.sample_seeds(jax.random.key(0), 2))
    np.testing.assert_allclose(outcomes.sampled, (2**10 + 2) / 3**10, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 6, 10])
def test_a_group_is_the_cycles_with_one_pair_of_neighbours_of_vertex_0(n):
    task = Task(vertices=n)
    groups = task.abilities().groups
    assert groups is not None
    cycles = np.asarray(task.evaluation_inputs())
    numbers = np.asarray(groups.of(task.evaluation_inputs()))
    assert len(set(np.bincount(numbers, minlength=groups.count).tolist())) == 1, "equally many cycles"
    pairs = {
        (frozenset((int(cycle[1]), int(cycle[-1]))), int(number)) for cycle, number in zip(cycles, numbers, strict=True)
    }
    assert len(pairs) == groups.count, "every pair has one group and every group one pair"
    # A training input starts anywhere and goes either way.
    turned = np.roll(cycles[:, ::-1], 2, axis=1)
    np.testing.assert_array_equal(groups.of(jnp.asarray(turned)), numbers)
