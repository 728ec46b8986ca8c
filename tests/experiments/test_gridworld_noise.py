"""Normal noise that chooses among the walks of a teacher."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sweeper
from experiments.gridworld_noise import Experiment
from sweeper.trial import plugins
from sweeper.trial.experiment_contract import Step
from sweeper.trial.experiment_trial import ExperimentTrial
from sweeper.trial.trained import Trained

PUBLISHED = str(plugins.ROOT / "published")
STEPS = 400


@pytest.fixture(scope="module")
def experiment():
    """Its teacher is the published one of 3 × 3, which costs 8 on its worst treasure."""
    of = "sweep = 'gridworld_best_responses' and experiment_height = 3 and seed = 0"
    rows = sweeper.sql(f"select trial_id from trials join sweeps using (trial_id) where {of}", PUBLISHED)
    taught = sweeper.load(rows["trial_id"][0], PUBLISHED)
    assert isinstance(taught.trial, ExperimentTrial)
    teacher = Trained.model_construct(
        trial="0" * 20, setting="0" * 20, experiment=taught.trial.experiment, steps=1, kept=taught.network
    )
    return Experiment(teacher=Trained(trial="0" * 20), noise=4, groups=2).model_copy(update={"teacher": teacher})


def test_each_token_is_meant_as_often_as_the_teacher_plays_it(experiment):
    r = jax.random.normal(jax.random.key(0), (100_000, 4))
    shares = np.bincount(experiment.token_of(r), minlength=9) / len(r)
    np.testing.assert_allclose(shares, np.asarray(experiment.teacher.network["seeds"]) / 512, atol=0.01)


@pytest.mark.slow
def test_the_walks_of_the_teacher_are_learned_with_their_names(experiment):
    def at(index):
        return Step(jax.random.fold_in(jax.random.key(2), index), index, STEPS, None)

    def evaluated(state):
        made = experiment.evaluate(state, at(0))
        return {name: float(value) for name, value in made.metrics.items()}, made.outcomes

    state = experiment.init(at(0))
    fresh, _ = evaluated(state)
    step = jax.jit(lambda state, index: experiment.step(state, at(index))[0])
    for index in range(STEPS):
        state = step(state, jnp.int32(index))
    learned, outcomes = evaluated(state)
    assert learned["meant_worst"] == fresh["meant_worst"] == pytest.approx(8, abs=0.3)
    assert fresh["meant"] < 0.5
    assert learned["meant"] > 0.9
    assert learned["chosen_worst"] == pytest.approx(learned["meant_worst"], abs=0.3)
    assert learned["loss_worst"] == pytest.approx(learned["meant_worst"], abs=0.3)
    assert learned["loss_worst"] < fresh["loss_worst"] - 2
    assert learned["loss_worst"] == outcomes["loss"].max()
