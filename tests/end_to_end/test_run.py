"""The command, with real Ray: run, kill, interrupt, resume, fail, refuse.

The command runs in a project with tasks that fail in the ways that tasks and workers do. Tests wait for events, never
for a time: the only limit is the one of the whole test.
"""

import operator
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import sweeper
from sweeper.analysis import sql
from sweeper.commands import run
from sweeper.interruption import Interruption
from sweeper.space import search_space
from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.end_to_end.sweep_process import (
    Command,
    catches,
    curves,
    science,
    status_of,
    until,
)
from tests.launch import bad_task
from tests.processes import told
from tests.projects import in_project
from tests.tiny_sweeps import with_seeds

WELL = (
    with_seeds(2).replace("coloring, vertices: 5", "bad, vertices: 5").replace("steps: 300", "steps: 8000")
    + "resources: {checkpoint_seconds: 0.1}\n"
)
FAILING = WELL + "variants: [{}, {task: {does: own}}]\n"
"""A pack of two trials, and a pack of two that fail."""

SWEEP = (
    with_seeds(2).replace("q: 3", "q: {choice: [1, 2, 3, .inf]}").replace("steps: 300", "steps: 5000")
    + "resources: {checkpoint_seconds: 0.5}\n"
)

DEADLY = with_seeds(1).replace("coloring, vertices: 5", "bad, vertices: 5, does: die")

OPTUNA = with_seeds(1).replace("steps: 300", "steps: 100")
OPTUNA = (
    OPTUNA.replace("warmup_steps: 10", "warmup_steps: 0, learning_rate: {log_uniform: [1.0e-5, 1.0e-1]}")
    + "search: {method: optuna, trials: 9, metric: loss, mode: min}\n"
)

SUMS = (
    with_seeds(1)
    .replace("coloring, vertices: 5", "bad, vertices: 6")
    .replace("width: 4, key_size: 4", "width: 32, key_size: 16")
    .replace("m: 2", "m: 10")
    .replace("steps: 300", "steps: 20")
)
"""Sums that XLA and numpy cut into other parts if there is a second thread."""

NOTEBOOK = """
import jax.numpy
jax.numpy.ones(3) + 1  # starts jax's own CPU device, with the threads of the environment
import sweeper
result = sweeper.train(sweeper.plan("sums.yaml", "in-process"), in_process=True)
assert result.trials["status"].tolist() == ["finished"]
"""

DRIVER = """
import functools
import math
import sys
from sweeper import interruption, run
from sweeper.launch import tune_driver
from sweeper.launch.tune_callback import Patience
tune_driver.launch = functools.partial(tune_driver.launch, patience=Patience({}))
interruption.LIMIT_SECONDS = 1e6
sys.argv[0] = run.__file__
run.app()
"""
"""`python -m sweeper.run` with another patience."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the task `bad`, and search spaces."""
    made = tmp_path_factory.mktemp("folder")
    for name in ("tasks", "hung"):
        (made / name).mkdir()
    (made / "tasks" / "bad.py").write_text(bad_task.text(made / "hung"))
    # Tune by itself imports all trackers that are installed, which takes seconds.
    (made / "mlflow.py").write_text("raise RuntimeError('the driver imports a tracker that no user asked for')")
    spaces = {"well": WELL, "failing": FAILING, "tiny": SWEEP, "deadly": DEADLY, "adaptive": OPTUNA, "sums": SUMS}
    for name, text in spaces.items():
        (made / f"{name}.yaml").write_text(text)
    return made


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The project, for this process."""
    monkeypatch.chdir(folder)
    with in_project(folder):
        yield folder


TEMPORARY = ("RAY_TMPDIR=", f"{plugins.PROJECT_VARIABLE}=")


class Swept(NamedTuple):
    store: Path
    died: str  # what `status` says after the kill
    unfinished: int  # rows after the kill
    left: list[list[Path]]  # temporary folders of the start that was killed: after the kill, and after the next starts
    interrupted: tuple[int, str]  # exit code and text of the start that got Ctrl-C
    ended: tuple[int, str]  # of the start beside it, which went on


@pytest.fixture(scope="module")
def swept(folder: Path) -> Swept:
    """A sweep that is killed, and then started twice at once; one of the two gets Ctrl-C."""
    store = folder / "results"
    arguments = ("failing.yaml", "--address", "local", "--concurrency", "1")

    killed = Command(folder, *arguments)
    killed.until(lambda: list(store.glob("checkpoints/*.ckpt")))
    environment = Path(f"/proc/{killed.workers()[0]}/environ").read_text().split("\0")
    of_killed = [Path(line.partition("=")[2]) for line in environment if line.startswith(TEMPORARY)]
    os.kill(killed.process.pid, signal.SIGKILL)
    killed.process.wait()
    died, rows = status_of(store), len(Store.open(store).committed())
    left = list(filter(Path.exists, of_killed))
    until(lambda: not any("ray::ResourceTrainable" in line for line in killed.remaining()))

    one, other = Command(folder, *arguments), Command(folder, *arguments)
    one.until(one.workers)
    other.until(other.workers)
    os.killpg(one.process.pid, signal.SIGINT)
    interrupted = one.wait()
    ended = other.wait()
    until(lambda: not one.remaining() and not other.remaining())
    return Swept(store, died, rows, [left, list(filter(Path.exists, of_killed))], interrupted, ended)


def test_a_killed_driver_is_known_and_has_committed_nothing_unfinished(swept):
    assert re.search(r"failing: the driver on .* \(process \d+\) has died", swept.died)
    assert swept.unfinished == 0


def test_the_copies_and_folders_of_a_killed_driver_are_removed_by_the_next(swept):
    left, then = swept.left
    assert (len(left), then) == (2, [])


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


@pytest.mark.long
def test_the_numbers_are_those_of_a_training_that_nothing_disturbs(swept, here, tmp_path):
    """Bit for bit, after a kill and beside a second driver; the reference is trained in this process."""
    sweeper.train(sweeper.plan("well.yaml", tmp_path), in_process=True)
    rows = science(swept.store).to_pylist()
    assert sorted(row["status"] for row in rows) == ["failed", "failed", "finished", "finished"]
    finished = [row for row in rows if row["status"] == "finished"]
    key = operator.itemgetter("trial_id")
    assert sorted(finished, key=key) == sorted(science(tmp_path).to_pylist(), key=key)
    assert curves(swept.store).equals(curves(tmp_path))


def test_failed_rows_are_done_until_they_are_retried(swept, here, capsys):
    """And Ray is not started for nothing."""
    assert run.start(Path("failing.yaml"), str(swept.store), Interruption()) == 1
    said = capsys.readouterr().out
    assert "2 done · 2 failed · 0 to run" in said
    assert "running on" not in said
    edited = search_space.read(Path("failing.yaml"), ["trial.seed.seeds=3"])
    said = str(sweeper.plan(edited, swept.store, retry_failed=True))
    assert "since the last start: 2 added, 4 kept" in said
    assert "4 to run" in said


@pytest.mark.long
def test_a_sweep_is_watched_and_stopped_through_its_store(folder):
    store = folder / "stopped"
    command = Command(
        folder, "tiny.yaml", "--results", str(store), "--address", "local", "--set", "trial.steps=10000000",
        program=("-c", DRIVER.format("grace_seconds=math.inf")),  # a slow machine may take any time for checkpoints
    )  # fmt: skip

    command.until(lambda: list(store.glob("drivers/*/*.json")))
    command.until(lambda: " training " in status_of(store))
    out = status_of(store)
    assert f"tiny: running on {socket.gethostname()} (process {command.process.pid})" in out
    assert re.search(rf"^tiny +coloring Aq_R q=.* {socket.gethostname()} *$", out, re.MULTILINE)
    assert "has stopped" in told("stop", "tiny", "--results", store).stdout
    code, text = command.wait()
    assert code == 130, text
    assert "interrupted:" in text
    (saved,) = re.findall(r"^(\d) of \d packs? left a checkpoint", text, re.MULTILINE)
    assert int(saved) == len(list(store.glob("checkpoints/*.ckpt"))) > 0
    assert not list(store.glob("drivers/*/*"))


@pytest.mark.long
def test_a_store_that_takes_nothing_ends_the_sweep_with_one_sentence(folder):
    store = folder / "refusing"
    (store / "trials").mkdir(parents=True)
    (store / "trials" / "task=coloring").write_text("a file where a folder should be")
    few = ("--set", "resources.lanes=1", "--set", "trial.steps=100")
    arguments = ("tiny.yaml", "--results", str(store), "--address", "local", *few)
    code, text = Command(folder, *arguments).wait()
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
    code, text = Command(folder, *arguments).wait()
    assert code == 0, text
    assert "8 of 8 trials committed" in text


@pytest.mark.long
def test_all_ways_to_run_compute_the_same_bits(folder, monkeypatch):
    monkeypatch.setenv("PJRT_NPROC", "2")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")

    def done(*arguments: str, **options: tuple[str, ...]) -> None:
        code, text = Command(folder, *arguments, **options).wait()
        assert code == 0, text

    def numbers(name: str) -> tuple[object, ...]:
        store = Store.open(folder / name)
        (row,), (seal,) = store.trials().to_pylist(), store.seals().values()
        return row["train_loss"], row["loss"], row["sampled"], row["extra_metrics"], seal.network

    for cpus in ("1", "2"):
        done("sums.yaml", "--address", "local", "--set", f"resources.cpus={cpus}", "--results", f"cpus-{cpus}")
    done(program=("-c", NOTEBOOK))
    assert numbers("cpus-1") == numbers("cpus-2") == numbers("in-process")

    done("--where", "true", "--address", "local", "--results", "in-process", program=("-m", "sweeper", "evaluate"))
    trained, evaluated = (
        sql.table(f"select loss, sampled, success from {view}", Store.open(folder / "in-process")).to_pylist()
        for view in ("trials", "evaluations")
    )
    assert trained == evaluated


@pytest.mark.long
def test_a_trial_that_kills_every_worker_is_a_row(folder):
    program = ("-c", DRIVER.format("deaths=1"))
    code, text = Command(folder, "deadly.yaml", "--results", "killing", "--address", "local", program=program).wait()
    assert code == 1
    assert "Traceback" not in text
    assert "1 x worker died: its worker died 2 times" in text
    assert [row["error_kind"] for row in Store.open(folder / "killing").trials().to_pylist()] == ["worker died"]


@pytest.mark.long
def test_an_optuna_search_runs_and_resumes(folder, here, capsys):
    """The second start has nothing to run, and starts no Ray."""
    code, text = Command(folder, "adaptive.yaml", "--results", "adaptive", "--address", "local").wait()
    assert code == 0, text
    assert "9 of 9 trials committed" in text
    store = Store.open(folder / "adaptive")
    assert len(store.sweeps()[-1].trial_ids) == 9
    assert run.start(Path("adaptive.yaml"), "adaptive", Interruption()) == 0
    said = capsys.readouterr().out
    assert "9 trials so far" in said
    assert "9 done · 0 to run" in said
    assert set(store.sweeps()[-1].trial_ids) == set(store.committed())


def test_an_early_signal_ends_the_command_quietly(folder):
    for signum, code in ((signal.SIGINT, 130), (signal.SIGUSR1, 138)):
        command = Command(folder, "tiny.yaml", "--results", "early", "--address", "local")
        command.until(lambda command=command: catches(command.process.pid, signal.SIGTERM))
        command.process.send_signal(signum)
        status, text = command.wait()
        assert status == code, text
        assert "Traceback" not in text
