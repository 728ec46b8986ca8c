"""A Ray cluster of this machine's processes, which other users of the machine cannot reach.

By default Ray listens on all addresses, makes its session folder writable to everybody, and leaves its token readable
to everybody. Every user who can write to that folder can make the driver and its workers execute code. Here ports are
open on the loopback address only, the session folder lies below a folder of mode 0700, and the token exists in the
environment of the cluster's own processes alone.
"""

import contextlib
import logging
import os
import resource
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import ray
from ray._private import ray_constants  # the switch for loopback; in public it is read at the import of Ray only
from ray._private.resource_and_label_spec import ResourceAndLabelSpec  # what Ray counts; in public it must be started

# Native code without types. In public a process keeps the first token that it has shown.
from ray._raylet import AuthenticationTokenLoader  # pyright: ignore[reportAttributeAccessIssue]

from sweeper.launch.failures import LaunchError, reason
from sweeper.launch.private_folder import private_folder

ATTEMPTS = 2
"""On a busy machine Ray may miss its own time limits for starting, and start without trouble a moment later."""

LEAST_ADDRESS_SPACE = 6 * 2**30
"""Bytes of address space. With less, Ray or its workers cannot make threads, and processes abort one after another."""


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


def start(environment: Mapping[str, str]) -> None:
    """Start Ray on this machine; its processes and this process use the token in the environment, see `fresh_token`.

    Args:
        environment: Of the worker processes.

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
            with _on_loopback():
                _init(environment)
            return
        except Exception as error:  # full disks, closed ports, limits on processes, time: Ray has no type for them
            ray.shutdown()
            if attempt == ATTEMPTS:
                raise LaunchError(f"Ray did not start on this machine: {reason(error)}") from error


def machine_resources() -> Mapping[str, float]:
    """How many `CPU` and `GPU` a local cluster would have, as Ray counts them; Ray is not started."""
    counts = ResourceAndLabelSpec().resolve(is_head=True, node_ip_address="127.0.0.1").to_resource_dict()
    return {name: float(counts.get(name) or 0) for name in ("CPU", "GPU")}


def _init(environment: Mapping[str, str]) -> None:
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.CRITICAL,
        object_store_memory=128 * 2**20,
        runtime_env={"env_vars": dict(environment)},
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
