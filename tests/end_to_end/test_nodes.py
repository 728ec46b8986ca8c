"""Sweeps on clusters of several nodes: who is placed where, and nodes that come and go in the middle.

The nodes are Ray's own, in processes of this machine, with cores and GPUs that exist on paper only. The command runs
against them as against any cluster, in a project with a task that writes down where it is.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from chaos.nodes import Nodes, nodes
from sweeper.interruption import Interruption
from sweeper.launch.cluster import connected
from sweeper.packs.rehearsal import Rehearsal
from sweeper.space.resources import Resources
from sweeper.store.store import Store
from tests.end_to_end.sweep_process import Command
from tests.tiny_sweeps import with_seeds

WITNESS = '''
"""Colouring that writes down which process of which node traces it, and waits there until it may go on."""

import json
import os
import pathlib
import time
from typing import Literal

import ray

from tasks import coloring


class Task(coloring.Task):
    name: Literal["witness"] = "witness"

    def losses(self, model, inputs, seeds):
        if "SWEEPER_WORKER" not in os.environ:  # the start checks the task
            return super().losses(model, inputs, seeds)
        context = ray.get_runtime_context()
        sighting = {{
            "node": context.get_node_id(),
            "pid": os.getpid(),
            "at": time.time(),
            "reserved": context.get_assigned_resources(),
            "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "platforms": os.environ.get("JAX_PLATFORMS"),
        }}
        path = pathlib.Path({folder!r}, f"{{time.time_ns()}}-{{os.getpid()}}")
        path.with_suffix(".part").write_text(json.dumps(sighting))
        path.with_suffix(".part").rename(path.with_suffix(".json"))
        while not pathlib.Path({gate!r}).exists():
            time.sleep(0.05)
        return super().losses(model, inputs, seeds)
'''

SPACE = with_seeds(1).replace("coloring, vertices: 5", "witness, vertices: 4")

PGPE = "trial.optimizer={name: pgpe, population: 60, initial_std: 0.1}"

pytestmark = pytest.mark.long


class Sweep(Command):
    """`python -m sweeper.run` against a cluster, in a project with the task `witness`."""

    def __init__(self, folder: Path, address: str, *changes: str):
        self._said, self._gate, self.results = folder / "said", folder / "gate", folder / "results"
        for made in ("tasks", "said"):
            (folder / made).mkdir(parents=True)
        (folder / "tasks" / "witness.py").write_text(WITNESS.format(folder=str(self._said), gate=str(self._gate)))
        (folder / "space.yaml").write_text(SPACE)
        super().__init__(folder, "space.yaml", "--address", address, *(f"--set={change}" for change in changes))

    def heard(self) -> list[Any]:
        """What its processes have said of themselves so far, the oldest first."""
        return [SimpleNamespace(**json.loads(path.read_text())) for path in sorted(self._said.glob("*.json"))]

    def go_on(self) -> None:
        """Let all processes train that wait."""
        self._gate.touch()

    def finish(self) -> str:
        """Everything printed by a sweep that went well: every trial has its one row."""
        code, text = self.wait()
        assert code == 0, text
        store = Store.open(self.results)
        assert set(store.committed().values()) == {"finished"}
        rows = store.trials().column("trial_id").to_pylist()
        assert sorted(rows) == sorted(store.sweeps()[-1].trial_ids)
        return text


@pytest.fixture
def cluster() -> Iterator[Nodes]:
    with nodes() as made:
        yield made


@pytest.fixture
def start(tmp_path: Path, cluster: Nodes) -> Iterator[Callable[..., Sweep]]:
    started: list[Sweep] = []

    def sweep(*changes: str) -> Sweep:
        started.append(Sweep(tmp_path / str(len(started)), cluster.address, *changes))
        return started[-1]

    yield sweep
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.process.pid, 9)
        each.process.wait()


@pytest.mark.parametrize("order", [("local", "cluster", "local"), ("cluster", "local", "cluster")], ids=" then ".join)
def test_one_process_uses_local_clusters_and_another_one_in_turns(cluster, order):
    """As a notebook does: each has its own token, and Ray's native part would keep the first."""
    cluster.join(num_cpus=1)
    for place in order:
        with connected(cluster.address if place == "cluster" else "local", Resources(), Interruption(), Rehearsal()):
            assert ray.get(ray.remote(lambda: 7).remote()) == 7


def test_packs_and_population_workers_find_their_nodes(cluster, start):
    cpu = cluster.join(num_cpus=2, num_gpus=0)
    gpu = cluster.join(num_cpus=2, num_gpus=2)

    # Two packs share a GPU at the same time, though the other node is free.
    sweep = start("trial.objective.q={choice: [1, 2]}", "resources={gpus: 0.5, lanes: 1}")
    sweep.until(lambda: len(sweep.heard()) == 2)
    sweep.go_on()
    sweep.finish()
    heard = sweep.heard()
    assert {(one.node, one.gpus) for one in heard} == {(gpu.node_id, "0")}
    assert {one.reserved["GPU"] for one in heard} == {0.5}
    assert len({one.pid for one in heard}) == 2

    # Packs that want a whole GPU have one each.
    sweep = start("trial.objective.q={choice: [1, 2]}", "resources={gpus: 1, lanes: 1}")
    sweep.until(lambda: len(sweep.heard()) == 2)
    sweep.go_on()
    sweep.finish()
    assert {(one.node, one.gpus) for one in sweep.heard()} == {(gpu.node_id, "0"), (gpu.node_id, "1")}

    # The pack's own process needs the GPU; its workers take the cores of both nodes, and see the GPU on neither.
    sweep = start(PGPE, "trial.steps=3", "resources={gpus: 0.5, population_workers: 4}")
    sweep.go_on()
    sweep.finish()
    workers = {one.pid: one for one in sweep.heard() if "GPU" not in one.reserved}
    assert sorted(one.node for one in workers.values()) == sorted([cpu.node_id, gpu.node_id] * 2)
    assert {one.gpus for one in workers.values()} == {""}
    assert {one.platforms for one in workers.values()} == {"cpu"}
    assert {(one.node, one.gpus) for one in sweep.heard() if "GPU" in one.reserved} <= {
        (gpu.node_id, "0"),
        (gpu.node_id, "1"),
    }


def test_a_node_that_joins_is_used_and_a_node_that_dies_is_survived(cluster, start):
    first = cluster.join(num_cpus=1)
    sweep = start("trial.objective.q={choice: [1, 2, 3, 4]}")
    sweep.until(lambda: {one.node for one in sweep.heard()} == {first.node_id})

    second = cluster.join(num_cpus=1)
    sweep.until(lambda: second.node_id in {one.node for one in sweep.heard()})

    # As a spot machine goes, in the middle of its pack: nobody says goodbye.
    cluster.lose(first)
    removed = time.time()
    sweep.go_on()
    text = sweep.finish()
    assert "a worker died with trial" in text
    assert {one.node for one in sweep.heard() if one.at > removed} <= {second.node_id}
