"""Some steps of a trial tell how long it takes."""

import time

import pytest

from sweeper.analysis import cost
from sweeper.training import compilation
from tests.trials import coloring_trial

pytestmark = pytest.mark.slow  # compiles


@pytest.fixture(scope="module")
def compiled() -> None:
    """The programs of the trial are there."""
    cost.timed(coloring_trial(), least_seconds=0.0)


def test_a_trial_is_timed_without_its_compilation(compiled):
    before, begun = compilation.cpu_seconds(), time.process_time()
    assert before > 0
    timing = cost.timed(coloring_trial(seed=1), least_seconds=0.0)
    spent = time.process_time() - begun
    assert compilation.cpu_seconds() == before
    assert 0 < timing.step * 100 + timing.evaluation <= spent


def test_no_more_steps_are_timed_than_a_trial_has(compiled):
    assert cost.timed(coloring_trial(), least_seconds=1e9).step > 0, "and it ends"
