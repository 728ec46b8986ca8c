"""Packs on Ray Tune: one Tune trial trains one pack, in a worker process that is used again for the next.

Tune places packs on whatever there is, starts workers again that died, and asks ASHA who falls behind. It is not asked
what has been done: every start hands it a new list, and its own experiment state goes into a folder that is thrown
away. A worker commits to the store first and reports then, so that a report may get lost at no cost.

Driver and workers talk in three ways. Work goes out as a Tune configuration: the pack's trials as plain JSON and the
ids still pending. Progress comes back as Tune results, about one a second. Orders (checkpoint and leave; stop early)
wait with a small actor that every worker asks between two chunks, because Tune's own way to stop a trial cannot tell
the two apart and kills what does not stop in time.

Invariants:
    - Nothing that happens to a pack leaves this module as an exception of Ray. An exception inside a pack, or a worker
      that dies too often, becomes failed rows; whatever could not be committed is told as a `Loss`, and stays pending.
    - A worker gets as many threads as its pack has cores, and a GPU only if the pack asks for one; its environment
      says so before jax is imported.
    - After `cluster` is left, no process that it started remains.
"""

import contextlib
import dataclasses
import datetime
import json
import logging
import os
import pickle
import signal
import socket
import stat
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Protocol, cast, runtime_checkable

# Ray reads this at its import: a paragraph about every dead worker would bury the line that says it.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")

import jax
import ray
from ray import tune
from ray._private import services
from ray._private.authentication import authentication_token_setup
from ray.exceptions import OutOfMemoryError, RayActorError, RayError
from ray.tune.error import TuneError
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, TrialScheduler
from ray.tune.search import Searcher

from sweeper import plugins
from sweeper.interruption import Interruption
from sweeper.packing import Pack
from sweeper.plan import Source, Work
from sweeper.provenance import Provenance
from sweeper.search_space import Asha, Resources
from sweeper.spec import TrialSpec, canonical
from sweeper.store import Store, StoreError, TrialResult
from sweeper.worker import PackRun, Progress

MAX_WORKER_DEATHS = 3
"""How often the worker of one pack may die before the pack counts as failed."""

WAVE = 2000
"""Packs of one Tune run. Tune keeps about 90 kB of every pack it has seen, so a long list is run in waves."""

REPORT_SECONDS = 1.0
GRACE_SECONDS = 20.0
"""How long running packs have to leave a checkpoint once they are told to."""

CONNECT_SECONDS = 30

_TUNE = {
    # No files for every trial and no snapshots of the state of all of them: twenty times the throughput.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1e9",
    # Signals are ours; the report of a pack that failed has no metrics; errors are told in one line, by us.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    # Enough packs in the queue to make an autoscaler grow at once.
    "TUNE_MAX_PENDING_TRIALS_PG": "200",
}


class LaunchError(RuntimeError):
    """The cluster cannot be reached; the message is for the user."""


class TooLarge(LaunchError):
    """A pack asks for more than a local cluster will ever have."""


@dataclasses.dataclass(frozen=True)
class Loss:
    """Trials without a row: what went wrong was not their own doing, and the next start runs them."""

    pack_id: str
    trial_ids: tuple[str, ...]
    reason: str


@runtime_checkable
class Watcher(Protocol):
    """Who is told what happens; called in the driver's loop, hence quick."""

    def started(self, work: Work) -> None: ...

    def progress(self, pack_id: str, fields: dict[str, Any]) -> None: ...

    def ended(self, pack_id: str) -> None: ...

    def note(self, text: str) -> None: ...

    def tick(self) -> None:
        """Called about ten times a second."""
        ...


# --------------------------------------------------------------------------------------------------------------------
# The cluster
# --------------------------------------------------------------------------------------------------------------------


def worker_environment(resources: Resources) -> dict[str, str]:
    """Environment of the worker processes, set before jax is imported there.

    XLA would size its thread pools by the machine, so that two packs on two cores took four threads. Preallocation
    would let the first pack take most of a GPU that others share.
    """
    threads = str(resources.cpus)
    environment = {
        "PJRT_NPROC": threads,
        "NPROC": threads,
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "RAY_CHDIR_TO_TRIAL_DIR": "0",
    }
    if resources.cpus == 1:
        environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    if resources.gpus == 0:
        # Workers without a GPU of their own still see those of the node.
        environment["JAX_PLATFORMS"] = "cpu"
    return environment


def running_cluster(address: str | None) -> str | None:
    """Address of the Ray cluster to use, or None to start a local one.

    Without an explicit address that is $RAY_ADDRESS or the cluster that `ray start` left on this machine, if it
    still answers; never the private cluster of somebody's driver.

    Raises:
        LaunchError: a cluster that was asked for does not answer.
    """
    if address is not None and address.startswith("ray://"):
        raise LaunchError(f"{address}: Ray Client is not supported; start the command on the cluster (ray job submit)")
    explicit = address not in (None, "auto") or bool(os.environ.get("RAY_ADDRESS"))
    try:
        found = services.canonicalize_bootstrap_address(cast(str, None if address == "auto" else address))
    except Exception as error:  # Ray raises whatever the socket library does on a name it cannot resolve
        raise LaunchError(f"Ray address '{address}': {error}") from error
    if found is not None:
        host, _, port = found.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=3).close()
            return found
        except (OSError, ValueError) as error:
            if explicit:
                raise LaunchError(f"no Ray cluster answers at {found}: {error}") from error
    if address == "auto":
        raise LaunchError("no running Ray cluster was found on this machine")
    return None


@contextlib.contextmanager
def cluster(address: str | None, resources: Resources, interruption: Interruption) -> Iterator[str | None]:
    """Connects to a running cluster or starts a local one, and leaves nothing behind.

    Args:
        address: See `running_cluster`.
        resources: What one pack takes.
        interruption: Signals; Ray takes over SIGTERM when it starts, so they are taken back here.

    Yields:
        The address of the cluster, None for a local one.

    Raises:
        LaunchError: there is no connection.
        TooLarge: this machine, used as a local cluster, cannot hold a pack.
    """
    found = running_cluster(address)
    environment = worker_environment(resources)
    try:
        try:
            if found is None:
                _start(environment)
            else:
                _connect(found, environment)
        except SystemExit:
            # Ray answers SIGTERM in this way from the moment it starts.
            interruption.signum = signal.SIGTERM
            raise KeyboardInterrupt from None
        interruption.listen()
        for name, needed in (("CPU", resources.cpus), ("GPU", resources.gpus)):
            available = ray.cluster_resources().get(name, 0)
            if found is None and needed > available:
                raise TooLarge(f"resources.{name.lower()}s: a pack takes {needed:g}, this machine has {available:g}")
        yield found
    finally:
        # Half a shutdown would leave processes behind.
        interruption.ignore()
        ray.shutdown()
        interruption.listen()


def _start(environment: dict[str, str]) -> None:
    # Workers import this checkout wherever the command was started.
    path = os.pathsep.join(filter(None, (str(plugins.ROOT), os.environ.get("PYTHONPATH"))))
    try:
        ray.init(
            address="local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            object_store_memory=128 * 2**20,
            runtime_env={"env_vars": environment | {"PYTHONPATH": path}},
        )
    except Exception as error:  # full disks, closed ports, limits on processes: Ray has no type for them
        raise LaunchError(f"Ray did not start on this machine: {reason(error)}") from error


def _connect(address: str, environment: dict[str, str]) -> None:
    def give_up(signum: int, frame: Any) -> None:
        raise TimeoutError

    # A token that the cluster does not like is retried for ever, and an explicit address never switches tokens on.
    authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    # Inside `ray job submit` the job has an environment of its own; ours is added to it.
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(CONNECT_SECONDS)
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            runtime_env={
                "env_vars": environment,
                "working_dir": str(plugins.ROOT),
                "excludes": [".venv", ".git", "results", "__pycache__", ".pytest_cache", ".ruff_cache", ".hypothesis"],
            },
        )
    except (TimeoutError, ConnectionError, RuntimeError) as error:
        raise LaunchError(
            f"the Ray cluster at {address} does not let this driver in ({error or 'no answer'}). If it was started "
            f"with RAY_AUTH_MODE=token, the driver needs RAY_AUTH_MODE=token and the same token"
        ) from error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# --------------------------------------------------------------------------------------------------------------------
# The worker's side
# --------------------------------------------------------------------------------------------------------------------

Order = Literal["carry on", "stop early", "leave"]


class _Orders:
    """The actor that keeps the driver's orders until the workers ask."""

    def __init__(self) -> None:
        self._leave = False
        self._stop_early: set[str] = set()

    def leave(self) -> None:
        self._leave = True

    def stop_early(self, pack_id: str) -> None:
        self._stop_early.add(pack_id)

    def order(self, pack_id: str) -> Order:
        return "leave" if self._leave else "stop early" if pack_id in self._stop_early else "carry on"


class PackTrainable(tune.Trainable):
    """Trains one pack after another in one process, which keeps what was compiled."""

    def setup(self, config: dict[str, Any], **launch: Any) -> None:
        """Called once a process.

        Args:
            config: The first pack, see `reset_config`.
            launch: `orders`, `store`, `provenance` and `resources`, the same for all packs.
        """
        self._orders = launch["orders"]
        self._store_url: str = launch["store"]
        self._provenance: Provenance = launch["provenance"]
        self._resources: Resources = launch["resources"]
        self._store: Store | None = None
        _keep_compilations(self._resources.cpus)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take up the next pack: its trials as JSON and the pending ids."""
        self._encoded = new_config
        self._run: PackRun | None = None
        self._progress: dict[str, Any] = {}
        return True

    def step(self) -> dict[str, Any]:
        """Train, evaluate and commit for about a second.

        Returns:
            The fields of `Progress`, `done`, and at the end of a pack that went wrong `failure` (rows tell it) or
            `lost` (no rows could).
        """
        pack_id = self._encoded["pack_id"]
        try:
            order = self._order(pack_id)
            if order == "leave":
                if self._run is not None:
                    self._run.checkpoint()
                return self._progress | {"done": True}
            if self._run is None:
                self._run = self._started()
            if order == "stop early" and self._progress.get("phase") == "training":
                self._run.stop_early()
            until = time.monotonic() + REPORT_SECONDS
            while True:
                progress = self._run.advance()
                self._progress = dataclasses.asdict(progress)
                if progress.phase == "done" or time.monotonic() >= until:
                    return self._progress | {"done": progress.phase == "done"}
        except (OSError, StoreError) as error:
            # The disk, the network or the object store: nothing that these trials have done.
            return self._progress | {"done": True, "lost": reason(error)}
        except Exception as error:  # whatever a task or model may raise is a fact about these trials
            traceback.print_exc()
            return self._progress | {"done": True} | self._failed(error)

    def _order(self, pack_id: str) -> Order:
        try:
            return ray.get(self._orders.order.remote(pack_id), timeout=10)
        except RayError:
            return "carry on"

    def _started(self) -> PackRun:
        pack, pending = decoded(self._encoded)
        resources = self._resources
        return PackRun(
            pack, pending, self._opened(), self._provenance, resources.checkpoint_seconds, resources.outcomes
        )

    def _opened(self) -> Store:
        if self._store is None:
            self._store = Store.open(self._store_url)
        return self._store

    def _failed(self, error: Exception) -> dict[str, Any]:
        described = {"kind": type(error).__name__, "message": reason(error), "step": self._progress.get("step", 0)}
        try:
            work = Work(*decoded(self._encoded))
            commit_failed(self._opened(), self._provenance, work, described)
        except Exception as second:  # a failure that cannot be committed must still be told
            return {"lost": f"{described['kind']}: {described['message']}; and no row of it: {reason(second)}"}
        text = f"{described['kind']}: {described['message']}"
        return {"failed": len(work.pending), "failure": text, "log": _own_log()}


def _own_log() -> str:
    """Where this worker's error stream goes, on its node."""
    context = ray.get_runtime_context()
    return f"{context.get_temp_dir()}/{context.get_session_name()}/logs/worker-{context.get_worker_id()}-*.err"


def encoded(work: Work) -> dict[str, Any]:
    """The Tune configuration of a pack: plain data, which no version of Python or pydantic can fail to read."""
    return {
        "pack_id": work.pack.pack_id,
        "trials": json.dumps([canonical(trial) for trial in work.pack.trials]),
        "pending": json.dumps(work.pending),
    }


def decoded(config: dict[str, Any]) -> tuple[Pack, tuple[str, ...]]:
    """The pack and the pending ids of a Tune configuration."""
    trials = tuple(TrialSpec.model_validate(trial) for trial in json.loads(config["trials"]))
    return Pack(trials), tuple(json.loads(config["pending"]))


def commit_failed(store: Store, provenance: Provenance, work: Work, error: dict[str, Any]) -> None:
    """Commit a failed row for every pending trial; rows that are finished stay as they are.

    The pack's checkpoint stays, so that a retry does not start from nothing.
    """
    now = datetime.datetime.now(datetime.UTC)
    for trial, key in zip(work.pack.trials, work.pack.trial_ids, strict=True):
        if key in work.pending:
            result = TrialResult(
                trial=trial,
                status="failed",
                metrics={},
                curves=[],
                outcomes=None,
                timings={},
                error=error,
                provenance=provenance,
                pack_id=work.pack.pack_id,
                lanes=len(work.pack.trials),
                device="",
                started=now,
                finished=now,
            )
            store.commit(result)


def reason(error: BaseException) -> str:
    """One line about an exception, with the place in this checkout where it was raised."""
    text = next(iter(str(error).strip().splitlines()), "")[:400]
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(plugins.ROOT)]
    if not ours or isinstance(error, OSError | StoreError):
        return text
    return f"{text} ({Path(ours[-1].filename).relative_to(plugins.ROOT)}, line {ours[-1].lineno})"


def _keep_compilations(cpus: int) -> None:
    """Switch on jax's persistent cache, in a folder of this node that only this user can write.

    It holds machine code: a folder that others may write to, or have put there, is not used. Programs compiled for
    other numbers of threads are kept apart.
    """
    folder = private_folder(f"jax-cache-{cpus}")
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def private_folder(name: str) -> Path | None:
    """A folder below the temporary directory that belongs to this user alone; None where there cannot be one."""
    parent = Path(tempfile.gettempdir()) / f"sweeper-{os.getuid()}"
    try:
        parent.mkdir(mode=0o700, exist_ok=True)
        found = parent.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            return None
        folder = parent / name
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder


# --------------------------------------------------------------------------------------------------------------------
# The driver's side
# --------------------------------------------------------------------------------------------------------------------


class _Ended(BaseException):
    """Leaves Tune's loop past everything that would catch an exception there."""


class _NotSaved:
    """Tune pickles its parts into the experiment's folder; ours stay in the driver, and nobody reads that folder."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class _Queue(_NotSaved, Searcher):
    """Hands a wave of the source's work to Tune, as far as nobody wants to stop."""

    def __init__(self, source: Source, interruption: Interruption):
        super().__init__()
        self._source, self._interruption, self._left = source, interruption, WAVE

    def suggest(self, trial_id: str) -> Any:
        if self._interruption.signum is not None or not self._left:
            return Searcher.FINISHED
        work = self._source.next()
        if work is not None:
            self._left -= 1
            return encoded(work)
        return Searcher.FINISHED if self._source.exhausted else None

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        pass

    def save(self, checkpoint_path: str) -> None:
        pass

    def restore(self, checkpoint_path: str) -> None:
        pass


class _EarlyStopping(_NotSaved, ASHAScheduler):
    """ASHA, whose verdict becomes an order: the worker itself evaluates and commits what is stopped."""

    def __init__(self, asha: Asha, orders: Any):
        super().__init__(
            time_attr="step",
            metric=asha.metric,
            mode="min",
            max_t=10**12,  # rungs go on for as long as anything trains
            grace_period=asha.grace_steps,
            reduction_factor=asha.reduction_factor,
            stop_last_trials=False,
        )
        self._orders = orders

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        if super().on_trial_result(tune_controller, trial, result) == TrialScheduler.STOP:
            self._orders.stop_early.remote(trial.config["pack_id"])
        return TrialScheduler.CONTINUE


class _Conductor(_NotSaved, tune.Callback):
    """Follows every pack from its start to its end, and leaves Tune's loop when the sweep is interrupted."""

    def __init__(
        self,
        source: Source,
        store: Store,
        provenance: Provenance,
        watcher: Watcher,
        interruption: Interruption,
        orders: Any,
    ):
        self._source, self._store, self._provenance = source, store, provenance
        self._watcher, self._interruption, self._orders = watcher, interruption, orders
        self._leaving: set[str] = set()
        self._deadline: float | None = None
        self.losses: list[Loss] = []

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._watcher.started(Work(*decoded(trial.config)))

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        pack_id = trial.config["pack_id"]
        fields = {field.name: result[field.name] for field in dataclasses.fields(Progress) if field.name in result}
        # The worker may run a part of the pack, under a name of its own.
        self._watcher.progress(pack_id, fields | {"pack_id": pack_id})
        work = Work(*decoded(trial.config)) if "failure" in result or "lost" in result else None
        if work is not None and "failure" in result:
            self._watcher.note(f"{_named(work)} failed: {result['failure']}")
            self._watcher.note(f"  traceback on {result['node_ip']}: {result['log']}")
        if work is not None and "lost" in result:
            self._lose(work, result["lost"])

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._end(trial)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        work = Work(*decoded(trial.config))
        self._watcher.note(f"a worker died with {_named(work)}; the pack goes on from its last checkpoint")

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        work = Work(*decoded(trial.config))
        error = _last_error(trial)
        if isinstance(error, RayActorError) and not error.actor_init_failed:
            message = f"its worker died {MAX_WORKER_DEATHS + 1} times"
            if isinstance(error, OutOfMemoryError):
                message += ", out of memory"
            step = int((trial.last_result or {}).get("step", 0))
            try:
                described = {"kind": "worker died", "message": message, "step": step}
                commit_failed(self._store, self._provenance, work, described)
                self._watcher.note(f"{_named(work)} failed: {message}")
            except (OSError, StoreError) as second:
                self._lose(work, f"{message}; and no row of it: {reason(second)}")
        else:
            self._lose(work, f"its worker did not start: {reason(error)}")
        self._end(trial)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        self._watcher.tick()
        if self._interruption.signum is None:
            return
        if self._deadline is None:
            self._deadline = time.monotonic() + GRACE_SECONDS
            self._leaving = {trial.trial_id for trial in trials if trial.status == Trial.RUNNING}
            self._orders.leave.remote()
            self._watcher.note(f"interrupted: {len(self._leaving)} running packs leave a checkpoint")
        if not self._leaving or time.monotonic() > self._deadline:
            raise _Ended

    def _end(self, trial: Trial) -> None:
        pack_id = trial.config["pack_id"]
        self._leaving.discard(trial.trial_id)
        self._source.settle(pack_id)
        self._watcher.ended(pack_id)

    def _lose(self, work: Work, text: str) -> None:
        self.losses.append(Loss(work.pack.pack_id, work.pending, text))
        self._watcher.note(f"{_named(work)} could not be committed: {text}")


def _named(work: Work) -> str:
    others = len(work.pending) - 1
    return f"trial {work.pending[0]}" + (f" and {others} more of its pack" if others else "")


def _last_error(trial: Trial) -> BaseException:
    """What Tune kept of the error in the run's own temporary folder."""
    try:
        return pickle.loads(Path(trial.pickled_error_file or "").read_bytes())
    except (OSError, ValueError, pickle.UnpicklingError):
        return RuntimeError(trial.get_error() or "unknown reason")


def launch(
    source: Source,
    store: Store,
    provenance: Provenance,
    resources: Resources,
    early_stopping: Asha | None,
    concurrency: int | None,
    watcher: Watcher,
    interruption: Interruption,
) -> list[Loss]:
    """Run all work of a source on the cluster that `cluster` has connected.

    Args:
        source: What to run.
        store: Where workers commit to; they open it by its URL.
        provenance: What every row says of its origin.
        resources: What one pack takes.
        early_stopping: ASHA's settings, if it is asked for.
        concurrency: At most so many packs at once; None for as many as fit.
        watcher: Who is told.
        interruption: Looked at about ten times a second; a signal makes running packs leave a checkpoint.

    Returns:
        What could not be committed. After an interruption pending trials are simply pending.
    """
    os.environ.update(_TUNE)
    orders = ray.remote(num_cpus=0, max_restarts=-1)(_Orders).remote()
    conductor = _Conductor(source, store, provenance, watcher, interruption, orders)
    scheduler = _EarlyStopping(early_stopping, orders) if early_stopping else None
    trainable = tune.with_resources(
        tune.with_parameters(PackTrainable, orders=orders, store=store.url, provenance=provenance, resources=resources),
        tune.PlacementGroupFactory([{"CPU": resources.cpus} | ({"GPU": resources.gpus} if resources.gpus else {})]),
    )
    _warn_of_waiting(resources, watcher)
    try:
        interruption.patient = True
        while not source.exhausted and interruption.signum is None:
            with tempfile.TemporaryDirectory(prefix="sweeper-tune-", ignore_cleanup_errors=True) as folder:
                tuner = tune.Tuner(
                    trainable,
                    tune_config=tune.TuneConfig(
                        search_alg=_Queue(source, interruption),
                        scheduler=scheduler,
                        num_samples=-1,
                        max_concurrent_trials=concurrency,
                        reuse_actors=True,
                    ),
                    run_config=tune.RunConfig(
                        storage_path=folder,
                        callbacks=[conductor],
                        failure_config=tune.FailureConfig(max_failures=MAX_WORKER_DEATHS),
                        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                        verbose=0,
                    ),
                )
                tuner.fit()
    except _Ended:
        pass
    except TuneError as error:
        raise LaunchError(f"Ray Tune gave up: {reason(error)}") from error
    finally:
        interruption.patient = False
    return conductor.losses


def _warn_of_waiting(resources: Resources, watcher: Watcher) -> None:
    needs = {"CPU": float(resources.cpus), "GPU": resources.gpus}
    nodes = (node["Resources"] for node in ray.nodes() if node["Alive"])
    if not any(all(node.get(name, 0.0) >= needed for name, needed in needs.items()) for node in nodes):
        wanted = f"{resources.cpus} CPUs and {resources.gpus:g} GPUs"
        watcher.note(f"no node of the cluster has the {wanted} of a pack yet; waiting for one")
