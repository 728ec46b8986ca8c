"""The training of a pack: a record of its state, and the function that takes the training one stride further.

A `PackTraining` is all that a checkpoint holds. `begun`, `restored` and `after_stride` make a `PackTraining`. No store
is touched here.

A device may be too small for all lanes. Then some lanes at a time train a stride, group after group, and the state of
all lanes stays together.

A function that a program calls (`jax.pure_callback`, `equinox.error_if`) may raise, and the program of several lanes
does not say for which. Lanes that are trained one by one are marked when they raise, and stay as they were before.
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
from sweeper.packs.device_memory import out_of_memory
from sweeper.packs.failures import PluginRaised, kind_and_message
from sweeper.packs.packing import lane
from sweeper.training import arithmetic, compilation
from sweeper.training.kind import kind_of, trainer_of
from sweeper.training.named_weights import weights_of
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
    raised: list[list[Any] | None]  # for each lane that has failed by more than a number: kind, message and step

    def notes(self) -> dict[str, Any]:
        """Everything but the trainer's state, as plain data."""
        notes = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del notes["state"]
        return notes

    @property
    def failed(self) -> np.ndarray:
        """Whether each lane has failed, `[lane]`."""
        return (np.asarray(self.state.failure) > 0) | np.array([error is not None for error in self.raised])

    def latest(self, curve: int) -> float:
        """Mean over the sound lanes at the last point of a curve, by its place; NaN before the first point."""
        if not self.curves:
            return math.nan
        values = np.asarray(self.curves[-1][curve])  # a lane that has failed may have kept a finite one
        sound = values[np.isfinite(values) & ~self.failed]
        return float(sound.mean()) if sound.size else math.nan


def begun(
    trainer: Trainer[Any], trials: Trial, saved: Checkpoint | None, networks: Callable[[], PyTree] = lambda: None
) -> PackTraining:
    """The training of stacked trials, continued from the checkpoint, or before its first step if no checkpoint fits.

    `networks` gives those that the trials start from, see `Trainer.start`; a checkpoint needs none.
    """
    compiled = compilation.seconds()
    lanes = len(np.asarray(trials.seed))
    if saved is not None:
        first, arguments = next(iter(trainer.programs(trials)))
        if (kept := saved.state(like=jax.eval_shape(first, *arguments))) is not None:
            continued = restored(kept, saved.notes)
            lanes = min(continued.lanes, lanes)  # the checkpoint may be of a larger pack
            return dataclasses.replace(continued, lanes=lanes, arithmetics=_with_own(continued.arithmetics))
    state, raised = _first_state(trainer, trials, networks())
    return PackTraining(
        state,
        step=0,
        curves=[],
        strides=[],
        evaluations=[],
        seconds={"train_seconds": 0.0, "compile_seconds": compilation.seconds() - compiled, "cpu_seconds": 0.0},
        lane_steps=[0] * lanes,
        lanes=1 if any(raised) else lanes,
        arithmetics=arithmetic.used(),
        raised=raised,
    )


def _first_state(trainer: Trainer[Any], trials: Trial, networks: PyTree) -> tuple[TrainerState, list[list[Any] | None]]:
    """The state before the first step, and what was raised by the lanes that have none; others stand in for them."""
    everything = range(len(np.asarray(trials.seed)))
    try:
        return jax.block_until_ready(trainer.start(trials, networks)), [None for _ in everything]
    except jax.errors.JaxRuntimeError as error:
        if len(everything) == 1 or out_of_memory(error):
            raise
    own = (jax.tree.map(lambda leaf, at=lane: np.asarray(leaf)[[at]], (trials, networks)) for lane in everything)
    found = [_tried(0, trainer.start, *arguments) for arguments in own]
    sound = [state for state, _ in found if state is not None]
    if not sound:
        raise PluginRaised(": ".join(next(error[:2] for _, error in found if error is not None)))
    states = [sound[0] if state is None else state for state, _ in found]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *states), [error for _, error in found]


def _tried(step: int, function: Callable[..., Any], *arguments: Any) -> tuple[Any, list[Any] | None]:
    """What a program gives for one lane, on the host; or what it raises after so many steps (`PackTraining.raised`)."""
    try:
        return jax.tree.map(np.asarray, function(*arguments)), None
    except jax.errors.JaxRuntimeError as error:
        if out_of_memory(error):
            raise
        return None, [*kind_and_message(error), step]


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
    state, means, raised = _stride(trainer, trials, training, length)
    step = training.step + length
    strides = [*training.strides, [np.asarray(values).tolist() for values in jax.tree.leaves(means)]]  # waits for it
    curves = training.curves
    if step % interval == 0 or step == trials.steps:
        curves, strides = [*curves, _mean(strides, length / trainer.stride_steps)], []
    moved = dataclasses.replace(training, state=state, raised=raised)
    if moved.failed.all():
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
        moved,
        step=step,
        curves=curves,
        strides=strides,
        seconds=seconds,
        lane_steps=lane_steps,
        arithmetics=_with_own(training.arithmetics),  # of a population that runs elsewhere, too
    )


def non_finite(trial: Trial, network: PyTree) -> str | None:
    """The first number of what a store would keep of the network of a trial that is not finite; None if all are."""
    for name, leaf in weights_of(kind_of(trial).kept(trial, network)).items():
        if not (finite := np.isfinite(leaf)).all():
            return f"{name} has {leaf[~finite].ravel()[0]}"
    return None


def without_infinities(training: PackTraining, trials: Sequence[Trial]) -> PackTraining:
    """The training after its first stride; lanes whose weights are not finite have failed."""
    raised = list(training.raised)
    for index in map(int, np.flatnonzero(~training.failed)):
        if (spoilt := non_finite(trials[index], lane(training.state.network, index))) is not None:
            step = training.lane_steps[index]
            raised[index] = ["non-finite weights", f"non-finite weights after step {step}: {spoilt}{ADVICE}", step]
    training = dataclasses.replace(training, raised=raised)
    return dataclasses.replace(training, step=trials[0].steps) if training.failed.all() else training


ADVICE = "; what `network` keeps of a state must be finite: leave it out there, or begin with a large number"


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
        "raised": [notes["raised"][lane] for lane in lanes],
    }


def _stride(
    trainer: Trainer[Any], trials: Trial, training: PackTraining, length: int
) -> tuple[TrainerState, Any, list[list[Any] | None]]:
    """`Trainer.stride` of all lanes, `training.lanes` at a time, and what lanes have raised that are trained alone.

    A group is filled up with its first lane, whose second results are left out: one program serves all.
    """
    everything, size, raised = len(training.raised), training.lanes, list(training.raised)
    if size == everything:
        return *trainer.stride(trials, training.state, length), raised
    stacked, state = jax.tree.map(np.array, (trials, training.state))
    means = [np.full(everything, np.nan, np.float32) for _ in curve_names(trainer, trials)]
    for lanes in (list(range(everything))[first : first + size] for first in range(0, everything, size)):
        filled = [*lanes, *lanes[:1] * (size - len(lanes))]
        own, before = jax.tree.map(lambda leaf, at=filled: leaf[at], (stacked, state))
        if size > 1:
            found = trainer.stride(own, before, length)
        elif raised[lanes[0]] is not None:
            continue
        else:
            found, raised[lanes[0]] = _tried(training.step, trainer.stride, own, before, length)
        if found is not None:
            after = jax.tree.leaves((found[0], jax.tree.leaves(found[1])))
            for whole, part in zip(jax.tree.leaves((state, means)), after, strict=True):
                whole[lanes] = np.asarray(part)[: len(lanes)]
    return state, means, raised


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
