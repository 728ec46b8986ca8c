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
