"""The training curves of unfinished trials so far, from the checkpoints of their packs."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from sweeper.packs import checkpoint
from sweeper.packs.pack_training import curve_window, lane_curves, makes_sense, restored
from sweeper.store.store import Store
from sweeper.training.trainers import trainer_of
from sweeper.trial.trial_spec import TrialSpec


def unfinished_curves(store: Store, trials: Mapping[str, TrialSpec]) -> dict[str, list[tuple[int, str, float]]]:
    """Step, name and value of the curve points of the trials that have a checkpoint, by trial id.

    Args:
        store: The store.
        trials: The trials that are of interest, by id.

    Raises:
        StoreError: the store cannot be read.
    """
    curves = {}
    for name in store.listing("checkpoints"):
        saved = checkpoint.load(store, PurePosixPath(name).stem)
        if saved is not None:
            for lane, trial_id in enumerate(saved.trial_ids):
                if trial_id in trials and makes_sense(saved, trainer_of(trials[trial_id])):
                    curves[trial_id] = _points(saved.notes, trials[trial_id], lane)
    return curves


def _points(notes: Mapping[str, Any], trial: TrialSpec, lane: int) -> list[tuple[int, str, float]]:
    """The points of a lane that its finished curve will have too.

    The last steps before a checkpoint are often too few for a point of the finished curve. Their mean is noisier.
    """
    trainer = trainer_of(trial)
    window = curve_window(trainer, trial)
    points = lane_curves(trainer, trial, restored(None, notes), lane)
    return [point for point in points if point[0] % window == 0]
