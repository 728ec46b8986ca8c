"""The training of a pack: a record of where it stands, and the function that takes it one stride further.

A `PackTraining` is all that a checkpoint holds. Three functions make it: `started`, `restored` and
`after_stride`. No store is touched here.
"""

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweeper.training import compilation
from sweeper.training.trainer import Trainer, TrainerState
from sweeper.trial.trial_spec import TrialSpec

CURVE_POINTS = 200
"""A stored curve has at most so many points; each is the mean of as many intervals as that takes."""

Point = list[list[float]]
"""Values of the training curves, `[curve][lane]`."""


@dataclasses.dataclass(frozen=True)
class PackTraining:
    """Where the training of a pack stands, between two strides.

    Attributes:
        state: The trainer's state, with a leading lane axis.
        step: Steps done; the trial's steps once every lane has failed, because nothing is left to train.
        curves: The points of the training curves so far.
        strides: Means over each stride since the last point.
        seconds: `train_seconds`, `compile_seconds` and `cpu_seconds` of the whole pack so far.
    """

    state: TrainerState
    step: int
    curves: list[Point]
    strides: list[Point]
    seconds: dict[str, float]

    def notes(self) -> dict[str, Any]:
        """Everything but the trainer's state, as plain data."""
        return {"curves": self.curves, "strides": self.strides, "seconds": self.seconds, "step": self.step}

    def train_loss(self) -> float:
        """Mean over the sound lanes at the last point of the curve; NaN before the first point."""
        values = np.asarray(self.curves[-1][0]) if self.curves else np.array([])
        finite = values[np.isfinite(values)]
        return float(finite.mean()) if finite.size else float("nan")


def started(trainer: Trainer, trials: TrialSpec) -> PackTraining:
    """The training of stacked trials before its first step."""
    compiled = compilation.seconds()
    state = trainer.start(trials)
    seconds = {"train_seconds": 0.0, "compile_seconds": compilation.seconds() - compiled, "cpu_seconds": 0.0}
    return PackTraining(state=state, step=0, curves=[], strides=[], seconds=seconds)


def restored(state: TrainerState, notes: Mapping[str, Any]) -> PackTraining:
    """The training with this state and these `PackTraining.notes`."""
    return PackTraining(state=state, **notes)


def after_stride(trainer: Trainer, trials: TrialSpec, training: PackTraining) -> PackTraining:
    """The training one stride further; the memory of the earlier state may be used again."""
    begun, cpu_begun, compiled_before = time.monotonic(), time.process_time(), compilation.seconds()
    length = min(trainer.stride_steps, trials.steps - training.step)
    state, means = trainer.stride(trials, training.state, length)
    step = training.step + length
    strides = [*training.strides, [np.asarray(values).tolist() for values in means]]  # waits for the stride
    curves = training.curves
    if step % trainer.curve_interval(trials) == 0 or step == trials.steps:
        curves, strides = [*curves, _mean(strides)], []
    if np.all(np.asarray(state.failure) > 0):
        step = trials.steps
    compiled = compilation.seconds() - compiled_before
    spent = {
        "train_seconds": time.monotonic() - begun - compiled,
        "compile_seconds": compiled,
        "cpu_seconds": time.process_time() - cpu_begun,
    }
    seconds = {name: value + spent[name] for name, value in training.seconds.items()}
    return PackTraining(state=state, step=step, curves=curves, strides=strides, seconds=seconds)


def lane_curves(trainer: Trainer, trials: TrialSpec, training: PackTraining, lane: int) -> list[tuple[int, str, float]]:
    """Step, name and value of the curve points of one lane; a point stands at the end of the steps that it averages."""
    points = training.curves + ([_mean(training.strides)] if training.strides else [])
    width = -(-len(points) // CURVE_POINTS) or 1
    interval = trainer.curve_interval(trials)
    curves = []
    for start in range(0, len(points), width):
        averaged = points[start : start + width]
        step = min((start + len(averaged)) * interval, training.step)
        for position, name in enumerate(trainer.curves):
            curves.append((step, name, float(np.mean([point[position][lane] for point in averaged]))))
    return curves


def _mean(points: list[Point]) -> Point:
    return np.mean(points, axis=0).tolist()
