"""The conformance suite of objectives: every file in objectives/ must pass it."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydantic import ValidationError

from objectives import group_dro, q_norm
from sweeper.learned_algorithms import evolution
from sweeper.learned_algorithms.objective import batch_of
from sweeper.learned_algorithms.objective_contract import Batch, Objective
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs import checkpoint
from sweeper.packs.packing import stack
from sweeper.store.store import Store
from sweeper.training.identity import Identity
from sweeper.training.kind import trainer_of
from sweeper.trial import plugins
from sweeper.trial.record import canonical
from sweeper.trial.trial import trial_id
from tests.trials import coloring_trial

pytestmark = pytest.mark.slow  # compiles

PARAMETERS: dict[str, list[dict]] = {
    "q_norm": [{}, {"q": 10.0}, {"q": 100.0}, {"q": "inf"}, {"q": 2.0, "final_q": 8.0}],
    "cvar": [{}, {"alpha": 1.0}, {"alpha": 0.3}],
    "entropic_risk": [{}, {"t": 1e-4}, {"t": 30.0}],
    "group_dro": [{}, {"step_size": 3.0}],
}
"""Parameters at which an objective is tested; an objective that is not listed is tested with its defaults."""

OBJECTIVES: list[Objective] = [
    plugins.load("objective", name).model_validate(parameters)
    for name in plugins.names("objective")
    for parameters in PARAMETERS.get(name, [{}])
]
TASK = coloring_trial().task  # cycles of five vertices, in six groups

objective_cases = pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
name_cases = pytest.mark.parametrize("name", plugins.names("objective"))
groups_of_batches = hnp.arrays(np.int32, (12,), elements=st.integers(0, 5))


@functools.cache
def _compiled(function: str) -> Any:
    """A method of the contract as a compiled function of the objective, a batch and a state."""
    return jax.jit(lambda objective, batch, state: getattr(objective, function)(batch, state))


@functools.cache
def _gradient() -> Any:
    def value(losses: Any, objective: Objective, batch: Batch, state: Any) -> Any:
        return objective.value(batch._replace(losses=losses), state)

    return jax.jit(jax.grad(value))


def _batch(objective: Objective, losses: Any, groups: Any = np.arange(12, dtype=np.int32) % 6) -> Batch:
    asked = jnp.asarray(groups) if objective.needs_groups else None
    return Batch(jnp.asarray(losses, jnp.float32), asked, jnp.float32(0.25))


def _value(objective: Objective, batch: Batch, state: Any = None) -> float:
    state = objective.initial_state(TASK) if state is None else state
    return float(_compiled("value")(objective, batch, state))


def _told(objective: Objective, *batches: Batch) -> Any:
    """The state after the batches."""
    state = objective.initial_state(TASK)
    for batch in batches:
        state = _compiled("next_state")(objective, batch, state)
    return state


# One batch


losses_of_batches = hnp.arrays(np.float32, (12,), elements=st.floats(0, 100, width=32))


@objective_cases
@given(losses_of_batches, groups_of_batches, st.permutations(range(12)), st.integers(0, 11), st.floats(0, 10))
@settings(max_examples=30)
def test_the_order_of_inputs_does_not_count_and_no_larger_loss_gives_a_smaller_value(
    objective, losses, groups, order, place, more
):
    before = _value(objective, _batch(objective, losses, groups))
    shuffled = _value(objective, _batch(objective, losses[order], groups[order]))
    assert shuffled == pytest.approx(before, rel=1e-4, abs=1e-6)
    raised = losses + more * np.eye(12, dtype=np.float32)[place]
    assert _value(objective, _batch(objective, raised, groups)) >= before - 1e-4 * abs(before) - 1e-6


@objective_cases
@given(st.floats(0, 100, width=32), groups_of_batches)
@settings(max_examples=30)
def test_the_value_of_equal_losses_is_that_loss(objective, loss, groups):
    batch = _batch(objective, np.full(12, loss, np.float32), groups)
    np.testing.assert_allclose(_value(objective, batch, _told(objective, batch)), loss, rtol=1e-5, atol=1e-6)


EXTREME = (
    np.zeros(12), np.full(12, 0.3), np.linspace(1, 2, 12) * 1e37, np.linspace(1, 2, 12) * 1e-37,
    np.eye(12)[3] * 1e37, 10.0 ** np.linspace(-37, 37, 12),
)  # fmt: skip


@objective_cases
def test_value_gradient_and_state_are_finite_at_extreme_losses(objective):
    for losses in EXTREME:
        batch = _batch(objective, losses)
        state = _told(objective, *[batch] * 3)
        assert np.isfinite(_value(objective, batch, state)), losses
        gradient = np.asarray(_gradient()(batch.losses, objective, batch, state))
        assert (np.isfinite(gradient) & (gradient >= 0)).all(), losses
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state)), losses


# Definitions in double precision


def _q_norm(objective: Any, losses: np.ndarray) -> float:
    inverse, most = 0.75 / objective.q + 0.25 / objective.final_q, losses.max()
    return most if inverse == 0 else most * np.mean((losses / most) ** (1 / inverse)) ** inverse


def _cvar(objective: Any, losses: np.ndarray) -> float:
    """Rockafellar and Uryasev's minimum, which one of the losses attains."""
    return min(c + np.maximum(losses - c, 0).mean() / objective.alpha for c in losses)


def _entropic_risk(objective: Any, losses: np.ndarray) -> float:
    return losses.max() + np.log(np.mean(np.exp(objective.t * (losses - losses.max())))) / objective.t


DEFINITIONS = {"q_norm": _q_norm, "cvar": _cvar, "entropic_risk": _entropic_risk}


@pytest.mark.parametrize("objective", [each for each in OBJECTIVES if each.name in DEFINITIONS], ids=str)
def test_the_value_is_that_of_the_definition(objective):
    for scale in (1e-6, 1e-3, 1.0, 10.0, 1e4):
        losses = scale * np.random.default_rng(0).uniform(0.1, 2, 12)
        batch = _batch(objective, losses)
        assert _value(objective, batch) == pytest.approx(DEFINITIONS[objective.name](objective, losses), rel=1e-5)
        assert float(_gradient()(batch.losses, objective, batch, None).sum()) > 0.8, "it does not underflow"


@pytest.mark.parametrize("step_size", [0.01, 3.0])
def test_the_adversary_follows_multiplicative_weights(step_size):
    objective = group_dro.Objective(step_size=step_size)
    shares, state = np.full(6, 1 / 6), objective.initial_state(TASK)
    for seed in range(8):
        random = np.random.default_rng(seed)
        losses, groups = random.uniform(0, 2, 12), random.integers(0, 6, 12).astype(np.int32)
        present = sorted(set(groups.tolist()))
        means = np.array([losses[groups == group].mean() for group in present])
        batch = _batch(objective, losses, groups)
        expected = (shares[present] * means).sum() / shares[present].sum()
        assert _value(objective, batch, state) == pytest.approx(expected, rel=1e-4)
        raised = shares[present] * np.exp(step_size * means)
        shares[present] = raised * shares[present].sum() / raised.sum()
        state = _compiled("next_state")(objective, batch, state)
        np.testing.assert_allclose(np.exp(state.logs), shares, rtol=1e-3)


def test_a_group_that_lost_its_share_comes_back():
    objective = group_dro.Objective(step_size=3.0)
    first, second = (_batch(objective, 100.0 * (np.arange(12) % 6 == group)) for group in (0, 1))
    state = _told(objective, *[first] * 50)
    assert float(state.logs[1]) == pytest.approx(group_dro.LEAST_LOG_SHARE, rel=1e-3)
    assert float(jnp.exp(_told(objective, *[first] * 50, second).logs[1])) == pytest.approx(1.0, rel=1e-3)


def test_of_no_more_than_one_input_the_tail_is_the_worst_input():
    losses = np.random.default_rng(0).uniform(0, 2, 12)
    cvar = plugins.load("objective", "cvar")
    assert _value(cvar(alpha=1 / 12), _batch(cvar(), losses)) == pytest.approx(losses.max(), rel=1e-6)
    assert _value(cvar(alpha=1e-6), _batch(cvar(), losses)) == pytest.approx(losses.max(), rel=1e-6)


# Trials

SMALLEST = {
    "task": {"name": "coloring", "vertices": 4},  # whose three cycles are groups
    "model": {"name": "transformer", "width": 4, "key_size": 4, "blocks": 1},
    "steps": 6,
}
SKI_RENTAL = {"name": "ski_rental", "price": 2, "longest": 4, "noise": 2}
WALKS = {
    "task": {"name": "gridworld", "height": 2, "width": 3, "horizon": 6, "noise": 2},
    "optimizer": {"name": "pgpe", "population": 16, "initial_std": 0.1},
    "batch_size": 5,
    "steps": 6,
}
EVOLVED = SMALLEST | {"task": SKI_RENTAL, "optimizer": {"name": "pgpe", "population": 8, "initial_std": 1.0}}


def _two(name: str) -> list[dict[str, Any]]:
    """The objective with its first and its last parameters, which are the same where none are listed."""
    parameters = PARAMETERS.get(name, [{}])
    return [{"name": name} | parameters[0], {"name": name} | parameters[-1]]


def _trained(trials: TrialSpec, strides: int, state: Any = None) -> Any:
    trainer = trainer_of(trials)
    state = trainer.start(trials) if state is None else state
    for _ in range(strides):
        state, _ = trainer.stride(trials, state, 1)
    return jax.tree.map(np.asarray, state)


@name_cases
def test_a_trial_round_trips_and_its_parameters_are_its_identity(name):
    trial, other = (coloring_trial(objective=objective) for objective in _two(name))
    assert TrialSpec.model_validate(canonical(trial)) == trial
    assert (trial_id(other) != trial_id(trial)) == (name in PARAMETERS)
    assert jax.tree.structure(other) == jax.tree.structure(trial), "one program serves all values"


@name_cases
def test_an_e_baseline_trains_the_expectation_whatever_the_objective(name):
    for baseline in ("AE_R", "AE_r0"):
        plain = coloring_trial(baseline=baseline, objective={})
        assert coloring_trial(baseline=baseline, objective={"name": name}) == plain


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        pytest.param(name, fields, id=f"{name}-{optimiser}")
        for name in plugins.names("objective")
        for optimiser, fields in (("adam", SMALLEST), ("pgpe", WALKS))
    ],
)
def test_lanes_and_a_checkpoint_leave_no_trace(name, fields, tmp_path):
    """Two lanes of one program, cut in two by a checkpoint on disk, are their two solo runs to the last bit."""
    trials = [coloring_trial(objective=objective, **fields) for objective in _two(name)]
    stacked, store = stack(trials), Store.open(tmp_path)
    half = _trained(stacked, 2)
    checkpoint.save(store, "pack", ["a", "b"], Identity(None, "", None), half, {})
    kept = checkpoint.load(store, "pack")
    assert kept is not None
    whole = _trained(stacked, 2, kept.state(half))
    for lane, trial in enumerate(trials):
        alone = _trained(stack([trial]), 4)
        of_lane = jax.tree.map(lambda leaf, lane=lane: leaf[lane : lane + 1], whole)
        jax.tree.map(np.testing.assert_array_equal, of_lane, alone)
    different = jax.tree.map(lambda leaf: bool((leaf[0] != leaf[1]).any()), whole.network)
    assert any(jax.tree.leaves(different)) == (name in PARAMETERS), "parameters reach the training"


@pytest.mark.long
def test_a_generation_is_ranked_by_the_adversary_of_before_and_moves_it_by_the_centre():
    trial = coloring_trial(objective={"name": "group_dro", "step_size": 2.0, "m": 2}, **EVOLVED)
    stacked = stack([trial])
    before = evolution.start(stacked)
    after, curve = evolution.stride(stacked, before, 1)
    model = jax.tree.map(lambda leaf: leaf[0], before.network)
    pairs = evolution.generation_pairs(trial, jnp.int32(0))
    batch, _, _ = jax.jit(batch_of)(trial, model, *pairs, jnp.int32(0))
    start = trial.objective.initial_state(trial.task)
    assert float(curve.train_loss[0]) == pytest.approx(float(trial.objective.value(batch, start)), rel=1e-5)
    expected = trial.objective.next_state(batch, start)
    np.testing.assert_allclose(after.objective.logs[0], expected.logs, rtol=1e-5)
    assert not np.allclose(expected.logs, start.logs)

    distribution = jax.tree.map(np.asarray, after.distribution())
    equal = distribution._replace(objective=jax.tree.map(np.asarray, before.objective))
    ranked, unweighted = (evolution.in_process(stacked, each, np.asarray(after.step)) for each in (distribution, equal))
    assert not np.allclose(ranked[0], unweighted[0])


def test_a_task_without_groups_refuses_an_objective_that_weighs_them(monkeypatch):
    abilities = TASK.abilities()
    monkeypatch.setattr(type(TASK), "abilities", lambda self: abilities.__class__(voting=abilities.voting))
    with pytest.raises(ValidationError, match=r"objective: group_dro .* coloring"):
        coloring_trial(objective={"name": "group_dro"})


def test_annealing_moves_the_inverse_of_q_linearly_and_a_constant_q_keeps_every_bit():
    annealed = q_norm.Objective.model_validate({"q": 2, "final_q": "inf"})
    values = [float(annealed.strength(jnp.int32(step) / 4)) for step in range(5)]
    np.testing.assert_allclose(values, [2, 8 / 3, 4, 8, np.inf], rtol=1e-6)
    for q in (1.0, 2.7, 10.0, 437.1, "inf"):
        constant = q_norm.Objective.model_validate({"q": q})
        assert {float(constant.strength(jnp.int32(step) / 1000)) for step in range(0, 1000, 37)} == {np.float32(q)}
