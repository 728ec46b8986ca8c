"""The trials that checkpoints hold: from which checkpoint a pack goes on, and how far unfinished trials are.

The name of a checkpoint is the hash of the trials that were planned as a pack. When seeds, values or lanes of the space
change between two starts, other packs are planned. Then checkpoints are found by the trials that they hold, and a pack
goes on from the checkpoint of a larger pack with its trials.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sweeper.packs import checkpoint
from sweeper.packs.checkpoint import Checkpoint
from sweeper.packs.pack_training import curve_window, lane_curves, makes_sense, notes_of_lanes, restored
from sweeper.packs.packing import Pack, packs
from sweeper.packs.plan import Segment
from sweeper.store.files import in_threads
from sweeper.store.store import Store
from sweeper.training.identity import Identity
from sweeper.training.kind import trainer_of
from sweeper.trial.trial import Trial, trial_id


def holders(store: Store, trials: Collection[Trial], lanes: int | None) -> dict[str, str]:
    """Id of the checkpoint that is furthest with a trial, by trial id; of no planned trial if the packs are the same.

    The trials are those planned, as far as they are known; for `lanes` see `packing.packs`. Only checkpoints of other
    packs are read, unless one of them has a planned trial.
    """
    names = set(checkpoint.pack_ids(store))
    if not names:
        return {}
    others = _furthest(store, names - {pack.pack_id for pack in packs(trials, lanes)})
    return _furthest(store, names) if any(trial_id(trial) in others for trial in trials) else others


def _furthest(store: Store, names: Collection[str]) -> dict[str, str]:
    """Which of these checkpoints is furthest with a trial, by trial id."""

    def held(name: str) -> tuple[int, str, tuple[str, ...]]:
        saved = checkpoint.load(store, name)
        return (0, name, ()) if saved is None else (saved.notes.get("step", 0), name, saved.trial_ids)

    return {key: name for _, name, trial_ids in sorted(in_threads(held, sorted(names))) for key in trial_ids}


def continued_checkpoint(
    store: Store, pack: Pack, pending: Collection[str], segment: Segment, identity: Identity
) -> tuple[Checkpoint | None, str | None]:
    """The checkpoint from which a planned pack goes on, and why another checkpoint is refused; either may be None.

    It must be made by what this process trains with, its `identity`, and hold the pending trials. No checkpoint of a
    later step serves a segment that ends before the training.
    """
    refused = None
    for name in filter(None, (pack.pack_id, segment.parent)):
        saved = checkpoint.load(store, name)
        if saved is None:
            refused = "is damaged" if checkpoint.exists(store, name) else refused
            continue
        if (difference := saved.identity.difference(identity)) is not None:
            refused = difference
            continue
        if name != pack.pack_id:
            whole = all(leaf.shape[:1] == (len(saved.trial_ids),) for leaf in saved.leaves)
            if not whole or not set(pack.trial_ids) <= set(saved.trial_ids):
                continue
            saved = _part(saved, pack.trial_ids)
        fits = set(pending) <= set(saved.trial_ids) <= set(pack.trial_ids)
        stride = trainer_of(pack.trials[0]).stride_steps
        last_step = min(-(-segment.until // stride) * stride, pack.trials[0].steps)  # a segment ends with a stride
        if fits and (segment.ending == "finish" or saved.notes["step"] <= last_step):
            return saved, None
    return None, refused


def _part(saved: Checkpoint, trial_ids: Collection[str]) -> Checkpoint:
    """The lanes of some trials, in the order of `trial_ids`."""
    lanes = [saved.trial_ids.index(name) for name in trial_ids]
    notes = notes_of_lanes(saved.notes, lanes)
    return saved._replace(trial_ids=tuple(trial_ids), notes=notes, leaves=[leaf[lanes] for leaf in saved.leaves])


def unfinished_curves(store: Store, trials: Mapping[str, Trial]) -> dict[str, list[tuple[int, str, float]]]:
    """Step, name and value of the curve points of those of the trials that have a checkpoint, by trial id."""
    curves: dict[str, list[tuple[int, str, float]]] = {}
    for name in checkpoint.pack_ids(store):
        saved = checkpoint.load(store, name)
        if saved is None:
            continue
        wanted = {key: (trials[key], lane) for lane, key in enumerate(saved.trial_ids) if key in trials}
        by_trainer = {trainer_of(trial): trial for trial, _ in wanted.values()}
        if all(makes_sense(saved, trial) for trial in by_trainer.values()):
            curves |= {key: _points(saved.notes, trial, lane) for key, (trial, lane) in wanted.items()}
    return curves


def _points(notes: Mapping[str, Any], trial: Trial, lane: int) -> list[tuple[int, str, float]]:
    """The points of a lane that its finished curve will have too.

    The last steps before a checkpoint are often too few for a point of the finished curve. Their mean is noisier.
    """
    trainer = trainer_of(trial)
    window = curve_window(trainer, trial)
    points = lane_curves(trainer, trial, restored(None, notes), lane)
    return [point for point in points if point[0] % window == 0]
