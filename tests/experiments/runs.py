"""Packs of experiments that are trained in this process, and what of their results must not depend on how."""

import functools
from pathlib import Path
from typing import Any

from sweeper.packs.pack_run import Destination, PackRun
from sweeper.packs.packing import Pack
from sweeper.store.store import Store
from sweeper.trial import plugins, provenance
from sweeper.trial.provenance import Provenance


def destination(store: Store) -> Destination:
    """A store for packs, which get a checkpoint after every stride."""
    return Destination(store, _captured(plugins.PROJECT), checkpoint_seconds=0.0)


@functools.cache  # it reads all code
def _captured(project: Path) -> Provenance:
    return provenance.capture("test")


def science(store: Store) -> Any:
    """All of a store that follows from the trials alone."""
    rows = store.trials().select(["trial_id", "status", "steps_done", "spec", "extra_metrics"]).to_pylist()
    curves = store.curves().sort_by([(name, "ascending") for name in ("trial_id", "metric", "step")])
    networks = {key: {n: w.tobytes() for n, w in store.weights(seal).items()} for key, seal in store.seals().items()}
    return rows, curves.to_pylist(), store.outcomes().to_pylist(), networks


def run_with_deaths(pack: Pack, store: Store) -> None:
    """Train a pack in processes, as it were, that each die after a stride; nothing but checkpoints survives."""
    while len(done := store.committed()) < len(pack.trial_ids):
        PackRun(pack, [trial_id for trial_id in pack.trial_ids if trial_id not in done], destination(store)).advance()
