"""Banks of seeds r: gradients against finite differences, evaluations against obvious Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

from sweeper.learned_algorithms.evaluation import evaluate, names
from sweeper.learned_algorithms.kind import KIND
from sweeper.learned_algorithms.objective import batch_of
from sweeper.learned_algorithms.seed_bank import SeedBank
from sweeper.learned_algorithms.trainers import trainer_by_optimizer
from sweeper.packs.packing import stack
from sweeper.trial.record import canonical
from sweeper.trial.trial import trial_id
from tests.trials import coloring_trial

BANK = {"learned_seeds": True, "objective": {"q": 3.0, "m": 3}}
SKI_RENTAL = {
    "task": {"name": "ski_rental", "price": 2, "longest": 4, "noise": 2},
    "optimizer": {"name": "pgpe", "population": 16, "initial_std": 0.5, "center_learning_rate": 0.1},
}


def _bank(trial) -> SeedBank:
    """A bank whose seeds have other probabilities, and whose network tells them apart."""
    bank = jax.jit(type(trial).initial_network)(trial)
    return SeedBank(jax.tree.map(lambda weight: 2 * weight, bank.network), bank.seeds, jnp.array([0.5, -1.0, 0.1]))


@pytest.mark.slow
def test_the_gradient_of_a_bank_is_that_of_finite_differences():
    trial = coloring_trial(**BANK)
    bank = _bank(trial)
    inputs = trial.task.sample_inputs(jax.random.key(1), trial.batch_size)

    @jax.jit
    def value(seeds, logits):
        batch, _, _ = batch_of(trial, SeedBank(bank.network, seeds, logits), inputs, bank.seeds, jnp.int32(0))
        return trial.objective.value(batch, ())

    by_seeds, by_logits = jax.jit(jax.grad(value, argnums=(0, 1)))(bank.seeds, bank.logits)
    small = 3e-3
    for place in np.ndindex(bank.seeds.shape):
        step = jnp.zeros_like(bank.seeds).at[place].set(small)
        slope = (value(bank.seeds + step, bank.logits) - value(bank.seeds - step, bank.logits)) / (2 * small)
        assert float(by_seeds[place]) == pytest.approx(float(slope), rel=1e-3, abs=2e-5)
    for place in range(3):
        step = jnp.zeros(3).at[place].set(small)
        slope = (value(bank.seeds, bank.logits + step) - value(bank.seeds, bank.logits - step)) / (2 * small)
        assert float(by_logits[place]) == pytest.approx(float(slope), rel=1e-3, abs=2e-5)
    assert np.abs(by_seeds).max() > 5e-3
    assert np.abs(by_logits).max() > 5e-3


@pytest.mark.slow
def test_an_evaluation_is_the_expectation_over_the_bank():
    trial = coloring_trial(**BANK)
    bank = _bank(trial)
    measured, columns = evaluate(trial, bank)
    inputs = trial.task.evaluation_inputs()
    outcomes = jax.jit(lambda bank: trial.task.outcomes(bank.network, inputs, bank.seeds)._replace(measures={}))(bank)
    weights = np.exp([0.5, -1.0, 0.1])
    weights /= weights.sum()
    np.testing.assert_allclose(columns["loss"], np.asarray(outcomes.loss) @ weights, rtol=1e-5)
    np.testing.assert_allclose(columns["success"], np.asarray(outcomes.correct) @ weights, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(columns["sampled"], np.asarray(outcomes.sampled) @ weights, rtol=1e-5)
    assert measured["loss"] == pytest.approx((np.asarray(outcomes.loss) @ weights).mean(), rel=1e-5)
    assert set(names(trial).metrics) == set(measured)
    assert not [name for name in measured if "votes" in name or name.endswith(("_se", "_heldout"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields", [pytest.param({}, id="adam"), pytest.param(SKI_RENTAL, id="pgpe", marks=pytest.mark.long)]
)
def test_training_moves_seeds_and_probabilities(fields):
    trial = coloring_trial(**(BANK | fields))
    stacked, trainer = stack([trial]), trainer_by_optimizer(trial)
    before = trainer.start(stacked)
    started = jax.tree.map(np.asarray, before.network)
    after = before
    for _ in range(3):
        after, _ = trainer.stride(stacked, after, trainer.stride_steps)
    assert int(after.failure[0]) == 0
    moved = jax.tree.map(lambda new, old: bool((np.asarray(new) != old).all()), after.network, started)
    assert moved.logits
    assert moved.seeds
    shapes = [leaf.shape[1:] for leaf in jax.tree.leaves(after.network)]
    assert shapes == [leaf.shape for leaf in jax.tree.leaves(KIND.built(trial))]


def test_a_bank_is_part_of_the_identity_and_its_size_that_of_its_evaluation():
    trial = coloring_trial(**BANK)
    assert trial_id(trial) != trial_id(coloring_trial(objective=BANK["objective"]))
    assert trial.evaluation.seeds == 3
    assert type(trial).model_validate(canonical(trial)) == trial
    assert coloring_trial(**BANK, evaluation={"seeds": 500, "votes": [2]}) == trial


def test_a_single_seed_model_has_no_bank():
    assert coloring_trial(**BANK, baseline="Aq_r0") == coloring_trial(baseline="Aq_r0")


def test_a_policy_gradient_compares_drawn_seeds_and_takes_no_bank():
    with pytest.raises(ValidationError, match="learned_seeds:"):
        coloring_trial(**BANK, task={"name": "gridworld"}, optimizer={"name": "policy_gradient"})
