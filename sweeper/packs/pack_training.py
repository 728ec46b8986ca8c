"""The training of a pack: a record of its state, and the function that takes the training one stride further.

A `PackTraining` is all that a checkpoint holds. `begun`, `restored` and `after_stride` make a `PackTraining`. No store
is touched here.

A device may be too small for all lanes. Then some lanes at a time train a stride, group after group, and the state of
all lanes stays together.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from sweeper.packs.checkpoint import Checkpoint
from sweeper.training import arithmetic, compilation
from sweeper.training.kind import trainer_of
from sweeper.training.trainer import Trainer, TrainerState, curve_names
from sweeper.trial.trial import Trial

CURVE_POINTS = 200
"""The stored curve of a whole training has at most so many points; each is a mean over `curve_window` steps."""

Point = list[list[float]]
"""Values of the training curves, `[curve][lane]`."""


@dataclasses.dataclass(frozen=True)
class PackTraining:
    """The state of the training of a pack between two strides."""

    state: TrainerState  # the trainer's state, with a leading lane axis
    step: int  # steps done; if every lane has failed, the steps of the trial, because nothing is left to train
    curves: list[Point]  # the points of the training curves so far
    strides: list[Point]  # means over each stride since the last point
    # Metrics of the evaluations so far, `[metric][lane]` by step; see `Trial.evaluate_every`
    evaluations: list[tuple[int, dict[str, list[float]]]]
    seconds: dict[str, float]  # `train_seconds`, `compile_seconds` and `cpu_seconds` of the whole pack so far
    lane_steps: list[int]  # steps done of each lane, fewer than `step` where a lane has failed
    lanes: int  # lanes that one call of the trainer's program trains, at most all
    arithmetics: list[str]  # of the processes that have trained, the first one first

    def notes(self) -> dict[str, Any]:
        """Everything but the trainer's state, as plain data."""
        notes = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del notes["state"]
        return notes

    def latest(self, curve: int) -> float:
        """Mean over the sound lanes at the last point of a curve, by its place; NaN before the first point."""
        if not self.curves:
            return math.nan
        values = np.asarray(self.curves[-1][curve])  # a lane that has failed may have kept a finite one
        sound = values[np.isfinite(values) & (np.asarray(self.state.failure) == 0)]
        return float(sound.mean()) if sound.size else math.nan


def begun(
    trainer: Trainer[Any], trials: Trial, saved: Checkpoint | None, networks: Callable[[], PyTree] = lambda: None
) -> PackTraining:
    """The training of stacked trials, continued from the checkpoint, or before its first step if no checkpoint fits.

    `networks` gives those that the trials start from, see `Trainer.start`; a checkpoint needs none.
    """
    compiled = compilation.seconds()
    lanes = len(np.asarray(trials.seed))
    if saved is not None and (kept := saved.state(like=trainer.start(trials))) is not None:
        continued = restored(kept, saved.notes)
        lanes = min(continued.lanes, lanes)  # the checkpoint may be of a larger pack
        return dataclasses.replace(continued, lanes=lanes, arithmetics=_with_own(continued.arithmetics))
    state = trainer.start(trials, networks())
    seconds = {"train_seconds": 0.0, "compile_seconds": compilation.seconds() - compiled, "cpu_seconds": 0.0}
    return PackTraining(
        state,
        step=0,
        curves=[],
        strides=[],
        evaluations=[],
        seconds=seconds,
        lane_steps=[0] * lanes,
        lanes=lanes,
        arithmetics=arithmetic.used(),
    )


def _with_own(arithmetics: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*arithmetics, *arithmetic.used()]))


def restored(state: Any, notes: Mapping[str, Any]) -> PackTraining:
    """The training with this state and these `PackTraining.notes`."""
    evaluations = [(step, values) for step, values in notes["evaluations"]]
    return PackTraining(state=state, **{**notes, "evaluations": evaluations})


def makes_sense(saved: Checkpoint, trial: Trial) -> bool:
    """Whether a checkpoint is such as this code writes for trials of this form; its code may be another."""
    names = {field.name for field in dataclasses.fields(PackTraining)} - {"state"}
    curves = len(curve_names(trainer_of(trial), trial))
    return saved.notes.keys() == names and all(
        len(point) == curves for point in (*saved.notes["curves"], *saved.notes["strides"])
    )


def after_stride(trainer: Trainer[Any], trials: Trial, training: PackTraining) -> PackTraining:
    """The training one stride further; the memory of the earlier state may be used again."""
    wall_begun, cpu_begun, compiled_before = time.monotonic(), time.process_time(), compilation.seconds()
    interval = trainer.curve_interval(trials)  # a point of a curve is no mean over parts of strides
    length = min(trainer.stride_steps, interval - training.step % interval, trials.steps - training.step)
    state, means = _stride(trainer, trials, training, length)
    step = training.step + length
    strides = [*training.strides, [np.asarray(values).tolist() for values in jax.tree.leaves(means)]]  # waits for it
    curves = training.curves
    if step % interval == 0 or step == trials.steps:
        curves, strides = [*curves, _mean(strides, length / trainer.stride_steps)], []
    if np.all(np.asarray(state.failure) > 0):
        step = trials.steps
    compiled = compilation.seconds() - compiled_before
    spent = {
        "train_seconds": time.monotonic() - wall_begun - compiled,
        "compile_seconds": compiled,
        "cpu_seconds": time.process_time() - cpu_begun,
    }
    seconds = {name: value + spent[name] for name, value in training.seconds.items()}
    lane_steps = np.asarray(state.step).tolist()
    return dataclasses.replace(
        training,
        state=state,
        step=step,
        curves=curves,
        strides=strides,
        seconds=seconds,
        lane_steps=lane_steps,
        arithmetics=_with_own(training.arithmetics),  # of a population that runs elsewhere, too
    )


def curve_window(trainer: Trainer[Any], trials: Trial) -> int:
    """Steps from one point of a stored curve to the next.

    They depend on the steps of the whole training. So a training that was stopped has the points that it would have had
    if it had gone on.
    """
    interval = trainer.curve_interval(trials)
    return interval * -(-trials.steps // (interval * CURVE_POINTS))


def notes_of_lanes(notes: Mapping[str, Any], lanes: Sequence[int]) -> dict[str, Any]:
    """The part of all lanes' `PackTraining.notes` that belongs to some lanes, with their share of the time."""
    share = len(lanes) / len(notes["lane_steps"])

    def part(points: Iterable[Point]) -> list[Point]:
        return [[[values[lane] for lane in lanes] for values in point] for point in points]

    return {
        **notes,
        "curves": part(notes["curves"]),
        "strides": part(notes["strides"]),
        "evaluations": [
            (step, {name: [values[lane] for lane in lanes] for name, values in metrics.items()})
            for step, metrics in notes["evaluations"]
        ],
        "seconds": {name: value * share for name, value in notes["seconds"].items()},
        "lane_steps": [notes["lane_steps"][lane] for lane in lanes],
    }


def _stride(
    trainer: Trainer[Any], trials: Trial, training: PackTraining, length: int
) -> tuple[TrainerState, tuple[Any, ...]]:
    """`Trainer.stride` of all lanes, `training.lanes` at a time.

    The last group is filled up with lanes of the group before, whose results are left out: one program serves all.
    """
    size, everything = training.lanes, len(training.state.failure)
    if size >= everything:
        return trainer.stride(trials, training.state, length)
    stacked = jax.tree.map(np.asarray, (trials, training.state))
    groups = []
    for first in range(0, everything, size):
        begin = min(first, everything - size)
        part, state = jax.tree.map(lambda leaf, at=begin: leaf[at : at + size], stacked)
        group = trainer.stride(part, state, length)
        groups.append(jax.tree.map(lambda leaf, new=first - begin: np.asarray(leaf)[new:], group))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *groups)


def lane_curves(
    trainer: Trainer[Any], trials: Trial, training: PackTraining, lane: int
) -> list[tuple[int, str, float]]:
    """Step, name and value of the curve points of one lane; a point stands at the end of the steps that it averages."""
    points = training.curves + ([_mean(training.strides)] if training.strides else [])
    interval = trainer.curve_interval(trials)
    width = curve_window(trainer, trials) // interval
    curves = []
    for start in range(0, len(points), width):
        averaged = points[start : start + width]
        step = min((start + len(averaged)) * interval, training.step)
        for position, name in enumerate(curve_names(trainer, trials)):
            curves.append((step, name, float(np.mean([point[position][lane] for point in averaged]))))
    return curves


def evaluation_points(training: PackTraining, lane: int) -> list[tuple[int, str, float]]:
    """Step, metric and value of the evaluations of one lane while it trained, as far as they are finite."""
    return [
        (step, name, values[lane])
        for step, metrics in training.evaluations
        for name, values in metrics.items()
        if math.isfinite(values[lane])
    ]


def _mean(points: list[Point], last: float = 1.0) -> Point:
    """The mean over strides, of which the last is this part of the length of the others."""
    if len(points) == 1 or last == 1:
        return np.mean(points, axis=0).tolist()
    return np.average(points, axis=0, weights=[1.0] * (len(points) - 1) + [last]).tolist()
