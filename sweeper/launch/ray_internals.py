"""Every private part of Ray and Tune that Sweeper uses; pyproject.toml bounds Ray to versions that have these parts.

Private is what has an underscore in its name, and what Ray does not document. Each function says why the part is used.
Parts of Tune are imported when they are used, as Tune takes a second to import.
"""

import contextlib
import importlib
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from ray._private import ray_constants, services, utils
from ray._private.node import Node
from ray._raylet import AuthenticationTokenLoader  # pyright: ignore[reportAttributeAccessIssue] - compiled
from ray.exceptions import OutOfMemoryError, RayActorError, RayError
from ray.experimental import internal_kv

from sweeper.trial.jax_settings import variables

QUICK_START: dict[str, Any] = {
    "_system_config": {
        # Ray would start as many workers as there are cores before the driver is let in, which has work of its own.
        "prestart_worker_first_driver": False,
        # In half of all starts the node looks for its object store too early, and would look again a second later.
        "raylet_client_connect_timeout_milliseconds": 20,
        "raylet_client_num_connect_attempts": 500,
    }
}
"""Options of `ray.init` that save a start some seconds."""


@contextlib.contextmanager
def _replaced(owner: Any, **parts: object) -> Iterator[None]:
    """Replace parts of a module or class."""
    before = {name: getattr(owner, name) for name in parts}
    for name, part in parts.items():
        setattr(owner, name, part)
    try:
        yield
    finally:
        for name, part in before.items():
            setattr(owner, name, part)


def cores() -> int:
    """The cores that this process may use, by its affinity (Slurm, taskset) and by the quota of its container."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(affinity, int(utils.get_num_cpus(override_docker_cpu_warning=True))))


def address_of_cluster(address: str | None) -> str | None:
    """Host and port that an address of Ray leads to; None if it leads to no cluster, or to a local one.

    The address is host and port, "local", "auto", or None for $RAY_ADDRESS, else the cluster that `ray start` left.
    Whether the cluster answers is not asked: `ray.init` connects at once, also to the private cluster of another
    driver, and waits a minute for a cluster that is gone.
    """
    # By "auto" Ray means any cluster whose processes it finds, also the private one of another driver.
    with variables({"RAY_ADDRESS": ""} if os.environ.get("RAY_ADDRESS") == "auto" else {}):
        named: Any = None if address == "auto" else address
        return services.canonicalize_bootstrap_address(named)


@contextlib.contextmanager
def fresh_token() -> Iterator[None]:
    """Have this process, and the processes it starts, show a token that nobody else has.

    Afterwards the token is the user's again: a process may use a local cluster, then another cluster, then a local one.
    Ray alone would keep the first token that a process has shown.
    """
    forget = AuthenticationTokenLoader.instance().reset_cache
    try:
        with variables({"RAY_AUTH_TOKEN": secrets.token_hex(32)}):
            forget()
            yield
    finally:
        forget()


@contextlib.contextmanager
def on_loopback() -> Iterator[None]:
    """Have Ray take 127.0.0.1 as this machine's address, and listen nowhere else.

    Ray replaces the loopback address by an address of a network, even if the loopback address is given, except on
    systems that Ray believes to have no clusters. A switch of Ray turns this belief on. It is an environment variable
    for the processes that Ray starts. This process has read it already, before it is known which cluster it will use.
    """
    switch = {ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0"}
    with _replaced(ray_constants, ENABLE_RAY_CLUSTER=False), variables(switch):
        yield


@contextlib.contextmanager
def only_what_is_needed() -> Iterator[None]:
    """Have Ray start no process that serves a dashboard, an autoscaler, or logs that the driver shows.

    Ray would wait for the first of them, and all three would take the cores that workers start on. Without a dashboard
    Ray still starts that process, to count users. While the others start, Tune is imported, which takes longer than all
    of the driver's side apart from JAX.
    """
    start_ray_processes = Node.start_ray_processes

    def not_started(self: Any, **options: object) -> None:
        self._webui_url = ""  # Ray passes the address of its dashboard on

    def started(self: Any) -> None:
        start_ray_processes(self)
        importlib.import_module("ray.tune")

    helpers = dict.fromkeys(("start_api_server", "start_monitor", "start_log_monitor"), not_started)
    with _replaced(Node, start_ray_processes=started, **helpers):
        yield


def staged_in(folder: Path) -> AbstractContextManager[None]:
    """Have Tune stage its files, pickles among them, in a folder, and read them back from there.

    By default they lie in Ray's session folder, which on the machine of a cluster may be open to other users.
    """
    from ray.train._internal import storage

    return _replaced(storage, _get_ray_train_session_dir=lambda: str(folder))


def no_trackers() -> AbstractContextManager[None]:
    """Keep Tune from importing MLflow, W&B and Comet for seconds, only to count which of them a user has given it."""
    from ray.air._internal import usage

    return _replaced(usage, tag_callbacks=lambda callbacks: False)


def own_signals() -> AbstractContextManager[None]:
    """Keep Tune from answering SIGUSR1, which asks a start to leave checkpoints."""
    from ray.tune import tune

    return _replaced(tune, _setup_signal_catching=threading.Event)


class KilledForMemory(RayActorError):
    """A worker that Ray has killed because the memory of its node was full."""

    WAY_OUT = "the machine was low on memory: try --concurrency 1, or fewer resources.lanes"


def memory_kills_are_deaths() -> AbstractContextManager[None]:
    """Have Tune take a worker that Ray kills for memory for one that died, so that its pack is tried again.

    Of a worker that trains Tune ends at any error that is not a `RayActorError`; of one that starts it would say that
    the worker died, and not why.
    """
    from ray.air.execution._internal.actor_manager import RayActorManager

    def told(failed: Callable[..., None]) -> Callable[..., None]:
        def told_of(self: Any, *, exception: Exception, **of: Any) -> None:
            if isinstance(exception, OutOfMemoryError):
                exception = KilledForMemory(error_msg=str(exception))
            failed(self, exception=exception, **of)

        return told_of

    names = ("_actor_task_failed", "_actor_start_failed")
    return _replaced(RayActorManager, **{name: told(getattr(RayActorManager, name)) for name in names})


Order = Literal["carry on", "stop early", "leave"]

_EVERYBODY = "every pack"


class Orders:
    """The orders of a driver to the workers of its packs, which get a copy of this and ask between two reports.

    They lie in the cluster's key-value store, which Ray keeps for itself on the head. An actor could answer too, and
    would be a process more: .9 CPU seconds at each start.
    """

    def __init__(self) -> None:
        self._place = f"sweeper-orders-{secrets.token_hex(16)}"

    def leave(self) -> None:
        """Order every worker to leave a checkpoint and end its pack."""
        internal_kv._internal_kv_put(_EVERYBODY, b"", namespace=self._place)

    def stop_early(self, pack_id: str) -> None:
        """Order the worker of a pack to evaluate and commit its trials as trained so far."""
        internal_kv._internal_kv_put(pack_id, b"", namespace=self._place)

    def order(self, pack_id: str) -> Order:
        """The present order for the worker of the pack; "carry on" if the cluster does not answer."""
        client = internal_kv.internal_kv_get_gcs_client()
        assert client is not None  # this process is connected
        try:
            found = client.internal_kv_multi_get(
                [_EVERYBODY.encode(), pack_id.encode()], self._place.encode(), timeout=10
            )
        except RayError:
            return "carry on"
        return "leave" if _EVERYBODY.encode() in found else "stop early" if found else "carry on"

    def forget(self) -> None:
        """Take all orders away, if the cluster is still there."""
        if internal_kv._internal_kv_initialized():
            with contextlib.suppress(RayError):
                internal_kv._internal_kv_del("", del_by_prefix=True, namespace=self._place)


def actor_of(trial: Any) -> Any:
    """The actor of a Tune trial; None if it has none at the moment."""
    return trial.temporary_state.ray_actor
