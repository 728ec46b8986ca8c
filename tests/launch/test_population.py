"""Populations on Ray actors: the same numbers for any number of workers, and after their deaths."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import ray
from ray.util.placement_group import placement_group, remove_placement_group

from sweeper.launch.environment import worker_environment
from sweeper.launch.population import Population
from sweeper.learned_algorithms import evolution
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs.packing import stack
from sweeper.space.resources import Resources
from sweeper.training.trainer import Evaluator
from sweeper.trial import fingerprint, plugins
from sweeper.trial.fingerprint import Code
from tests.trials import coloring_trial

pytestmark = pytest.mark.slow

GENERATIONS = 3
CODE = fingerprint.captured()

MORTAL = '''
"""Colouring that kills its process in the middle of a block, once for each time that a file is made."""

import contextlib
import os
import signal
from typing import Literal

import jax

from tasks import coloring


def die():
    with contextlib.suppress(FileNotFoundError):  # there is no order, or another process has taken it
        os.remove({order!r})
        os.kill(os.getpid(), signal.SIGKILL)


class Task(coloring.Task):
    name: Literal["mortal"] = "mortal"

    def losses(self, network, inputs, seeds):
        print("a task speaks")
        jax.debug.callback(die)
        return super().losses(network, inputs, seeds)
'''


def _trials(optimizer: str = "pgpe", task: str = "coloring") -> tuple[TrialSpec, ...]:
    """Two lanes, and four blocks the last of which is not full."""
    fields = {
        "task": {"name": task, "vertices": 4}, "model": {"name": "transformer", "width": 6, "key_size": 5},
        "objective": {"q": 2.0, "m": 3}, "steps": GENERATIONS,
        "optimizer": {"name": optimizer, "population": 60, "initial_std": 0.1},
    }  # fmt: skip
    return tuple(coloring_trial(**fields, seed=seed) for seed in (0, 1))


def _evolved(
    evaluate: Evaluator, optimizer: str = "pgpe", task: str = "coloring"
) -> tuple[np.ndarray, list[evolution.GenerationCurve]]:
    stacked = stack(_trials(optimizer, task))
    state, curves = evolution.start(stacked), []
    for _ in range(GENERATIONS):
        state, curve = evolution.stride(stacked, state, 1, evaluate)
        curves.append(jax.tree.map(np.asarray, curve))
    return np.asarray(state.strategy.mean), curves


@pytest.fixture(scope="module")
def undisturbed() -> tuple[np.ndarray, list[evolution.GenerationCurve]]:
    return _evolved(evolution.in_process)


def _equal(one, other) -> bool:
    return bool(jax.tree.all(jax.tree.map(lambda x, y: bool(np.array_equal(x, y)), one, other)))


def _pids() -> set[int]:
    """Processes of the workers of populations, of the Ray that this process has started."""
    workers = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process may have ended by now
            if (
                b"ray::_Worker" in (process / "cmdline").read_bytes()
                and _parent(_parent(int(process.name))) == os.getpid()
            ):
                workers.add(int(process.name))
    return workers


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextlib.contextmanager
def _population(workers: int, **variables: str) -> Iterator[Population]:
    group = placement_group([{"CPU": 1.0}] * workers)
    population = Population(workers, worker_environment(Resources()) | variables, group, 0)
    try:
        yield population
    finally:
        population.close()
        remove_placement_group(group)


@pytest.mark.long
@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers_gives_the_numbers_of_none(cluster, undisturbed, workers):
    with _population(workers) as population:
        assert _equal(_evolved(population.evaluator(_trials(), CODE)), undisturbed)


@pytest.fixture
def project(project: Path) -> Path:
    """A project with the task `mortal`; its file `.order`, which is no code, kills one process."""
    (project / "tasks" / "mortal.py").write_text(MORTAL.format(order=str(project / ".order")))
    return project


@pytest.mark.long
def test_a_worker_killed_in_mid_generation_is_replaced_and_leaves_no_trace(cluster, project, capsys):
    undisturbed = _evolved(evolution.in_process, task="mortal")
    capsys.readouterr()
    with _population(2, **{plugins.PROJECT_VARIABLE: str(project)}) as population:
        evaluate = population.evaluator(_trials(task="mortal"), fingerprint.captured())

        def disturbed(trials, distribution, step):
            """Lets one worker die while it computes a block, in each of the first two generations."""
            order = project / ".order"
            if int(step[0]) < 2:
                order.touch()
            objectives = evaluate(trials, distribution, step)
            assert not order.exists(), "no worker has died"
            return objectives

        assert _equal(_evolved(disturbed, task="mortal"), undisturbed)
        assert "a task speaks" in capsys.readouterr().out, "what a worker prints is printed here"


def test_workers_compute_with_the_code_of_the_start_see_no_gpu_and_end_with_the_process_that_made_them(cluster):
    """And their numbers are those of this process."""

    class Trial:
        """A process that owns a population of one worker."""

        def __init__(self, pack: tuple[TrialSpec, ...]):
            group = placement_group([{"CPU": 1.0}])
            self.pack, self.population = pack, Population(1, worker_environment(Resources(gpus=1.0)), group, 0)

        def evaluate(self, code: Code) -> list[np.ndarray]:
            stacked = stack(self.pack)
            start = evolution.start(stacked).distribution()
            return self.population.evaluator(self.pack, code)(stacked, start, np.zeros(2, np.int32))

    before, pack = _pids(), _trials()
    trial: Any = ray.remote(num_cpus=0)(Trial).remote(pack)
    with pytest.raises(fingerprint.OtherCodeError, match="what differs"):
        ray.get(trial.evaluate.remote(CODE.model_copy(update={"always": {}})))
    blocks = ray.get(trial.evaluate.remote(CODE))
    assert len(blocks) == 4
    stacked = stack(pack)
    expected = evolution.in_process(stacked, evolution.start(stacked).distribution(), np.zeros(2, np.int32))
    assert _equal(blocks, list(expected))
    (pid,) = _pids() - before
    assert b"JAX_PLATFORMS=cpu" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    ray.kill(trial)
    while pid in _pids():
        time.sleep(0.1)


@pytest.mark.long
def test_a_run_of_some_trials_of_a_pack_gets_their_objectives(cluster):
    """A trial of the pack is committed already, or the device of the pack trains one lane at a time."""
    trials = _trials()
    with _population(1) as population:
        evaluate = population.evaluator(trials, CODE)
        for chosen in (trials[1:], trials[:1], trials[::-1]):
            stacked = stack(chosen)
            state = evolution.start(stacked)
            arguments = stacked, jax.tree.map(np.asarray, state.distribution()), np.asarray(state.step)
            np.testing.assert_array_equal(evaluate(*arguments), evolution.in_process(*arguments))
