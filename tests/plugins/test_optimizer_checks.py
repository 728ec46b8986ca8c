"""`sweeper check optimizers/x.py` trains some steps: weights move, are finite, and do not depend on a lane's place."""

import itertools
from typing import Literal

import jax
import numpy as np
import optax
import pytest

from sweeper.learned_algorithms.checks import suite
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.optimizer_contract import GradientOptimizer
from tests.trials import coloring_trial


class Sound(GradientOptimizer):
    name: Literal["sound"] = "sound"

    def transformation(self, steps: int) -> optax.GradientTransformation:
        return optax.sgd(0.1)


class Idle(Sound):
    def transformation(self, steps: int) -> optax.GradientTransformation:
        return optax.set_to_zero()


class Infinite(Sound):
    def transformation(self, steps: int) -> optax.GradientTransformation:
        return optax.scale(float("inf"))


class Misspelt(Sound):
    def transformation(self, steps: int) -> optax.GradientTransformation:
        return optax.sdg(0.1)  # type: ignore[attr-defined]


class Counting(Sound):
    """Moves a lane the further, the more lanes and steps were there before."""

    def transformation(self, steps: int) -> optax.GradientTransformation:
        rate = jax.pure_callback(lambda: np.float32(next(CALLS)), jax.ShapeDtypeStruct((), np.float32))
        return optax.chain(optax.sgd(0.1), optax.scale(rate))


CALLS = itertools.count(1)


def example(optimizer: GradientOptimizer, steps: int = 3) -> suite.Example:
    trial = coloring_trial(steps=steps)
    return suite.Example(trial.model_copy(update={"optimizer": optimizer}))


@pytest.mark.long  # each optimiser is a program
def test_a_sound_optimiser_passes_and_a_trial_of_one_step_is_no_example_of_one():
    suite.check_training(example(Sound()))
    suite.check_training(example(Misspelt(), steps=1))


LONG = [pytest.param(kind, marks=pytest.mark.long) for kind in (Idle, Infinite, Counting)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Misspelt, *LONG])
def test_an_optimiser_that_does_not_train_is_told_with_its_method(kind):
    with pytest.raises(ContractError, match=r"test_optimizer_checks\.py, line \d+: transformation "):
        suite.check_training(example(kind()))


@pytest.mark.slow
def test_a_file_of_optimizers_is_checked_by_trials_that_train():
    assert all(trial.steps > 1 for trial in suite.examples("optimizer", "lion"))
    assert all(trial.steps == 1 for trial in suite.examples("objective", "cvar"))
    assert "training of coloring with sound" in suite.further_checks(example(Sound()).trial)
