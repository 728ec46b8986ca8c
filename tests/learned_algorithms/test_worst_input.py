"""The worst input by stages, against the exact success of every cycle."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.learned_algorithms import worst_input
from sweeper.learned_algorithms.contracts import Network
from sweeper.learned_algorithms.evaluation import evaluate, names
from sweeper.learned_algorithms.metrics import SUCCESS, metric_named
from sweeper.learned_algorithms.worst_input import Finalists
from sweeper.trial.metrics import Metric
from tests.learned_algorithms.test_evaluation import initial
from tests.trials import coloring_trial

SEEDS, REPEATS = 1000, 30


class IndependentColors(Network):
    """Vertices draw their colours independently; `odds` has the probabilities, `[vertex, colour]`."""

    def __init__(self, odds):
        self.limits = jnp.asarray(np.pad(odds.cumsum(axis=1), ((0, 0), (1, 0))), jnp.float32)

    def __call__(self, tokens, mask):
        limits = tokens[:, :-1] @ self.limits
        return 50.0 * ((limits[:, :-1] <= tokens[:, -1:]) & (tokens[:, -1:] < limits[:, 1:]))


def exact_success(odds, cycles):
    """Of every cycle, by all colourings."""
    vertices = len(odds)
    colorings = np.array(list(itertools.product(range(3), repeat=vertices)))
    weights = odds[np.arange(vertices), colorings].prod(axis=1)
    proper = [(colorings[:, c] != colorings[:, np.roll(c, 1)]).all(axis=1) for c in np.asarray(cycles)]
    return np.array([weights[each].sum() for each in proper])


def trial_of(vertices, **changes):
    evaluation = {"seeds": 20, "votes": [3], "worst_seeds": SEEDS}
    return coloring_trial(task={"name": "coloring", "vertices": vertices}, evaluation=evaluation, **changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vertices", "counts"),
    [(5, (12, 12)), *(pytest.param(*sizes, marks=pytest.mark.long) for sizes in ((6, (60, 20)), (7, (100, 25))))],
)
def test_the_worst_input_by_stages_is_nearer_to_the_exact_one_than_its_noise(vertices, counts):
    trial = trial_of(vertices)
    odds = np.random.default_rng(0).dirichlet(np.ones(3), vertices)
    network, cycles = IndependentColors(odds), trial.task.evaluation_inputs()
    exact = exact_success(odds, cycles).min()

    def stages(seed):
        one = trial.model_copy(update={"seed": seed})
        first = one.task.outcomes(network, cycles, one.task.sample_seeds(one.keys().evaluation, 20)).correct
        return first, worst_input.finalists(one, network, cycles, first.mean(axis=1), SEEDS, counts)

    first, found = jax.jit(lambda: jax.lax.map(stages, jnp.arange(REPEATS)))()
    assert found.by_seed.shape == (REPEATS, counts[1], SEEDS)
    values, errors = np.transpose([worst_input.worst(SUCCESS, Finalists(*each)) for each in zip(*found, strict=True)])
    assert abs(values.mean() - exact) < errors.mean()
    assert 0.7 < values.std(ddof=1) / errors.mean() < 1.6
    naive = first.mean(axis=-1).min(axis=1).mean()
    halves = np.stack([first[..., :10].mean(axis=-1), first[..., 10:].mean(axis=-1)], axis=1).astype(float)
    held_out = np.mean([SUCCESS.held_out(each) for each in halves])
    assert naive < exact - 2 * errors.mean() < exact + 5 * errors.mean() < held_out


@pytest.mark.parametrize("high_is_good", [True, False])
def test_each_half_of_the_fresh_seeds_is_judged_by_the_other(high_is_good):
    """The stage before is equal for two inputs, so that the halves of the last stage choose different ones."""
    by_seed = np.array([[0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 1], [1, 1, 1, 1, 1, 1]], float)
    found = Finalists(np.array([0.5, 0.5, 0.9]), by_seed)
    if not high_is_good:
        found = Finalists(1 - found.before, 1 - by_seed)
    value, error = worst_input.worst(Metric("accuracy", high_is_good=high_is_good), found)
    assert value == pytest.approx(1 if high_is_good else 0)  # the first is judged by 1 1 1, the second by 1 1 1
    assert error == 0


@pytest.mark.slow
def test_the_stages_are_an_option_of_the_protocol():
    trial = trial_of(5)
    network = initial(trial)
    measured, _ = evaluate(trial, network)
    assert set(names(trial).metrics) == set(measured)
    further = measured.keys() - evaluate(trial.with_protocol({"worst_seeds": None}), network)[0].keys()
    assert further == {"success_worst_staged", "success_worst_staged_se"}
    assert metric_named("success_worst_staged").label() == "success_worst_staged"
    assert trial_of(5, baseline="Aq_r0").evaluation.worst_seeds is None, "its success is known exactly"
