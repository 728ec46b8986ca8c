"""The command, with real Ray: run, kill, interrupt, resume, fail, refuse.

The command runs in a copy of the checkout, with an additional task that fails in the ways that tasks and workers do.
Tests wait for events, never for a time: the only limit is the one of the whole test.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.analysis import sql
from sweeper.store.store import Store
from tests.end_to_end.sweep_process import (
    Command,
    catches,
    command_line,
    copy_checkout,
    curves,
    process_ids,
    science,
    status_of,
    until,
)
from tests.processes import python
from tests.tiny_sweeps import with_seeds

FAULTY = '''
"""Colouring that fails on request."""

import os
import signal
from typing import Literal

from tasks import coloring


class Task(coloring.Task):
    name: Literal["faulty"] = "faulty"
    fault: Literal["none", "raise", "die"] = "none"

    def losses(self, model, inputs, seeds):
        if "SWEEPER_WORKER" not in os.environ:  # the start checks the task
            return super().losses(model, inputs, seeds)
        if self.fault == "raise":
            raise ValueError("the wheel came off\\nand rolled away")
        if self.fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().losses(model, inputs, seeds)
'''

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

SUMMING = '''
"""Colouring whose seeds r are scaled by numbers that are computed when the file is imported."""

from typing import Literal

import jax
import numpy as np

from tasks import coloring

A = np.random.default_rng(0).normal(size=(2000, 300)).astype(np.float32)
X = jax.random.normal(jax.random.key(0), (2000, 300))
PARTS = np.concatenate([(A.T @ A).ravel(), np.ravel(X.T @ X), X.sum(0), (X * X).sum(0)])
SCALES = (0.5 + np.mod(PARTS * 2.0**12, 1)).astype(np.float32)  # of last bits


class Task(coloring.Task):
    name: Literal["summing"] = "summing"

    def sample_seeds(self, key, count):
        return super().sample_seeds(key, count) * SCALES.mean()
'''

TRIAL = """
  model: {name: transformer, width: 4, key_size: 4}
  baseline: Aq_R
  batch_size: 8
  evaluation: {seeds: 10, votes: [5]}
"""

SWEEP = (
    with_seeds(2).replace("q: 3", "q: {choice: [1, 2, 3, .inf]}").replace("steps: 300", "steps: 5000")
    + "resources: {checkpoint_seconds: 0.5}\n"
)

# One pack at a time: the first sets the mark at which the second falls behind.
BREAKDOWN = f"""
trial: {TRIAL}
  task: {{name: faulty, vertices: 5}}
  objective: {{q: 2, m: 2}}
  optimizer: {{warmup_steps: 0, learning_rate: 1.0e-2}}
  steps: 20000
variants:
  - {{}}
  - optimizer: {{learning_rate: 1.0e-9}}
  - task: {{fault: raise}}
search: {{early_stopping: {{metric: loss, mode: min, every: 500, grace_steps: 1000, reduction_factor: 2}}}}
"""

DEADLY = with_seeds(1).replace("coloring, vertices: 5", "faulty, vertices: 5, fault: die")

OPTUNA = f"""
trial: {TRIAL}
  task: {{name: counting, vertices: 5}}
  objective: {{q: 2, m: 2}}
  optimizer: {{warmup_steps: 0, learning_rate: {{log_uniform: [1.0e-5, 1.0e-1]}}}}
  steps: 100
search: {{method: optuna, trials: 9, metric: loss, mode: min}}
"""

SUMS = f"""
trial: {TRIAL.replace("width: 4, key_size: 4", "width: 32, key_size: 16")}
  task: {{name: summing, vertices: 6}}
  objective: {{q: 3, m: 10}}
  optimizer: {{warmup_steps: 10}}
  steps: 20
"""
"""Sums that XLA and numpy cut into other parts if there is a second thread."""

NOTEBOOK = """
import jax.numpy
jax.numpy.ones(3) + 1  # starts jax's own CPU device, with the threads of the environment
import sweeper
result = sweeper.train(sweeper.plan("sums.yaml", "in-process"), in_process=True)
assert result.trials["status"].tolist() == ["finished"]
"""

PATIENT_DRIVER = """
import math
import sys
from sweeper import interruption, run
from sweeper.launch import tune_callback
tune_callback.GRACE_SECONDS = math.inf
interruption.LIMIT_SECONDS = 1e6
sys.argv[0] = run.__file__
run.app()
"""
"""`python -m sweeper.run` on whose packs a slow machine may take any time to leave checkpoints."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("checkout")
    copy_checkout(copy)
    (copy / "tasks" / "faulty.py").write_text(FAULTY)
    (copy / "threads").mkdir()
    (copy / "tasks" / "counting.py").write_text(COUNTING.format(folder=str(copy / "threads")))
    (copy / "tasks" / "summing.py").write_text(SUMMING)
    # Tune by itself imports all trackers that are installed, which takes seconds.
    (copy / "mlflow.py").write_text("raise RuntimeError('the driver imports a tracker that no user asked for')")
    spaces = {"tiny": SWEEP, "breakdown": BREAKDOWN, "deadly": DEADLY, "adaptive": OPTUNA, "sums": SUMS}
    for name, text in spaces.items():
        (copy / f"{name}.yaml").write_text(text)
    return copy


@pytest.fixture(scope="module")
def undisturbed(checkout: Path) -> tuple[Path, str]:
    command = Command(checkout, "tiny.yaml", "--results", "undisturbed", "--address", "local")
    code, text = command.wait()
    assert code == 0, text
    return checkout / "undisturbed", text


def test_a_sweep_runs_from_start_to_table(undisturbed):
    store, text = undisturbed
    assert "tiny: 8 trials · 1 cell · 4 packs" in text
    assert "0 done · 8 to run" in text
    assert "8 of 8 trials committed" in text
    assert "Aq_R" in text
    assert set(Store.open(store).committed().values()) == {"finished"}
    assert not list((store / "checkpoints").glob("*"))
    record = Store.open(store).sweeps()[-1]
    assert (record.name, len(record.trial_ids)) == ("tiny", 8)
    assert record.provenance.command == "python -m sweeper.run tiny.yaml --results undisturbed --address local"
    row = Store.open(store).trials().to_pylist()[0]
    assert json.loads(row["versions"])["ray"]
    assert row["command"].startswith("python -m sweeper.run tiny.yaml")


def test_what_is_done_is_not_run_again(undisturbed, checkout):
    store, _ = undisturbed
    code, text = Command(checkout, "tiny.yaml", "--results", str(store)).wait()
    assert code == 0, text
    assert "8 done · 0 to run" in text
    assert "running on" not in text, "Ray was started for nothing"


def test_an_edited_space_says_what_changed_and_what_it_costs(undisturbed, checkout):
    store, _ = undisturbed
    code, text = Command(
        checkout, "tiny.yaml", "--results", str(store), "--set", "trial.seed.seeds=3", "--dry-run",
        "--set", "trial.objective.q={choice: [1, 2]}",
    ).wait()  # fmt: skip
    assert code == 0, text
    assert "since the last start: 2 added, 4 kept, 4 no longer planned" in text
    assert "4 done · 2 to run" in text
    assert "cost: about" in text


@pytest.mark.long
def test_killed_and_interrupted_sweeps_end_with_the_same_numbers(undisturbed, checkout):
    store = checkout / "disturbed"
    arguments = ("tiny.yaml", "--results", str(store), "--address", "local")

    killed = Command(checkout, *arguments)
    killed.until(lambda: list(store.glob("checkpoints/*.ckpt")))
    assert killed.workers()
    os.kill(killed.process.pid, signal.SIGKILL)
    killed.process.wait()
    died = f"tiny: the driver on {socket.gethostname()} (process {killed.process.pid}) has died"
    assert died in status_of(store)
    until(lambda: not any(b"ray::ResourceTrainable" in line for line in killed.remaining()))

    interrupted = Command(checkout, *arguments, program=("-c", PATIENT_DRIVER))
    interrupted.until(lambda: len(interrupted.workers()) > 1)
    one_of_them, held = interrupted.workers()[:2]
    os.kill(held, signal.SIGSTOP)  # so that the sweep does not end before it is interrupted
    rows = len(list(store.glob("trials/*/*/*.parquet")))
    interrupted.until(lambda: len(list(store.glob("trials/*/*/*.parquet"))) > rows)
    os.kill(one_of_them, signal.SIGKILL)
    interrupted.until(lambda: list(store.glob("checkpoints/*.ckpt")))
    os.killpg(interrupted.process.pid, signal.SIGHUP)  # what a terminal does that is closed: everybody gets it
    interrupted.until(lambda: "asked to leave a checkpoint" in interrupted.text())
    os.kill(held, signal.SIGCONT)
    code, text = interrupted.wait()
    assert code == 129, text
    assert f"carries on:\n  python -m sweeper.run tiny.yaml --results {store} --address local" in text
    assert "Traceback" not in text
    # Whether a checkpoint lies there now depends on the moment: a pack that had not trained yet leaves none. That a
    # running one does is tested with `launch`; here the numbers at the end must be equal.
    until(lambda: not interrupted.remaining())

    code, text = Command(checkout, *arguments).wait()
    assert code == 0, text
    assert science(store).equals(science(undisturbed[0]))
    assert curves(store).equals(curves(undisturbed[0]))
    assert not list((store / "checkpoints").glob("*"))


@pytest.mark.long
def test_a_sweep_is_watched_and_stopped_through_its_store(checkout):
    store = checkout / "stopped"
    command = Command(
        checkout, "tiny.yaml", "--results", str(store), "--address", "local", "--set", "trial.steps=10000000",
        program=("-c", PATIENT_DRIVER),
    )  # fmt: skip

    command.until(lambda: list(store.glob("drivers/*/*.json")))
    command.until(lambda: " training " in status_of(store))
    out = status_of(store)
    assert f"tiny: running on {socket.gethostname()} (process {command.process.pid})" in out
    assert re.search(rf"^tiny +coloring Aq_R q=.* {socket.gethostname()} *$", out, re.MULTILINE)
    stop = python("-m", "sweeper", "stop", "tiny", "--results", store, cwd=checkout)
    assert stop.returncode == 0, stop.stderr
    assert "has stopped" in stop.stdout
    code, text = command.wait()
    assert code == 130, text
    assert "interrupted:" in text
    (saved,) = re.findall(r"^(\d) of \d packs? left a checkpoint", text, re.MULTILINE)
    assert int(saved) == len(list(store.glob("checkpoints/*.ckpt"))) > 0
    assert not list(store.glob("drivers/*/*"))


@pytest.mark.long
def test_a_store_that_takes_nothing_ends_the_sweep_with_one_sentence(checkout):
    store = checkout / "refusing"
    (store / "trials").mkdir(parents=True)
    (store / "trials" / "task=coloring").write_text("a file where a folder should be")
    arguments = ("tiny.yaml", "--results", str(store), "--address", "local", "--set", "resources.lanes=1")
    code, text = Command(checkout, *arguments).wait()
    assert code == 1
    assert "Traceback" not in text
    assert "nothing can be committed any more: " in text
    assert "8 of 8 trials are not finished" in text
    (sentence,) = [line for line in text.splitlines() if " x cannot " in line]
    lost = re.fullmatch(rf"  (\d) x cannot write files in {store}: Not a directory \(trial .* more\)", sentence)
    assert lost is not None
    assert 3 <= int(lost[1]) < 8, "packs that Tune had asked for already did not run"
    assert f"{8 - int(lost[1])} x not run, as nothing could be committed any more" in text

    (store / "trials" / "task=coloring").unlink()
    code, text = Command(checkout, *arguments).wait()
    assert code == 0, text
    assert "8 of 8 trials committed" in text


def test_all_ways_to_run_compute_the_same_bits(checkout, monkeypatch):
    monkeypatch.setenv("PJRT_NPROC", "2")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")

    def done(*arguments: str, **options: tuple[str, ...]) -> None:
        code, text = Command(checkout, *arguments, **options).wait()
        assert code == 0, text

    def numbers(name: str) -> tuple[object, ...]:
        store = Store.open(checkout / name)
        (row,), (seal,) = store.trials().to_pylist(), store.seals().values()
        return row["train_loss"], row["loss"], row["sampled"], row["extra_metrics"], seal.network

    for cpus in ("1", "2"):
        done("sums.yaml", "--address", "local", "--set", f"resources.cpus={cpus}", "--results", f"cpus-{cpus}")
    done(program=("-c", NOTEBOOK))
    assert numbers("cpus-1") == numbers("cpus-2") == numbers("in-process")

    done("--where", "true", "--address", "local", "--results", "in-process", program=("-m", "sweeper.evaluate"))
    trained, evaluated = (
        sql.table(f"select loss, sampled, success from {view}", Store.open(checkout / "in-process")).to_pylist()
        for view in ("trials", "evaluations")
    )
    assert trained == evaluated


def test_failures_and_early_stops_are_rows(checkout):
    arguments = ("breakdown.yaml", "--results", "broken", "--address", "local", "--concurrency", "1")
    code, text = Command(checkout, *arguments).wait()
    assert code == 1
    assert "Traceback" not in text
    assert "ray." not in text
    assert "1 x ValueError: the wheel came off; and rolled away (tasks/faulty.py, line" in text
    assert "1 of 3 trials are not finished" in text

    rows = Store.open(checkout / "broken").trials().to_pylist()
    assert {row["learning_rate"]: row["status"] for row in rows if row["error_kind"] is None} == {
        1e-2: "finished", 1e-9: "stopped",
    }  # fmt: skip
    assert [row["error_kind"] for row in rows if row["error_kind"]] == ["ValueError"]
    stopped = next(row for row in rows if row["status"] == "stopped")
    assert 1000 <= stopped["steps_done"] < 3000
    assert stopped["success"] is not None
    assert not list((checkout / "broken" / "checkpoints").glob("*"))

    code, text = Command(checkout, *arguments).wait()
    assert code == 1, "failed rows stay failures until they are retried"
    assert "1 done · 1 stopped · 1 failed · 0 to run" in text

    code, text = Command(checkout, *arguments, "--retry-failed", "--dry-run").wait()
    assert code == 0
    assert "1 to run" in text


@pytest.mark.long
def test_a_trial_that_kills_every_worker_is_a_row(checkout):
    code, text = Command(checkout, "deadly.yaml", "--results", "killing", "--address", "local").wait()
    assert code == 1
    assert "Traceback" not in text
    assert "1 x worker died: its worker died 4 times" in text
    assert [row["error_kind"] for row in Store.open(checkout / "killing").trials().to_pylist()] == ["worker died"]


@pytest.mark.long
def test_an_optuna_search_runs_and_resumes_on_one_thread_a_worker(checkout):
    arguments = ("adaptive.yaml", "--results", "adaptive", "--address", "local")
    code, text = Command(checkout, *arguments).wait()
    assert code == 0, text
    assert "9 of 9 trials committed" in text
    counts = [path.read_text() for path in (checkout / "threads").iterdir()]
    assert set(counts) == {"2"}, "the pools of JAX's own CPU device and of ours, one thread each"

    store = Store.open(checkout / "adaptive")
    assert len(store.sweeps()[-1].trial_ids) == 9
    code, text = Command(checkout, *arguments).wait()
    assert code == 0, text
    assert "9 trials so far" in text
    assert "9 done · 0 to run" in text
    assert set(store.sweeps()[-1].trial_ids) == set(store.committed())


def test_a_cluster_that_does_not_answer_is_an_error_in_one_line(checkout):
    code, text = Command(checkout, "tiny.yaml", "--results", "new", "--address", "127.0.0.1:1").wait()
    assert code == 1, text
    assert "no Ray cluster answers at" in text
    assert "Traceback" not in text


@pytest.mark.long
def test_a_cluster_whose_head_dies_ends_the_sweep_with_one_sentence(checkout):
    command = Command(checkout, "tiny.yaml", "--results", "headless", "--address", "local")
    command.until(command.workers)
    children = map(int, process_ids("--ppid", str(command.process.pid)))
    (head,) = [pid for pid in children if b"gcs_server" in command_line(pid)]
    os.kill(head, signal.SIGKILL)
    code, text = command.wait()
    assert code == 1
    sentence = "the Ray cluster on this machine has died: its head process is gone; the same command carries on"
    assert text.splitlines()[-1] == sentence
    assert "Failed to connect to GCS" not in text
    until(lambda: not command.remaining())


def test_too_little_address_space_is_an_error_in_one_line(checkout):
    limited = f"ulimit -v 3000000; exec {sys.executable} -m sweeper.run tiny.yaml --results small --address local"
    done = subprocess.run(["bash", "-c", limited], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("Ray cannot start: this shell limits the address space of a process to 2.9 GiB")


def test_an_early_signal_ends_the_command_quietly(checkout):
    for signum, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        command = Command(checkout, "tiny.yaml", "--results", "early", "--address", "local")
        command.until(lambda command=command: catches(command.process.pid, signal.SIGTERM))
        command.process.send_signal(signum)
        status, text = command.wait()
        assert status == code, text
        assert "Traceback" not in text
