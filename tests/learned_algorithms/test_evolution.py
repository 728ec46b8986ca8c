"""PGPE as a trainer of the platform."""

import functools
import operator

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from evosax.algorithms.distribution_based.pgpe import PGPE as Algorithm
from evosax.algorithms.distribution_based.pgpe import Params

from optimizers import pgpe
from sweeper.learned_algorithms import evolution, gradient
from sweeper.learned_algorithms.objective import FAILURES
from sweeper.learned_algorithms.strategy_contract import deviations, falling
from sweeper.packs.packing import stack
from tests.trials import coloring_trial

SKI_RENTAL = {"name": "ski_rental", "price": 2, "longest": 4, "noise": 2}
NETWORK = {"name": "transformer", "width": 6, "key_size": 5}


further = functools.partial(pytest.param, marks=pytest.mark.long)


def _trial(**entries):
    optimizer = {"name": "pgpe", "population": 20, "initial_std": 0.1, "center_learning_rate": 0.03}
    fields = {
        "task": SKI_RENTAL,
        "model": NETWORK | {"blocks": 1},
        "objective": {"q": 2.0, "m": 3},
        "optimizer": optimizer,
        "steps": 30,
    }
    return coloring_trial(**fields | entries)


def _run(trials, generations, evaluate=evolution.in_process):
    stacked = stack(trials)
    state, curves = evolution.start(stacked), []
    for _ in range(generations):
        state, curve = evolution.stride(stacked, state, 1, evaluate)
        curves.append(jax.tree.map(np.asarray, curve))
    return state, curves


def _backwards(trials, distribution, step):
    """As `in_process`, from the last block to the first."""
    order = reversed(range(evolution.blocks(trials)))
    return [evolution.block_in_process(trials, distribution, step, block) for block in order][::-1]


def _individuals(trial, distribution, pairs):
    """Networks of pairs of generation 0: the first of each pair, and then the second of each."""
    drawn = functools.partial(evolution.individual, trial, distribution, jnp.int32(0))
    return jax.vmap(drawn)(jnp.tile(jnp.arange(pairs), 2), jnp.repeat(jnp.array([1.0, -1.0]), pairs))


def _lane(leaves):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], leaves)


@pytest.mark.long
def test_the_update_is_evosaxs():
    """One generation equals evosax's own tell, given our population and its objectives."""
    trial = _trial()
    stacked = stack([trial])
    state = evolution.start(stacked)
    seen = []

    def recorded(*arguments):
        seen.extend(evolution.in_process(*arguments))
        return seen

    after, _ = evolution.stride(stacked, state, 1, recorded)
    fitness = np.concatenate(seen, axis=2)[0][:, :10].reshape(-1)
    population = _individuals(trial, _lane(state.distribution()), 10)
    adam = optax.inject_hyperparams(optax.adam)(learning_rate=trial.optimizer.center_learning_rate)
    algorithm = Algorithm(20, _lane(state.network), optimizer=adam)
    rates = trial.optimizer.initial_std, trial.optimizer.std_learning_rate
    params = Params(std_init=rates[0], std_lr=rates[1], std_max_change=pgpe.MAX_STD_CHANGE)
    expected, _ = algorithm.tell(jax.random.key(0), population, jnp.asarray(fitness), _lane(state.strategy), params)
    np.testing.assert_allclose(after.strategy.mean[0], expected.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after.strategy.std[0], expected.std, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["pgpe", *map(further, ("open_es", "snes", "sep_cma_es"))])
def test_the_scale_of_the_losses_moves_no_strategy(optimizer):
    stacked = stack([_trial(optimizer={"name": optimizer, "population": 20})])
    trial, state = _lane(stacked), _lane(evolution.start(stacked))
    population = _individuals(trial, state.distribution(), 10)
    losses = jax.random.uniform(jax.random.key(0), (20,))
    told = [
        trial.optimizer.tell(trial.keys().training, 3, jnp.int32(0), population, scale * losses, state.strategy)
        for scale in (1.0, 0.1)
    ]
    for part in (lambda after: after.mean, deviations):
        np.testing.assert_allclose(*map(part, told), rtol=1e-5, atol=1e-7)
    assert not np.allclose(told[0].mean, state.strategy.mean, rtol=1e-5)


@pytest.mark.slow
def test_the_objective_of_an_individual_is_that_of_a_centre_in_its_place():
    stacked = stack([_trial()])
    state = evolution.start(stacked)
    distribution = state.distribution()
    objectives = np.concatenate(evolution.in_process(stacked, distribution, np.asarray(state.step)), axis=2)[0]
    population = _individuals(_trial(), _lane(distribution), 10)
    for index in (0, 9, 10, 19):
        network = jax.tree.map(lambda leaf, index=index: leaf[index][None], population)
        centre = jax.flatten_util.ravel_pytree(network)[0][None]
        moved = state._replace(network=network, strategy=state.strategy.replace(mean=centre))
        _, curve = evolution.stride(stacked, moved, 1)
        assert objectives[:, :10].reshape(-1)[index] == pytest.approx(float(curve.train_loss[0]), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("q", "name"), [(1.0, "mean_loss"), ("inf", "worst_loss")])
def test_the_objective_of_the_centre_is_that_of_the_losses_of_its_inputs(q, name):
    stacked = stack([_trial(objective={"q": q, "m": 3})])
    _, curve = evolution.stride(stacked, evolution.start(stacked), 1)
    assert float(curve.train_loss[0]) == pytest.approx(float(getattr(curve, name)[0]), rel=1e-6)
    assert float(curve.mean_loss[0]) < 0.999 * float(curve.worst_loss[0])


RATES = {"center_learning_rate": 0.02, "std_learning_rate": 0.02, "initial_std": 0.1}
COLORING = {"name": "coloring", "vertices": 5}


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "optimizer", "below"),
    [
        # Uniform colours cost 1/9 = 0.111, and a guess of a bit ln 2 = 0.69.
        (COLORING, {"name": "pgpe", **RATES}, 0.095),
        further({"name": "recall", "keys": 1, "value_bits": 1}, {"name": "pgpe", **RATES}, 0.2),
        further(COLORING, {"name": "pgpe", **RATES, "center_optimizer": "clipup", "center_learning_rate": 0.3}, 0.105),
        further(COLORING, {"name": "open_es", "learning_rate": 0.02, "initial_std": 0.1}, 0.1),
        further(COLORING, {"name": "snes", "initial_std": 0.1}, 0.1),
        further(COLORING, {"name": "sep_cma_es", "initial_std": 0.1}, 0.1),
    ],
    ids=["pgpe", "pgpe of recall", "clipup", "open_es", "snes", "sep_cma_es"],
)
def test_evolution_trains_the_tasks_of_gradients(task, optimizer, below):
    trial = _trial(
        task=task, model=NETWORK | {"embedding_scale": 1.0}, optimizer={"population": 32, **optimizer}, batch_size=16
    )
    _, curves = _run([trial], 120)
    assert np.mean([float(curve.train_loss[0]) for curve in curves[-10:]]) < below


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "optimizer"),
    [
        pytest.param(gradient, {"name": "adam"}, id="gradients"),
        pytest.param(
            evolution, {"name": "pgpe", "population": 20, "initial_std": 1.0}, id="evolution", marks=pytest.mark.long
        ),
    ],
)
def test_an_annealed_q_is_that_of_the_step(trainer, optimizer):
    fields = {"task": COLORING, "optimizer": optimizer, "steps": 2}
    annealed = _trial(objective={"q": 1.0, "final_q": "inf", "m": 3}, **fields)
    begun, _ = trainer.stride(stack([annealed]), trainer.start(stack([annealed])), 1)
    begun = jax.tree.map(np.asarray, begun)  # on the host, where no step uses its memory again
    after, curve = trainer.stride(stack([annealed]), begun, 1)
    assert annealed.objective.strength(jnp.int32(1) / annealed.steps) == 2
    for q, equal in ((2.0, True), (1.0, False)):
        constant = _trial(objective={"q": q, "m": 3}, **fields)
        other, expected = trainer.stride(stack([constant]), begun, 1)
        assert bool(curve.train_loss[0] == expected.train_loss[0]) is equal
        weights = [jax.flatten_util.ravel_pytree(state.network)[0] for state in (after, other)]
        assert bool((weights[0] == weights[1]).all()) is equal


STRATEGIES = ({"name": "pgpe"}, {"name": "open_es"}, {"name": "snes"}, {"name": "sep_cma_es"})


def _other(optimizer):
    """The same strategy with other values of everything that is traced."""
    fields = type(_trial(optimizer=optimizer).optimizer).traced_fields()
    shared = {name: 0.5 * getattr(_trial(optimizer=optimizer).optimizer, name) for name in fields if name != "max_std"}
    return optimizer | shared


@pytest.mark.long
@pytest.mark.parametrize("optimizer", STRATEGIES, ids=operator.itemgetter("name"))
def test_lanes_workers_and_checkpoints_leave_no_trace(optimizer):
    """Two lanes with other rates, blocks in reverse order, and a state that went through the host."""
    entries = {"objective": {"q": 2.0, "m": 1}, "steps": 3}
    optimizers = [each | {"population": 20} for each in (optimizer, _other(optimizer))]
    trials = [_trial(optimizer=each, seed=seed, **entries) for seed, each in enumerate(optimizers)]
    assert evolution.blocks(trials[0]) == 2

    together, curves = _run(trials, 3)
    for lane, trial in enumerate(trials):
        stacked = stack([trial])
        state = evolution.start(stacked)
        for generation in range(3):
            leaves, structure = jax.tree.flatten(state)
            state = jax.tree.unflatten(structure, [np.array(leaf) for leaf in leaves])
            state, curve = evolution.stride(stacked, state, 1, _backwards)
            assert curve.train_loss[0] == curves[generation].train_loss[lane]
        for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(together), strict=True):
            np.testing.assert_array_equal(one[0], other[lane])
    assert not np.array_equal(together.strategy.mean[0], together.strategy.mean[1])


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", [STRATEGIES[0], *map(further, STRATEGIES[1:])], ids=operator.itemgetter("name"))
def test_the_distribution_is_that_of_the_strategy(optimizer):
    """Individuals are drawn as evosax draws them: with the centre and the deviations of its state."""
    trials = stack([_trial(optimizer=optimizer | {"population": 20, "initial_std": 0.25})])
    center, std, _ = evolution.start(trials).distribution()
    assert center.shape == std.shape
    np.testing.assert_allclose(std, 0.25, rtol=1e-6)
    distribution = _lane(evolution.start(trials).distribution())
    networks = jax.vmap(lambda network: jax.flatten_util.ravel_pytree(network)[0])(
        _individuals(_trial(optimizer=optimizer), distribution, 8)
    )
    noise = (networks - distribution.center) / distribution.std
    mirrored = trials.optimizer.MIRRORED
    assert mirrored == np.allclose(noise[:8], -noise[8:], atol=1e-4)
    assert len({round(float(abs(each[0])), 3) for each in noise}) == (8 if mirrored else 16)
    assert float(noise.mean()) == pytest.approx(0, abs=0.1)
    assert float(noise.std()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_rates_and_deviations_fall_along_the_schedule(schedule):
    def at(step):
        return float(falling(jnp.float32(0.4), jnp.float32(0.1), schedule, jnp.int32(step), 100))

    assert [at(0), at(50), at(100)] == pytest.approx([0.4, 0.25, 0.1])
    assert at(25) == pytest.approx(0.325 if schedule == "linear" else 0.35607, abs=1e-4)
    same = falling(jnp.float32(0.3), jnp.float32(0.3), schedule, jnp.int32(33), 100)
    assert same == jnp.float32(0.3)


@pytest.mark.long
def test_a_final_rate_of_zero_stops_the_centre_and_deviations_keep_their_limits():
    limits = {"std_learning_rate": 5.0, "initial_std": 0.1, "min_std": 0.09, "max_std": 0.12}
    optimizer = {"name": "pgpe", "population": 20, "final_center_learning_rate": 0.0, **limits}
    stacked = stack([_trial(optimizer=optimizer, steps=4)])
    state = evolution.start(stacked)
    moves = []
    for _ in range(4):
        after, _ = evolution.stride(stacked, state, 1)
        moves.append(float(jnp.abs(after.strategy.mean - state.strategy.mean).max()))
        assert float(after.strategy.std.min()) >= np.float32(0.09)
        assert float(after.strategy.std.max()) <= np.float32(0.12)
        state = after
    assert float(state.strategy.std.max()) == np.float32(0.12)
    assert moves == sorted(moves, reverse=True)
    # The last of four generations still has a rate: it is 0 after it.
    assert 0 < moves[-1] < 0.2 * moves[0]


@pytest.mark.long
def test_the_deviation_of_open_es_is_that_of_its_generation():
    optimizer = {"name": "open_es", "population": 20, "initial_std": 0.4, "final_std": 0.2, "schedule": "linear"}
    stacked = stack([_trial(optimizer=optimizer, steps=4)])
    state = evolution.start(stacked)
    for generation in range(3):
        np.testing.assert_allclose(state.distribution().std, 0.4 - 0.05 * generation, rtol=1e-5)
        state, _ = evolution.stride(stacked, state, 1)


@pytest.mark.long
def test_clipup_takes_steps_of_the_learning_rate_and_no_longer_than_its_limit():
    optimizer = {"name": "pgpe", "population": 20, "initial_std": 0.1, "center_optimizer": "clipup"}
    stacked = stack([_trial(optimizer=optimizer | {"center_learning_rate": 0.5, "max_velocity_ratio": 1.5})])
    state, lengths = evolution.start(stacked), []
    for _ in range(6):
        after, _ = evolution.stride(stacked, state, 1)
        lengths.append(float(jnp.linalg.norm(after.strategy.mean - state.strategy.mean)))
        state = after
    assert lengths[0] == pytest.approx(0.5, rel=1e-4)
    assert max(lengths) <= 0.75 * (1 + 1e-4)


@pytest.mark.slow
def test_tied_individuals_share_the_mean_of_their_weights():
    """The centre after a tie lies in the middle of the centres after both orders of the tied individuals."""
    trial = _trial(optimizer={"name": "snes", "population": 6, "initial_std": 0.1})
    state = evolution.start(stack([trial]))
    population = _individuals(trial, _lane(state.distribution()), 3)

    def centre(*objectives):
        told = trial.optimizer.tell(
            trial.keys().training, trial.steps, jnp.int32(0), population, jnp.array(objectives), _lane(state.strategy)
        )
        return np.asarray(told.mean)

    tied, one, other = centre(3, 1, 3, jnp.inf, 5, 0.5), centre(2, 1, 3, 9, 5, 0.5), centre(3, 1, 2, 9, 5, 0.5)
    np.testing.assert_allclose(tied, (one + other) / 2, atol=1e-6)
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.slow
def test_individuals_without_a_finite_objective_are_ranked_last():
    def spoiled(value, trials, distribution, step):
        objectives = evolution.in_process(trials, distribution, step)
        objectives[0] = objectives[0].copy()
        objectives[0][:, 0, 3] = value
        return objectives

    states = [_run([_trial()], 1, functools.partial(spoiled, value))[0] for value in (np.nan, np.inf, 1e30)]
    for state in states:
        assert np.isfinite(state.strategy.mean).all()
        np.testing.assert_array_equal(state.strategy.mean, states[0].strategy.mean)
        assert int(state.failure[0]) == 0


@pytest.mark.slow
def test_a_generation_without_any_finite_objective_fails_the_lane_and_freezes_it():
    def nothing(trials, distribution, step):
        return [np.full_like(block, np.nan) for block in evolution.in_process(trials, distribution, step)]

    start = evolution.start(stack([_trial()]))
    state, _ = _run([_trial()], 2, nothing)
    assert FAILURES[int(state.failure[0])] == "non-finite loss"
    assert int(state.step[0]) == 0
    np.testing.assert_array_equal(state.strategy.mean, start.strategy.mean)
