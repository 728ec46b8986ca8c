"""The orders of a driver to the workers of its packs, in the key-value store of the cluster.

Workers ask between two reports. An actor could answer too, and would be a process more: .9 CPU seconds at each start.
"""

import uuid
from typing import Literal

from ray.exceptions import RayError

from sweeper.launch import ray_internals

Order = Literal["carry on", "stop early", "leave"]

_EVERYBODY = "every pack"


class Orders:
    """The orders of one launch; workers get a copy of this."""

    def __init__(self) -> None:
        self._place = f"sweeper-orders-{uuid.uuid4().hex}"

    def leave(self) -> None:
        """Order every worker to leave a checkpoint and end its pack."""
        ray_internals.put(self._place, _EVERYBODY)

    def stop_early(self, pack_id: str) -> None:
        """Order the worker of a pack to evaluate and commit its trials as trained so far."""
        ray_internals.put(self._place, pack_id)

    def order(self, pack_id: str) -> Order:
        """The present order for the worker of the pack; "carry on" if the cluster does not answer."""
        try:
            found = ray_internals.present(self._place, (_EVERYBODY, pack_id))
        except RayError:
            return "carry on"
        return "leave" if _EVERYBODY in found else "stop early" if found else "carry on"

    def forget(self) -> None:
        """Take all orders away."""
        ray_internals.remove_all(self._place)
