"""Losses of the trials of a successive halving at its rungs, read from rows and stored curves, and who goes on."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from sweeper.space.halving_search import HalvingSearch
from sweeper.store.store import Status, Store


class StoredLosses(NamedTuple):
    """What the store says of a trial.

    Attributes:
        status: Of its row.
        losses: See `HalvingSearch.losses`.
    """

    status: Status
    losses: tuple[float, ...]


def stored_losses(search: HalvingSearch, store: Store, trial_ids: Collection[str]) -> dict[str, StoredLosses]:
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
        row["trial_id"]: StoredLosses(row["status"], search.losses(curves[row["trial_id"]], row["steps_done"] or 0))
        for row in rows
    }


class Decided(NamedTuple):
    """The rungs of a search that are decided.

    Attributes:
        stopped: For each decided rung the trials that have a loss there and do not go on.
        alive: The trials that go on from the last decided rung; all of the search if none is decided.
        missing: Those of `alive` for which the next rung waits; if there are none, `alive` are the winners.
    """

    stopped: tuple[tuple[str, ...], ...]
    alive: tuple[str, ...]
    missing: tuple[str, ...]


def decided(
    search: HalvingSearch, trial_ids: Sequence[str], losses: Mapping[str, Sequence[float]], failed: Collection[str]
) -> Decided:
    """The decided rungs of a search: all up to the first at which a trial has no loss and has not failed before.

    Args:
        search: The successive halving.
        trial_ids: The trials of the search, in the order of their seeds.
        losses: See `HalvingSearch.losses`; trials may be left out.
        failed: Trials that have failed.
    """
    alive, stopped = tuple(trial_ids), ()
    for number in range(len(search.rungs)):
        reached = {key: losses[key] for key in alive if len(losses.get(key, ())) > number}
        missing = tuple(key for key in alive if key not in reached and key not in failed)
        if missing:
            return Decided(stopped, alive, missing)
        alive = tuple(search.going_on(number, reached))
        stopped += (tuple(key for key in reached if key not in alive),)
    return Decided(stopped, alive, ())
