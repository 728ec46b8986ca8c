"""The orders of a driver to the workers of its packs.

This module imports nothing, because the process that keeps the orders starts beside the first workers: on a small
machine every module that the process imports delays the first training step.
"""

from typing import Literal

Order = Literal["carry on", "stop early", "leave"]


class Orders:
    """Keeps the driver's orders until the workers ask."""

    def __init__(self) -> None:
        self._leave = False
        self._stop_early: set[str] = set()

    def leave(self) -> None:
        """Order every worker to leave a checkpoint and end its pack."""
        self._leave = True

    def stop_early(self, pack_id: str) -> None:
        """Order the worker of a pack to evaluate and commit its trials as trained so far."""
        self._stop_early.add(pack_id)

    def order(self, pack_id: str) -> Order:
        """The present order for the worker of the pack."""
        return "leave" if self._leave else "stop early" if pack_id in self._stop_early else "carry on"
