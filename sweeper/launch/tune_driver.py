"""The driver's side: hands the work of a source to Tune, wave by wave, until nothing is left."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray import tune
from ray.tune.error import TuneError
from ray.tune.search import Searcher

from sweeper.events import Stream
from sweeper.interruption import Interruption
from sweeper.launch import ray_internals
from sweeper.launch.job import Job, Launched, LaunchError, encoded
from sweeper.launch.ray_internals import Orders
from sweeper.launch.tune_callback import Ended, NotSaved, Patience, SweepCallback, TrialErrors
from sweeper.launch.tune_worker import Pace, PackWorker
from sweeper.packs.failures import reason
from sweeper.packs.plan import WorkSource
from sweeper.temporary_folders import temporary_folder


class Waves(NamedTuple):
    """The sizes of Tune runs. Tune and Ray keep 65 kB of every pack they have seen, so long lists run in waves."""

    packs: int = 2000  # of a Tune run with few workers
    # Packs of a Tune run for each worker, if that is more: workers wait at the end of a wave, and are started anew
    of_a_worker: int = 20


_TUNE = {
    # No files for every trial and no snapshots of the state of all of them: twenty times the throughput.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1e9",
    # Signals are ours; the report of a pack that failed has no metrics.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    # `TrialErrors` takes them.
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
}

PENDING = 200
"""Packs that wait in Tune's queue, enough to make an autoscaler add all nodes at once.

A local cluster has no autoscaler, and its workers take short packs rather from the source, many in a Tune trial.
"""


class _Queue(NotSaved, Searcher):
    """Hands a wave of work to Tune, unless the sweep is to stop."""

    def __init__(self, source: WorkSource, callback: SweepCallback, waves: Waves):
        super().__init__()
        self._source, self._callback, self._waves, self._given = source, callback, waves, 0

    def suggest(self, trial_id: str) -> Any:
        wave = max(self._waves.packs, self._waves.of_a_worker * self._callback.most_at_once)
        if self._callback.stopping or self._given >= wave:
            return Searcher.FINISHED
        work = self._source.next()
        if work is not None:
            self._given += 1
            return encoded(work)
        return Searcher.FINISHED if self._source.exhausted else None

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        pass

    def save(self, checkpoint_path: str) -> None:
        pass

    def restore(self, checkpoint_path: str) -> None:
        pass


def launch(
    job: Job,
    stream: Stream,
    interruption: Interruption,
    *,
    grows: bool = True,
    patience: Patience = Patience(),
    pace: Pace = Pace(),
    waves: Waves = Waves(),
) -> Launched:
    """Run all work of a source on the cluster that `cluster.connected` has connected, which may grow.

    Signals are looked for about ten times a second; the first makes running packs leave a checkpoint.
    """
    pending = PENDING if grows else max(1, int(ray.cluster_resources().get("CPU", 1)))
    os.environ.update(_TUNE, TUNE_MAX_PENDING_TRIALS_PG=str(pending))
    orders = Orders()
    errors = TrialErrors()
    callback = SweepCallback(job, stream, interruption, orders, errors, patience)
    worker = tune.with_parameters(
        PackWorker,
        orders=orders,
        store=job.store.url,
        provenance=job.provenance,
        resources=job.resources,
        work_kind=job.work_kind,
        pace=pace,
    )
    worker = tune.with_resources(worker, tune.PlacementGroupFactory(job.resources.bundles()))
    try:
        while not job.source.exhausted and not callback.stopping:
            with (
                scratch() as folder,
                ray_internals.no_trackers(),
                ray_internals.own_signals(),
                ray_internals.memory_kills_are_deaths(),
                errors.listening(),
                interruption.answered_by("note"),
            ):
                tune.Tuner(
                    worker,
                    tune_config=tune.TuneConfig(
                        search_alg=_Queue(job.source, callback, waves),
                        num_samples=-1,
                        max_concurrent_trials=job.concurrency,
                        reuse_actors=True,
                    ),
                    run_config=tune.RunConfig(
                        name=folder.name,
                        storage_path=str(folder),
                        callbacks=[callback],
                        failure_config=tune.FailureConfig(max_failures=patience.deaths),
                        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                        verbose=0,
                        progress_reporter=tune.CLIReporter(),  # says nothing; that of notebooks clears a cell's outputs
                    ),
                ).fit()
    except Ended:
        pass
    except TuneError as error:
        raise LaunchError(f"Ray Tune gave up: {reason(error)}") from error
    finally:
        orders.forget()
    return callback.launched


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A private folder for all files that Tune writes on this machine during a launch; deleted at the end."""
    context = ray.get_runtime_context()
    artifacts = Path(context.get_temp_dir(), context.get_session_name(), "artifacts")
    with temporary_folder("tune") as folder:
        try:
            with ray_internals.staged_in(folder / "staging"):
                yield folder
        finally:
            for left_by_workers in artifacts.glob(f"*/{folder.name}"):
                shutil.rmtree(left_by_workers, ignore_errors=True)
