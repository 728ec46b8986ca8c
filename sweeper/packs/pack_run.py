"""One pack from its start or checkpoint to the commit of every trial in it.

This module joins numerics and store. It runs in any process: Ray is one way to call it. A `PackRun` moves in strides:
some steps of training for all lanes, or the evaluation and commit of one lane. After every stride the run can be
checkpointed. The state after the last step is checkpointed before the first commit, so that a death between two commits
repeats no training.

Invariants:
    - With a checkpoint the lanes are those of the checkpoint, even when some of their trials are committed already;
      without a checkpoint the lanes are the pending trials.
    - From a checkpoint of another network only the lanes are taken, and the training starts anew.
    - A checkpoint of other code is not continued: the pack starts anew, as without a checkpoint, with a message.
    - A checkpoint has the name of the pack as planned, by which every later start looks for it (and by its trials, if
      it plans other packs: `checkpointed_trials`).
    - A segment of a training ends with the first stride that reaches the segment's last step. A checkpoint of a later
      step is not continued.
    - A device that is out of memory costs what a death costs: the pack goes on from its checkpoint, with half as many
      lanes at a time.
"""

import dataclasses
import datetime
import logging
import time
from collections.abc import Collection

import jax
import numpy as np

from sweeper.events import PackProgressed
from sweeper.packs import checkpoint, device_memory
from sweeper.packs.checkpoint import Checkpoint
from sweeper.packs.checkpointed_trials import continued_checkpoint
from sweeper.packs.device_memory import LaneChoice, chosen_lanes, halved, out_of_memory
from sweeper.packs.lane_result import lane_result, mean_metric
from sweeper.packs.pack_training import PackTraining, after_stride, begun, lane_curves
from sweeper.packs.packing import Pack, stack
from sweeper.packs.plan import Segment
from sweeper.space.early_stopping import TRAIN_LOSS, EarlyStopping
from sweeper.space.resources import Resources
from sweeper.store.store import Status, Store, StoreError, TrialResult
from sweeper.training.trainer import Trainer
from sweeper.training.trainers import trainer_of
from sweeper.trial.provenance import Provenance
from sweeper.trial.trial_spec import TrialSpec

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Destination:
    """Where rows and checkpoints go, and what is kept.

    Attributes:
        store: The results store.
        provenance: The origin, in every row.
        checkpoint_seconds: Longest training time that the death of a worker may cost.
        outcomes: Whether the outcome of every evaluation input is stored too.
        networks: Whether the weights of the network are stored too.
    """

    store: Store
    provenance: Provenance
    checkpoint_seconds: float = 60.0
    outcomes: bool = True
    networks: bool = True

    @classmethod
    def of(cls, store: Store, provenance: Provenance, resources: Resources) -> "Destination":
        """The destination of packs that are executed with these resources."""
        return cls(store, provenance, resources.checkpoint_seconds, resources.outcomes, resources.networks)


@dataclasses.dataclass
class PackRun:
    """Trains, evaluates and commits the pending trials of a pack; made by `opened`.

    Attributes:
        pack_id: Id of the pack as planned.
        pack: The trials of the lanes.
        stacked: These trials, stacked along the lane axis.
        trainer: Trains them.
        destination: Where results and checkpoints go.
        training: Where the training stands.
        pending: Lanes that have no row yet.
        began: Time at which this run began.
        rows: Status of every trial that this run has committed, by id.
        segment: The part of the training that is to be done.
        stopped: Whether the training ended before its last step, by `stop_early` or by the segment.
        saved_step: Step of the latest checkpoint.
        saved_at: Monotonic time of the latest checkpoint.
        refused_checkpoint: Why the run did not continue its checkpoint, in a few words; None if nothing was refused.
        continued: The checkpoint from which the run began.
        lane_choice: How many lanes are trained at once and why, if this run has chosen that.
        early_stopping: Says what is evaluated while the pack trains, and how often; None for no evaluation.
        evaluated: Step and value of the latest of these evaluations.
    """

    pack_id: str
    pack: Pack
    stacked: TrialSpec
    trainer: Trainer
    destination: Destination
    training: PackTraining
    pending: list[int]
    began: datetime.datetime
    saved_step: int
    saved_at: float
    segment: Segment
    rows: dict[str, Status] = dataclasses.field(default_factory=dict)
    stopped: bool = False
    refused_checkpoint: str | None = None
    continued: Checkpoint | None = None
    lane_choice: LaneChoice | None = None
    early_stopping: EarlyStopping | None = None
    evaluated: tuple[int, float] | None = None

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the code that trains the pack, whose trials all have one task and one model."""
        return self.destination.provenance.fingerprint(self.pack.trials[0])

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
            train_loss=self.training.train_loss(),
            steps_per_second=self.training.step * lanes / seconds if seconds else 0.0,
            lanes_reason=None if self.lane_choice is None else self.lane_choice.reason,
            evaluated=self.evaluated,
        )

    def advance(self) -> PackProgressed:
        """One stride: some steps of training, or the evaluation and commit of one trial."""
        if self.progress().phase == "training":
            before = self.training.step
            try:
                self.training = after_stride(self.trainer, self.stacked, self.training)
                fits = True
            except Exception as error:  # whatever a trainer raises; all but one kind is for the caller
                if not out_of_memory(error) or self.training.lanes == 1:
                    raise
                fits = False
            if not fits:
                # Not within `except`: the exception's frames hold arrays of the failed call.
                self._go_on_with_half_the_lanes()
                return self.progress()
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
        """Evaluate the pack for early stopping, at the end of the first stride at or after each multiple of `every`."""
        step, watched = self.training.step, self.early_stopping
        if watched is None or watched.every is None or step >= self.segment.until:
            return
        if step // watched.every == before // watched.every:
            return
        begun = time.process_time()
        if watched.metric == TRAIN_LOSS:
            value = self.training.train_loss()
        else:
            value = mean_metric(self.pack.trials, self.training, watched.metric)
        seconds = self.training.seconds
        spent = {"cpu_seconds": seconds["cpu_seconds"] + time.process_time() - begun}
        self.training = dataclasses.replace(self.training, seconds=seconds | spent)
        self.evaluated = step, value

    def _end_segment(self) -> None:
        """What is to be done at the last step of the segment, apart from evaluations.

        Raises:
            StoreError: the segment ends with a checkpoint, and the store cannot be written.
        """
        match self.segment.ending:
            case "pause":
                self._save()
                failed = np.asarray(self.training.state.failure) > 0
                self.pending = [index for index in self.pending if failed[index]]
            case "stop":
                self.stopped = self.training.step < self.stacked.steps
                self.checkpoint()
            case "finish":
                self.checkpoint()

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
            checkpoint.save(
                store, self.pack_id, self.pack.trial_ids, self.fingerprint, training.state, training.notes()
            )
            self.saved_step = training.step

    def _go_on_with_half_the_lanes(self) -> None:
        """Take the training up from its checkpoint; what the failed program had of the state is gone."""
        self.lane_choice = halved(self.training.lanes)
        saved = self.continued
        if self.saved_step != (0 if saved is None else saved.notes["step"]):
            saved = checkpoint.load(self.destination.store, self.pack_id)
        training = begun(self.trainer, self.stacked, saved)
        self.training = dataclasses.replace(training, lanes=self.lane_choice.lanes)
        self.saved_step = training.step

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
        before = TrialResult(
            trial=self.pack.trials[index],
            status="stopped" if self.stopped else "finished",
            metrics={},
            curves=lane_curves(self.trainer, self.stacked, self.training, index),
            outcomes=None,
            network=None,
            timings={},
            error=None,
            provenance=self.destination.provenance,
            pack_id=self.pack_id,
            lanes=self.training.lanes,
            device=jax.devices()[0].device_kind,
            started=self.began,
            finished=self.began,
        )
        row = lane_result(before, self.training, index)
        row = dataclasses.replace(
            row,
            outcomes=row.outcomes if self.destination.outcomes else None,
            network=row.network if self.destination.networks else None,
            finished=datetime.datetime.now(datetime.UTC),
        )
        self.destination.store.commit(row)
        self.rows[self.pack.trial_ids[index]] = row.status


def opened(
    pack: Pack,
    pending: Collection[str],
    destination: Destination,
    trainer: Trainer | None = None,
    segment: Segment | None = None,
    device_share: float | None = None,
    early_stopping: EarlyStopping | None = None,
) -> PackRun:
    """The run of a pack, from its checkpoint if the checkpoint fits.

    Args:
        pack: The pack as planned.
        pending: Ids of its trials that are not committed yet.
        destination: Where results and checkpoints go.
        trainer: Trains the pack; by default the trainer of its optimiser, which needs this process alone.
        segment: The part of the training that is to be done; by default all of it.
        device_share: Share of an accelerator that belongs to the pack; as many lanes are trained at once as fit into
            this share of its memory. None trains all lanes at once, as on a CPU.
        early_stopping: What is evaluated while the pack trains; the caller decides what follows.
    """
    device_memory.forget_peak()
    segment = segment or Segment(pack.trials[0].steps, "finish")
    saved, refused = continued_checkpoint(
        destination.store, pack, pending, segment, destination.provenance.fingerprint(pack.trials[0])
    )
    lanes = pack.part(pending if saved is None else saved.trial_ids)
    stacked, trainer = stack(lanes.trials), trainer or trainer_of(lanes.trials[0])
    training, choice = begun(trainer, stacked, saved), None
    if device_share is not None and training.step == 0 and (choice := chosen_lanes(lanes, trainer, device_share)):
        training = dataclasses.replace(training, lanes=choice.lanes)
    run = PackRun(
        pack_id=pack.pack_id,
        pack=lanes,
        stacked=stacked,
        trainer=trainer,
        destination=destination,
        training=training,
        pending=[index for index, name in enumerate(lanes.trial_ids) if name in pending],
        began=datetime.datetime.now(datetime.UTC),
        saved_step=training.step,
        saved_at=time.monotonic(),
        segment=segment,
        refused_checkpoint=refused,
        continued=saved,
        lane_choice=choice,
        early_stopping=early_stopping,
    )
    if training.step >= segment.until:
        run._end_segment()  # an earlier run died between the last step and the first commit
    return run


def run_pack(pack: Pack, destination: Destination) -> PackProgressed:
    """Run a whole pack in this process and commit every trial of it."""
    run = opened(pack, pack.trial_ids, destination)
    while (progress := run.advance()).phase != "done":
        pass
    return progress
