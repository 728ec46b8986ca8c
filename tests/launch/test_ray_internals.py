"""Without a private part of Ray its public way is taken, and without all of them a sweep still runs."""

import math
import os
import re
from types import SimpleNamespace

import pytest

from sweeper.launch import ray_internals
from sweeper.launch.cluster import running_cluster
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
    session = Path(ray.get_runtime_context().get_temp_dir())
    assert session.parent.stat().st_mode & 0o077 == 0
    assert not launch.launch(job, stream, Interruption()).losses
print(len(heard.all(events.PackEnded)), "packs, in a private folder")
"""


@pytest.fixture
def public(monkeypatch) -> None:
    """A Ray without private parts."""
    monkeypatch.setattr(ray_internals, "_module", lambda name, *parts: None)


def test_a_private_part_that_is_missing_is_none(monkeypatch):
    assert ray_internals._module("ray._private.services", "canonicalize_bootstrap_address") is not None
    assert ray_internals._module("ray._private.services", "no_such_part") is None
    assert ray_internals._module("ray._private.no_such_module") is None


def test_the_public_ways(public, monkeypatch, tmp_path):
    assert ray_internals.machine_resources() == {"CPU": os.cpu_count(), "GPU": math.inf}
    tokens = []
    for _ in range(2):
        with ray_internals.fresh_token():
            tokens.append(os.environ["RAY_AUTH_TOKEN"])
    assert tokens[0] == tokens[1], "this process shows the first token for ever"
    assert len(tokens[0]) == 64
    done = []
    with ray_internals.only_what_is_needed(lambda: done.append("meanwhile")), ray_internals.on_loopback():
        assert done == ["meanwhile"]
    with ray_internals.staged_in(tmp_path), ray_internals.no_trackers(), ray_internals.memory_kills_are_deaths():
        pass
    assert ray_internals.actor_of(SimpleNamespace()) is None
    assert ray_internals.actor_of(SimpleNamespace(temporary_state=SimpleNamespace(ray_actor="actor"))) == "actor"

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert [running_cluster(None), running_cluster("local")] == [None, None]
    with pytest.raises(LaunchError, match="no running Ray cluster on this machine"):
        running_cluster("auto")
    with pytest.raises(LaunchError, match="no Ray cluster answers"):
        running_cluster("127.0.0.1:1")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(LaunchError, match="no Ray cluster answers"):
        running_cluster(None)


def test_packs_run_without_private_parts(tmp_path):
    """With real Ray, in a process of its own, since a process keeps the first token that it has shown."""
    done = python("-c", SWEEP, tmp_path)
    assert (done.returncode, done.stdout) == (0, "3 packs, in a private folder\n"), done.stderr


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
