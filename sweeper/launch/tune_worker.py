"""The worker's side: one process that trains pack after pack, and asks for orders in between."""

import dataclasses
import json
import os
import stat
import tempfile
import time
import traceback
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import jax
import ray
from ray import tune
from ray.exceptions import RayError
from ray.util import get_current_placement_group
from ray.util.placement_group import PlacementGroup

from sweeper.launch.cluster import worker_environment
from sweeper.launch.failures import commit_failed, reason
from sweeper.launch.population import Population
from sweeper.packs import checkpoint, pack_run
from sweeper.packs.packing import Pack
from sweeper.packs.plan import Work
from sweeper.space.resources import Resources
from sweeper.store.store import Store, StoreError
from sweeper.training.trainer import Trainer
from sweeper.training.trainers import trainer_of
from sweeper.trial.provenance import Provenance
from sweeper.trial.trial_spec import TrialSpec, canonical

REPORT_SECONDS = 1.0
"""A worker trains for so long between two reports, and as long a driver waits for an answer to its orders."""


Order = Literal["carry on", "stop early", "leave"]


class Orders:
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
        self._population: Population | None = None
        _keep_compilations(self._resources.cpus)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take up the next pack: its trials as JSON and the pending ids."""
        self._encoded = new_config
        self._run: pack_run.PackRun | None = None
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
                pack, pending = decoded(self._encoded)
                if not pending:  # a worker died right after its last commit
                    checkpoint.remove(self._opened(), pack_id)
                    return self._progress | {"done": True}
                self._run = self._started(pack, pending)
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

    def _started(self, pack: Pack, pending: Collection[str]) -> pack_run.PackRun:
        resources = self._resources
        destination = pack_run.Destination(
            self._opened(), self._provenance, resources.checkpoint_seconds, resources.outcomes
        )
        return pack_run.opened(pack, pending, destination, self._trainer(pack))

    def _trainer(self, pack: Pack) -> Trainer:
        trainer, workers = trainer_of(pack.trials[0]), self._resources.population_workers
        if not workers or trainer.with_population is None:
            return trainer
        if self._population is None:
            # Ray leaves an empty bundle out of the group.
            first = 1 if self._resources.bundles()[0] else 0
            environment = worker_environment(Resources())
            self._population = Population(workers, environment, _own_group(), first)
        return trainer.with_population(self._population.evaluator(pack.trials))

    def cleanup(self) -> None:
        """Called when the process has done its last pack."""
        if self._population is not None:
            self._population.close()

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


def _own_group() -> PlacementGroup:
    group = get_current_placement_group()
    assert group is not None  # Tune gives every trial one
    return group


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
