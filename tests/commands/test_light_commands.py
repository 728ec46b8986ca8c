"""What a command imports that reads a store, and computes nothing."""

import json

import pytest

from tests.filled_stores import IDS, filled
from tests.processes import python
from tests.results import record

HEAVY = {"altair", "evosax", "flax", "jax", "jaxlib", "matplotlib", "optax", "optuna", "ray", "scipy"}
"""Libraries that take most of a second each."""

PROGRAM = """
import json, sys
from sweeper.__main__ import app

imported = {}
for line in json.loads(sys.argv[1]):
    try:
        app(line)
    except SystemExit as end:
        assert not end.code, line
    imported[" ".join(line)] = sorted({name.partition(".")[0] for name in sys.modules})
print("\\n" + json.dumps(imported))
"""

SPACE = "trial: {task: {name: coloring, vertices: 5}, model: {name: transformer}, steps: 100}"

LINES = [
    ["query", "select trial_id, loss from trials"],
    ["query", "select count(*) from all_trials join sweeps using (trial_id)"],
    ["query", "best", "readable"],
    ["--version"],
    ["compact"],
    ["status"],
    ["query", "select count(*) from curves"],
    ["query", "select count(*) from outcomes"],
    ["query", "curves", IDS[0]],
]


@pytest.mark.slow  # processes of their own
def test_a_command_that_only_reads_a_store_imports_nothing_that_computes(tmp_path):
    """The first query of rows asks the code of plug-ins, and later processes remember the answers."""
    filled(tmp_path / "store").record_sweep(record("readable", IDS[:2], text=SPACE))
    lines = [[*line, "--results", str(tmp_path / "store")] if line[0] != "--version" else line for line in LINES]

    def heavy(*lines):
        done = python("-c", PROGRAM, json.dumps(lines), check=True, TMPDIR=str(tmp_path))
        return [HEAVY.intersection(names) for names in json.loads(done.stdout.splitlines()[-1]).values()]

    assert "jax" in heavy(*lines[:3])[0]
    assert heavy(*lines) == [set()] * len(LINES)
