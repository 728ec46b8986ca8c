"""The state of a successive halving, as its store has it: rows, losses at rungs, and the checkpoints that hold trials.

Three facts about each trial are read: its row, the curve of its row, and the checkpoint that holds its state with its
curve so far. A trial may be in several checkpoints; the one with the most losses counts, and of equals the first read.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from sweeper.packs import checkpoint
from sweeper.packs.pack_training import lane_curves, makes_sense, restored
from sweeper.packs.rung_losses import StoredLosses, stored_losses
from sweeper.space.halving import Halving
from sweeper.store.store import Store
from sweeper.training.trainers import trainer_of
from sweeper.trial.trial_spec import TrialSpec


@dataclass
class HalvingState:
    """What has been read of the trials of a successive halving.

    Attributes:
        halving: The rules of the successive halving.
        store: Where rows and checkpoints are.
        planned: The trials by id.
        fingerprint: Fingerprint of the code of this start, for a trial; checkpoints of other code do not count.
        rows: Status and losses of the trials with a row that counts.
        losses: The losses of trials at the rungs, see `Halving.losses`.
        holders: Id of the pack whose checkpoint holds a trial, by trial.
    """

    halving: Halving
    store: Store
    planned: Mapping[str, TrialSpec]
    fingerprint: Callable[[TrialSpec], str | None]
    rows: dict[str, StoredLosses] = field(default_factory=dict)
    losses: dict[str, tuple[float, ...]] = field(default_factory=lambda: defaultdict(tuple))
    holders: dict[str, str] = field(default_factory=dict)

    def read_rows(self, trial_ids: Collection[str]) -> None:
        """Take the status and the losses of trials from their rows and curves.

        Raises:
            StoreError: the store cannot be read.
        """
        for key, stored in stored_losses(self.halving, self.store, trial_ids).items():
            self.rows[key] = stored
            self._learn(key, stored.losses)

    def read_checkpoints(self) -> None:
        """Take the losses of trials from all checkpoints of the store; raises as `read_checkpoint` does."""
        for name in self.store.listing("checkpoints"):
            self.read_checkpoint(PurePosixPath(name).stem)

    def read_checkpoint(self, pack_id: str) -> None:
        """Take the losses of trials from a checkpoint, if they are trials of the sweep and the code is the same.

        Raises:
            StoreError: the store cannot be read.
        """
        saved = checkpoint.load(self.store, pack_id)
        first = None if saved is None else self.planned.get(saved.trial_ids[0])
        if saved is None or first is None or saved.fingerprint != self.fingerprint(first):
            return
        if not makes_sense(saved, trainer_of(first)):
            return
        training = restored(None, saved.notes)
        for lane, key in enumerate(saved.trial_ids):
            if key in self.planned:
                curves = lane_curves(trainer_of(first), first, training, lane)
                points = [(step, value) for step, name, value in curves if name == "train_loss"]
                losses = self.halving.losses(points, training.lane_steps[lane])
                if self._learn(key, losses) or key not in self.holders:
                    self.holders[key] = pack_id

    def _learn(self, key: str, losses: tuple[float, ...]) -> bool:
        """Take the losses of a trial at the rungs; returns whether these are news."""
        news = len(losses) > len(self.losses[key])
        if news:
            self.losses[key] = losses
        return news
