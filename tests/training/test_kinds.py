"""A fourth kind of trial is two modules and a name in the registry: it is planned, trained, stored and read."""

import json
import os

import pytest

from sweeper.trial import plugins
from tests.processes import python

REGISTERED = """
from sweeper.trial import kinds

kinds.KINDS = {"walk": "tests.training.random_walk_declared", **kinds.KINDS}
"""
"""What each process of the test does first."""

SWEEP = """
import json
from pathlib import Path
import sweeper

Path("space.yaml").write_text(
    "name: walks\\ntrial: {walk: {size: {choice: [0.5, 2.0]}}, steps: 5, seed: {seeds: 2}}\\n"
)
result = sweeper.train(sweeper.plan(sweeper.read_space("space.yaml")), in_process=True, on_event=lambda event: None)
frame = sweeper.sql("select task, step_size, seed, distance from trials order by step_size, seed")
rows = result.trials.sort_values(["step_size", "seed"])
kept = [abs(float(sweeper.load(name).network["place"])) for name in rows["trial_id"]]
print(json.dumps([frame.to_dict("list"), kept]))
"""


@pytest.mark.long  # 17 CPU seconds, most of them to import and to fingerprint code
def test_a_kind_of_its_own_is_trained_stored_and_read(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(REGISTERED)
    path = f"{tmp_path}{os.pathsep}{plugins.ROOT}"
    done = python("-c", SWEEP, cwd=tmp_path, PYTHONPATH=path, JAX_PLATFORMS="cpu")
    assert done.returncode == 0, done.stderr
    table, kept = json.loads(done.stdout.splitlines()[-1])
    assert table["task"] == ["walk"] * 4
    assert table["step_size"] == [0.5, 0.5, 2.0, 2.0]
    assert table["distance"] == kept
    assert [4 * half for half in kept[:2]] == kept[2:]  # the same walks, of larger steps
