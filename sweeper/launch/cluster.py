"""The Ray cluster of a start: a running one, or a local one that other users of the machine cannot reach.

By default Ray listens on all addresses, makes its session folder writable to everybody, and leaves its token readable
to everybody. On a local cluster ports are open on the loopback address only, so that it also outlives a change of the
network; the session folder lies below a folder of mode 0700; and the token exists in the environment of the cluster's
own processes alone.

A start waits for its local cluster. So the cluster consists of the processes that it needs, and its workers get their
environment from the processes that start them: a runtime environment of Ray would take two processes for every worker.
"""

import _thread
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ray

from sweeper.interruption import Interruption, starting_deaf_processes
from sweeper.launch import ray_internals
from sweeper.launch.code_snapshot import CodeSnapshot, code_snapshot
from sweeper.launch.environment import WORKER_VARIABLE, worker_environment
from sweeper.launch.job import LaunchError, SetupError
from sweeper.messages import counted
from sweeper.packs.failures import reason
from sweeper.packs.rehearsal import Rehearsal
from sweeper.progress import doing
from sweeper.space.resources import Resources
from sweeper.temporary_folders import SHORT, remove_those_of_the_dead, temporary_folder
from sweeper.trial.jax_settings import variables
from sweeper.trial.trial import Trial

CONNECT_SECONDS = 30  # after this time without an answer a cluster counts as refusing the driver


def running_cluster(address: str | None) -> str | None:
    """Address of the Ray cluster to use, or None to start a local one.

    Without an explicit address this is $RAY_ADDRESS, or the cluster that `ray start` left on this machine if it still
    answers; never the private cluster of another driver. A `LaunchError` if a cluster that the user named is silent.
    """
    variable = os.environ.get("RAY_ADDRESS") if address in (None, "auto") else None
    named = variable or address
    place = f"{variable} (the variable RAY_ADDRESS)" if variable else address
    if named is not None and named.startswith("ray://"):
        raise LaunchError(f"{place}: Ray Client is not supported; start the command on the cluster (ray job submit)")
    try:
        if (running := ray_internals.address_of_cluster(address)) is not None:
            host, _, port = running.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=3).close()
            return running
    except Exception as error:  # Ray raises whatever the socket library does on a name it cannot resolve
        if variable or address not in (None, "auto"):
            raise LaunchError(f"no Ray cluster answers at {place}: {error}") from error
    if "auto" in (address, variable):
        raise LaunchError(f"Ray address {place}: there is no running cluster on this machine")
    return None


@contextlib.contextmanager
def connected(
    address: str | None,
    resources: Resources,
    interruption: Interruption,
    rehearsal: Rehearsal,
    trials: Iterable[Trial] = (),
    text: str = "",
) -> Iterator[str | None]:
    """Connects to a running cluster (see `running_cluster`) or starts a local one, and leaves no process behind.

    Yields the address of the cluster, None for a local one. Ray takes over SIGTERM when it starts, and here the start
    takes it back. While Ray starts the programs of the start are rehearsed where workers will stand. Workers get what
    the plug-ins of the trials, and the text of their search space, name (`code_snapshot`).

    Raises:
        LaunchError: there is no connection.
        SetupError: this machine, used as a local cluster, cannot hold a pack.
        ContractError: the rehearsal has found that workers would train other programs, or none.
    """
    cluster = running_cluster(address)
    environment = worker_environment(resources)
    ended = contextlib.ExitStack()
    try:
        with interruption.answered_by("raise"):
            try:
                remove_those_of_the_dead()
                snapshot = ended.enter_context(code_snapshot(trials, text))
                if cluster is None:
                    environment |= snapshot.environment()
                with _where_workers_stand(rehearsal, environment, snapshot):
                    if cluster is None:
                        ended.enter_context(ray_internals.fresh_token())
                        # Workers work in the working directory of `ray.init`, and look for modules there before they
                        # look in PYTHONPATH.
                        folder = ended.enter_context(temporary_folder("ray", SHORT, keep=_has_tracebacks))
                        with contextlib.chdir(snapshot.project):
                            start_local(environment, folder)
                        refuse_too_large(resources)
                    else:
                        _connect(cluster, environment, snapshot)
            except SystemExit:
                # Ray answers SIGTERM in this way from the moment it starts.
                interruption.signum = signal.SIGTERM
            interruption.listen()
            interruption.check()
            yield cluster
    finally:
        # Half a shutdown would leave processes behind.
        with interruption.answered_by("ignore"):
            ray.shutdown()
            ended.close()


def rehearsed(resources: Resources, rehearsal: Rehearsal, trials: Iterable[Trial], text: str) -> None:
    """The rehearsal of a start on a cluster, without Ray; errors are those of `connected`."""
    if rehearsal.trials:
        with (
            code_snapshot(trials, text) as snapshot,
            _where_workers_stand(rehearsal, worker_environment(resources), snapshot),
        ):
            pass


def _where_workers_stand(
    rehearsal: Rehearsal, environment: Mapping[str, str], snapshot: CodeSnapshot
) -> contextlib.AbstractContextManager[None]:
    # No worker: what a plug-in does in workers alone is a failure of its trials.
    settings = {name: value for name, value in environment.items() if name != WORKER_VARIABLE}
    return rehearsal.elsewhere(settings | snapshot.environment(), snapshot.project)


def refuse_too_large(resources: Resources) -> None:
    """Refuse a pack that is larger than the connected cluster, which does not grow (`SetupError`)."""
    available = ray.cluster_resources()
    for name in ("CPU", "GPU"):
        needed = sum(bundle.get(name, 0.0) for bundle in resources.bundles())
        if needed > available.get(name, 0.0):
            raise SetupError(
                f"a pack takes {counted(needed, name)}, and this machine has {available.get(name, 0.0):g}: change "
                "resources (--set resources.gpus=0 trains on its cores), or take a cluster (--address)"
            )


def _has_tracebacks(folder: Path) -> bool:
    """Whether a worker has written a traceback into Ray's folder, which the message about a failed pack names."""
    logs = folder.glob("ray/session_*/logs/worker-*.err")
    return any("Traceback (most recent call last)" in log.read_text(errors="replace") for log in logs)


def start_local(environment: Mapping[str, str], folder: Path) -> None:
    """Start Ray on this machine, within a `fresh_token`, with its files in the folder."""
    # On a busy machine Ray may miss its own time limits for starting, and start without trouble a moment later.
    for options, last in ((ray_internals.QUICK_START, False), ({}, True)):
        try:
            with (
                doing("starting Ray once more") if last else contextlib.nullcontext(),
                starting_deaf_processes(),
                ray_internals.on_loopback(),
                variables({**environment, "RAY_TMPDIR": str(folder)}),
                ray_internals.only_what_is_needed(),
            ):
                ray.init(
                    address="local",
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.CRITICAL,
                    num_cpus=ray_internals.cores(),
                    object_store_memory=128 * 2**20,
                    **options,
                )
            return
        except Exception as error:  # full disks, closed ports, limits on processes, time: Ray has no type for them
            ray.shutdown()
            if last:
                again = "on a busy machine the same command may succeed a moment later"
                raise LaunchError(f"Ray did not start on this machine, twice: {reason(error)}; {again}") from error


def _connect(address: str, environment: dict[str, str], snapshot: CodeSnapshot) -> None:
    def give_up(signum: int, frame: Any) -> None:
        raise TimeoutError

    # Inside `ray job submit` the job has an environment of its own; ours is added to it.
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    # A token that the cluster does not like is shown for ever. Any signal would do that nobody sends.
    before = signal.signal(signal.SIGVTALRM, give_up)
    limit = threading.Timer(CONNECT_SECONDS, _thread.interrupt_main, (signal.SIGVTALRM,))
    limit.start()
    try:
        code = {"working_dir": str(snapshot.project), "py_modules": [str(snapshot.packages / "sweeper")]}
        given = {"env_vars": environment, **code}
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, runtime_env=given)
    except (TimeoutError, ConnectionError, RuntimeError, ValueError) as error:
        if "exceeds the maximum size" in str(error):
            way_out = "let plug-ins read large files by their full paths, on a disk that all nodes have"
            raise SetupError(
                f"the copy of the project cannot be sent to the cluster: {reason(error)}; {way_out}"
            ) from error
        raise LaunchError(
            f"the Ray cluster at {address} does not let this driver in ({error or 'no answer'}). If it was started "
            f"with RAY_AUTH_MODE=token, the driver needs RAY_AUTH_MODE=token and the same token"
        ) from error
    finally:
        limit.cancel()
        signal.signal(signal.SIGVTALRM, before)
