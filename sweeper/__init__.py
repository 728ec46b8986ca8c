"""Sweeps of small JAX trainings: one YAML, one command, one open results store."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweeper.packs.trained import Trained

__version__ = "0.1.0"


def load(trial_id: str, results: "str | Path" = "results") -> "Trained":
    """A trained trial from a store, with a network that can be called (docs/networks.md).

    Args:
        trial_id: The trial.
        results: Folder or URL of the store.

    Raises:
        sweeper.packs.trained.LoadError: the trial has no row or no network, or is of other code than this checkout.
        sweeper.store.files.StoreError: there is no store, or it cannot be read.
    """
    from sweeper.packs import trained  # takes a second to import

    return trained.load(trial_id, results)
