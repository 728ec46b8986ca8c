"""Some steps of a trial tell how long it takes."""

import dataclasses
import time

from sweeper.packs import trial_timing
from sweeper.training import compilation
from tests.trials import coloring_trial


def test_a_trial_is_timed_without_its_compilation(monkeypatch):
    monkeypatch.setattr(trial_timing, "LEAST_SECONDS", 0.0)
    trial_timing.timed(coloring_trial())
    compiled, begun = compilation.cpu_seconds(), time.process_time()
    assert compiled > 0
    timing = trial_timing.timed(coloring_trial(seed=1))
    spent = time.process_time() - begun
    assert compilation.cpu_seconds() == compiled
    assert 0 < timing.step * 100 + timing.evaluation <= spent


def test_no_more_steps_are_timed_than_a_trial_has(monkeypatch):
    strides = []
    real = trial_timing.trainer_of

    def counting(trial):
        trainer = real(trial)
        return dataclasses.replace(
            trainer, stride=lambda *arguments: strides.append(arguments[2]) or trainer.stride(*arguments)
        )

    monkeypatch.setattr(trial_timing, "trainer_of", counting)
    monkeypatch.setattr(trial_timing, "LEAST_SECONDS", 1e9)
    trial_timing.timed(coloring_trial(steps=250))
    assert strides == [100, 100]
