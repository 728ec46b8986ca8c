"""Every private part of Ray and Tune that Sweeper uses, with the public way that is taken where the part is missing.

Private is what has an underscore in its name, and what Ray does not document. A part is looked up when it is used, so
that a Ray without the part costs what the public way costs and no more. Each function says why the part is used, and
what is public.
"""

import contextlib
import functools
import importlib
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ray.exceptions import OutOfMemoryError, RayActorError, RpcError

from sweeper.launch.cores import cores
from sweeper.trial.jax_settings import variables

LOOK_OFTEN_SECONDS = 5.0  # for how long a node that starts is looked for often
LOOK_SECONDS = 0.02  # between two such looks

QUICK_START: dict[str, Any] = {
    "_system_config": {
        # Ray would start as many workers as there are cores before the driver is let in, which has work of its own.
        "prestart_worker_first_driver": False,
        # In half of all starts the node looks for its object store too early, and would look again a second later.
        "raylet_client_connect_timeout_milliseconds": 20,
        "raylet_client_num_connect_attempts": 500,
    }
}
"""Options of `ray.init` that save a start some seconds. In public: a start without these options."""


def _module(name: str, *parts: str) -> Any:
    """A private module of Ray, None if this Ray has no module with these parts."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    return module if all(hasattr(module, part) for part in parts) else None


@contextlib.contextmanager
def _replaced(owner: Any, **parts: object) -> Iterator[None]:
    """Replace parts of a module or class; of None nothing."""
    before = {} if owner is None else {name: getattr(owner, name) for name in parts}
    for name in before:
        setattr(owner, name, parts[name])
    try:
        yield
    finally:
        for name, part in before.items():
            setattr(owner, name, part)


def machine_resources() -> Mapping[str, float]:
    """How many `CPU` and `GPU` a local cluster would have: our cores, and GPUs as Ray counts them; Ray is not started.

    In public Ray must be started to count. Then the GPUs of a pack are not compared.
    """
    counted = _module("ray._private.resource_and_label_spec", "ResourceAndLabelSpec")
    if counted is None:
        return {"CPU": float(cores()), "GPU": math.inf}
    counts = (
        counted.ResourceAndLabelSpec(num_cpus=cores())
        .resolve(is_head=True, node_ip_address="127.0.0.1")
        .to_resource_dict()
    )
    return {name: float(counts.get(name) or 0) for name in ("CPU", "GPU")}


def address_of_cluster(address: str | None) -> str | None:
    """Host and port that an address of Ray leads to; None if it leads to no cluster, or to a local one.

    The address is host and port, "local", "auto", or None for $RAY_ADDRESS, else the cluster that `ray start` left.
    Whether the cluster answers is not asked. In public Ray connects at once, also to the private cluster of another
    driver, and waits a minute for a cluster that is gone. So in public a cluster must be named.
    """
    services = _module("ray._private.services", "canonicalize_bootstrap_address")
    if services is not None:
        return services.canonicalize_bootstrap_address(None if address == "auto" else address)
    named = os.environ.get("RAY_ADDRESS") if address in (None, "auto") else address
    return named if named and named != "local" else None


@functools.cache
def _only_token() -> str:
    return secrets.token_hex(32)


@contextlib.contextmanager
def fresh_token() -> Iterator[None]:
    """Have this process, and the processes it starts, show a token that nobody else has.

    Afterwards the token is the user's again: a process may use a local cluster, then another cluster, then a local one.
    In public a process keeps the first token that it has shown, so that all its local clusters have the same one.
    """
    native = _module("ray._raylet", "AuthenticationTokenLoader")
    forget = (lambda: None) if native is None else native.AuthenticationTokenLoader.instance().reset_cache
    try:
        with variables({"RAY_AUTH_TOKEN": _only_token() if native is None else secrets.token_hex(32)}):
            forget()
            yield
    finally:
        forget()


@contextlib.contextmanager
def on_loopback() -> Iterator[None]:
    """Have Ray take 127.0.0.1 as this machine's address, and listen nowhere else.

    Ray replaces the loopback address by an address of a network, even if the loopback address is given, except on
    systems that Ray believes to have no clusters. A switch of Ray turns this belief on. In public the switch is an
    environment variable, which Ray reads at its import, before it is known which cluster the sweep will use. So in
    public Ray listens on a network, and its token keeps others out.
    """
    constants = _module("ray._private.ray_constants", "ENABLE_RAY_CLUSTER", "ENABLE_RAY_CLUSTERS_ENV_VAR")
    # The processes that Ray starts read the variable.
    switch = {} if constants is None else {constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0"}
    with _replaced(constants, ENABLE_RAY_CLUSTER=False), variables(switch):
        yield


@contextlib.contextmanager
def only_what_is_needed(meanwhile: Callable[[], object]) -> Iterator[None]:
    """Have Ray start no process that serves a dashboard, an autoscaler, or logs that the driver shows.

    Ray would wait for the first of them, and all three would take the cores that workers start on. Without a dashboard
    Ray still starts that process, to count users. In public every cluster has all of them. `meanwhile` is called while
    the others start; in public before.
    """
    module = _module("ray._private.node", "Node")
    helpers = ("start_api_server", "start_monitor", "start_log_monitor")
    if module is None or not all(hasattr(module.Node, name) for name in ("start_ray_processes", *helpers)):
        meanwhile()
        yield
        return

    def not_started(self: Any, **options: object) -> None:
        self._webui_url = ""  # Ray passes the address of its dashboard on

    start_ray_processes = module.Node.start_ray_processes

    def started(self: Any) -> None:
        start_ray_processes(self)
        meanwhile()
        _wait_until_registered(self)

    with _replaced(module.Node, start_ray_processes=started, **dict.fromkeys(helpers, not_started)):
        yield


def _wait_until_registered(node: Any) -> None:
    """Wait until the node is known to its head, for some seconds at most; then Ray itself waits.

    Ray looks once a second, and a node takes half a second.
    """
    head = node.get_gcs_client()
    until = time.monotonic() + LOOK_OFTEN_SECONDS
    with contextlib.suppress(RpcError):  # a head that does not answer in time: Ray waits longer
        while time.monotonic() < until:
            known = head.get_all_node_info(timeout=LOOK_OFTEN_SECONDS)
            if any(node_id.hex() == node.node_id for node_id in known):
                return
            time.sleep(LOOK_SECONDS)


def staged_in(folder: Path) -> AbstractContextManager[None]:
    """Have Tune stage its files, pickles among them, in a folder, and read them back from there.

    In public they lie in Ray's session folder, which on the machine of a cluster may be open to other users.
    """
    storage = _module("ray.train._internal.storage", "_get_ray_train_session_dir")
    return _replaced(storage, _get_ray_train_session_dir=lambda: str(folder))


def no_trackers() -> AbstractContextManager[None]:
    """Keep Tune from importing MLflow, W&B and Comet, only to count which of them a user has given Tune.

    In public Tune imports those that are installed, for seconds.
    """
    return _replaced(_module("ray.air._internal.usage", "tag_callbacks"), tag_callbacks=lambda callbacks: False)


class KilledForMemory(RayActorError):
    """A worker that Ray has killed because the memory of its node was full."""


def memory_kills_are_deaths() -> AbstractContextManager[None]:
    """Have Tune take a worker that Ray kills for memory for one that died, so that its pack is tried again.

    Tune ends at any error of a worker that is not a `RayActorError`. In public the sweep ends with this reason.
    """
    manager = getattr(_module("ray.air.execution._internal.actor_manager"), "RayActorManager", None)
    failed = getattr(manager, "_actor_task_failed", None)
    if failed is None:
        return contextlib.nullcontext()

    def told(self: Any, *, exception: Exception, **task: Any) -> None:
        if isinstance(exception, OutOfMemoryError):
            exception = KilledForMemory(error_msg=str(exception))
        failed(self, exception=exception, **task)

    return _replaced(manager, _actor_task_failed=told)


def actor_of(trial: Any) -> Any:
    """The actor of a Tune trial; None if it has none at the moment. In public Tune tells of none."""
    return getattr(getattr(trial, "temporary_state", None), "ray_actor", None)
