"""What a command imports that reads a store, and computes nothing."""

import json

import pytest

from tests.filled_stores import IDS, filled
from tests.processes import python

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

LINES = [
    ["--version"],
    ["compact"],
    ["status"],
    ["query", "select count(*) from curves"],
    ["query", "select count(*) from outcomes"],
    ["query", "curves", IDS[0]],
]


@pytest.mark.slow  # a process of its own
def test_a_command_that_only_reads_a_store_imports_nothing_that_computes(tmp_path):
    filled(tmp_path)
    lines = [[*line, "--results", str(tmp_path)] if line[0] != "--version" else line for line in LINES]
    done = python("-c", PROGRAM, json.dumps(lines), check=True)
    imported = json.loads(done.stdout.splitlines()[-1])
    assert len(imported) == len(LINES)
    assert {line: HEAVY.intersection(names) for line, names in imported.items()} == {line: set() for line in imported}
