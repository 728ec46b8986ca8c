"""PGPE as a trainer of the platform."""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from evosax.algorithms.distribution_based.pgpe import PGPE as Algorithm

from objectives.q_norm import q_norm
from sweeper.packs.packing import stack
from sweeper.training import evolution, gradient
from sweeper.training.trainer import FAILURES
from sweeper.trial.trial_spec import PGPE, TrialSpec

NETWORK = {"name": "transformer", "width": 6, "key_size": 5}


def _trial(**entries):
    fields = {
        "task": {"name": "coloring", "vertices": 5},
        "model": NETWORK,
        "baseline": "Aq_R",
        "objective": {"q": 2.0, "m": 3},
        "optimizer": {"name": "pgpe", "population": 20, "initial_std": 0.1, "center_learning_rate": 0.03},
        "steps": 30,
        "batch_size": 8,
    }
    return TrialSpec.model_validate(fields | entries)


def _run(trials, generations, evaluate=evolution.in_process):
    stacked = stack(trials)
    state, curves = evolution.start(stacked), []
    for _ in range(generations):
        state, curve = evolution.stride(stacked, state, 1, evaluate)
        curves.append(jax.tree.map(np.asarray, curve))
    return state, curves


@pytest.mark.slow
def test_the_update_is_evosaxs():
    """One generation equals evosax's own ask and tell, given our population and the plain objective of each of it."""
    trial = _trial()
    stacked = stack([trial])
    state = evolution.start(stacked)
    seen = []

    def recorded(*arguments):
        seen.extend(evolution.in_process(*arguments))
        return seen

    after, _ = evolution.stride(stacked, state, 1, recorded)
    center, std = (leaf[0] for leaf in jax.tree.map(np.asarray, state.distribution()))
    key = evolution._streams(trial, jnp.int32(0)).population
    noise = np.stack([evolution._noise(key, jnp.int32(pair), center.size) for pair in range(10)])
    population = np.concatenate([center + std * noise, center - std * noise])
    fitness = np.concatenate(seen, axis=2)[0][:, :10].reshape(-1)
    unravel = evolution._unravel(trial)
    objective = jax.jit(
        lambda weights: q_norm(evolution._batch(trial, jnp.int32(0), unravel(weights)).losses, trial.objective.q)
    )
    for index in (0, 9, 10, 19):
        assert fitness[index] == pytest.approx(float(objective(population[index])), rel=1e-4)

    algorithm = evolution._algorithm(trial, jax.tree.map(lambda leaf: leaf[0], state.model))
    assert isinstance(algorithm, Algorithm)
    search = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], state.search)
    expected, _ = algorithm.tell(
        jax.random.key(0),
        jax.vmap(unravel)(population),
        jnp.asarray(fitness),
        search,
        evolution._params(evolution._pgpe(trial)),
    )
    np.testing.assert_allclose(after.search.mean[0], expected.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after.search.std[0], expected.std, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "below"),
    [
        # Uniform colours cost 1/9 = 0.111, and a guess of a bit ln 2 = 0.69.
        ({"name": "coloring", "vertices": 5}, 0.095),
        ({"name": "recall", "keys": 1, "value_bits": 1}, 0.2),
    ],
    ids=["coloring", "recall"],
)
def test_evolution_trains_the_tasks_of_gradients(task, below):
    rates = {"center_learning_rate": 0.02, "std_learning_rate": 0.02, "initial_std": 0.1}
    trial = _trial(
        task=task,
        model=NETWORK | {"embedding_scale": 1.0},
        optimizer={"name": "pgpe", "population": 32, **rates},
        batch_size=16,
    )
    _, curves = _run([trial], 120)
    assert np.mean([float(curve.train_loss[0]) for curve in curves[-10:]]) < below


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "optimizer"),
    [(gradient, {"name": "adam"}), (evolution, {"name": "pgpe", "population": 20, "initial_std": 1.0})],
    ids=["gradients", "evolution"],
)
def test_an_annealed_q_is_that_of_the_step(trainer, optimizer):
    annealed = _trial(objective={"q": 1.0, "final_q": "inf", "m": 3}, optimizer=optimizer, steps=2)
    begun, _ = trainer.stride(stack([annealed]), trainer.start(stack([annealed])), 1)
    begun = jax.tree.map(np.asarray, begun)  # on the host, where no step uses its memory again
    after, curve = trainer.stride(stack([annealed]), begun, 1)
    assert annealed.objective.strength(jnp.int32(1) / annealed.steps) == 2
    for q, equal in ((2.0, True), (1.0, False)):
        constant = _trial(objective={"q": q, "m": 3}, optimizer=optimizer, steps=2)
        other, expected = trainer.stride(stack([constant]), begun, 1)
        assert bool(curve.train_loss[0] == expected.train_loss[0]) is equal
        weights = [jax.flatten_util.ravel_pytree(state.model)[0] for state in (after, other)]
        assert bool((weights[0] == weights[1]).all()) is equal


@pytest.mark.slow
def test_rates_and_seeds_are_lanes_of_one_program_and_lanes_do_not_touch_each_other():
    trials = [
        _trial(
            seed=seed, optimizer={"name": "pgpe", "population": 20, "center_learning_rate": rate, "initial_std": std}
        )
        for seed, rate, std in ((0, 0.03, 0.1), (1, 0.01, 0.03), (0, 0.001, 0.1))
    ]
    assert len({jax.tree.structure(trial) for trial in trials}) == 1
    together, _ = _run(trials, 2)
    for index, trial in enumerate(trials):
        alone, _ = _run([trial], 2)
        np.testing.assert_array_equal(alone.search.mean[0], together.search.mean[index])


@pytest.mark.slow
def test_blocks_are_the_same_in_any_order():
    def backwards(trials, distribution, step):
        order = reversed(range(evolution.blocks(trials)))
        return [evolution.block_in_process(trials, distribution, step, block) for block in order][::-1]

    assert evolution.blocks(_trial()) == 2
    one, _ = _run([_trial()], 3)
    other, _ = _run([_trial()], 3, backwards)
    np.testing.assert_array_equal(one.search.mean, other.search.mean)


def test_individuals_without_a_finite_objective_are_ranked_last():
    def spoiled(value, trials, distribution, step):
        found = evolution.in_process(trials, distribution, step)
        found[0] = found[0].copy()
        found[0][:, 0, 3] = value
        return found

    states = [_run([_trial()], 1, functools.partial(spoiled, value))[0] for value in (np.nan, np.inf, 1e30)]
    for state in states:
        assert np.isfinite(state.search.mean).all()
        np.testing.assert_array_equal(state.search.mean, states[0].search.mean)
        assert int(state.failure[0]) == 0


def test_a_generation_without_any_finite_objective_fails_the_lane_and_freezes_it():
    def nothing(trials, distribution, step):
        return [np.full_like(block, np.nan) for block in evolution.in_process(trials, distribution, step)]

    start = evolution.start(stack([_trial()]))
    state, _ = _run([_trial()], 2, nothing)
    assert FAILURES[int(state.failure[0])] == "non-finite loss"
    assert int(state.step[0]) == 0
    np.testing.assert_array_equal(state.search.mean, start.search.mean)


def test_an_odd_population_is_refused():
    with pytest.raises(ValueError, match="multiple of 2"):
        PGPE(population=5)
