"""The recall task against the plain model and against what the paper says of it."""

import functools
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.transformer import Model
from sweeper.learned_algorithms.contracts import Network, Outcomes
from sweeper.learned_algorithms.contracts import Task as BaseTask
from sweeper.trial import vectorisation
from sweeper.trial.metrics import Metric
from tasks import recall
from tasks.recall import FILLINGS, Inputs, Task
from tasks.recall.polynomial_logits import table_logits
from tests.jaxprs import equations

VARIANTS = {
    "dense embedding": Model(width=6, key_size=5, embedding_layers=2, embedding_scale=1.0),
    "no embedding, positions": Model(width=12, key_size=3, embedding_layers=0, positions="sinusoidal"),
    "textbook": Model(attention="softmax", layer_norm=True, mlp=True, positions="sinusoidal", width=8),
}


def _network(task: Task, model: Model, seed: int = 0):
    """A network whose weights are large enough that answers differ, and whose biases are not zero."""
    return jax.tree.map(lambda weight: 1.2 * weight + 0.05, jax.jit(model.build)(task, jax.random.key(seed)))


def _random(task: Task, inputs: int, seeds: int):
    return task.sample_inputs(jax.random.key(1), inputs), task.sample_seeds(jax.random.key(2), seeds)


class Recorder(Network):
    """A model that records its arguments and answers with given logits."""

    def __init__(self, logits):
        self.logits = jnp.asarray(logits, jnp.float32)

    def __call__(self, tokens, mask):
        self.tokens, self.mask = np.asarray(tokens), np.asarray(mask)
        return jnp.zeros((len(tokens), len(self.logits))).at[-1].set(self.logits)


@pytest.mark.slow
def test_tokens_are_value_key_and_seed_and_the_query_has_no_value():
    task, recorder = Task(keys=3, value_bits=2, seed_bits=2), Recorder([0, 0])
    task.logits(recorder, Inputs(jnp.array([1, 2, 3]), jnp.array(1)), jnp.array([1.0, 0.0]))
    expected = [[1, 0, 1, 0, 0, 1, 0], [0, 1, 0, 1, 0, 1, 0], [1, 1, 0, 0, 1, 1, 0], [0, 0, 0, 1, 0, 1, 0]]
    np.testing.assert_array_equal(recorder.tokens, expected)
    np.testing.assert_array_equal(recorder.mask, np.tri(4))


@pytest.mark.slow
def test_the_loss_is_a_mean_over_the_bits_of_the_queried_value():
    task = Task(keys=2, value_bits=3, seed_bits=1)
    x, r = Inputs(jnp.array([7, 4]), jnp.array(1)), jnp.zeros(1)  # 4 has the bits 0, 0, 1
    for logits, loss in (([0, 0, 0], np.log(2)), ([-50, -50, 50], 0), ([30, -50, 50], 10)):
        np.testing.assert_allclose(task.loss(Recorder(logits), x, r), loss, rtol=1e-6, atol=1e-6)


def test_the_network_behind_the_figures_has_4_4_thousand_weights():
    model = Model(width=40, key_size=5, embedding_layers=2, embedding_scale=1.0)
    network = jax.eval_shape(lambda key: model.build(Task(keys=8), key), jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(network)) == 4405


@pytest.mark.slow
def test_sampled_inputs_are_uniform():
    task = Task(keys=3, value_bits=2)
    inputs = jax.jit(task.sample_inputs, static_argnums=1)(jax.random.key(0), 12_000)
    for drawn, sizes in ((inputs.query, 3), (inputs.values[:, 0], 4), (inputs.values[:, 2], 4)):
        counts = np.bincount(drawn, minlength=sizes)
        assert len(counts) == sizes
        assert np.abs(counts - 12_000 / sizes).max() < 5 * np.sqrt(12_000 / sizes)


def test_the_evaluation_set_asks_for_every_value_at_every_key():
    task = Task(keys=3, value_bits=2)
    inputs = jax.jit(task.evaluation_inputs)()
    values, query = np.asarray(inputs.values), np.asarray(inputs.query)
    assert FILLINGS == 16
    assert values.shape == (4 * 3 * FILLINGS, 3)
    target = values[np.arange(len(values)), query]
    np.testing.assert_array_equal(np.bincount(target * 3 + query), np.full(12, FILLINGS))
    others = values[:, 0][query != 0]
    assert np.abs(np.bincount(others) - len(others) / 4).max() < 5 * np.sqrt(len(others) / 4)


@jax.jit
def _drawn(task, model, seed):
    """A network, inputs and seeds: made once, as a compiler may round them in one form as it does not in the other."""
    network = jax.tree.map(lambda weight: 1.2 * weight + 0.05, model.build(task, jax.random.key(seed)))
    return network, task.sample_inputs(jax.random.key(seed), 6), task.sample_seeds(jax.random.key(seed + 1), 2)


@jax.jit
def _both_losses_and_gradients(task, network, inputs, seeds):
    def of(losses):
        return jax.value_and_grad(lambda network: (losses(network, inputs, seeds) ** 2).mean())(network)

    return of(task.losses), of(lambda *args: BaseTask.losses(task, *args))


DENSE, PLACED = VARIANTS["dense embedding"], VARIANTS["no embedding, positions"]
LARGE = Task(keys=12, value_bits=3)
TINY = Task(keys=2, value_bits=1)
TALL = Task(keys=1, value_bits=2, seed_bits=3)
further = functools.partial(pytest.param, marks=pytest.mark.long)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("platform", "model", "task"),
    [
        ("cpu", DENSE, Task(keys=5)),
        ("cuda", DENSE, TINY),
        further("cpu", PLACED.model_copy(update={"width": 9}), TALL),
        # What cannot be expanded must fall back.
        further("cpu", Model(width=6, key_size=3, heads=2), Task(keys=3)),
        further("cpu", Model(width=6, key_size=3, blocks=1), Task(keys=3)),
        further("cpu", Model(width=6, key_size=3, blocks=3), Task(keys=3)),
        further("cpu", PLACED, Task(keys=4, value_bits=2, seed_bits=3)),
        *(further("cpu", DENSE, task) for task in (Task(keys=1), TINY, LARGE)),
        *(further("cuda", DENSE, task) for task in (Task(keys=1), Task(keys=5), LARGE)),
    ],
)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25)
def test_sharing_equals_the_plain_model_for_any_weights_and_inputs(platform, model, task, seed):
    """In float64: both forms of a gradient cancel, in float32 by as much as an error of the algebra might be."""
    network, inputs, seeds = _drawn(task, model, seed)
    with jax.enable_x64(True), vectorisation.built_for(platform):
        network = jax.tree.map(lambda weight: weight.astype(jnp.float64), network)
        (shared, shared_gradient), (plain, gradient) = _both_losses_and_gradients(task, network, inputs, seeds)
    assert shared.dtype == plain.dtype == jnp.float64
    np.testing.assert_allclose(shared, plain, rtol=1e-9)
    for one, other in zip(jax.tree.leaves(shared_gradient), jax.tree.leaves(gradient), strict=True):
        assert one.dtype == other.dtype == jnp.float64
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def _matrix_products(program):
    """Of each matrix product of a program: contracted sizes, all sizes, and whether its precision is highest."""
    for product in equations(program.jaxpr):
        if product.primitive.name == "dot_general":
            (contracted, _), _ = product.params["dimension_numbers"]
            sizes = {size for variable in product.invars for size in variable.aval.shape}
            exact = product.params["precision"] == (jax.lax.Precision.HIGHEST,) * 2
            yield {product.invars[0].aval.shape[axis] for axis in contracted}, sizes, exact


def _tables(task, network, inputs, seeds, monkeypatch):
    """Shapes of the tables that the losses look up."""
    looked_up = []

    def watched(tables, *inputs):
        looked_up.append(jax.tree.map(lambda table: jax.ShapeDtypeStruct(table.shape, table.dtype), tables))
        return table_logits(tables, *inputs)

    monkeypatch.setattr(recall, "table_logits", watched)
    jax.eval_shape(lambda network: task.losses(network, inputs, seeds), network)
    return looked_up[0]


@pytest.mark.slow
def test_look_ups_and_running_sums_are_exact_wherever_matrix_products_are_rounded(monkeypatch):
    """Products over the rows of a table, or over tokens, have the highest precision, for any precision of the trial."""
    task = Task(keys=3, value_bits=2, seed_bits=2)  # tables of 3 and of 4 rows; all else has 5 features or 6
    network = jax.eval_shape(lambda: DENSE.build(task, jax.random.key(0)))
    inputs, seeds = _random(task, 7, 2)
    tables = _tables(task, network, inputs, seeds, monkeypatch)
    backwards = jax.make_jaxpr(jax.grad(lambda tables: table_logits(tables, *inputs).sum()))(tables)
    with vectorisation.built_for("cuda"):
        on_a_gpu = jax.make_jaxpr(lambda network: task.losses(network, inputs, seeds))(network)
    table_products = [(sizes, exact) for _, sizes, exact in _matrix_products(backwards)]
    gpu_products = [(contracted, exact) for contracted, _, exact in _matrix_products(on_a_gpu)]
    for products in (table_products, gpu_products):
        assert [exact for _, exact in products] == [bool(sizes & {3, 4}) for sizes, _ in products]
        assert not all(exact for _, exact in products)
    assert sum(exact for _, exact in table_products) >= 10
    assert sum(exact for _, exact in gpu_products) == 3, "look-ups of tokens and of last tokens, and the running sum"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "keys"), [("dense embedding", 1), pytest.param("textbook", 3, marks=pytest.mark.long)]
)
def test_outcomes_equal_those_of_single_plain_calls(variant, keys):
    """Every outcome again, from the plain logits of one pair at a time."""
    task = Task(keys=keys, value_bits=2, seed_bits=3)
    network = _network(task, VARIANTS[variant])
    inputs, seeds = _random(task, 18, 3)  # more than one chunk of the plain model
    outcomes = jax.jit(task.outcomes)(network, inputs, seeds)
    plain = jax.jit(task.logits)
    for i in (0, 7, 17):
        x = jax.tree.map(lambda leaf, i=i: leaf[i], inputs)
        bits = np.array([int(x.values[int(x.query)]) >> bit & 1 for bit in range(2)])
        logits = np.array([plain(network, x, r) for r in seeds], np.float64)
        ones = (1 + np.tanh(logits / 2)) / 2
        right = np.where(bits == 1, ones, 1 - ones)
        np.testing.assert_array_equal(outcomes.answers[i], logits > 0)
        np.testing.assert_array_equal(outcomes.correct[i], ((logits > 0) == bits).all(axis=1))
        np.testing.assert_allclose(outcomes.sampled[i], right.prod(axis=1), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(
            outcomes.loss[i], np.logaddexp(0, np.where(bits == 1, -logits, logits)).mean(axis=1), rtol=1e-4, atol=1e-5
        )
        np.testing.assert_allclose(outcomes.variance[i], ones.var(axis=0).mean(), rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_without_seed_bits_a_token_is_value_and_key():
    task, recorder = Task(keys=2, value_bits=3, seed_bits=0), Recorder([0, 0, 0])
    seeds = task.sample_seeds(jax.random.key(0), 4)
    assert seeds.shape == (4, 0)
    task.logits(recorder, Inputs(jnp.array([1, 2]), jnp.array(0)), seeds[0])
    assert recorder.tokens.shape == (3, task.token_size()) == (3, 5)


def test_own_metrics_and_votes_bit_by_bit_and_beside_that_on_whole_values():
    assert Task(keys=20).abilities().own_metrics({"success": 0.57}) == pytest.approx({Metric("stored_items"): 11.4})
    voting = Task(value_bits=5).abilities().voting
    assert (voting.wrong_answers, voting.rules) == (31, {"majority": "partwise", "majority_tuple": "joint"})


@pytest.mark.slow
def test_a_memory_chooses_by_the_seed_or_by_the_key_or_not_at_all():
    task = Task(keys=4, value_bits=1)
    inputs = task.evaluation_inputs()

    def metrics(success: list[list[float]]) -> dict[str, Any]:
        """Of a success for every key and seed r: so many of the inputs that ask for the key are right."""
        rank, correct = Counter(), []
        for key in np.asarray(inputs.query).tolist():
            correct.append([rank[key] < 32 * p for p in success[key]])
            rank[key] += 1
        outcomes = Outcomes(jnp.array(correct), jnp.zeros((len(correct), len(success[0]))))
        found = task.abilities().pair_metrics(inputs, outcomes)
        return {metric.name: pytest.approx(float(value), abs=1e-6) for metric, value in found.items()}

    nothing = dict.fromkeys(
        ("bimodality", "seed_choice", "key_choice", "pairs_stored", "pairs_blurred", "pairs_lost"), 0
    )
    halves = {"pairs_stored": 0.5, "pairs_lost": 0.5, "bimodality": 1}
    assert metrics([[1, 0], [0, 1], [1, 0], [0, 1]]) == nothing | halves | {"seed_choice": 1}
    assert metrics([[1, 1], [0, 0], [1, 1], [0, 0]]) == nothing | halves | {"key_choice": 1}
    assert metrics([[0.5, 0.5]] * 4) == nothing | {"pairs_blurred": 1}
    uneven = [[1, 0.5], [0.25, 0.75], [0.5, 0], [0.125, 0.125]]
    of_pairs = np.array(uneven)
    assert metrics(uneven) == {
        "bimodality": np.mean([(2 * p - 1) ** 2 for p in of_pairs.flat]),
        "seed_choice": 4 * np.mean([np.var(of_key) for of_key in of_pairs]),
        "key_choice": 4 * np.var([np.mean(of_key) for of_key in of_pairs]),
        "pairs_stored": 1 / 8, "pairs_blurred": 2 / 8, "pairs_lost": 1 / 8,
    }  # fmt: skip


def test_seed_bits_are_fair():
    seeds = np.asarray(jax.jit(Task().sample_seeds, static_argnums=1)(jax.random.key(0), 4000))
    assert set(np.unique(seeds)) == {0, 1}
    assert np.abs(seeds.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(4000)
