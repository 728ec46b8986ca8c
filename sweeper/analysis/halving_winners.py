"""The trials of a successive halving that are no results of it, although their rows say `finished`.

Another sweep may train a trial to the end that lost its search, so that rows alone do not tell the winners. Winners are
found from the stored training curves, by the rule that has stopped the others.
"""

from collections.abc import Collection

import pandas as pd

from sweeper.messages import counted, inflected
from sweeper.packs.halving import searches_of, winners_of
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Store


def finished_elsewhere(trials: pd.DataFrame, space: SweepSpec | None, store: Store) -> frozenset[str]:
    """The finished trials that are no winners of their search: another sweep has trained them to the end.

    The results of a halving are those of its winners, so these trials are left out. The space is None if this checkout
    cannot read it.
    """
    if space is None or space.search.halving is None:
        return frozenset()
    finished = frozenset(trials.loc[trials["status"] == "finished", "trial_id"])
    return finished - winners_of(space, searches_of(space), store)


def elsewhere_line(trial_ids: Collection[str]) -> str:
    """A sentence about trials of `finished_elsewhere`."""
    whose = inflected(len(trial_ids), "lost its search and was", "lost their searches and were")
    return f"{counted(len(trial_ids), 'trial')} {whose} trained to the end by another sweep: left out"
