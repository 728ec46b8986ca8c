"""Losses of the trials of a successive halving at its rungs, read from rows and stored curves."""

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

import pyarrow.compute as pc

from sweeper.space.halving import Halving
from sweeper.store.store import Status, Store


class StoredLosses(NamedTuple):
    """What the store says of a trial.

    Attributes:
        status: Of its row.
        losses: See `Halving.losses`.
    """

    status: Status
    losses: tuple[float, ...]


def stored_losses(halving: Halving, store: Store, trial_ids: Collection[str]) -> dict[str, StoredLosses]:
    """Status and losses of those of the trials that have a row, by id.

    Raises:
        StoreError: the store cannot be read.
    """
    rows = store.trials(trial_ids).select(["trial_id", "status", "steps_done"]).to_pylist()
    points = store.curves([row["trial_id"] for row in rows])
    points = points.filter(pc.field("metric") == "train_loss")
    curves: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for key, step, value in zip(*(points[name].to_pylist() for name in ("trial_id", "step", "value")), strict=True):
        curves[key].append((step, value))
    return {
        row["trial_id"]: StoredLosses(row["status"], halving.losses(curves[row["trial_id"]], row["steps_done"] or 0))
        for row in rows
    }
