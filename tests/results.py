"""Results to commit, made without any training."""

import datetime
from collections.abc import Iterable
from typing import Any

import numpy as np

from sweeper.store.store import SweepRecord, TrialResult
from sweeper.trial.provenance import Provenance
from tests.trials import coloring_trial

PROVENANCE = Provenance(
    commit="c0ffee" * 6 + "c0ff", dirty=False, versions={"jax": "0.10.2", "python": "3.11.7"},
    command="python -m sweeper.run search_spaces/quickstart.yaml", captured="2026-01-02T03:04:05+00:00",
)  # fmt: skip

STARTED = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


WEIGHTS = {"layer.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "layer.bias": np.zeros(3, np.float32)}


def outcomes(inputs: int = 12, **columns: Any) -> dict[str, np.ndarray]:
    """Outcomes of a few inputs; `columns` replace or add some."""
    values = {"success": np.linspace(0, 1, inputs), "loss": np.geomspace(1e-4, 1, inputs)} | columns
    return {name: np.asarray(column, np.float32) for name, column in values.items()}


def result(trial: dict[str, Any] | None = None, **changes: Any) -> TrialResult:
    """A finished colouring trial with two curve points; `trial` and `changes` replace fields of trial and result."""
    fields: dict[str, Any] = {
        "trial": coloring_trial(**(trial or {})), "status": "finished",
        "metrics": {"success": 0.75, "success_p5": 0.5, "train_loss": 0.01},
        "curves": [(100, "train_loss", 0.2), (200, "train_loss", 0.1)], "outcomes": outcomes(), "network": WEIGHTS,
        "timings": {"steps_done": 300.0, "wall_seconds": 2.5, "peak_memory_bytes": 1e8}, "error": None,
        "provenance": PROVENANCE, "pack_id": "0123456789", "lanes": 2, "device": "cpu", "started": STARTED,
        "finished": STARTED + datetime.timedelta(seconds=2.5),
    }  # fmt: skip
    return TrialResult(**(fields | changes))


def record(
    name: str = "quick",
    ids: Iterable[str] = (),
    text: str = "trial: {}\n",
    overrides: tuple[str, ...] = (),
    **origin: Any,
) -> SweepRecord:
    """A start of a sweep that planned these trials; `origin` replaces fields of its provenance."""
    provenance = PROVENANCE.model_copy(update=origin)
    return SweepRecord(name=name, text=text, overrides=overrides, trial_ids=tuple(ids), provenance=provenance)


def failure(trial: dict[str, Any] | None = None, **error: Any) -> TrialResult:
    """The same trial, failed."""
    described = {"kind": "divergence", "message": "divergence at step 7", "step": 7} | error
    return result(trial, status="failed", metrics={}, outcomes=None, network=None, error=described)
