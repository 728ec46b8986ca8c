"""Code that is edited while a sweep runs, or between two starts, with real Ray: no row mixes two programs."""

import os
import signal
from pathlib import Path

import pytest

from chaos import program_faults
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.store.store import Store
from tests.end_to_end.sweep_process import Command, copy_checkout

pytestmark = pytest.mark.long

TRIAL = """
  model: {name: transformer, width: 4, key_size: 4}
  baseline: Aq_R
  objective: {q: 2, m: 2}
  optimizer: {warmup_steps: 10}
  batch_size: 8
  evaluation: {seeds: 10, votes: [5]}
"""
TWO_TASKS = f"""
trial: {TRIAL}
variants:
  - {{task: {{name: coloring, vertices: 5}}, steps: 6000}}
  - {{task: {{name: recall, keys: 2, value_bits: 2}}, steps: 100}}
resources: {{checkpoint_seconds: 0.1}}
"""
ONE_TASK = f"""
trial: {TRIAL}
  task: {{name: coloring, vertices: 5}}
  steps: 20000
resources: {{checkpoint_seconds: 0.1}}
"""
UNDISTURBED = "import sweeper; sweeper.train(sweeper.plan('one.yaml', 'undisturbed'), in_process=True)"
METRICS = ["trial_id", "status", "steps_done", "success", "loss", "train_loss", "fingerprint"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    copy_checkout(tmp_path)
    (tmp_path / "two.yaml").write_text(TWO_TASKS)
    (tmp_path / "one.yaml").write_text(ONE_TASK)
    return tmp_path


def test_an_edit_during_a_sweep_reaches_none_of_its_packs(checkout):
    store = checkout / "results"
    sweep = Command(checkout, "two.yaml", "--results", str(store), "--address", "local", "--concurrency", "1")
    sweep.until(lambda: list(store.glob("checkpoints/*.ckpt")))
    recall = checkout / "tasks" / "recall" / "__init__.py"
    recall.write_text(recall.read_text() + "\nraise RuntimeError('edited')\n")
    code, text = sweep.wait()
    assert code == 0, text
    rows = Store.open(store).trials().to_pylist()
    assert {row["task"]: row["status"] for row in rows} == {"coloring": "finished", "recall": "finished"}
    before = Store.open(store).sweeps()[-1].provenance.code
    assert before is not None
    for row in rows:
        assert row["fingerprint"] == before.fingerprint(TrialSpec.model_validate_json(row["spec"]))


def test_a_checkpoint_of_code_that_was_edited_is_not_continued(checkout):
    arguments = ("one.yaml", "--address", "local", "--results")
    interrupted = Command(checkout, *arguments, "results")
    interrupted.until(lambda: list(checkout.glob("results/checkpoints/*.ckpt")))
    os.killpg(interrupted.process.pid, signal.SIGINT)
    assert interrupted.wait()[0] == 130

    task = checkout / "tasks" / "coloring.py"
    task.write_text(task.read_text() + program_faults.EDIT.format(power=1.5))
    code, text = Command(checkout, *arguments, "results").wait()
    assert code == 0, text
    assert " is of other code: its training starts anew" in text
    assert Command(checkout, program=("-c", UNDISTURBED)).wait()[0] == 0
    resumed, undisturbed = (Store.open(checkout / name).trials() for name in ("results", "undisturbed"))
    assert resumed.select(METRICS) == undisturbed.select(METRICS)
