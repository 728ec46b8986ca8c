"""A cluster of Ray's own nodes in processes of this machine, which come and go."""

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from ray._private.authentication import authentication_token_setup  # `ray start` does this; Cluster does not
from ray._private.node import Node  # the type of what Cluster starts
from ray.cluster_utils import Cluster

from chaos.starts import TRAINER, children, command_line, send


class Nodes(Cluster):
    """A cluster whose head has no CPUs. Its nodes and drivers need the token of this user."""

    def __init__(self, folder: Path):
        authentication_token_setup.enable_token_auth_by_default()
        authentication_token_setup.ensure_token_if_auth_enabled()
        self._folder = folder
        self._joined = 0
        super().__init__(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})

    def join(self, num_cpus: int, num_gpus: int = 0) -> Node:
        """Add a node.

        It gets its own folder, because nodes that share a folder delete each other's working folders.
        """
        self._joined += 1
        own = self._folder / f"n{self._joined}"
        return self.add_node(temp_dir=str(own), num_cpus=num_cpus, num_gpus=num_gpus)

    def lose(self, node: Node) -> None:
        """End all processes of a node at once, as the loss of its machine does.

        Ray ends the raylet alone. Its workers would notice a second later, and might commit a trial meanwhile.
        """
        workers = children(raylet(node))
        send(signal.SIGSTOP, workers)
        self.remove_node(node, allow_graceful=False)
        send(signal.SIGKILL, workers)


@contextlib.contextmanager
def nodes() -> Iterator[Nodes]:
    """A cluster that no other command on this machine can find."""
    # Names of sockets must be short.
    with (
        tempfile.TemporaryDirectory(prefix="nodes-", ignore_cleanup_errors=True) as folder,
        mock.patch.dict(os.environ, RAY_TMPDIR=folder),
    ):
        made = Nodes(Path(folder))
        try:
            yield made
        finally:
            # Its nodes are children of this process, and no other Ray on this machine is asked to stop.
            made.shutdown()


def raylet(node: Node) -> int:
    """The id of the process that manages a node."""
    (info,) = node.all_processes["raylet"]
    return info.process.pid


def trainers(node: Node) -> list[int]:
    """Ids of the processes of a node that train packs or wait for a pack."""
    return [pid for pid in children(raylet(node)) if TRAINER in command_line(pid)]
