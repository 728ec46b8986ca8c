"""A sweep that is a single pack trains in the driver, and its bits are those of Ray."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from sweeper.store.store import Store
from tests.end_to_end.sweep_process import Command, curves, science
from tests.experiments.toy import DATA, TOY

SPACE = """
trial:
  experiment: {name: toy, rate: {choice: [0.1, 0.2, 0.05]}}
  steps: 400
resources: {lanes: 8, checkpoint_seconds: 0.01}
"""

COUNTED = """
    def data(self) -> Any:
        import os, numpy
        with open(os.environ["CALLS"], "a") as calls:
            print(os.getpid(), file=calls)
        return numpy.linspace(-1, 1, self.points, dtype=numpy.float32)
"""

WITHOUT_RAY = """
import sys
from sweeper import run
sys.argv[0] = run.__file__
try:
    run.app()
finally:
    assert "ray" not in sys.modules
"""

LONG = ("--set", "trial.steps=4000000")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two experiments, of which one counts the calls of its `data`; a space is one pack."""
    made = tmp_path_factory.mktemp("folder")
    (made / "experiments").mkdir()
    (made / "experiments" / "toy.py").write_text(TOY)
    counting = TOY.replace('"toy"', '"counting"').replace(DATA, COUNTED)
    (made / "experiments" / "counting.py").write_text(counting)
    (made / "counting.yaml").write_text(SPACE.replace("name: toy", "name: counting"))
    (made / "space.yaml").write_text(SPACE)
    return made


def ended(folder: Path, *arguments: str, program: tuple[str, ...] = ("-m", "sweeper.run")) -> str:
    """What a start has printed that ended well."""
    code, text = Command(folder, *arguments, program=program).wait()
    assert code == 0, text
    return text


def everything(store: Path) -> tuple[object, ...]:
    """All numbers of a store."""
    opened = Store.open(store)
    networks = {key: {n: w.tobytes() for n, w in opened.weights(seal).items()} for key, seal in opened.seals().items()}
    rows = sorted(science(store).to_pylist(), key=lambda row: row["trial_id"])
    return [str(row) for row in rows], curves(store).to_pylist(), networks


@pytest.mark.slow
def test_a_single_pack_needs_no_ray_and_what_is_missing_is_found(folder):
    start = ("space.yaml", "--results", "alone")
    assert "3 of 3 trials committed" in ended(folder, *start, program=("-c", WITHOUT_RAY))
    missing = next((folder / "alone" / "trials").glob("*/*/*.parquet"))
    missing.unlink()
    assert "2 done · 1 to run" in ended(folder, *start, program=("-c", WITHOUT_RAY))
    assert missing.exists()


@pytest.mark.slow
def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_carry_on(folder):
    command = Command(folder, "space.yaml", "--results", "left", *LONG, program=("-c", WITHOUT_RAY))
    command.until(lambda: list(folder.glob("left/checkpoints/*.ckpt")))
    os.killpg(command.process.pid, signal.SIGINT)
    code, text = command.wait()
    assert code == 130, text
    assert "interrupted: 1 running pack asked to leave a checkpoint" in text
    assert "1 of 1 pack left a checkpoint" in text
    assert "interrupted with 3 trials to go; this command carries on" in text
    assert not list(folder.glob("left/drivers/*/*"))


@pytest.mark.parametrize(("where", "processes"), [([], 2), pytest.param(["local"], 3, marks=pytest.mark.long)])
def test_data_are_made_once_in_each_process(folder, monkeypatch, where, processes):
    """In the driver, in the rehearsal, and in a worker if there is one."""
    calls = folder / f"calls{processes}"
    monkeypatch.setenv("CALLS", str(calls))
    monkeypatch.setenv("TMPDIR", tempfile.mkdtemp(dir=folder))  # in which no earlier rehearsal is remembered
    address = [part for name in where for part in ("--address", name)]
    ended(folder, "counting.yaml", "--results", calls.name + "-results", *address)
    made = calls.read_text().split()
    assert len(made) == len(set(made)) == processes


@pytest.mark.long
def test_a_pack_has_the_same_bits_in_the_driver_and_on_ray_also_when_one_goes_on_where_the_other_left(folder):
    start = ("space.yaml", "--set", "trial.steps=200000", "--results")
    ended(folder, *start, "driver", program=("-c", WITHOUT_RAY))
    ended(folder, *start, "ray", "--address", "local")
    assert everything(folder / "driver") == everything(folder / "ray")

    command = Command(folder, *start, "both", program=("-c", WITHOUT_RAY))
    command.until(lambda: list(folder.glob("both/checkpoints/*.ckpt")))
    os.killpg(command.process.pid, signal.SIGINT)
    assert command.wait()[0] == 130, command.text()
    assert "starts anew" not in ended(folder, *start, "both", "--address", "local")
    assert everything(folder / "both") == everything(folder / "ray")
