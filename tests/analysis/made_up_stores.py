"""Stores that hold made-up results."""

import dataclasses

from sweeper.store.store import SweepRecord
from tests.results import PROVENANCE, result


def plan(store, trial_ids, name="ours", text="trial: {}\n"):
    """Record a start of a sweep that plans these trials."""
    ids = tuple(trial_ids)
    store.record_sweep(SweepRecord(name=name, text=text, overrides=(), trial_ids=ids, provenance=PROVENANCE))
    return ids


def commit(store, trial, made=None, **changes):
    """Commit a result of this very trial, finished unless `made` is another."""
    made = result() if made is None else made
    store.commit(dataclasses.replace(made, trial=trial, **changes))
