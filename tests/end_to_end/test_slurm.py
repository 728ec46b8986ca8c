"""The elastic Slurm job: a head and workers that come and go, with real Ray, and scripts that play Slurm's commands."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.tiny_sweeps import with_seeds

SCRIPT = plugins.ROOT / "clusters" / "slurm-elastic.sh"

JOB = "1007"

HELD = '''
"""Colouring that says where it trains, and goes on when it may."""

import pathlib
import time
from typing import Literal

from tasks import coloring


class Task(coloring.Task):
    name: Literal["held"] = "held"

    def losses(self, model, inputs, seeds):
        pathlib.Path({training!r}).touch()
        while not pathlib.Path({gate!r}).exists():
            time.sleep(0.05)
        return super().losses(model, inputs, seeds)
'''

SPACE = with_seeds(4).replace("name: coloring", "name: held")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What Slurm gives a job; `squeue` knows the head job as long as the file `queued` is there."""
    played = tmp_path / "played"
    played.mkdir()
    ray = shutil.which("ray", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name, script in {
        "squeue": f'test ! -e "{tmp_path}/queued" || echo "$*"',
        "ray": f'exec "{ray}" "$@"',
        "python": f'exec "{sys.executable}" "$@"',
    }.items():
        (played / name).write_text(f"#!/bin/sh\n{script}\n")
        (played / name).chmod(0o755)
    (tmp_path / "queued").touch()
    (tmp_path / "space.yaml").write_text(SPACE)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "held.py").write_text(
        HELD.format(training=str(tmp_path / "training"), gate=str(tmp_path / "gate"))
    )
    ours = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return ours | {
        "PATH": f"{played}:{os.environ['PATH']}", "PYTHONPATH": str(plugins.ROOT), "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURMD_NODENAME": "127.0.0.1", "SLURM_CPUS_PER_TASK": "1",
    }  # fmt: skip


@pytest.fixture
def submit(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a job; what has not ended by itself is ended with the test."""
    jobs: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, job: str) -> subprocess.Popen[bytes]:
        own = environment | {"SLURM_JOB_ID": job}
        with (tmp_path / f"{job}-{len(jobs)}.log").open("wb") as log:
            jobs.append(subprocess.Popen(["bash", SCRIPT, *arguments], env=own, stdout=log, stderr=log))
        return jobs[-1]

    yield start
    for process in jobs:
        if process.poll() is None:
            process.terminate()
            process.wait()


def wait_until(condition: Callable[[], bool], head: subprocess.Popen[bytes]) -> None:
    while not condition():
        assert head.poll() is None, "the head job has ended"
        time.sleep(0.2)


@pytest.mark.long
def test_workers_join_and_leave_a_sweep(submit, tmp_path):
    results, meeting = tmp_path / "results", tmp_path / ".slurm" / JOB
    early = submit("worker", JOB, job="1008")  # before the head runs
    head = submit("head", "space.yaml", str(results), "--set", "resources.lanes=1", job=JOB)
    wait_until((meeting / "address").exists, head)
    assert (meeting / "token").stat().st_mode & 0o077 == 0
    wait_until((tmp_path / "training").exists, head)
    early.send_signal(signal.SIGTERM)  # preempted
    assert early.wait() == 0
    assert head.poll() is None, "a preempted worker leaves at once, and without a worker no sweep ends"
    again = submit("worker", JOB, job="1008")
    other = submit("worker", JOB, job="1009")
    (tmp_path / "gate").touch()
    logs = sorted(tmp_path.glob("*.log"))
    assert head.wait() == 0, "\n".join(path.read_text() for path in logs)
    store = Store.open(results)
    assert set(store.committed().values()) == {"finished"}
    assert len(store.committed()) == 4
    assert (meeting / "ended").exists()
    assert [process.wait() for process in (again, other)] == [0, 0]


def test_a_worker_leaves_when_slurm_does_not_know_its_head(submit, tmp_path):
    (tmp_path / "queued").unlink()
    assert submit("worker", JOB, job="1008").wait(60) == 0
    assert submit("nothing", job="1008").wait() == 2
    assert b"usage: sbatch" in (tmp_path / "1008-1.log").read_bytes()
