"""A Ray cluster of this machine's processes, which other users of the machine cannot reach.

By default Ray listens on all addresses, makes its session folder writable to everybody, and leaves its token readable
to everybody. Every user who can write to that folder can make the driver and its workers execute code. Here ports are
open on the loopback address only, the session folder lies below a folder of mode 0700, and the token exists in the
environment of the cluster's own processes alone.

A start waits for its cluster. So the cluster consists of the processes that it needs, and its workers get their
environment from the processes that start them: a runtime environment of Ray would take two processes for every worker.
"""

import contextlib
import logging
import os
import resource
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import ray
from ray._private import (
    node,  # in public every cluster has all of Ray's helpers
    ray_constants,  # the switch for loopback; in public it is read at the import of Ray only
)
from ray._private.resource_and_label_spec import ResourceAndLabelSpec  # what Ray counts; in public it must be started

# Native code without types. In public a process keeps the first token that it has shown.
from ray._raylet import AuthenticationTokenLoader  # pyright: ignore[reportAttributeAccessIssue]
from ray.exceptions import RpcError

from sweeper.launch.failures import LaunchError, reason
from sweeper.trial.private_folder import private_folder

ATTEMPTS = 2
"""On a busy machine Ray may miss its own time limits for starting, and start without trouble a moment later."""

LEAST_ADDRESS_SPACE = 6 * 2**30
"""Bytes of address space. With less, Ray or its workers cannot make threads, and processes abort one after another."""

_CONFIGURATION = {
    # Ray would start as many workers as there are cores before the driver is let in, which has work of its own.
    "prestart_worker_first_driver": False,
    # In half of all starts the node looks for its object store too early, and would look again a second later.
    "raylet_client_connect_timeout_milliseconds": 20,
    "raylet_client_num_connect_attempts": 500,
}

LOOK_OFTEN_SECONDS = 5.0
"""For how long a node that starts is looked for often."""

LOOK_SECONDS = 0.02
"""Between two such looks."""


@contextlib.contextmanager
def fresh_token() -> Iterator[None]:
    """Have this process, and the processes it starts, show a token that nobody else has.

    Afterwards the token is the user's again: a process may use a local cluster, then another cluster, then a local one.
    """
    before = os.environ.get("RAY_AUTH_TOKEN")
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    AuthenticationTokenLoader.instance().reset_cache()
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("RAY_AUTH_TOKEN", None)
        else:
            os.environ["RAY_AUTH_TOKEN"] = before
        AuthenticationTokenLoader.instance().reset_cache()


def start(environment: Mapping[str, str], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Start Ray on this machine; its processes and this process use the token in the environment, see `fresh_token`.

    Args:
        environment: Of the worker processes.
        meanwhile: Called while Ray's processes start.

    Raises:
        LaunchError: Ray does not start.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        raise LaunchError(
            f"Ray cannot start: this shell limits the address space of a process to {limit / 2**30:.1f} GiB, and Ray "
            f"needs {LEAST_ADDRESS_SPACE / 2**30:.0f} GiB (ulimit -v unlimited)"
        )
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with _on_loopback(), _inherited(environment), _only_what_is_needed(meanwhile):
                _init()
            return
        except Exception as error:  # full disks, closed ports, limits on processes, time: Ray has no type for them
            ray.shutdown()
            if attempt == ATTEMPTS:
                raise LaunchError(f"Ray did not start on this machine: {reason(error)}") from error


def machine_resources() -> Mapping[str, float]:
    """How many `CPU` and `GPU` a local cluster would have, as Ray counts them; Ray is not started."""
    counts = ResourceAndLabelSpec().resolve(is_head=True, node_ip_address="127.0.0.1").to_resource_dict()
    return {name: float(counts.get(name) or 0) for name in ("CPU", "GPU")}


def _init() -> None:
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.CRITICAL,
        object_store_memory=128 * 2**20,
        _system_config=_CONFIGURATION,
        # Ray gives this folder mode 0777; the folder above it is what keeps others out.
        _temp_dir=str(private_folder("ray") or Path(tempfile.mkdtemp(prefix="sweeper-")) / "ray"),
    )


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Have Ray take 127.0.0.1 as this machine's address, and listen nowhere else.

    Ray replaces the loopback address by an address of a network, even if the loopback address is given, except on
    systems that Ray believes to have no clusters. A switch of Ray turns this belief on. The switch is public only as an
    environment variable, which Ray reads at its import, before it is known which cluster the sweep will use.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"  # for the processes that Ray starts
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        del os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR]


@contextlib.contextmanager
def _inherited(environment: Mapping[str, str]) -> Iterator[None]:
    """Have the processes that this process starts inherit these variables."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _only_what_is_needed(meanwhile: Callable[[], object]) -> Iterator[None]:
    """Have Ray start no process that serves a dashboard, an autoscaler, or logs that the driver shows.

    Ray would wait for the first of them, and all three would take the cores that workers start on. Without a dashboard
    Ray still starts that process, to count users.

    Args:
        meanwhile: Called while the others start.
    """

    def not_started(self: node.Node, **options: object) -> None:
        self._webui_url = ""  # Ray passes the address of its dashboard on

    start_ray_processes = node.Node.start_ray_processes

    def started(self: node.Node) -> None:
        start_ray_processes(self)
        meanwhile()
        _wait_until_registered(self)

    with contextlib.ExitStack() as ended:
        helpers = ("start_api_server", "start_monitor", "start_log_monitor")
        for name, method in [*((name, not_started) for name in helpers), ("start_ray_processes", started)]:
            ended.callback(setattr, node.Node, name, getattr(node.Node, name))
            setattr(node.Node, name, method)
        yield


def _wait_until_registered(self: node.Node) -> None:
    """Wait until the node is known to its head, for some seconds at most; then Ray itself waits.

    Ray looks once a second, and a node takes half a second.
    """
    head = self.get_gcs_client()
    assert head is not None  # it has started
    until = time.monotonic() + LOOK_OFTEN_SECONDS
    with contextlib.suppress(RpcError):  # a head that does not answer in time: Ray waits longer
        while time.monotonic() < until:
            known = head.get_all_node_info(timeout=LOOK_OFTEN_SECONDS)
            if any(node_id.hex() == self.node_id for node_id in known):
                return
            time.sleep(LOOK_SECONDS)
