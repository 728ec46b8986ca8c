"""The Ray cluster of a start: a running one or a local one, with an environment for its workers."""

import contextlib
import importlib
import logging
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any, cast

import ray
from ray._private import services  # Ray's public ways to an address connect to it, and wait for a minute

from sweeper.interruption import Interruption
from sweeper.launch import local_cluster
from sweeper.launch.code_snapshot import CodeSnapshot, code_snapshot
from sweeper.launch.compiling import FirstPacks, compiled_ahead
from sweeper.launch.failures import LaunchError, TooLarge
from sweeper.launch.head_watch import watched_head
from sweeper.launch.worker_process import WORKER_VARIABLE
from sweeper.messages import counted
from sweeper.packs.device_memory import memory_share
from sweeper.space.resources import Resources
from sweeper.trial import jax_settings

CONNECT_SECONDS = 30
"""After this time without an answer a cluster counts as refusing the driver."""


def worker_environment(resources: Resources) -> dict[str, str]:
    """Environment of the worker processes, set before jax is imported there.

    One thread for any number of cores, as more threads are other numbers (`sweeper.training.compilation`); and XLA's
    settings are those of this process. Preallocation lets the first pack take most of a GPU that several packs share.
    """
    environment = {
        **{name: value for name, value in jax_settings.environment.items() if value or name == "XLA_FLAGS"},
        "PJRT_NPROC": "1",
        "NPROC": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "RAY_CHDIR_TO_TRIAL_DIR": "0",
        WORKER_VARIABLE: "1",
    }
    if resources.gpus == 0:
        # Workers without a GPU of their own still see the GPUs of the node.
        environment |= {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    else:
        environment |= memory_share()
    return environment


def running_cluster(address: str | None) -> str | None:
    """Address of the Ray cluster to use, or None to start a local one.

    Without an explicit address this is $RAY_ADDRESS, or the cluster that `ray start` left on this machine if it
    still answers; never the private cluster of another driver.

    Raises:
        LaunchError: a cluster that the user named does not answer.
    """
    if address is not None and address.startswith("ray://"):
        raise LaunchError(f"{address}: Ray Client is not supported; start the command on the cluster (ray job submit)")
    explicit = address not in (None, "auto") or bool(os.environ.get("RAY_ADDRESS"))
    try:
        # Private, since Ray's public ways to an address connect to it, and wait a minute for a cluster that is gone.
        running = services.canonicalize_bootstrap_address(cast(str, None if address == "auto" else address))
    except Exception as error:  # Ray raises whatever the socket library does on a name it cannot resolve
        raise LaunchError(f"Ray address '{address}': {error}") from error
    if running is not None:
        host, _, port = running.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=3).close()
            return running
        except (OSError, ValueError) as error:
            if explicit:
                raise LaunchError(f"no Ray cluster answers at {running}: {error}") from error
    if address == "auto":
        raise LaunchError("there is no running Ray cluster on this machine")
    return None


@contextlib.contextmanager
def connected(
    address: str | None, resources: Resources, interruption: Interruption, first: FirstPacks | None = None
) -> Iterator[str | None]:
    """Connects to a running cluster or starts a local cluster, and leaves no process behind.

    Args:
        address: See `running_cluster`.
        resources: The resources of one pack.
        interruption: Signals; Ray takes over SIGTERM when it starts, and here the start takes it back.
        first: The first packs. On a local cluster their programs are compiled while Ray and its workers start.

    Yields:
        The address of the cluster, None for a local one.

    Raises:
        LaunchError: there is no connection.
        ProjectError: workers could not load what the start will train.
        TooLarge: this machine, used as a local cluster, cannot hold a pack.
    """
    cluster = running_cluster(address)
    if cluster is None:
        _refuse_too_large(resources)
    environment = worker_environment(resources)
    ended = contextlib.ExitStack()
    try:
        with interruption.answered_by("raise"):
            try:
                snapshot = ended.enter_context(code_snapshot())
                if cluster is None:
                    environment |= snapshot.environment()
                    if first is not None:
                        ended.enter_context(compiled_ahead(first, resources, environment, snapshot.project))
                if first is not None:
                    snapshot.require_loadable(first.trials, first.code, environment)
                if cluster is None:
                    ended.enter_context(local_cluster.fresh_token())
                    _start(environment, snapshot)
                else:
                    _connect(cluster, environment, snapshot)
            except SystemExit:
                # Ray answers SIGTERM in this way from the moment it starts.
                interruption.signum = signal.SIGTERM
            interruption.listen()
            interruption.check()
            with watched_head(cluster, interruption):
                yield cluster
    finally:
        # Half a shutdown would leave processes behind.
        with interruption.answered_by("ignore"):
            ray.shutdown()
            ended.close()


def refuse_too_large(address: str | None, resources: Resources) -> None:
    """Refuse a pack that is larger than this machine, if a start would use this machine as a local cluster.

    Nothing is started, and packs are not compared with a running cluster, which may grow.

    Args:
        address: See `running_cluster`.
        resources: The resources of one pack.

    Raises:
        TooLarge: this machine, used as a local cluster, cannot hold a pack.
    """
    if address == "local" or (address is None and not os.environ.get("RAY_ADDRESS") and running_cluster(None) is None):
        _refuse_too_large(resources)


def _refuse_too_large(resources: Resources) -> None:
    available = local_cluster.machine_resources()
    blamed = {"CPU": "population_workers" if resources.population_workers else "cpus", "GPU": "gpus"}
    for name, key in blamed.items():
        needed = sum(bundle.get(name, 0.0) for bundle in resources.bundles())
        if needed > available.get(name, 0):
            cores = "--set resources.gpus=0 trains on its cores, " if name == "GPU" else ""
            raise TooLarge(
                f"resources.{key}: a pack takes {counted(needed, name)}, this machine has {available.get(name, 0):g}; "
                f"{cores}--address on a cluster"
            )


def _start(environment: dict[str, str], snapshot: CodeSnapshot) -> None:
    # Workers work in the working directory of `ray.init`, and look for modules there before they look in PYTHONPATH.
    with contextlib.chdir(snapshot.project):
        local_cluster.start(environment, meanwhile=import_tune)


def import_tune() -> None:
    """Import what runs the packs. Tune takes longer to import than all of the driver's side apart from Jax."""
    importlib.import_module("sweeper.launch.tune_driver")


def _connect(address: str, environment: dict[str, str], snapshot: CodeSnapshot) -> None:
    def give_up(signum: int, frame: Any) -> None:
        raise TimeoutError

    # Inside `ray job submit` the job has an environment of its own; ours is added to it.
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    before = signal.signal(signal.SIGALRM, give_up)  # a token that the cluster does not like is shown for ever
    signal.alarm(CONNECT_SECONDS)
    try:
        code = {"working_dir": str(snapshot.project), "py_modules": [str(snapshot.packages / "sweeper")]}
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            runtime_env={"env_vars": environment, **code},
        )
    except (TimeoutError, ConnectionError, RuntimeError) as error:
        raise LaunchError(
            f"the Ray cluster at {address} does not let this driver in ({error or 'no answer'}). If it was started "
            f"with RAY_AUTH_MODE=token, the driver needs RAY_AUTH_MODE=token and the same token"
        ) from error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
