"""The driver's side: hands a source's work to Tune, wave by wave, and follows every pack to its end."""

import contextlib
import dataclasses
import os
import pickle  # noqa: TID251  what Tune wrote about an error, in the folder of this start alone
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import ray
from ray import tune
from ray.exceptions import OutOfMemoryError, RayActorError, RayTaskError
from ray.tune.error import TuneError
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, TrialScheduler
from ray.tune.search import Searcher

from sweeper.interruption import Interruption
from sweeper.launch.failures import LaunchError, Loss, commit_failed, reason
from sweeper.launch.tune_worker import Orders, PackTrainable, decoded, encoded
from sweeper.messages import counted
from sweeper.packs.pack_run import Progress
from sweeper.packs.plan import Source, Work
from sweeper.space.resources import Resources
from sweeper.space.search import Asha
from sweeper.store.store import Store, StoreError
from sweeper.trial.provenance import Provenance

MAX_WORKER_DEATHS = 3
"""How often the worker of one pack may die before the pack counts as failed."""

WAVE = 2000
"""Packs of one Tune run. Tune keeps about 90 kB of every pack it has seen, so a long list is run in waves."""

MAX_LOST_IN_A_ROW = 3
"""So many packs ending one after another without being able to commit mean that the store takes nothing any more."""

GRACE_SECONDS = 20.0
"""How long running packs have to leave a checkpoint once they are told to."""

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


class _Ended(BaseException):
    """Leaves Tune's loop past everything that would catch an exception there."""


class _NotSaved:
    """Tune pickles its parts into the experiment's folder; ours stay in the driver, and nobody reads that folder."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class _Queue(_NotSaved, Searcher):
    """Hands a wave of the source's work to Tune, as far as nobody wants to stop and results can be kept."""

    def __init__(self, source: Source, conductor: "_Conductor"):
        super().__init__()
        self._source, self._conductor, self._left = source, conductor, WAVE

    def suggest(self, trial_id: str) -> Any:
        if self._conductor.stopping or not self._left:
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
        self._deaths: Counter[str] = Counter()
        self._lost_in_a_row = 0
        self.refused = False
        self.losses: list[Loss] = []

    @property
    def stopping(self) -> bool:
        """Whether no more packs are to start: after a signal, or when the store takes nothing any more."""
        return self._interruption.signum is not None or self.refused

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._watcher.started(Work(*decoded(trial.config)))

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        fields = {field.name: result[field.name] for field in dataclasses.fields(Progress) if field.name in result}
        self._watcher.progress(trial.config["pack_id"], fields)
        work = Work(*decoded(trial.config)) if "failure" in result or "lost" in result else None
        if work is not None and "failure" in result:
            self._watcher.note(f"{_named(work)} failed: {result['failure']}")
            self._watcher.note(f"  traceback on {result['node_ip']}: {result['log']}")
        if result["done"]:
            self._lost_in_a_row = self._lost_in_a_row + 1 if "lost" in result else 0
            self.refused |= self._lost_in_a_row >= MAX_LOST_IN_A_ROW
        if work is not None and "lost" in result:
            self._lose(work, result["lost"])

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._end(trial)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        work = Work(*decoded(trial.config))
        self._deaths[work.pack.pack_id] += 1
        self._watcher.note(f"a worker died with {_named(work)}; the pack goes on from its last checkpoint")
        with contextlib.suppress(OSError, StoreError):  # then what is committed is evaluated once more
            committed = self._store.stands(work.pack.part(work.pending).trials) if work.pending else set()
            left = tuple(name for name in work.pending if name not in committed)
            trial.set_config(encoded(Work(work.pack, left)))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        work = Work(*decoded(trial.config))
        error = _last_error(trial)
        if isinstance(error, RayActorError) and not error.actor_init_failed:
            self._deaths[work.pack.pack_id] += 1
            deaths = self._deaths[work.pack.pack_id]
            if deaths <= MAX_WORKER_DEATHS:
                # A worker that dies between two packs ends the trial of the second one for Tune.
                self._watcher.note(f"a worker died before it took up {_named(work)}; the pack is started again")
                self._watcher.ended(work.pack.pack_id)
                self._leaving.discard(trial.trial_id)
                self._source.put_back(work)
                return
            message = f"its worker died {deaths} times"
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
        if not self.stopping:
            return
        if self._deadline is None:
            # Tune has asked for packs long before they run, so that it is not enough to give it no more.
            self._deadline = time.monotonic() + GRACE_SECONDS
            self._leaving = {trial.trial_id for trial in trials if trial.status == Trial.RUNNING}
            self._orders.leave.remote()
            why = "the results store takes nothing any more" if self.refused else "interrupted"
            self._watcher.note(f"{why}: {counted(len(self._leaving), 'running pack')} asked to leave a checkpoint")
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
    names = work.pending or work.pack.trial_ids  # nothing is pending after a death that followed the last commit
    others = len(names) - 1
    return f"trial {names[0]}" + (f" and {others} more of its pack" if others else "")


def _last_error(trial: Trial) -> BaseException:
    """What Tune kept of the error in the run's own temporary folder, without the name of the method it came from."""
    try:
        error = pickle.loads(Path(trial.pickled_error_file or "").read_bytes())  # noqa: S301  see the import
        return error.cause if isinstance(error, RayTaskError) else error
    except (OSError, ValueError, pickle.UnpicklingError):
        return RuntimeError(trial.get_error() or "unknown reason")


class Launched(NamedTuple):
    """How a launch ended.

    Attributes:
        losses: What could not be committed.
        refused: Whether it ended before its time, because the store took nothing any more.
    """

    losses: list[Loss]
    refused: bool


def launch(
    source: Source,
    store: Store,
    provenance: Provenance,
    resources: Resources,
    early_stopping: Asha | None,
    concurrency: int | None,
    watcher: Watcher,
    interruption: Interruption,
) -> Launched:
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

    Raises:
        LaunchError: Tune gave up.
    """
    os.environ.update(_TUNE)
    orders = ray.remote(num_cpus=0, max_restarts=-1)(Orders).remote()
    conductor = _Conductor(source, store, provenance, watcher, interruption, orders)
    scheduler = _EarlyStopping(early_stopping, orders) if early_stopping else None
    trainable = tune.with_resources(
        tune.with_parameters(PackTrainable, orders=orders, store=store.url, provenance=provenance, resources=resources),
        tune.PlacementGroupFactory(resources.bundles()),
    )
    _warn_of_waiting(resources, watcher)
    try:
        while not source.exhausted and not conductor.stopping:
            with _scratch() as folder, interruption.answered_by("note"):
                tune.Tuner(
                    trainable,
                    tune_config=tune.TuneConfig(
                        search_alg=_Queue(source, conductor),
                        scheduler=scheduler,
                        num_samples=-1,
                        max_concurrent_trials=concurrency,
                        reuse_actors=True,
                    ),
                    run_config=tune.RunConfig(
                        name=folder.name,
                        storage_path=str(folder),
                        callbacks=[conductor],
                        failure_config=tune.FailureConfig(max_failures=MAX_WORKER_DEATHS),
                        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                        verbose=0,
                    ),
                ).fit()
    except _Ended:
        pass
    except TuneError as error:
        raise LaunchError(f"Ray Tune gave up: {reason(error)}") from error
    return Launched(conductor.losses, conductor.refused)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for what Tune keeps of a run; gone afterwards, together with Tune's other copy in Ray's own folder."""
    context = ray.get_runtime_context()
    artifacts = Path(context.get_temp_dir(), context.get_session_name(), "artifacts")
    with tempfile.TemporaryDirectory(prefix="sweeper-tune-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            yield folder
        finally:
            for copy in artifacts.glob(f"*/{folder.name}"):
                shutil.rmtree(copy, ignore_errors=True)


def _warn_of_waiting(resources: Resources, watcher: Watcher) -> None:
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for bundle in resources.bundles():
        if not any(all(node.get(name, 0.0) >= needed for name, needed in bundle.items()) for node in nodes):
            wanted = " and ".join(counted(needed, name) for name, needed in bundle.items())
            watcher.note(f"no node of the cluster has the {wanted} that a pack takes yet; waiting for one")
            return
