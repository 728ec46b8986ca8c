"""Text that strangers wrote into a store cannot control the terminal of its reader."""

import json

import pytest

from sweeper.listeners import heartbeats
from sweeper.store.annotations import annotate
from sweeper.store.store import Store
from tests.filled_stores import swept
from tests.heartbeats import PACK, heartbeat
from tests.processes import python
from tests.results import failure

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\rgone\u202e"
"""Sets the title, rings, clears the screen, in the 8-bit form too, and writes over the line."""

SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\rgone\u202e"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Store:
    """A store with hostile text in a row, in the command of a sweep and in what its driver says."""
    store = Store.open(tmp_path_factory.mktemp("hostile"))
    swept(store, failure(kind=HOSTILE, message=HOSTILE), name="hostile", command=HOSTILE)
    store.write_bytes("sweeps/hostile/000009-00000000.json", f'{{"schema_version": "{HOSTILE}"}}'.encode())
    annotate(store.files, "hostile", note=HOSTILE)
    said = {"command": HOSTILE, "state": HOSTILE, "line": HOSTILE, "packs": [PACK | {"pack": HOSTILE, "node": HOSTILE}]}
    heartbeats.write_heartbeat(store.files, "hostile", heartbeat(**said))
    return store


RUNS_ALL = """
import json, runpy, sys
for sys.argv in json.loads(sys.argv[1]):
    try:
        runpy.run_module("sweeper", run_name="__main__", alter_sys=True)
    except SystemExit:
        pass
"""
"""Runs commands in turns: most of a command's time is its imports."""

QUERY = 'select error_message, error_kind as "a\x1bc" from trials'


@pytest.mark.slow
def test_stored_text_is_spelt_out(hostile):
    commands = [
        ("query", "select error_message from trials"),
        ("query", QUERY),
        ("query", "select * from trials"),
        ("query", "show", ""),
        ("query", "select error_message::int from trials"),
        ("query", f"select '{HOSTILE}' from nowhere"),
        ("status",),
        ("note", "hostile"),
        ("note", "hostile", HOSTILE, "--remove"),
        ("report",),
    ]
    lines = [["sweeper", *command, "--results", hostile.url] for command in commands]
    done = python("-c", RUNS_ALL, json.dumps(lines), check=True)
    printed = done.stdout + done.stderr
    assert SHOWN in done.stdout
    for raw in ("\x1b", "\x07", "\x9b", "\x7f", "\u202e", "\ngone"):  # a pipe of text reads \r as \n
        assert raw not in printed, ascii(printed)


@pytest.mark.slow
def test_a_terminal_of_few_characters_shows_others_as_question_marks(hostile):
    done = python("-m", "sweeper", "status", "--results", hostile.url, PYTHONIOENCODING="ascii", check=True)
    assert "?" in done.stdout
