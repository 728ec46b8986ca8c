"""The command, with real Ray: run, kill, interrupt, resume, fail, refuse.

The command runs in a project with tasks that fail in the ways that tasks and workers do. Tests wait for events, never
for a time: the only limit is the one of the whole test.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sweeper.analysis import sql
from sweeper.commands import run
from sweeper.interruption import Interruption
from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.end_to_end.sweep_process import (
    Command,
    catches,
    command_line,
    curves,
    process_ids,
    science,
    status_of,
    until,
)
from tests.launch import bad_task
from tests.processes import python
from tests.tiny_sweeps import with_seeds

COUNTING = '''
"""Colouring whose workers write down how many threads XLA computes with."""

import contextlib
import os
import pathlib
import sys
from typing import Literal

import jax

from tasks import coloring


class Task(coloring.Task):
    name: Literal["counting"] = "counting"

    def losses(self, model, inputs, seeds):
        if "ray" in sys.modules:  # no process that compiles ahead
            jax.devices()  # has the threads started
            names = []
            for thread in pathlib.Path("/proc/self/task").iterdir():
                with contextlib.suppress(OSError):  # it may have just ended
                    names.append((thread / "comm").read_text())
            pathlib.Path({folder!r}, str(os.getpid())).write_text(str(sum("XLAEigen" in name for name in names)))
        return super().losses(model, inputs, seeds)
'''

TINY = with_seeds(2).replace("coloring, vertices: 5", "bad, vertices: 5").replace("steps: 250", "steps: 20000")
FAILING = f"""
{TINY}
variants: [{{}}, {{task: {{does: own}}}}]
resources: {{checkpoint_seconds: 0.1}}
"""
"""A pack of two trials, and a pack of two that fail."""

SWEEP = (
    with_seeds(2).replace("q: 3", "q: {choice: [1, 2, 3, .inf]}").replace("steps: 250", "steps: 5000")
    + "resources: {checkpoint_seconds: 0.5}\n"
)

DEADLY = with_seeds(1).replace("coloring, vertices: 5", "bad, vertices: 5, does: die")

OPTUNA = with_seeds(1).replace("coloring, vertices: 5", "counting, vertices: 5").replace("steps: 250", "steps: 100")
OPTUNA = (
    OPTUNA.replace("warmup_steps: 10", "warmup_steps: 0, learning_rate: {log_uniform: [1.0e-5, 1.0e-1]}")
    + "search: {method: optuna, trials: 9, metric: loss, mode: min}\n"
)

SUMS = (
    with_seeds(1)
    .replace("coloring, vertices: 5", "bad, vertices: 6")
    .replace("width: 4, key_size: 4", "width: 32, key_size: 16")
    .replace("m: 2", "m: 10")
    .replace("steps: 250", "steps: 20")
)
"""Sums that XLA and numpy cut into other parts if there is a second thread."""

NOTEBOOK = """
import jax.numpy
jax.numpy.ones(3) + 1  # starts jax's own CPU device, with the threads of the environment
import sweeper
result = sweeper.train(sweeper.plan("sums.yaml", "in-process"), in_process=True)
assert result.trials["status"].tolist() == ["finished"]
"""

PATIENT_DRIVER = """
import functools
import math
import sys
from sweeper import interruption, launch, run
from sweeper.launch import tune_driver
from sweeper.launch.tune_callback import Patience
launch.launch = functools.partial(tune_driver.launch, patience=Patience(grace_seconds=math.inf))
interruption.LIMIT_SECONDS = 1e6
sys.argv[0] = run.__file__
run.app()
"""
"""`python -m sweeper.run` on whose packs a slow machine may take any time to leave checkpoints."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the task `bad`, a task that counts threads, and search spaces."""
    made = tmp_path_factory.mktemp("folder")
    for name in ("tasks", "threads", "hung"):
        (made / name).mkdir()
    (made / "tasks" / "bad.py").write_text(bad_task.text(made / "hung"))
    (made / "tasks" / "counting.py").write_text(COUNTING.format(folder=str(made / "threads")))
    # Tune by itself imports all trackers that are installed, which takes seconds.
    (made / "mlflow.py").write_text("raise RuntimeError('the driver imports a tracker that no user asked for')")
    spaces = {"failing": FAILING, "tiny": SWEEP, "deadly": DEADLY, "adaptive": OPTUNA, "sums": SUMS}
    for name, text in spaces.items():
        (made / f"{name}.yaml").write_text(text)
    return made


@pytest.fixture
def here(folder: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, for this process."""
    (project / "tasks").rmdir()
    (project / "tasks").symlink_to(folder / "tasks")
    monkeypatch.chdir(folder)
    return folder


class Swept(NamedTuple):
    store: Path
    died: str  # what `status` says after the kill
    unfinished: int  # rows after the kill
    interrupted: tuple[int, str]  # exit code and text of the start that got Ctrl-C
    ended: tuple[int, str]  # of the start beside it, which went on


@pytest.fixture(scope="module")
def swept(folder: Path) -> Swept:
    """A sweep that is killed, and then started twice at once; one of the two gets Ctrl-C."""
    store = folder / "results"
    arguments = ("failing.yaml", "--address", "local", "--concurrency", "1")

    killed = Command(folder, *arguments)
    killed.until(lambda: list(store.glob("checkpoints/*.ckpt")))
    assert killed.workers()
    os.kill(killed.process.pid, signal.SIGKILL)
    killed.process.wait()
    died, rows = status_of(store), len(Store.open(store).committed())
    until(lambda: not any(b"ray::ResourceTrainable" in line for line in killed.remaining()))

    one, other = Command(folder, *arguments), Command(folder, *arguments)
    one.until(one.workers)
    other.until(other.workers)
    os.killpg(one.process.pid, signal.SIGINT)
    interrupted = one.wait()
    ended = other.wait()
    until(lambda: not one.remaining() and not other.remaining())
    return Swept(store, died, rows, interrupted, ended)


def test_a_killed_driver_is_known_and_has_committed_nothing_unfinished(swept):
    assert "failing: the driver on" in swept.died
    assert swept.unfinished == 0


def test_ctrl_c_ends_a_start_and_says_how_to_carry_on(swept):
    code, text = swept.interrupted
    assert code == 130, text
    assert "carries on" in text
    assert "Traceback" not in text


def test_a_failing_task_is_told_in_one_line_and_ends_the_start_with_1(swept):
    code, text = swept.ended
    assert code == 1, text
    assert "2 x Own: several lines:; " in text
    assert "(tasks/bad.py, line" in text
    assert "2 of 4 trials are not finished" in text
    assert "Traceback" not in text
    assert "ray." not in text


def test_the_numbers_are_those_of_a_training_that_nothing_disturbs(swept, here):
    """Bit for bit, after a kill and beside a second driver; the reference is trained in this process."""
    rows = Store.open(swept.store).trials().to_pylist()
    assert sorted(row["status"] for row in rows) == ["failed", "failed", "finished", "finished"]
    reference = here / "undisturbed"
    assert run.start(Path("failing.yaml"), str(reference), Interruption(), overrides=ONLY_WELL) == 0
