"""Without a private part of Ray its public way is taken, and without all of them a sweep still runs."""

import functools
import importlib
import math
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError

from sweeper.launch import ray_internals
from sweeper.launch.cluster import running_cluster
from sweeper.launch.cores import cores
from sweeper.launch.failures import LaunchError
from tests.processes import python
from tests.tiny_sweeps import with_seeds

pytestmark = pytest.mark.slow


SWEEP = """
import sys
from pathlib import Path

import ray

from sweeper import events, launch
from sweeper.interruption import Interruption
from sweeper.launch import ray_internals
from sweeper.packs import plan
from sweeper.packs.packing import packs
from sweeper.space.resources import Resources
from sweeper.store.store import Store
from tests.heard import Heard
from tests.results import PROVENANCE
from tests.trials import coloring_trial

init = ray.init

def public(**options):
    if private := [name for name in options if name.startswith("_")]:
        raise RuntimeError(f"Unknown keyword argument(s): {private}")
    return init(**options)

ray.init = public
ray_internals._module = lambda name, *parts: None
heard, trials = Heard(), [coloring_trial(seed=seed) for seed in range(3)]
work = tuple(plan.Work(pack, ()) for pack in packs(trials, lanes=1))
source = plan.ListedWork(plan.Plan({}, {}, 1, len(trials), work, frozenset()))
planned = events.SweepPlanned("public", trials=len(trials), done=0, failed=0, steps=0)
store = Store.open(sys.argv[1])
job = launch.Job(source, lambda: planned, store, PROVENANCE, Resources(), launch.Training(), concurrency=1)
with launch.connected("local", Resources(), Interruption()), events.Stream([heard], warn=print) as stream:
    assert "ray.tune" in sys.modules
    where = ray.get(ray.remote(lambda: __import__("sweeper").__file__).remote())
    session = Path(ray.get_runtime_context().get_temp_dir())
    assert session.parent.stat().st_mode & 0o077 == 0
    assert not launch.launch(job, stream, Interruption()).losses
assert not Path(where).exists(), "the copy of the code is gone"
print(len(heard.all(events.PackEnded)), "packs, in a private folder")
"""


def test_a_private_part_that_is_missing_is_none():
    assert ray_internals._module("ray._private.services", "canonicalize_bootstrap_address") is not None
    assert ray_internals._module("ray._private.services", "no_such_part") is None
    assert ray_internals._module("ray._private.no_such_module") is None


def _without(monkeypatch, module: str, part: str) -> Any:
    """Take a private part out of this Ray, as another version of Ray may; its module or class."""
    *owners, name = part.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    monkeypatch.delattr(owner, name)
    return owner


def test_in_public_all_cores_count_and_gpus_are_not_compared(monkeypatch):
    _without(monkeypatch, "ray._private.resource_and_label_spec", "ResourceAndLabelSpec")
    assert ray_internals.machine_resources() == {"CPU": cores(), "GPU": math.inf}


def test_in_public_a_cluster_must_be_named(monkeypatch):
    _without(monkeypatch, "ray._private.services", "canonicalize_bootstrap_address")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert [running_cluster(None), running_cluster("local")] == [None, None]
    with pytest.raises(LaunchError):
        running_cluster("auto")
    with pytest.raises(LaunchError, match=r"127\.0\.0\.1:1"):
        running_cluster("127.0.0.1:1")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(LaunchError, match=r"127\.0\.0\.1:1"):
        running_cluster(None)


@pytest.mark.parametrize("public", [False, True])
def test_every_local_cluster_has_its_own_token_and_in_public_the_same(monkeypatch, public):
    """In public this process would show the first token for ever."""
    if public:
        _without(monkeypatch, "ray._raylet", "AuthenticationTokenLoader")
    tokens = []
    for _ in range(2):
        with ray_internals.fresh_token():
            tokens.append(os.environ["RAY_AUTH_TOKEN"])
    assert (tokens[0] == tokens[1]) is public
    assert len(tokens[0]) == 64


NODE, HELPERS = "ray._private.node", ("start_ray_processes", "start_api_server", "start_monitor", "start_log_monitor")
MANAGER = "ray.air.execution._internal.actor_manager"


@pytest.mark.parametrize(
    ("module", "part", "context"),
    [
        ("ray._private.ray_constants", "ENABLE_RAY_CLUSTER", ray_internals.on_loopback),
        ("ray._private.ray_constants", "ENABLE_RAY_CLUSTERS_ENV_VAR", ray_internals.on_loopback),
        *((NODE, f"Node.{part}", lambda: ray_internals.only_what_is_needed(list)) for part in HELPERS),
        ("ray.train._internal.storage", "_get_ray_train_session_dir", lambda: ray_internals.staged_in(Path("folder"))),
        ("ray.air._internal.usage", "tag_callbacks", ray_internals.no_trackers),
        (MANAGER, "RayActorManager._actor_task_failed", ray_internals.memory_kills_are_deaths),
    ],
)
def test_where_a_part_is_missing_ray_and_tune_do_as_they_do_by_themselves(monkeypatch, module, part, context):
    owner = _without(monkeypatch, module, part)
    before = dict(vars(owner)), dict(os.environ)
    with context():
        assert (dict(vars(owner)), dict(os.environ)) == before


def test_a_worker_that_is_killed_for_memory_has_died_for_tune(monkeypatch):
    """Of other errors Tune hears as before."""
    heard: list[Exception] = []
    monkeypatch.setattr(
        RayActorManager, "_actor_task_failed", lambda self, *, exception, **task: heard.append(exception)
    )
    other = ValueError("no")
    with ray_internals.memory_kills_are_deaths():
        for error in (OutOfMemoryError("the node is full"), other):
            RayActorManager._actor_task_failed(None, exception=error, tracked_actor_task=None)
    assert isinstance(heard[0], ray_internals.KilledForMemory)
    assert isinstance(heard[0], RayActorError)
    assert heard[1] is other


def test_in_public_tune_tells_of_no_actor():
    assert ray_internals.actor_of(SimpleNamespace()) is None
    assert ray_internals.actor_of(SimpleNamespace(temporary_state=SimpleNamespace(ray_actor="actor"))) == "actor"


def test_packs_run_without_private_parts(tmp_path):
    """With real Ray, in a process of its own, since a process keeps the first token that it has shown."""
    done = python("-c", SWEEP, tmp_path)
    assert (done.returncode, done.stdout) == (0, "3 packs, in a private folder\n"), done.stderr


@pytest.mark.long
def test_a_worker_that_ray_kills_for_memory_is_a_death(tmp_path):
    """Every few seconds Ray looks, and finds the memory of the node full."""
    full = {"RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": "8000"}
    space = tmp_path / "space.yaml"
    space.write_text(with_seeds(1))
    long = ("--set", "trial.steps=10000000", "--address", "local")
    done = python("-m", "sweeper.run", space, "--results", tmp_path / "results", *long, **full)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search("low on memory|out of memory", done.stdout)
    assert not re.search("Traceback|Ray Tune gave up", done.stdout + done.stderr)
