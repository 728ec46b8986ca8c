"""One pack from its start or checkpoint to the commit of every trial in it.

This module joins numerics and store. It runs in any process: Ray is one way to call it. A `PackRun` moves in strides:
some steps of training for all lanes, or the evaluation and commit of one lane. After every stride the run can be
checkpointed. The state after the last step is checkpointed before the first commit, so that a death between two commits
repeats no training, or less than `SHORT` of it.

Invariants:
    - With a checkpoint the lanes are those of the checkpoint, even when some of their trials are committed already;
      without a checkpoint the lanes are the pending trials.
    - From a checkpoint of another network only the lanes are taken, and the training starts anew.
    - A checkpoint that is damaged, or of other code, programs or data, is not continued: the pack starts anew, as
      without a checkpoint, with a message.
    - A checkpoint has the name of the pack as planned, by which every later start looks for it (and by its trials, if
      it plans other packs: `checkpointed_trials`).
    - A segment of a training ends with the first stride that reaches the segment's last step. A checkpoint of a later
      step is not continued.
    - A row says `finished` or `stopped` only if the weights (all that a store would keep) and every metric of the kind
      are finite. Weights are looked at after the first stride, too: an infinity of the first state that stays is told
      then. Other parts of a state may be infinite. A metric of a plug-in that is not finite costs itself: the row has
      null.
    - A device that is out of memory costs what a death costs: the pack goes on from its checkpoint, with half as many
      lanes at a time. So does a program of several lanes that raises: from there on they are trained one by one.
"""

import contextlib
import dataclasses
import datetime
import itertools
import logging
import math
import time
from collections.abc import Collection, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from sweeper.events import PackProgressed
from sweeper.packs import checkpoint, device_memory, start_from
from sweeper.packs.checkpointed_trials import continued_checkpoint
from sweeper.packs.device_memory import ONE_BY_ONE, LaneChoice, chosen_lanes, halved, out_of_memory
from sweeper.packs.failures import kind_and_message
from sweeper.packs.pack_training import (
    PackTraining,
    after_stride,
    begun,
    evaluation_points,
    lane_curves,
    non_finite,
    without_infinities,
)
from sweeper.packs.packing import Pack, lane, stack
from sweeper.packs.plan import Run, Segment
from sweeper.space.early_stopping import TRAIN_LOSS, EarlyStopping
from sweeper.space.resources import Resources
from sweeper.store.store import Store, StoreError, TrialResult
from sweeper.training.identity import Identity, identity, of_row
from sweeper.training.kind import kind_of, trainer_of
from sweeper.training.named_weights import weights_of
from sweeper.training.trainer import Trainer, curve_names
from sweeper.trial import vectorisation
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.provenance import Provenance
from sweeper.trial.trial import Trial

logger = logging.getLogger(__name__)

SHORT = 1.0
"""Seconds of training that are trained again rather than saved just before they are committed."""


@dataclasses.dataclass(frozen=True)
class Destination:
    """Where rows and checkpoints go, and what is kept."""

    store: Store
    provenance: Provenance  # the origin, in every row
    checkpoint_seconds: float = 60.0  # longest training time that the death of a worker may cost
    outcomes: bool = True  # whether the outcome of every evaluation input is stored too
    networks: bool = True  # whether the weights of the network are stored too

    @classmethod
    def of(cls, store: Store, provenance: Provenance, resources: Resources) -> "Destination":
        """The destination of packs that are executed with these resources."""
        return cls(store, provenance, resources.checkpoint_seconds, resources.outcomes, resources.networks)


class PackRun(Run):
    """Trains, evaluates and commits the pending trials of a pack, from its checkpoint if the checkpoint fits."""

    def __init__(
        self,
        pack: Pack,
        pending: Collection[str],
        destination: Destination,
        trainer: Trainer | None = None,
        segment: Segment | None = None,
        room: float | None = None,
        early_stopping: EarlyStopping | None = None,
    ) -> None:
        """Begin with the pack as planned and the ids of its trials that are not committed yet.

        The trainer is by default that of the pack's optimiser, which needs this process alone, and the segment all of
        the training. As many lanes are trained at once as fit into `room`, bytes of an accelerator
        (`device_memory.room_for_lanes`); without it all lanes are, as on a CPU. What `early_stopping` names is
        evaluated while the pack trains; the caller decides what follows.
        """
        self.pack_id, self.destination, self.early_stopping = pack.pack_id, destination, early_stopping
        self.segment = segment or Segment(pack.trials[0].steps, "finish")
        self.identity = identity(pack.trials[0], destination.provenance.fingerprint(pack.trials[0]))
        # The checkpoint from which the run begins, and why another was not continued, in a few words
        self.continued, self.refused_checkpoint = continued_checkpoint(
            destination.store, pack, pending, self.segment, self.identity
        )
        saved = self.continued
        self.pack = pack.part(pending if saved is None else saved.trial_ids)  # the trials of the lanes
        self.trials = start_from.with_networks(destination.store, self.pack.trials)  # as programs need them
        self.stacked, self.trainer = stack(self.trials), trainer or trainer_of(self.pack.trials[0])
        self.training = begun(self.trainer, self.stacked, saved, self._networks)
        if saved is not None and self.training.step != saved.notes["step"]:
            self.refused_checkpoint = "does not fit the network"
        self.lane_choice: LaneChoice | None = None  # how many lanes are trained at once and why, if the run chose that
        if room is not None and self.training.step == 0 and self.training.lanes > 1:
            self.lane_choice = chosen_lanes(self.pack, self.trainer, room)
            self.training = dataclasses.replace(self.training, lanes=self.lane_choice.lanes)
        # Lanes that have no row yet
        self.pending = [index for index, name in enumerate(self.pack.trial_ids) if name in pending]
        self.rows = {}
        self.began = datetime.datetime.now(datetime.UTC)
        # Of the latest checkpoint
        self.saved_step, self.saved_at = self.training.step, time.monotonic()
        self.saved_seconds = self.training.seconds["train_seconds"]
        self.stopped = False  # whether the training ended before its last step, by `stop_early` or by the segment
        self.evaluated: tuple[int, float] | None = None  # step and value of the latest evaluation for early stopping
        if self.training.step >= self.segment.until:
            self._end_segment()  # an earlier run died between the last step and the first commit

    def _networks(self) -> PyTree:
        return start_from.networks(self.destination.store, self.pack.trials)

    def progress(self) -> PackProgressed:
        """Progress of the run."""
        lanes, seconds = len(self.pack.trials), self.training.seconds["train_seconds"]
        is_training = self.training.step < self.segment.until and not self.stopped
        return PackProgressed(
            pack_id=self.pack_id,
            phase="training" if is_training else "evaluating" if self.pending else "done",
            step=self.training.step,
            steps=self.segment.until,
            lanes=self.training.lanes,
            rows=dict(self.rows),
            train_loss=self._latest(TRAIN_LOSS),
            steps_per_second=self.training.step * lanes / seconds if seconds else 0.0,
            lanes_reason=None if self.lane_choice is None else self.lane_choice.reason,
            refused_checkpoint=self.refused_checkpoint,
            evaluated=self.evaluated,
        )

    def _latest(self, curve: str) -> float:
        """The latest value of a training curve; of a training without a curve of this name that of the first."""
        names = curve_names(self.trainer, self.stacked)
        return self.training.latest(names.index(curve) if curve in names else 0)

    def advance(self) -> PackProgressed:
        """One stride: some steps of training, or the evaluation and commit of one trial."""
        if self.progress().phase == "training":
            before, choice = self.training.step, None
            try:
                self.training = after_stride(self.trainer, self.stacked, self.training)
            except jax.errors.JaxRuntimeError as error:
                if self.training.lanes == 1:
                    raise
                choice = halved(self.training.lanes) if out_of_memory(error) else ONE_BY_ONE
            if choice is not None:
                self._take_up(choice)  # Not within `except`: the exception's frames hold arrays of the failed call.
                return self.advance()
            if before == 0:
                self.training = without_infinities(self.training, self.pack.trials)
            self._evaluate_if_due(before)
            waited = time.monotonic() - self.saved_at
            if self.training.step >= self.segment.until:
                self._end_segment()
            elif waited >= self.destination.checkpoint_seconds:
                self.checkpoint()
        elif self.pending:
            self._commit(self.pending[0])
            self.pending.pop(0)
        if not self.pending and self.segment.ending != "pause":
            self._forget_checkpoint()
        return self.progress()

    def _evaluate_if_due(self, before: int) -> None:
        """Evaluate every lane at the end of the first stride at or after each multiple of `Trial.evaluate_every`.

        For early stopping, too, if it watches no training curve: then the mean over the sound lanes is compared.
        """
        training, watched, begun = self.training, self.early_stopping, time.process_time()
        measured = self._passed(before, self.stacked.evaluate_every, self.stacked.steps)
        if watched is not None and not self._passed(before, watched.every, self.segment.until):
            watched = None
        if watched is not None and watched.metric in curve_names(self.trainer, self.stacked):
            self.evaluated, watched = (training.step, self._latest(watched.metric)), None
        if not measured and watched is None:
            return
        found = _metrics(self.trials, training)
        values = {name: [each.get(name, math.nan) for each in found] for name in dict.fromkeys(itertools.chain(*found))}
        if watched is not None:
            finite = [value for value in values.get(watched.metric, ()) if math.isfinite(value)]
            worst = math.inf if watched.mode == "min" else -math.inf
            self.evaluated = training.step, float(np.mean(finite)) if finite else worst
        evaluations = [*training.evaluations, (training.step, values)] if measured else training.evaluations
        seconds = training.seconds | {"cpu_seconds": training.seconds["cpu_seconds"] + time.process_time() - begun}
        self.training = dataclasses.replace(training, evaluations=evaluations, seconds=seconds)

    def _passed(self, before: int, every: int | None, end: int) -> bool:
        """Whether the stride from the step `before` has come to a multiple of `every`, and not to the end."""
        step = self.training.step
        return every is not None and step < end and step // every != before // every

    def _end_segment(self) -> None:
        """Do what is due at the last step of the segment, apart from evaluations."""
        match self.segment.ending:
            case "pause":
                self._save()
                failed = self.training.failed
                self.pending = [index for index in self.pending if failed[index]]
            case "stop" | "finish":
                self.stopped = self.training.step < self.stacked.steps
                if self._is_worth_a_checkpoint():
                    self.checkpoint()

    def _is_worth_a_checkpoint(self) -> bool:
        """Whether a death between two commits would cost more than a checkpoint.

        Of lanes that train together the number counts, which a checkpoint keeps once one of them is committed.
        """
        together = self.stacked.lanes_together or not vectorisation.in_turns()
        unsaved = self.training.seconds["train_seconds"] - self.saved_seconds
        return unsaved >= min(SHORT, self.destination.checkpoint_seconds) or (together and len(self.pending) > 1)

    def checkpoint(self) -> None:
        """Save the state, so that the next run of this pack goes on from here.

        A store that cannot be written gives a warning. The pack goes on, and later checkpoints are tried as usual.
        """
        try:
            self._save()
        except StoreError as error:
            logger.warning("pack %s has no checkpoint of step %d: %s", self.pack_id, self.training.step, error)
        self.saved_at = time.monotonic()

    def _save(self) -> None:
        if self.saved_step != self.training.step:
            training, store = self.training, self.destination.store
            checkpoint.save(store, self.pack_id, self.pack.trial_ids, self.identity, training.state, training.notes())
            self.saved_step, self.saved_seconds = training.step, training.seconds["train_seconds"]

    def _take_up(self, choice: LaneChoice) -> None:
        """Take the training up from its checkpoint; what the failed program had of the state is gone."""
        saved = self.continued
        if self.saved_step != (0 if saved is None else saved.notes["step"]):
            saved = checkpoint.load(self.destination.store, self.pack_id)
        training = begun(self.trainer, self.stacked, saved, self._networks)
        self.lane_choice, self.training = choice, dataclasses.replace(training, lanes=choice.lanes)
        self.saved_step, self.saved_seconds = training.step, training.seconds["train_seconds"]

    def _forget_checkpoint(self) -> None:
        """Removes the checkpoint of a pack whose rows are committed; a checkpoint that stays does no harm."""
        try:
            checkpoint.remove(self.destination.store, self.pack_id)
        except StoreError as error:
            logger.warning("the checkpoint of pack %s stays: %s", self.pack_id, error)

    def stop_early(self) -> None:
        """Evaluate and commit the trials as trained so far, with the status "stopped"."""
        self.stopped = self.training.step < self.stacked.steps
        while self.pending:
            self.advance()

    def _commit(self, index: int) -> None:
        curves = lane_curves(self.trainer, self.stacked, self.training, index)
        found = _lane_result(self.trials[index], self.training, index, self.identity, curves)
        wanted = {"outcomes": self.destination.outcomes, "network": self.destination.networks}
        found.setdefault("status", "stopped" if self.stopped else "finished")
        row = TrialResult(
            trial=self.pack.trials[index],
            provenance=self.destination.provenance,
            pack_id=self.pack_id,
            lanes=self.training.lanes,
            device=jax.devices()[0].device_kind,
            arithmetic=" ".join(self.training.arithmetics),
            data=self.identity.data,
            started=self.began,
            finished=datetime.datetime.now(datetime.UTC),
            **{name: value for name, value in found.items() if wanted.get(name, True)},
        )
        self.destination.store.commit(row)
        self.rows[self.pack.trial_ids[index]] = row.status


def _lane_result(
    trial: Trial, training: PackTraining, index: int, identity: Identity, curves: Sequence[tuple[int, str, float]]
) -> dict[str, Any]:
    """What a `TrialResult` has of a lane that was trained: metrics, outcomes, network and timings, or its error.

    The trial has the networks that it needs; the last point of a training curve becomes a metric.
    """
    kind, step = kind_of(trial), training.lane_steps[index]
    earlier = evaluation_points(training, index)
    found: dict[str, Any] = {"curves": [*curves, *earlier]}

    def failed(kind: str, message: str, step: int) -> dict[str, Any]:
        error = {"kind": kind, "message": message, "step": step}
        return found | {"status": "failed", "error": error, "timings": _timings(training, step)}

    if (raised := training.raised[index]) is not None:
        return failed(*raised)
    if failure := int(np.asarray(training.state.failure)[index]):
        reason, place = kind.trainer(trial).failure(trial, failure)
        return failed(reason, f"{reason} at step {step}" + (f": {place}" if place else ""), step)
    network = lane(training.state.network, index)
    kept = kind.kept(trial, network)
    if (spoilt := non_finite(trial, network)) is not None:
        # The last update may have made weights infinite, and no further step has shown it.
        message = f"non-finite weights after step {training.step}: {spoilt}"
        return failed("non-finite weights", message, training.step)
    begun, cpu_begun = time.monotonic(), time.process_time()
    try:
        metrics, outcomes, program = kind.evaluate(trial, network, step)
    except ContractError as error:
        return failed("broken contract", str(error), training.step)
    except jax.errors.JaxRuntimeError as error:  # of a function that the program calls
        if out_of_memory(error):
            raise
        return failed(*kind_and_message(error), training.step)
    found["programs"] = of_row(identity, program)
    if trial.evaluate_every is not None:  # a trial that was stopped here may have been evaluated here before
        before = [point for point in earlier if point[0] != step]
        found["curves"] = [*curves, *before, *((step, name, value) for name, value in metrics.items())]
    metrics |= kind.final({name: value for _, name, value in curves})
    if spoilt := [name for name in trial.DECLARED.metrics if not math.isfinite(metrics.get(name, 0.0))]:
        return failed("non-finite evaluation", f"non-finite {', '.join(spoilt)}", training.step)
    weights, spent = weights_of(kept), (time.monotonic() - begun, time.process_time() - cpu_begun)
    timings = _timings(training, training.step, *spent)
    return found | {"metrics": metrics, "outcomes": outcomes, "network": weights, "timings": timings}


def _metrics(trials: Sequence[Trial], training: PackTraining) -> list[dict[str, float]]:
    """The metrics of every lane now, by the protocol of each trial; none of a lane that has failed, or will fail."""
    found: list[dict[str, float]] = []
    for index, trial in enumerate(trials):
        metrics: dict[str, float] = {}
        if not training.failed[index]:
            with contextlib.suppress(ContractError, jax.errors.JaxRuntimeError):  # the row will say so
                metrics = kind_of(trial).evaluate(trial, lane(training.state.network, index), training.step).metrics
        found.append(metrics)
    return found


def _timings(
    training: PackTraining, step: int, evaluation_seconds: float | None = None, evaluation_cpu_seconds: float = 0.0
) -> dict[str, float]:
    """The timings of one lane, which has its share of those of the pack."""
    seconds = {name: value / len(training.lane_steps) for name, value in training.seconds.items()}
    if evaluation_seconds is not None:
        seconds["evaluation_seconds"] = evaluation_seconds
    wall = sum(seconds.get(f"{part}_seconds", 0.0) for part in ("compile", "train", "evaluation"))
    return seconds | {
        "cpu_seconds": seconds["cpu_seconds"] + evaluation_cpu_seconds,
        "wall_seconds": wall,
        "steps_done": float(step),
        "steps_per_second": step / seconds["train_seconds"] if seconds["train_seconds"] else 0.0,
        "peak_memory_bytes": float(device_memory.peak_bytes()),
    }
