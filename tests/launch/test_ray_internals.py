"""The private parts of Ray: a token for each cluster, and workers that Ray kills for memory."""

import os
import re

import pytest
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError

from sweeper.launch import ray_internals
from tests.processes import python
from tests.tiny_sweeps import with_seeds

pytestmark = pytest.mark.slow


def test_every_local_cluster_has_its_own_token():
    tokens = []
    for _ in range(2):
        with ray_internals.fresh_token():
            tokens.append(os.environ["RAY_AUTH_TOKEN"])
    assert len(set(tokens)) == 2
    assert len(tokens[0]) == 64


@pytest.mark.parametrize("method", ["_actor_task_failed", "_actor_start_failed"])
def test_a_worker_that_is_killed_for_memory_has_died_for_tune(monkeypatch, method):
    """While it trains and while it starts. Of other errors Tune hears as before."""
    heard: list[Exception] = []
    monkeypatch.setattr(RayActorManager, method, lambda self, *, exception, **of: heard.append(exception))
    other = ValueError("no")
    with ray_internals.memory_kills_are_deaths():
        for error in (OutOfMemoryError("the node is full"), other):
            getattr(RayActorManager, method)(None, exception=error)
    assert isinstance(heard[0], ray_internals.KilledForMemory)
    assert isinstance(heard[0], RayActorError)
    assert heard[1] is other


@pytest.mark.long
@pytest.mark.parametrize("seconds", [3, 12])
def test_a_worker_that_ray_kills_for_memory_is_a_death_with_its_reason(tmp_path, seconds):
    """Every few seconds Ray looks, and finds the memory of the node full: while a worker starts, or while it trains."""
    full = {"RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": str(1000 * seconds)}
    space = tmp_path / "space.yaml"
    space.write_text(with_seeds(1))
    long = ("--set", "trial.steps=10000000", "--address", "local")
    done = python("-m", "sweeper.run", space, "--results", tmp_path / "results", *long, **full)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("a worker died"))
    assert lines[first + 1].startswith("  the machine was low on memory: try ")
    assert not re.search("Traceback|Ray Tune gave up", done.stdout + done.stderr)
